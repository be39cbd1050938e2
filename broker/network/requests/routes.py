"""The routes of requests: what the first four bytes of a request select. (Kafka: ApiVersionManager, ApiKeys)

A route handles one API in one version on one listener, and caches responses. A processor looks it up once per
request; the first lookup builds it from the registry and the compiled codec. Each listener has its own table,
because responses that contain addresses differ by listener.
"""

import struct
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, Protocol, cast

from broker.api.registry import Api, Registry
from broker.api.requests.fast_path import FastPath
from broker.api.requests.outcome import ConnectionUpdate
from broker.api.requests.services import HandlerServices
from broker.network.connection.receive import Frame
from broker.network.connection.send import Part
from broker.network.requests.request_metrics import RequestMetrics
from broker.protocol import api_key, codec
from broker.protocol.api_key import NAMES, ApiKey
from broker.protocol.error_codes import Collector, error_codes, error_codes_in_slices
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from broker.protocol.schema import Struct

MAX_CACHED_RESPONSES: Final = 512
"""Responses cached per API, version and listener; bounded, since clients choose the requests."""

MAX_CACHED_RESPONSE_BYTES: Final = 64 * 1024
MAX_CACHED_BYTES: Final = 1024 * 1024
"""The largest cached response, and the total per API, version and listener, requests included."""


CONSUMERS: Final = {ApiKey.FETCH: "FetchConsumer"}
"""Initial metric names of requests that are counted by the kind of client; see `Request.count_as`."""

UNKNOWN_VERSION: Final = -1
"""The version under which requests of all unknown versions are counted."""


MetricsOf = Callable[[str, int], RequestMetrics]
"""Returns the metrics of an API, by its metric name, in one version."""


class Wrapper(Protocol):
    """Wraps the handlers of requests."""

    def handler(self, api: Api) -> Callable[..., Any]:
        """Return the function to call in place of the API's handler."""

    def fast_path(self, api: Api, fast_path: FastPath) -> FastPath:
        """Return the fast path to use in place of the API's own."""


class CachedResponse:
    """An encoded response, split around its correlation id."""

    __slots__ = ("client_id", "head", "tail", "update_connection")

    def __init__(self, frame: bytes, client_id: str | None, update: ConnectionUpdate | None) -> None:
        self.head = frame[:4]
        self.tail = frame[8:]
        self.client_id = client_id
        self.update_connection = update


class Route:
    """One API in one version on one listener."""

    def __init__(
        self,
        api: Api,
        version: int,
        metrics: MetricsOf,
        *,
        decode: Callable[[Any, int], Struct],
        encode: Callable[[Any, int], list[Part]],
        handle: Callable[..., Any],
        services: Any,
        flexible: bool,
        error_codes: Collector,
        caches: bool = True,
    ) -> None:
        """`caches` is false if responses depend on the client, as with an authorizer."""
        self.api = api
        self._caches = caches
        self.version = version
        self._metrics = metrics
        self.metrics = metrics(CONSUMERS.get(api.key) or NAMES[api.key], version)
        self.decode = decode
        self.encode = encode
        self.handle = handle
        self.services = services
        self.flexible = flexible
        self.error_codes = error_codes
        self.before_login = api.before_login
        self.fast_path: FastPath | None = None
        self._wrapper: Wrapper | None = None
        self.cached_responses: dict[bytes, CachedResponse] = {}
        """By the request's bytes after its correlation id."""
        self.cached_bytes = 0
        self.variants: dict[str, Route] = {}
        """Copies of this route with other metrics, by metric name."""

    def decode_in_slices(self, frame: Frame, offset: int) -> Generator[None, None, Struct]:
        """Decode a large request in slices."""
        if self.version == UNKNOWN_VERSION:
            return _undecoded_in_slices()
        return codec.decode_request_in_slices(self.api.key, self.version)(frame, offset)

    def encode_in_slices(self, reply: Struct, correlation_id: int) -> Generator[None, None, list[Part]]:
        """Encode a large response in slices."""
        encode = codec.encode_response_in_slices(self.api.key, max(self.version, 0))
        return cast("Generator[None, None, list[Part]]", encode(reply, correlation_id))

    def count_errors_in_slices(self, reply: Struct) -> Generator[None, None, Mapping[int, int]]:
        """Count each error code of a large response in slices."""
        return error_codes_in_slices(self.api.key, max(self.version, 0))(reply)

    def cache_response(
        self, request: bytes, client_id: str | None, response: bytes, update: ConnectionUpdate | None
    ) -> None:
        """Cache a response that depends only on the request's bytes and the metadata image. Does not cache
        while every request is logged, since a cached response leaves no log line.
        """
        size = len(request) + len(response)
        if not self._caches or size > MAX_CACHED_RESPONSE_BYTES or self.metrics.wants_all:
            return
        if len(self.cached_responses) >= MAX_CACHED_RESPONSES or self.cached_bytes + size > MAX_CACHED_BYTES:
            self.clear_cache()
        self.cached_bytes += size
        self.cached_responses[request[8:]] = CachedResponse(response, client_id, update)

    def clear_cache(self) -> None:
        """Invalidate the cached responses."""
        self.cached_responses.clear()
        self.cached_bytes = 0

    def wrap_handler(self, wrapper: Wrapper | None) -> None:
        """Wrap the handler and the fast path, or remove the wrapper."""
        self._wrapper = wrapper
        self.clear_cache()
        api = self.api
        if self.version != UNKNOWN_VERSION:
            self.handle = api.handle if wrapper is None else wrapper.handler(api)
        fast_path = None if api.fast_path is None else api.fast_path(self.version, self.services)
        if fast_path is not None and wrapper is not None:
            fast_path = wrapper.fast_path(api, fast_path)
        for route in (self, *self.variants.values()):
            route.fast_path = fast_path

    def counted_as(self, name: str) -> "Route":
        """Return this route with the metrics of another name."""
        variant = self.variants.get(name)
        if variant is None:
            variant = self.variants[name] = self._copy()
            variant.metrics = self._metrics(name, self.version)
        return variant

    def _copy(self) -> "Route":
        """Return a copy that shares the caches and the variants. (`copy.copy` copies no compiled object.)"""
        route = Route(
            self.api,
            self.version,
            self._metrics,
            decode=self.decode,
            encode=self.encode,
            handle=self.handle,
            services=self.services,
            flexible=self.flexible,
            error_codes=self.error_codes,
            caches=self._caches,
        )
        route.fast_path = self.fast_path
        route.cached_responses, route.cached_bytes = self.cached_responses, self.cached_bytes
        route.variants = self.variants
        route._wrapper = self._wrapper
        return route

    def renew_metrics(self) -> None:
        """Renew the metrics, and invalidate cached responses, which would hide requests from them."""
        self.clear_cache()
        for route in (self, *self.variants.values()):
            route.metrics = self._metrics(route.metrics.name, self.version)


def _undecoded_in_slices() -> Generator[None, None, Struct]:
    yield from ()
    return Struct()


SIZE: Final = struct.Struct(">i")
HEADER: Final = struct.Struct(">hhih")
TOKEN_VERSION: Final = 0
"""The version under which tokens are counted: like SaslAuthenticate 0, they have no session lifetime."""


def with_header(token: Frame, client_id: str | None) -> bytes:
    """Return the token behind the header that a request would have."""
    raw = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(raw)
    return b"".join((HEADER.pack(ApiKey.SASL_AUTHENTICATE, TOKEN_VERSION, 0, length), raw, token))


class TokenRoute(Route):
    """The route of SASL tokens without a request around them, which follow SaslHandshake 0.

    The processor uses it while a connection `sends_raw_tokens`. A token is a frame of its own, and so is the
    server's; a failed login has no frame and only ends the connection. The handler is that of
    SaslAuthenticate. (Kafka: SaslServerAuthenticator.handleSaslToken without Kafka headers)
    """

    def __init__(self, api: Api, services: HandlerServices, metrics: MetricsOf) -> None:
        super().__init__(
            api,
            TOKEN_VERSION,
            metrics,
            decode=_token,
            encode=_frame,
            handle=api.handle,
            services=services[api.services],
            flexible=False,
            error_codes=error_codes(api.key, TOKEN_VERSION),
            caches=False,
        )

    def decode_in_slices(self, frame: Frame, offset: int) -> Generator[None, None, Struct]:
        yield from ()
        return _token(frame, offset)

    def encode_in_slices(self, reply: Struct, correlation_id: int) -> Generator[None, None, list[Part]]:
        yield from ()
        return _frame(reply, correlation_id)


def _token(frame: Frame, offset: int) -> Struct:
    return SaslAuthenticateRequest(bytes(frame[offset:]))


def _frame(reply: Struct, _correlation_id: int) -> list[Part]:
    """Return the server's token with its size; nothing for a failed login."""
    answer = cast(SaslAuthenticateResponse, reply)
    if answer.error_code:
        return [b""]
    token = bytes(answer.auth_bytes)
    return [SIZE.pack(len(token)) + token]


TOKENS: Final = -1
"""The key of the route of SASL tokens in the table, which no request has."""


class Routes:
    """All routes of one listener, by (API key << 16 | version)."""

    def __init__(
        self, registry: Registry, services: HandlerServices, metrics: MetricsOf, *, authorizes: bool = False
    ) -> None:
        """`authorizes`: responses of APIs that need a login depend on the client, and are not cached."""
        self._authorizes = authorizes
        self._registry = registry
        self._services = services
        self._metrics = metrics
        self._wrapper: Wrapper | None = None
        self._routes: dict[int, Route] = {}
        self.get = self._routes.get

    def build(self, head: int) -> Route | None:
        """Build the route for `head`. Returns None for an API or version that is not served."""
        key, version = head >> 16, head & 0xFFFF
        api = self._registry.get(key)
        if api is None:
            return None
        if version > 0x7FFF:
            return None
        if api.min_version <= version <= api.max_version:
            route = Route(
                api,
                version,
                self._metrics,
                decode=codec.decode_request(key, version),
                encode=_encoder(key, version),
                handle=api.handle,
                services=self._services[api.services],
                flexible=api_key.request_header_version(key, version) >= 2,
                error_codes=error_codes(key, version),
                caches=api.before_login or not self._authorizes,
            )
        elif api.unknown_version is not None and version > api.max_version:
            route = Route(
                api,
                UNKNOWN_VERSION,
                self._metrics,
                decode=_undecoded,
                encode=_encoder(key, 0),
                handle=api.unknown_version,
                services=self._services[api.services],
                flexible=False,
                error_codes=error_codes(key, 0),
            )
            head |= 0x7FFF  # one route serves all unknown versions
        else:
            return None
        return self._add(head, route)

    def tokens(self) -> Route:
        """Return the route of SASL tokens without a request around them. (SaslHandshake 0)"""
        api = self._registry.get(ApiKey.SASL_AUTHENTICATE)
        assert api is not None
        route = self._routes.get(TOKENS)
        return route or self._add(TOKENS, TokenRoute(api, self._services, self._metrics))

    def _add(self, head: int, route: Route) -> Route:
        route.wrap_handler(self._wrapper)
        self._routes[head] = route
        return route

    def all(self) -> list[Route]:
        """Return the routes built so far."""
        return list(self._routes.values())

    def renew_metrics(self) -> None:
        """Renew the metrics of every route."""
        for route in self._routes.values():
            route.renew_metrics()

    def wrap_handlers(self, wrapper: Wrapper | None) -> None:
        """Wrap the handlers, or remove the wrapper (None)."""
        self._wrapper = wrapper
        for route in self._routes.values():
            route.wrap_handler(wrapper)

    def clear_caches(self) -> None:
        """Invalidate cached responses; called when what they contain changes in the metadata image."""
        for route in self._routes.values():
            route.clear_cache()
            if route.fast_path is not None:
                route.fast_path.forget()


def _encoder(key: int, version: int) -> Callable[[Any, int], list[Part]]:
    # Parts that the codec does not encode, only measures (FileSlice), are parts that the network can send.
    return cast("Callable[[Any, int], list[Part]]", codec.encode_response(key, version))


def _undecoded(_frame: object, _offset: int) -> Struct:
    return Struct()

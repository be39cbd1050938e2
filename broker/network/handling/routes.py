"""The table of routes: what the first four bytes of a request select. (Kafka: ApiVersionManager, ApiKeys)

A processor looks a route up once per request; the first lookup builds it from the registry and the compiled
codec. Each listener has its own table, because responses that contain addresses differ by listener.
"""

from collections.abc import Callable
from typing import Any, Final, cast

from broker.api.registry import Registry
from broker.api.requests.services import HandlerServices
from broker.network.connection.send import Part
from broker.network.handling.route import UNKNOWN_VERSION, MetricsOf, Route, Wrapper
from broker.network.handling.token_route import TokenRoute
from broker.protocol import api_key, codec
from broker.protocol.api_key import ApiKey
from broker.protocol.error_codes import error_codes
from broker.protocol.schema import Struct

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
        """Invalidate cached responses; called when the metadata image changes."""
        for route in self._routes.values():
            route.clear_cache()
            if route.fast_path is not None:
                route.fast_path.forget()


def _encoder(key: int, version: int) -> Callable[[Any, int], list[Part]]:
    # Parts that the codec does not encode, only measures (FileSlice), are parts that the network can send.
    return cast("Callable[[Any, int], list[Part]]", codec.encode_response(key, version))


def _undecoded(_frame: object, _offset: int) -> Struct:
    return Struct()

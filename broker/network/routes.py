"""From the first four bytes of a request to everything needed to answer it. (Kafka: ApiVersionManager,
ApiKeys)

A processor looks a route up once per request; it is built on first use from the registry and the compiled
codec. Each listener has its own table, because answers that name addresses differ by listener.
"""

from collections.abc import Callable
from typing import Any, Final, cast

from broker.api.outcome import Imprint
from broker.api.registry import Api, Registry
from broker.network.request_metrics import RequestMetrics
from broker.network.send import Part
from broker.protocol import api_key, codec
from broker.protocol.schema import Struct

KEPT_ANSWERS: Final = 512
"""Answers kept per API and version and listener; a client that never asks twice must not grow the broker."""

KEPT_ANSWER_BYTES: Final = 64 * 1024
KEPT_BYTES: Final = 1024 * 1024
"""The largest answer that is kept, and all of an API, version and listener, their requests included."""


class KeptAnswer:
    """An encoded answer around the place of its correlation id."""

    __slots__ = ("client_id", "head", "imprint", "tail")

    def __init__(self, frame: bytes, client_id: str | None, imprint: Imprint | None) -> None:
        self.head = frame[:4]
        self.tail = frame[8:]
        self.client_id = client_id
        self.imprint = imprint


class Route:
    """One API in one version on one listener."""

    __slots__ = (
        "answers",
        "api",
        "before_login",
        "decode",
        "encode",
        "flexible",
        "handle",
        "kept_bytes",
        "metrics",
        "repeats",
        "version",
    )

    def __init__(
        self,
        api: Api,
        version: int,
        metrics: RequestMetrics,
        *,
        decode: Callable[[Any, int], Struct],
        encode: Callable[[Any, int], list[Part]],
        handle: Callable[..., Any],
        flexible: bool,
    ) -> None:
        self.api = api
        self.version = version
        self.metrics = metrics
        self.decode = decode
        self.encode = encode
        self.handle = handle
        self.flexible = flexible
        self.before_login = api.before_login
        self.repeats = api.repeats(version) if api.repeats is not None else None
        self.answers: dict[bytes, KeptAnswer] = {}
        """By the request's bytes behind its correlation id."""
        self.kept_bytes = 0

    def keep(self, request: bytes, client_id: str | None, answer: bytes, imprint: Imprint | None) -> None:
        """Remembers an answer that depends on the request's bytes and the metadata image only."""
        size = len(request) + len(answer)
        if size > KEPT_ANSWER_BYTES:
            return
        if len(self.answers) >= KEPT_ANSWERS or self.kept_bytes + size > KEPT_BYTES:
            self.forget()
        self.kept_bytes += size
        self.answers[request[8:]] = KeptAnswer(answer, client_id, imprint)

    def forget(self) -> None:
        """What was true may no longer be."""
        self.answers.clear()
        self.kept_bytes = 0


class Routes:
    """All routes of one listener, by (API key << 16 | version)."""

    def __init__(self, registry: Registry, metrics: Callable[[Api], RequestMetrics]) -> None:
        self._registry = registry
        self._metrics = metrics
        self._routes: dict[int, Route] = {}
        self.get = self._routes.get

    def build(self, head: int) -> Route | None:
        """The route for `head`, made now; None for an API or version that is not served."""
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
                self._metrics(api),
                decode=codec.decode_request(key, version),
                encode=_encoder(key, version),
                handle=api.handle,
                flexible=api_key.request_header_version(key, version) >= 2,
            )
        elif api.unknown_version is not None and version > api.max_version:
            route = Route(
                api,
                version,
                self._metrics(api),
                decode=_undecoded,
                encode=_encoder(key, 0),
                handle=api.unknown_version,
                flexible=False,
            )
            head |= 0x7FFF  # one is kept for all of them
        else:
            return None
        self._routes[head] = route
        return route

    def all(self) -> list[Route]:
        """Those that somebody has asked for so far."""
        return list(self._routes.values())

    def forget_answers(self) -> None:
        """Called when the metadata image changes."""
        for route in self._routes.values():
            route.forget()
            if route.repeats is not None:
                route.repeats.forget()


def _encoder(key: int, version: int) -> Callable[[Any, int], list[Part]]:
    # What the codec only measures (a FileSlice) is what the network can send.
    return cast("Callable[[Any, int], list[Part]]", codec.encode_response(key, version))


def _undecoded(_frame: object, _offset: int) -> Struct:
    return Struct()

"""Which APIs this broker serves, in which versions, by whom. Filled by the `@api` beside each handler.

Dispatch, ApiVersions and docs/protocol-support.md derive from here; there is no second switch.
"""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from broker.protocol.api_key import ApiKey

HANDLER_FILE: Final = re.compile(r"a\d\d_\w+")

Handler = TypeVar("Handler", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Api:
    """One API key as served here.

    `handle(message, context, broker)` returns an Outcome, or a coroutine of one where it must wait.
    `before_login` marks the three that an unauthenticated connection may send.
    """

    key: ApiKey
    min_version: int
    max_version: int
    handle: Callable[..., Any]
    before_login: bool
    advertised_min: int
    unknown_version: Callable[..., Any] | None
    request_cache: Callable[[int], "RequestCache"] | None
    doc: str


class RequestCache(Protocol):
    """Serves requests whose beginning is known by heart, one table for each version and listener."""

    def serve(self, frame: Any, context: Any, broker: Any) -> Any:
        """An Outcome; None leaves the request to the full handler, and nothing has happened."""

    def learn(self, frame: Any, body: int, message: Any, context: Any, broker: Any) -> None:
        """A request that the full handler has just served; `frame` decodes to `message` from `body` on."""

    def forget(self) -> None:
        """The metadata image has changed."""


class Registry:
    """Api by key."""

    def __init__(self) -> None:
        self._apis: dict[int, Api] = {}

    def add(self, entry: Api) -> None:
        assert entry.key not in self._apis, f"{entry.key.name} is registered twice"
        self._apis[entry.key] = entry

    def get(self, key: int) -> Api | None:
        return self._apis.get(key)

    def only(self, keys: Collection[int]) -> "Registry":
        """Another registry, with those of these APIs that this one has."""
        some = Registry()
        for entry in self:
            if entry.key in keys:
                some.add(entry)
        return some

    def without(self, keys: Collection[int]) -> "Registry":
        """Another registry, with all of these APIs but those."""
        return self.only([entry.key for entry in self if entry.key not in keys])

    def __iter__(self) -> Iterator[Api]:
        return iter(sorted(self._apis.values(), key=lambda entry: entry.key))


REGISTRY: Final = Registry()


def api(
    key: ApiKey,
    *,
    versions: tuple[int, int],
    before_login: bool = False,
    advertised_min: int | None = None,
    unknown_version: Callable[..., Any] | None = None,
    request_cache: Callable[[int], "RequestCache"] | None = None,
) -> Callable[[Handler], Handler]:
    """Registers a handler for `key`, versions min to max inclusive.

    `advertised_min` is below the real minimum only for Produce (KAFKA-18659). `unknown_version` answers a
    version above the maximum, in the response format of version 0, without reading the request (ApiVersions
    only).
    """

    def register(handle: Handler) -> Handler:
        module = inspect.getmodule(handle)
        REGISTRY.add(
            Api(
                key=key,
                min_version=versions[0],
                max_version=versions[1],
                handle=handle,
                before_login=before_login,
                advertised_min=versions[0] if advertised_min is None else advertised_min,
                unknown_version=unknown_version,
                request_cache=request_cache,
                doc=(module and module.__doc__) or "",
            )
        )
        return handle

    return register


def load() -> Registry:
    """Imports every handler file of this room, which registers them; the filled registry."""
    package = importlib.import_module("broker.api")
    for info in pkgutil.iter_modules(package.__path__):
        if HANDLER_FILE.fullmatch(info.name):
            importlib.import_module(f"broker.api.{info.name}")
    return REGISTRY

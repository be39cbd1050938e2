"""The served APIs, with their versions and handlers. The `@api` decorators of the handlers fill it.

Dispatch, ApiVersions and docs/protocol-support.md derive from it; there is no second switch.
"""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Awaitable, Callable, Collection, Iterator
from functools import cache, wraps
from typing import Any, Final, TypeVar

import msgspec

from broker import api as package
from broker.api.requests.context import RequestContext
from broker.api.requests.fast_path import FastPath
from broker.api.requests.outcome import Outcome, in_slices
from broker.common.slices import Slices
from broker.protocol.api_key import ApiKey

HANDLER_FILE: Final = re.compile(r"a\d\d_\w+")

Request = TypeVar("Request")
Services = TypeVar("Services")
Result = TypeVar("Result", bound=Outcome | Awaitable[Outcome] | Slices[Outcome | Awaitable[Outcome]])

Handler = Callable[[Request, RequestContext, Services], Result]


class Api(msgspec.Struct, frozen=True):
    """A served API key.

    `handle(message, context, services)` returns an Outcome, or a coroutine of one if it must wait. `services`
    is the class of its third argument. `before_login` marks the three APIs that an unauthenticated connection
    may call.
    """

    key: ApiKey
    min_version: int
    max_version: int
    handle: Handler[Any, Any, Outcome | Awaitable[Outcome]]
    services: type
    before_login: bool
    advertised_min: int
    unknown_version: Handler[Any, Any, Outcome] | None
    fast_path: Callable[[int, Any], FastPath] | None
    doc: str


class Registry:
    """The served APIs by key."""

    def __init__(self) -> None:
        self._apis: dict[int, Api] = {}

    def add(self, entry: Api) -> None:
        assert entry.key not in self._apis, f"{entry.key.name} is registered twice"
        self._apis[entry.key] = entry

    def get(self, key: int) -> Api | None:
        return self._apis.get(key)

    def only(self, keys: Collection[int]) -> "Registry":
        """Return a registry with only the APIs of `keys`."""
        some = Registry()
        for entry in self:
            if entry.key in keys:
                some.add(entry)
        return some

    def without(self, keys: Collection[int]) -> "Registry":
        """Return a registry without the APIs of `keys`."""
        return self.only([entry.key for entry in self if entry.key not in keys])

    def since(self, key: int, version: int) -> "Registry":
        """Return a registry in which the first version of one API is `version`."""
        some = self.without([key])
        entry = self._apis.get(key)
        if entry is not None:
            some.add(msgspec.structs.replace(entry, min_version=version, advertised_min=version))
        return some

    def __iter__(self) -> Iterator[Api]:
        return iter(sorted(self._apis.values(), key=lambda entry: entry.key))


REGISTRY: Final = Registry()


def api(
    key: ApiKey,
    *,
    versions: tuple[int, int],
    services: type[Services],
    before_login: bool = False,
    advertised_min: int | None = None,
    unknown_version: Handler[Any, Services, Outcome] | None = None,
    fast_path: Callable[[int, Services], FastPath] | None = None,
) -> Callable[[Handler[Request, Services, Result]], Handler[Request, Services, Result]]:
    """Register a handler for `key`, versions min to max inclusive. A handler that is a generator works in
    slices. (api.requests.outcome.in_slices)

    `services` is the class of its third argument. (api.requests.services)

    `advertised_min` is below the real minimum for Produce only (KAFKA-18659). `unknown_version` responds to a
    version above the maximum, in the response format of version 0, without decoding the request (ApiVersions
    only).
    """

    def register(handle: Handler[Request, Services, Result]) -> Handler[Request, Services, Result]:
        module = inspect.getmodule(handle)
        REGISTRY.add(
            Api(
                key=key,
                min_version=versions[0],
                max_version=versions[1],
                handle=begun(handle),
                services=services,
                before_login=before_login,
                advertised_min=versions[0] if advertised_min is None else advertised_min,
                unknown_version=unknown_version,
                fast_path=fast_path,
                doc=inspect.getdoc(handle) or (module and module.__doc__) or "",
            )
        )
        return handle

    return register


def begun(handle: Handler[Any, Any, Any]) -> Handler[Any, Any, Outcome | Awaitable[Outcome]]:
    """Return `handle`, or a function that begins it if it is a generator."""
    if not inspect.isgeneratorfunction(handle):
        return handle

    @wraps(handle)
    def begin(message: Any, context: RequestContext, services: Any) -> Outcome | Awaitable[Outcome]:
        return in_slices(handle(message, context, services))

    return begin


@cache
def load() -> Registry:
    """Import every handler module of this package, which registers the handlers, and return the registry."""
    for info in pkgutil.iter_modules(package.__path__):
        if HANDLER_FILE.fullmatch(info.name):
            importlib.import_module(f"{package.__name__}.{info.name}")
    return REGISTRY

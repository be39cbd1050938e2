"""What the Produce and the Fetch cache share: the shapes of requests that repeat, and response templates.

Most requests of a connection differ from each other in one part only: the records, or the fetch offset. After
the full handler has served such a request, its cache maps the bytes around this part to a shape: the log that
the request leads to, and a response template. The full handler serves requests of any other shape.
"""

from typing import Any, Final, Generic, Protocol, TypeVar

from broker.api.context import Connection
from broker.api.outcome import Outcome
from broker.log.partition import PartitionLog

Services = TypeVar("Services")

MAX_SHAPES: Final = 1024
"""Cached shapes per version and listener; the bound is needed because clients choose ids and topics."""

MAX_BYTES: Final = 1024
"""Longest cached request in bytes, without its records.

It exceeds the longest topic name plus any reasonable client id.
"""

SENTINELS: Final = (0x1122334455667788, 0x2233445566778811, 0x3344556677881122)
"""Offsets in the response from which a template is made."""


class RequestCache(Protocol):
    """Serves requests that match a cached shape; one instance for each version and listener."""

    def serve(self, frame: Any, context: Any) -> Outcome | None:
        """Return an Outcome, or None, without side effects, to leave the request to the full handler."""

    def learn(self, frame: Any, body: int, message: Any, context: Any) -> None:
        """Cache a request that the full handler has served; `frame` decodes to `message` from `body` on."""

    def forget(self) -> None:
        """Clear the cache, because the metadata image has changed."""


class Shape:
    """A cached request; the part that varies starts at `at` in the frame."""

    __slots__ = ("at", "client_id", "log")

    def __init__(self, at: int, client_id: str | None, log: PartitionLog) -> None:
        self.at = at
        self.client_id = client_id
        self.log = log


AnyShape = TypeVar("AnyShape", bound=Shape)


class ShapeCache(Generic[AnyShape, Services]):
    """The cached shapes of one version on one listener.

    `context.connection.shape` is the `at` of the connection's last shape, with which `serve` cuts the key out
    of the frame before it knows anything else of the request.
    """

    __slots__ = ("_services", "_shapes", "_version")

    def __init__(self, version: int, services: Services) -> None:
        self._version = version
        self._services = services
        self._shapes: dict[bytes, AnyShape] = {}

    def forget(self) -> None:
        self._shapes.clear()

    def _remember(self, key: bytes, shape: AnyShape, connection: Connection) -> None:
        if len(self._shapes) >= MAX_SHAPES:
            self._shapes.clear()
        self._shapes[key] = shape
        connection.shape = shape.at


def split_around(frame: bytes, *parts: bytes) -> list[bytes]:
    """Return what an encoded response has before, between and after `parts`, each of which it contains."""
    pieces = []
    for part in parts:
        before, found, frame = frame.partition(part)
        assert found
        pieces.append(before)
    return [*pieces, frame]

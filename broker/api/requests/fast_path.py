"""The fast path of an API: it serves the requests that clients usually send, straight from their bytes.

It builds no message and writes the response front to back. The full handler serves every other request. The
fast paths of Produce and Fetch share how they read the topics of a request.
"""

import struct
from typing import Any, Final, Generic, Protocol, TypeVar

from broker.api.requests.context import Connection
from broker.api.requests.outcome import Outcome
from broker.common.errors import ProtocolViolation
from broker.partitions.partitions import HostedTopic, Partitions
from broker.protocol.schema import ZERO_UUID, Buffer
from broker.protocol.varint import read_rest

ONE_BYTE: Final = 0x7F
"""Largest varint of one byte."""

PROLOGUE_AT: Final = 8
"""Position of the client id in a frame."""

MAX_PROLOGUES: Final = 1024
MAX_PROLOGUE_BYTES: Final = 1024
"""Prologues of one version of an API on one listener, and their longest; ours. Clients choose both."""

Prologue = TypeVar("Prologue")

INT32: Final = struct.Struct(">i")
_INT16: Final = struct.Struct(">h")


class FastPath(Protocol):
    """Serves usual requests of one API; one instance for each version and listener."""

    def serve(self, frame: Any, context: Any) -> Outcome | None:
        """Serve a request and set its client id.

        Returns None, without side effects, to leave the request to the full handler, malformed ones too.
        """

    def forget(self) -> None:
        """Clear what depends on topics and settings, because some have changed."""


class Unusual(Exception):  # noqa: N818 - describes the request
    """The full handler must serve this request."""


REFUSALS: Final = (Unusual, ProtocolViolation, IndexError, struct.error)
"""Raised by what reads a request: it is unusual, or its frame is truncated."""


class Prologues(Generic[Prologue]):
    """The prologues of recent requests of one version on one listener.

    The prologue is what a request has before its first partition, from the client id on. A client repeats it
    from request to request, so it is read once: `context.connection.prologue` is where it ended last time.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, Prologue] = {}

    def find(self, frame: Buffer, connection: Connection) -> Prologue | None:
        return self._known.get(bytes(frame[PROLOGUE_AT : connection.prologue]))

    def add(self, frame: Buffer, end: int, connection: Connection, prologue: Prologue) -> None:
        """Remember a prologue that ends at `end`, unless it is long."""
        if end > MAX_PROLOGUE_BYTES:
            return
        if len(self._known) >= MAX_PROLOGUES:
            self._known.clear()
        self._known[bytes(frame[PROLOGUE_AT:end])] = prologue
        connection.prologue = end

    def forget(self) -> None:
        self._known.clear()


class TopicReader:
    """Reads the heads of the topics in requests of one version.

    A head is the bytes from a topic's name or id to the number of its partitions. Responses that name the
    same partitions contain the same bytes.
    """

    def __init__(self, partitions: Partitions, *, is_flexible: bool, uses_ids: bool) -> None:
        self._partitions = partitions
        self._is_flexible = is_flexible
        self._uses_ids = uses_ids

    def counted(self, frame: Buffer, at: int) -> tuple[int, bytes]:
        """Return the size of the array at `at`, and the bytes of this number.

        Raises Unusual for a null array and one of more than 126 elements.
        """
        if self._is_flexible:
            count, raw = frame[at] - 1, bytes(frame[at : at + 1])
        else:
            raw = bytes(frame[at : at + INT32.size])
            (count,) = INT32.unpack(raw)
        if not 0 <= count < ONE_BYTE:
            raise Unusual
        return count, raw

    def read(self, frame: Buffer, start: int) -> tuple[HostedTopic, bytes, int]:
        """Return the topic at `start`, its head, and the number of its partitions.

        Raises Unusual for an unknown topic, and as `counted`.
        """
        if self._uses_ids:
            name = start
            at = start + len(ZERO_UUID)
        elif self._is_flexible:
            length, name = frame[start], start + 1
            if length > ONE_BYTE:
                length, name = read_rest(frame, name, length)
            at = name + length - 1
        else:
            (length,) = _INT16.unpack_from(frame, start)
            name = start + _INT16.size
            at = name + length
        if self._uses_ids:
            hosted = self._partitions.by_id.get(bytes(frame[name:at]))
        else:
            hosted = self._partitions.by_name.get(str(frame[name:at], "utf-8", "replace"))
        if hosted is None:
            raise Unusual
        count, raw = self.counted(frame, at)
        return hosted, bytes(frame[start : at + len(raw)]), count

    def check_text_at_end(self, frame: Buffer, at: int) -> None:
        """Check the last field, a text of at most 126 ASCII characters at `at`. Raises Unusual."""
        if self._is_flexible:
            length, at = frame[at] - 1, at + 1
        else:
            (length,) = _INT16.unpack_from(frame, at)
            at += _INT16.size
        end = at + length
        if not 0 <= length < ONE_BYTE or end > len(frame) or not bytes(frame[at:end]).isascii():
            raise Unusual
        if self._is_flexible and frame[end]:
            raise Unusual

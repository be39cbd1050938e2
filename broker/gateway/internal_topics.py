"""Marks the topics `__weir_*` as internal in responses of Metadata and DescribeTopicPartitions.

A broker of Weir marks its own; an Apache Kafka broker knows only its own. Clients do not subscribe to
internal topics by a pattern, and tools do not list them. Called by `responses` and by the processor for whole
responses, and by `upstream_receive` for one that is forwarded in pieces.

A response is searched for the prefix, and no topic of it is decoded. In front of a topic's name are an error
code and the length of the name, and two bytes 0 in front of a length are an error code only: within the name
of a topic there is no byte 0, and nothing else behind the brokers has a text of clients. Behind the name, and
its id, is the byte that is set. A topic with an error is not marked. A client that asks for a name with bytes
0, which Kafka returns with an error, can mislead the search of its own response, and of no other.

Pure. A damaged header raises ProtocolViolation.
"""

import re
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Final

from broker.common.slices import Steps, advance
from broker.metadata.image import OUR_TOPICS
from broker.protocol.api_key import ApiKey, flexible_from
from broker.protocol.codec import parse_response_header
from broker.protocol.schema import Buffer
from broker.protocol.varint import read_uvarint

PREFIX: Final = OUR_TOPICS.encode()

NAMED: Final = re.compile(b"%b(?<=\\0\\0\\0[\\x07-\\xff]%b)" % (PREFIX, PREFIX))
"""The beginning of a name behind no error and its length, in the versions before the flexible ones. What the
pattern begins with is what makes the search fast.
"""

NAMED_FLEXIBLE: Final = re.compile(
    b"%b(?:(?<=\\0\\0[\\x08-\\x7f]%b)|(?<=\\0\\0[\\x80-\\xff]\\x01%b))" % (PREFIX, PREFIX, PREFIX)
)
"""The same in the flexible versions, with a length of one byte or two."""

KEPT: Final = 3 + len(PREFIX)
"""Bytes of a piece of a response that may begin what the next piece completes."""

FIRST_WITH_MARK: Final = 1
"""The first version of Metadata that says whether a topic is internal."""

FIRST_WITH_ID: Final = 10
"""The first version of Metadata with the id of a topic behind its name."""

ID_BYTES: Final = 16
ERROR_BYTES: Final = 2
THROTTLE_BYTES: Final = 4

PIECE_BYTES: Final = 128 * 1024
"""A whole response is searched in pieces of this size, in at most a millisecond each; ours."""

INT32: Final = Struct(">i")


class InternalMarks:
    """Finds the topics of one response in its pieces, the first of which begins behind the brokers."""

    __slots__ = ("_before", "_due", "_flexible", "_gap")

    def __init__(self, *, flexible: bool, gap: int) -> None:
        """`gap` are the bytes between a name and the mark."""
        self._flexible = flexible
        self._gap = gap
        self._before = b""
        self._due: list[int] = []

    def mark(self, piece: memoryview) -> None:
        """Set the marks in the next bytes of the response, in their place."""
        before, size = self._before, len(piece)
        places, self._due = self._due, []
        data = before + bytes(piece)
        if PREFIX in data:
            for found in (NAMED_FLEXIBLE if self._flexible else NAMED).finditer(data):
                if found.end() > len(before):
                    name_at = found.start()
                    places.append(name_at + self._length(data, name_at) + self._gap - len(before))
        for place in places:
            if place >= size:
                self._due.append(place - size)
            elif not piece[place]:
                piece[place] = 1
        self._before = data[-KEPT:]

    def _length(self, data: bytes, name_at: int) -> int:
        """Return the length of the name that begins at `name_at`, at most 255 bytes."""
        last = data[name_at - 1]
        if not self._flexible:
            return last
        return last - 1 if last != 1 else (data[name_at - 2] | 0x80) - 1

    def is_needless(self, begun: Buffer, at: int) -> bool:
        """Return whether a response has one topic, which is another's; `begun` are its first bytes, and its
        topics begin at `at`.
        """
        try:
            if self._flexible:
                count, at = read_uvarint(begun, at)
                count -= 1
                _, at = read_uvarint(begun, at + ERROR_BYTES)
            else:
                (count,) = INT32.unpack_from(begun, at)
                at += INT32.size + ERROR_BYTES + 2
        except (IndexError, StructError):
            return False
        first = bytes(begun[at : at + len(PREFIX)])
        return count == 1 and len(first) == len(PREFIX) and first != PREFIX


def internal_marks(api_key: int, version: int) -> InternalMarks | None:
    """Return what sets the marks of a response; None if it has no topics, or no marks, or a layout that is
    not known.
    """
    if api_key == ApiKey.METADATA and FIRST_WITH_MARK <= version <= 13:
        gap = ID_BYTES if version >= FIRST_WITH_ID else 0
        return InternalMarks(flexible=version >= flexible_from(api_key), gap=gap)
    if api_key == ApiKey.DESCRIBE_TOPIC_PARTITIONS and version == 0:
        return InternalMarks(flexible=True, gap=ID_BYTES)
    return None


def with_marks(frame: Buffer, at: int, marks: InternalMarks) -> Steps[Buffer]:
    """Return the response, without its size, with the marks of its topics behind `at`: in its place if it is
    a bytearray, and itself if it has no topic to mark. Yields after each PIECE_BYTES.
    """
    for begin in range(at, len(frame), PIECE_BYTES):
        if PREFIX in bytes(frame[begin : begin + PIECE_BYTES + len(PREFIX)]):
            break
        yield
    else:
        return frame
    changed = frame if isinstance(frame, bytearray) else bytearray(frame)
    with memoryview(changed) as view:
        for piece in range(max(begin - KEPT, at), len(changed), PIECE_BYTES):
            marks.mark(view[piece : piece + PIECE_BYTES])
            yield
    return changed


def marked_description(frame: Buffer) -> bytes | Steps[bytes]:
    """Return a DescribeTopicPartitions response, given without its size, with its size and marks, or the
    slices that are left after the first.
    """
    slices = _description(frame)
    try:
        advance(slices)
    except StopIteration as end:
        whole: bytes = end.value
        return whole
    return slices


def _description(frame: Buffer) -> Steps[bytes]:
    marks = internal_marks(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)
    assert marks is not None
    marked = yield from with_marks(frame, _described_at(frame), marks)
    return b"".join((INT32.pack(len(marked)), marked))


def description_beginning(begun: Buffer, size: int) -> tuple[bytearray, InternalMarks | None]:
    """Return the beginning of a DescribeTopicPartitions response of `size` bytes, with its size and marks,
    and what sets the marks of what follows; None if there are none to set.
    """
    marks = internal_marks(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)
    assert marks is not None
    made, at = bytearray(INT32.pack(size)) + begun, _described_at(begun)
    return made, mark_beginning(made, INT32.size + at, marks)


def mark_beginning(made: bytearray, at: int, marks: InternalMarks) -> InternalMarks | None:
    """Set the marks in the beginning of a response whose topics begin at `at`, and return what sets those of
    what follows, None if there are none to set.
    """
    if marks.is_needless(made, at):
        return None
    with memoryview(made) as view:
        marks.mark(view[at:])
    return marks


def _described_at(frame: Buffer) -> int:
    """Return where the topics of a DescribeTopicPartitions response begin."""
    return parse_response_header(frame, 1)[1] + THROTTLE_BYTES

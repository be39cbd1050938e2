"""Reads the fields of many protobuf messages at once, into numpy arrays. For `points`.

All messages of one type advance together, one field in each step. When few are left, as in a message with
thousands of submessages, each is followed to its end by itself. The messages must be as a protobuf library
writes them (`unpack.canonical`): valid, with minimal varints, without groups, and field numbers below 16.
"""

from array import array
from typing import Final, NamedTuple

import numpy as np

LANES: Final = 48
"""With fewer messages a step costs more than to follow each of them by itself."""

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
"""Wire types, the low three bits of a tag."""

PADDING: Final = bytes(16)
"""The end of a buffer: a field's first eight bytes can always be read."""

HUGE: Final = 2**63
"""The value of a varint of more than eight bytes."""


class Buffer:
    """The bytes of all messages, which are ranges of it."""

    def __init__(self, plain: bytes | bytearray) -> None:
        self.data = bytes(plain) + PADDING
        self.octets = np.frombuffer(self.data, np.uint8)
        self.words = np.ndarray(len(plain) + 8, "<u8", self.data, strides=(1,))
        """The eight bytes from each place on, as one number."""


class Fields(NamedTuple):
    """Fields in the order of the buffer, as arrays of equal length.

    `message` is the place of its message among those that were read, `at` the place of its tag, `starts` and
    `ends` enclose its content, and `numbers` is the value of a varint or the bits of a number of eight bytes.
    """

    message: np.ndarray
    at: np.ndarray
    tags: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    numbers: np.ndarray

    def of(self, *tags: int) -> "Fields":
        """Return the fields with one of the tags."""
        is_wanted = self.tags == tags[0]
        for tag in tags[1:]:
            is_wanted |= self.tags == tag
        return self if is_wanted.all() else Fields(*(each[is_wanted] for each in self))

    def numbers_by(self, places: np.ndarray, count: int) -> np.ndarray:
        """Return an array of `count` numbers: those of the fields in the places of their messages, else 0."""
        found: np.ndarray = np.zeros(count, np.uint64)
        found[places[self.message]] = self.numbers
        return found


def read_fields(buffer: Buffer, starts: np.ndarray, ends: np.ndarray) -> Fields:
    """Return the fields of the messages; `starts` is ascending, and no message overlaps the next."""
    message = np.flatnonzero(starts < ends)
    at, stop = starts[message], ends[message]
    steps: list[Fields] = []
    while len(at) > LANES:
        fields = _fields_at(buffer, message, at)
        steps.append(fields)
        goes_on = fields.ends < stop
        if goes_on.all():
            at = fields.ends
        else:
            message, at, stop = message[goes_on], fields.ends[goes_on], stop[goes_on]
    if len(at):
        steps.append(_fields_at(buffer, *_followed(buffer.data, message, at, stop)))
    if len(steps) == 1:
        return steps[0]
    if not steps:
        return _fields_at(buffer, message, at)
    joined = Fields(*map(np.concatenate, zip(*steps, strict=True)))
    order = np.argsort(joined.at, kind="stable")
    return Fields(*(each[order] for each in joined))


def _fields_at(buffer: Buffer, message: np.ndarray, at: np.ndarray) -> Fields:
    tags, words = buffer.octets[at], buffer.words[at + 1]
    kinds = tags & 7
    values = words & 0x7F
    sizes: np.ndarray = np.ones(len(at), np.int64)
    longer = np.flatnonzero(words & 0x80)
    if len(longer):
        values[longer], sizes[longer] = _varints(words[longer])
    is_bytes = kinds == BYTES
    is_fixed = kinds == FIXED64
    starts = at + 1 + is_bytes * sizes
    lengths = np.where(is_bytes, values.astype(np.int64), np.where(is_fixed, 8, sizes))
    return Fields(message, at, tags, starts, starts + lengths, np.where(is_fixed, words, values))


def _varints(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the values and the sizes of the varints at the beginning of the words."""
    ends = ~words & 0x8080_8080_8080_8080
    first = ends & (~ends + np.uint64(1))
    # The bits up to the first byte without a continuation bit; all of them if there is none.
    kept = words & (first - np.uint64(1)) & 0x7F7F_7F7F_7F7F_7F7F
    sizes = (np.bitwise_count(first - np.uint64(1)).astype(np.int64) + 1) >> 3
    values: np.ndarray = np.zeros(len(words), np.uint64)
    for byte in range(int(sizes.max())):
        values |= (kept >> np.uint64(8 * byte) & np.uint64(0x7F)) << np.uint64(7 * byte)
    is_huge = ends == 0
    if is_huge.any():
        # A negative enum or number; a protobuf library writes ten bytes.
        values[is_huge], sizes[is_huge] = HUGE, 10
    return values, sizes


def _followed(
    data: bytes, messages: np.ndarray, starts: np.ndarray, stops: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return message and place of each field, message by message."""
    found, counts = array("q"), []
    add = found.append
    for at, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        before = len(found)
        while at < stop:
            add(at)
            kind = data[at] & 7
            at += 1
            if kind == FIXED64:
                at += 8
                continue
            value, shift = data[at], 7
            at += 1
            if value > 0x7F:
                value &= 0x7F
                while (octet := data[at]) > 0x7F:
                    value |= (octet & 0x7F) << shift
                    shift += 7
                    at += 1
                value |= octet << shift
                at += 1
            if kind == BYTES:
                at += value
        counts.append(len(found) - before)
    return np.repeat(messages, counts), np.frombuffer(found, np.int64)

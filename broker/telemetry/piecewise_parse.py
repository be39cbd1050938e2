"""Parses a protobuf message in pieces, so that no call into the library holds the interpreter for long.

Called in a thread by telemetry.payload. The library parses two megabytes of empty messages in 40 ms and keeps
the interpreter meanwhile. Concatenated protobuf messages merge, and an embedded message merges in the same
way, so a message is merged from runs of its fields of bounded length, and an embedded one above that length
from runs of its own fields.
"""

from collections.abc import Callable
from typing import Any, Final

from google.protobuf.message import DecodeError, Message

PIECE_BYTES: Final = 65_536
"""Bytes of one call; ours. 32,768 empty messages take 1.3 ms."""

MAX_NESTED: Final = 100
"""Messages in each other, as the library limits them."""

_LENGTH_DELIMITED: Final = 2
_FIXED_BYTES: Final = {1: 8, 5: 4}


def merge(message: Message, data: bytes, rest: Callable[[], object], piece_bytes: int = PIECE_BYTES) -> None:
    """Merge the fields in `data` into `message`, and call `rest` after each piece of about `piece_bytes`.
    Raises DecodeError; `message` then has some of the fields.
    """
    _merge(message, data, 0, len(data), rest, piece_bytes, 0)


def _merge(
    message: Any, data: bytes, start: int, end: int, rest: Callable[[], object], piece_bytes: int, depth: int
) -> None:
    if depth > MAX_NESTED:
        raise DecodeError(f"more than {MAX_NESTED} messages in each other")
    fields = message.DESCRIPTOR.fields_by_number
    run = at = start
    while at < end:
        first = at
        tag = data[at]
        at += 1
        if tag >= 0x80:
            tag, at = _varint(data, first, end)
        kind = tag & 7
        if kind == _LENGTH_DELIMITED:
            body = at + 1
            length = data[at] if at < end else 0x80
            if length >= 0x80:
                length, body = _varint(data, at, end)
            at = body + length
            if at <= end and length > piece_bytes:
                field = fields.get(tag >> 3)
                if field is not None and field.message_type is not None:
                    message.MergeFromString(data[run:first])
                    _merge(_embedded(message, field), data, body, at, rest, piece_bytes, depth + 1)
                    run = at
        elif kind == 0:
            _, at = _varint(data, at, end)
        elif kind in _FIXED_BYTES:
            at += _FIXED_BYTES[kind]
        else:
            raise DecodeError(f"wire type {kind}")
        if at > end:
            raise DecodeError("a field ends after its message")
        if at - run >= piece_bytes:
            message.MergeFromString(data[run:at])
            run = at
            rest()
    message.MergeFromString(data[run:end])


def _embedded(message: Any, field: Any) -> Any:
    """The message that `field` holds; of a repeated field, a new one."""
    held = getattr(message, field.name)
    if hasattr(held, "add"):
        return held.add()
    held.SetInParent()
    return held


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The value at `at`, and where it ends."""
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift >= 70:
            break
    raise DecodeError("a number does not end")

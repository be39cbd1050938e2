"""Records as JSON, the cursor of a reading, and the keys and values that a request gives.

Used by webui.rest.records. Independent of HTTP.
"""

import base64
import codecs
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from broker.controller.topic_records import MAX_PARTITIONS, Cut, FoundRecord, PartitionPosition
from webui.decoding.decoder import Decoded
from webui.rest import bodies as strict_json
from webui.schema import COUNT, Flag, Invalid, Listing, Maybe, Number, OneOf, Record, Text

LARGEST_OFFSET: Final = 2**63 - 1
LATEST_MOMENT: Final = 253_402_300_799_999
"""The last millisecond of the year 9999, since the epoch."""

LONGEST_VALUE: Final = 32_767
"""Characters of a key or a value that a request gives."""

LONGEST_CURSOR: Final = 34_000
"""Characters of a cursor; one of MAX_PARTITIONS partitions has fewer."""

_OFFSET: Final = Number(integer=True, minimum=0, maximum=LARGEST_OFFSET)
_SHOWN: Final = Text(max_length=2_000_000, nullable=True)
_BYTES: Final = Record(
    {
        "size": COUNT,
        "text": _SHOWN,
        "base64": _SHOWN,
        "is_truncated": Flag(),
        "decoded": _SHOWN,
        "error": Text(max_length=2_000, nullable=True),
    }
)
RECORD: Final = Record(
    {
        "partition": COUNT,
        "offset": _OFFSET,
        "timestamp_ms": Number(integer=True),
        "timestamp_type": Text(choices=("CreateTime", "LogAppendTime")),
        "key": Maybe(_BYTES),
        "value": Maybe(_BYTES),
        "headers": Listing(Record({"name": _BYTES, "value": Maybe(_BYTES)})),
        "header_count": COUNT,
        "is_transactional": Flag(),
    }
)

_LONG: Final = Text(max_length=LONGEST_VALUE)
DATA: Final = OneOf(
    (Record({"text": _LONG}), Record({"json": _LONG}), Record({"hex": _LONG}), Record({"base64": _LONG}))
)
"""Bytes of a request: UTF-8 text, text that must be JSON, or bytes in hexadecimal or base64."""


def record_json(
    found: FoundRecord, key: Decoded | None, value: Decoded | None, longest: int
) -> dict[str, Any]:
    """`longest`: at most this many bytes of each key, value and header are shown."""
    return {
        "partition": found.partition,
        "offset": found.offset,
        "timestamp_ms": found.timestamp,
        "timestamp_type": "LogAppendTime" if found.is_append_time else "CreateTime",
        "key": bytes_json(found.key, longest, key),
        "value": bytes_json(found.value, longest, value),
        "headers": [
            {"name": bytes_json(name, longest), "value": bytes_json(content, longest)}
            for name, content in found.headers
        ],
        "header_count": found.header_count,
        "is_transactional": found.is_transactional,
    }


def bytes_json(cut: Cut | None, longest: int, decoded: Decoded | None = None) -> dict[str, Any] | None:
    """Return text if the shown bytes are UTF-8 (a character cut at their end is left out), else base64."""
    if cut is None:
        return None
    shown = bytes(cut.kept[:longest])
    is_truncated = len(shown) < cut.size
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(shown, final=not is_truncated)
    except UnicodeDecodeError:
        text = None
    return {
        "size": cut.size,
        "text": text,
        "base64": base64.b64encode(shown).decode() if text is None else None,
        "is_truncated": is_truncated,
        "decoded": None if decoded is None else decoded.text,
        "error": None if decoded is None else decoded.error,
    }


def bytes_of(given: Mapping[str, str] | None, where: str) -> bytes | None:
    """Return the bytes of a valid `DATA`, None for null. Raises Invalid."""
    match given:
        case None:
            return None
        case {"text": text}:
            return text.encode()
        case {"json": text}:
            try:
                strict_json.parse(text.encode())
            except strict_json.NotJson as error:
                raise Invalid(f"{where}/json", f"is not JSON: {error}") from None
            return text.encode()
        case {"hex": text}:
            try:
                return bytes.fromhex(text)
            except ValueError:
                raise Invalid(f"{where}/hex", "must have two hexadecimal digits for each byte") from None
        case _:
            try:
                return base64.b64decode(given["base64"], validate=True)
            except ValueError:
                raise Invalid(f"{where}/base64", "is not base64") from None


def cursor_of(positions: Sequence[PartitionPosition]) -> str | None:
    """Return where another reading continues; None if all partitions were read to their end."""
    left = [[each.partition, each.next] for each in positions if each.next < each.end]
    return (
        base64.urlsafe_b64encode(json.dumps(left, separators=(",", ":")).encode()).decode() if left else None
    )


def read_cursor(text: str) -> tuple[tuple[int, int], ...]:
    """Raises Invalid."""
    try:
        pairs = json.loads(base64.b64decode(text, altchars=b"-_", validate=True))
        found = tuple((int(partition), int(offset)) for partition, offset in pairs)
    except (ValueError, TypeError, RecursionError):
        raise Invalid("/cursor", "is not the `next` of an earlier answer") from None
    if not 0 < len(found) <= MAX_PARTITIONS or any(
        not (0 <= partition < 2**31 and 0 <= offset <= LARGEST_OFFSET) for partition, offset in found
    ):
        raise Invalid("/cursor", "is not the `next` of an earlier answer")
    return found

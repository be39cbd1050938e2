"""Records as JSON, the cursor of a reading, and the keys and values that a request gives.

Used by webui.rest.records. Independent of HTTP.
"""

import base64
import codecs
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from broker.controller.rows.fields import one_of
from broker.controller.topic_records import MAX_PARTITIONS, Cut, FoundRecord, PartitionPosition
from webui.decoding.decoder import Decoded
from webui.rest import bodies as strict_json
from webui.schema import Invalid, OneOf, Record, Text
from webui.tables.answers import as_json, schema_of

LARGEST_OFFSET: Final = 2**63 - 1
LATEST_MOMENT: Final = 253_402_300_799_999
"""The last millisecond of the year 9999, since the epoch."""

LONGEST_VALUE: Final = 32_767
"""Characters of a key or a value that a request gives."""

LONGEST_CURSOR: Final = 34_000
"""Characters of a cursor; one of MAX_PARTITIONS partitions has fewer."""

_LONG: Final = Text(max_length=LONGEST_VALUE)
DATA: Final = OneOf(
    (Record({"text": _LONG}), Record({"json": _LONG}), Record({"hex": _LONG}), Record({"base64": _LONG}))
)
"""Bytes of a request: UTF-8 text, text that must be JSON, or bytes in hexadecimal or base64."""


Shown = Annotated[str, Meta(max_length=2_000_000)]


class ShownBytes(msgspec.Struct, frozen=True):
    """The first bytes of a key, a value or a header: as text if they are UTF-8, else as base64. `decoded` is
    JSON by a schema, `error` why there is none.
    """

    size: int
    text: Shown | None
    base64: Shown | None
    is_truncated: bool
    decoded: Shown | None
    error: Annotated[str, Meta(max_length=2_000)] | None


class ShownHeader(msgspec.Struct, frozen=True):
    name: ShownBytes
    value: ShownBytes | None


class ShownRecord(msgspec.Struct, frozen=True):
    """`headers` are the first of `header_count`."""

    partition: int
    offset: Annotated[int, Meta(ge=0, le=LARGEST_OFFSET)]
    timestamp_ms: Annotated[int, Meta(ge=-(2**63))]
    timestamp_type: Annotated[str, one_of("CreateTime", "LogAppendTime")]
    key: ShownBytes | None
    value: ShownBytes | None
    headers: tuple[ShownHeader, ...]
    header_count: int
    is_transactional: bool


RECORD: Final = schema_of(ShownRecord)


def record_json(
    found: FoundRecord, key: Decoded | None, value: Decoded | None, longest: int
) -> dict[str, Any]:
    """`longest`: at most this many bytes of each key, value and header are shown."""
    shown = ShownRecord(
        found.partition,
        found.offset,
        found.timestamp,
        "LogAppendTime" if found.is_append_time else "CreateTime",
        None if found.key is None else shown_bytes(found.key, longest, key),
        None if found.value is None else shown_bytes(found.value, longest, value),
        tuple(_header(name, content, longest) for name, content in found.headers),
        found.header_count,
        found.is_transactional,
    )
    return as_json(shown)


def _header(name: Cut, content: Cut | None, longest: int) -> ShownHeader:
    return ShownHeader(shown_bytes(name, longest), None if content is None else shown_bytes(content, longest))


def shown_bytes(cut: Cut, longest: int, decoded: Decoded | None = None) -> ShownBytes:
    """A character that is cut at the end of the shown bytes is left out."""
    shown = bytes(cut.kept[:longest])
    is_truncated = len(shown) < cut.size
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(shown, final=not is_truncated)
    except UnicodeDecodeError:
        text = None
    return ShownBytes(
        cut.size,
        text,
        base64.b64encode(shown).decode() if text is None else None,
        is_truncated,
        None if decoded is None else decoded.text,
        None if decoded is None else decoded.error,
    )


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
                raise Invalid(f"{where}/json", f"is not valid JSON: {error.reason}") from None
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


def cursor_of(positions: Sequence[PartitionPosition], *, at_ends: bool = False) -> str | None:
    """Return where another reading continues; None if all partitions were read to their end. `at_ends`:
    also in these partitions.
    """
    left = [[each.partition, each.next] for each in positions if at_ends or each.next < each.end]
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

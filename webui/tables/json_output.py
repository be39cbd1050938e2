"""JSON of the REST API and of the live stream: values and objects as text. webui.tables.answers has rows.

Field names are those of the rows. Timestamps are RFC 3339 in UTC, durations milliseconds, rates per second;
a missing value is null.
"""

import json
import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from webui.tables.slices import collect


def finite(value: float | None) -> float | None:
    """Return None for NaN and Infinity, which JSON does not have."""
    return value if value is not None and math.isfinite(value) else None


LAST_MS: Final = 253_402_300_799_999
"""The last moment of the year 9999, after which RFC 3339 has none."""


@lru_cache(4096)
def utc(epoch_ms: int) -> str:
    """Format as RFC 3339 in UTC, with milliseconds; LAST_MS stands for all later moments. Cached, because
    pages repeat the same past times.
    """
    seconds, ms = divmod(min(epoch_ms, LAST_MS), 1000)
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=ms * 1000)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


AT_ONCE: Final = 16
"""Elements per slice of a long list or object whose elements are containers."""

SCALARS_AT_ONCE: Final = 512

JOINED_AT_ONCE: Final = 262_144

CHARACTERS_AT_ONCE: Final = 65_536
"""Characters of texts after which fewer elements are taken at once."""

_write = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode


def encode(value: Any) -> bytes:
    """Encode as compact JSON. Raises ValueError for NaN, which is a bug."""
    return _write(value).encode()


async def encode_in_slices(value: Any) -> bytes:
    """Like `encode`, in slices for long lists or objects: a page of a thousand rows takes milliseconds."""
    return b"".join(await encode_in_pieces(value))


async def encode_in_pieces(value: Any) -> list[bytes]:
    """As `encode_in_slices`, in pieces of about 256 kB: joining megabytes takes milliseconds."""
    return [encode(value)] if not _is_long(value) else await collect(_joined(_pieces(value)))


def _joined(pieces: Iterable[bytes]) -> Iterator[bytes | None]:
    some: list[bytes] = []
    size = 0
    for piece in pieces:
        some.append(piece)
        size += len(piece)
        yield None
        if size >= JOINED_AT_ONCE:
            yield b"".join(some)
            some, size = [], 0
    if some:
        yield b"".join(some)


def _is_long(value: Any) -> bool:
    """Whether the value, or one within, has many elements."""
    if isinstance(value, dict):
        return len(value) > AT_ONCE or any(map(_is_long, value.values()))
    return isinstance(value, list) and (len(value) > AT_ONCE or any(map(_is_long, value)))


def _pieces(value: Any) -> Iterator[bytes]:
    """Encode short containers in one piece, whatever texts they contain."""
    if not _is_long(value):
        yield encode(value)
    elif isinstance(value, dict):
        before = b"{"
        for name, each in value.items():
            yield before + encode(name) + b":"
            yield from _pieces(each)
            before = b","
        yield b"}"
    else:
        before = b"["
        for some in _runs(value):
            if _is_long(some[0]):
                yield before
                yield from _pieces(some[0])
            else:
                yield before + encode(some)[1:-1]
            before = b","
        yield b"]"


def _runs(elements: list[Any]) -> Iterator[list[Any]]:
    """Divide a list: a long element alone, else a few, fewer if they are containers."""
    some: list[Any] = []
    characters = 0
    for each in elements:
        is_container = isinstance(each, dict | list)
        is_long = is_container and _is_long(each)
        if some and is_long:
            yield some
            some, characters = [], 0
        some.append(each)
        characters += 0 if is_long else _characters(each)
        most = AT_ONCE if is_container else SCALARS_AT_ONCE
        if is_long or len(some) == most or characters > CHARACTERS_AT_ONCE:
            yield some
            some, characters = [], 0
    if some:
        yield some


def _characters(value: Any) -> int:
    """Return the characters of all texts of a value that is not long."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_characters, value.values()))
    return sum(map(_characters, value)) if isinstance(value, list) else 0

"""JSON of the REST API and of the live stream: the rows of broker.controller as objects, and objects as text.

Field names are those of the rows. Timestamps are RFC 3339 in UTC, durations milliseconds, rates per second;
a missing value is null.
"""

import json
import math
from collections.abc import Iterable, Iterator
from contextlib import aclosing
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from broker.controller.rows.broker import BrokerMetrics, Overview, TaskRow
from broker.controller.rows.connections import ConnectionRow, ThrottledRow
from broker.controller.rows.quotas import NodeUse
from webui.tables.slices import sliced


def named(row: msgspec.Struct) -> dict[str, Any]:
    """Return the fields by name without copying their values."""
    return msgspec.structs.asdict(row)


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


def overview_json(row: Overview, now_ms: int) -> dict[str, Any]:
    return {
        "at": utc(now_ms),
        "cluster_id": row.cluster_id,
        "node_id": row.node_id,
        "software_version": row.software_version,
        "bootstrap": list(row.bootstrap),
        "console": row.console,
        "topics": row.topics,
        "user_topics": row.user_topics,
        "partitions": row.partitions,
        "quota_rules": row.quota_rules,
        "ip_quota_rules": row.ip_quota_rules,
        "metrics": metrics_json(row.metrics),
        "upstream": None if row.upstream is None else named(row.upstream),
        "gateways": None if row.gateways is None else named(row.gateways),
    }


def metrics_json(row: BrokerMetrics) -> dict[str, Any]:
    return {
        name: finite(value) if isinstance(value, float) else value
        for name, value in named(row).items()
        if name not in ("queues", "phases")
    } | {
        "queues": [named(queue) for queue in row.queues],
        "phases": [
            named(phase) | {"p50_ms": finite(phase.p50_ms), "p99_ms": finite(phase.p99_ms)}
            for phase in row.phases
        ],
    }


def throttled_json(rows: Iterable[ThrottledRow], now_ms: int) -> list[dict[str, Any]]:
    return [throttled_channel_json(row, now_ms) for row in rows]


def throttled_channel_json(row: ThrottledRow, now_ms: int) -> dict[str, Any]:
    return {
        "connection_id": row.connection_id,
        "client_id": row.client_id,
        "principal": row.principal,
        "address": row.address,
        "quota_type": str(row.quota_type),
        "entity": dict(row.entity),
        "observed": finite(row.observed),
        "bound": row.bound,
        "throttle_ms": row.throttle_ms,
        "remaining_ms": row.remaining_ms,
        "since": utc(now_ms - row.since_ms),
        "times": row.times,
        "obeys": row.obeys,
        "tags": tags_json(row.tags),
        "upstream_node": row.upstream_node,
        "gateway": row.gateway,
    }


def tags_json(tags: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in tags]


def node_use_json(row: NodeUse) -> dict[str, Any]:
    return named(row) | {"observed": finite(row.observed)}


def task_json(row: TaskRow) -> dict[str, Any]:
    fields = named(row)
    fields["since"] = utc(fields.pop("since_at_ms"))
    return fields | {"owns": [named(owned) for owned in row.owns], "idle": finite(row.idle)}


def connection_json(row: ConnectionRow) -> dict[str, Any]:
    fields = named(row)
    fields["opened_at"] = utc(fields.pop("opened_at_ms"))
    return fields


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
    if not _is_long(value):
        return [encode(value)]
    joined: list[bytes] = []
    some: list[bytes] = []
    size = 0
    async with aclosing(sliced(_pieces(value), at_once=1)) as slices:
        async for (piece,) in slices:
            some.append(piece)
            size += len(piece)
            if size >= JOINED_AT_ONCE:
                joined.append(b"".join(some))
                some, size = [], 0
    return [*joined, b"".join(some)] if some else joined


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

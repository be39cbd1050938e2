"""Decodes pushes in Arrow batches into rows of points. Runs in the executors' workers.

For `tables`, which uses these columns. The columns of the sender never become Python objects: Arrow repeats
them for each point.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from pipeline.otlp.points import Points, Refusal

SENDER: Final = (
    *("topic", "partition", "offset", "timestamp", "cluster", "node", "client_instance_id", "client_id"),
    *("principal", "address", "software_name", "software_version", "subscription_id", "terminating"),
)
"""Columns that are repeated with each point."""

PUSH: Final = ("packed", "headers")
"""Columns of a push that is refused whole. (Spark treats `value` and a point's `Value` as one name.)"""

TEXTS: Final = pa.map_(pa.string(), pa.string())
TIME: Final = pa.timestamp("us", tz="UTC")

CONTEXT: Final = {
    "ResourceAttributes": TEXTS,
    "ResourceSchemaUrl": pa.string(),
    "ScopeName": pa.string(),
    "ScopeVersion": pa.string(),
    "ScopeAttributes": TEXTS,
    "ScopeDroppedAttrCount": pa.int64(),
    "ScopeSchemaUrl": pa.string(),
    "ServiceName": pa.string(),
}
"""The columns of a `Context`, in its order."""

HEADING: Final = {
    "MetricName": pa.string(),
    "MetricDescription": pa.string(),
    "MetricUnit": pa.string(),
    "AggregationTemporality": pa.int32(),
    "IsMonotonic": pa.bool_(),
}
"""The columns of a `Heading`, after its first two."""

POINT: Final = {
    "point": pa.int32(),
    "StartTimeUnix": TIME,
    "TimeUnix": TIME,
    "Flags": pa.int64(),
}
"""The columns of every point, after the places of its push, heading and attributes."""

DISTRIBUTION: Final = {
    "Count": pa.int64(),
    "Sum": pa.float64(),
    "BucketCounts": pa.list_(pa.int64()),
    "ExplicitBounds": pa.list_(pa.float64()),
    "Min": pa.float64(),
    "Max": pa.float64(),
}
"""The further columns of a `Distribution`; a `Number` has its Value."""

REFUSAL: Final = {"reason": pa.string(), "points": pa.int64(), "metrics": pa.list_(pa.string())}
"""The columns of a `Refusal`, after its first."""

BATCH_ROWS: Final = 8_192
"""Rows per result batch; the rows of one push are not split."""


def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn records into rows with all columns of this module.

    A row is a point, or has a `reason` and represents a push. Records have the columns of `SENDER` and
    `PUSH`, `compression`, and `why`, the reason to refuse the whole record.
    """
    for batch in batches:
        found = Points()
        fields = (_plain(batch, name) for name in ("why", "compression", "packed", "timestamp"))
        pushes = zip(*fields, strict=True)
        for row, (why, compression, packed, arrived) in enumerate(pushes):
            if why is not None:
                found.refusals.append(Refusal(row, why))
            else:
                found.take(row, compression, packed, arrived // 1_000)
            if len(found) >= BATCH_ROWS:
                yield _rows(batch, found)
                found = Points()
        yield _rows(batch, found)


def _plain(batch: pa.RecordBatch, name: str) -> list[Any]:
    column = batch.column(name)
    plain = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    found: list[Any] = plain.to_pylist()
    return found


def _rows(batch: pa.RecordBatch, found: Points) -> pa.RecordBatch:
    """Return the rows: numbers, then distributions, then refused pushes."""
    one, other = _columns(found.numbers, 8), _columns(found.distributions, 8)
    measures = _columns(other[7], len(DISTRIBUTION))
    refusal = _columns(found.refusals, 1 + len(REFUSAL))
    numbers, distributions, refusals = len(found.numbers), len(found.distributions), len(found.refusals)

    def placed(at: int) -> pa.Array:
        return pa.array([*one[at], *other[at], *[None] * refusals], pa.int64())

    pushes = pa.array([*one[0], *other[0], *refusal[0]], pa.int64())
    whole = [each.row if each.points is None else None for each in found.refusals]
    unread_pushes = pa.array([*[None] * (numbers + distributions), *whole], pa.int64())
    headings, attributes = placed(1), placed(2)
    columns = {name: batch.column(name).take(pushes) for name in SENDER}
    columns |= {name: batch.column(name).take(unread_pushes) for name in PUSH}
    kinds, contexts, *names = _columns(list(found.headings), 2 + len(HEADING))
    columns["kind"] = pa.array(kinds, pa.string()).take(headings)
    shared = zip(CONTEXT.items(), _columns(contexts, len(CONTEXT)), strict=True)
    for (name, kind), values in (*shared, *zip(HEADING.items(), names, strict=True)):
        columns[name] = pa.array(values, kind).take(headings)
    columns["Attributes"] = pa.array(list(found.attributes), TEXTS).take(attributes)
    for at, (name, kind) in enumerate(POINT.items(), 3):
        columns[name] = placed(at).cast(kind)
    columns["Value"] = _between(0, one[7], distributions + refusals, pa.float64())
    for at, (name, kind) in enumerate(DISTRIBUTION.items()):
        columns[name] = _between(numbers, measures[at], refusals, kind)
    for at, (name, kind) in enumerate(REFUSAL.items(), 1):
        columns[name] = _between(numbers + distributions, refusal[at], 0, kind)
    return pa.RecordBatch.from_pydict(columns)


def _between(before: int, values: Sequence[Any], after: int, kind: pa.DataType) -> pa.Array:
    return pa.concat_arrays([pa.nulls(before, kind), pa.array(values, kind), pa.nulls(after, kind)])


def _columns(rows: Sequence[Sequence[Any]], width: int) -> list[Sequence[Any]]:
    return list(zip(*rows, strict=True)) if rows else [()] * width

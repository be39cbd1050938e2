"""Decodes pushes in Arrow batches into rows of points. Runs in the executors' workers.

For `tables`, which uses these columns. Pushes are unpacked one by one, and the points of some megabytes of
them are read together. No row becomes a Python object.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.otlp.metrics import GAUGE, HISTOGRAM, SUM, Context
from pipeline.otlp.points import Read, read_points
from pipeline.otlp.unpack import RefusedError, canonical, unpack

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

METRIC: Final = {
    "MetricName": pa.string(),
    "MetricDescription": pa.string(),
    "MetricUnit": pa.string(),
    "AggregationTemporality": pa.int32(),
    "IsMonotonic": pa.bool_(),
}
"""The columns that the points of a metric share."""

POINT: Final = {
    "Attributes": TEXTS,
    "point": pa.int32(),
    "StartTimeUnix": TIME,
    "TimeUnix": TIME,
    "Flags": pa.int64(),
    "Value": pa.float64(),
}
"""The columns of every point; a histogram has no `Value`."""

MEASURES: Final = {
    "Count": pa.int64(),
    "Sum": pa.float64(),
    "BucketCounts": pa.list_(pa.int64()),
    "ExplicitBounds": pa.list_(pa.float64()),
    "Min": pa.float64(),
    "Max": pa.float64(),
}
"""The columns of a histogram's `Measures`, in their order."""

REFUSAL: Final = {"reason": pa.string(), "points": pa.int64(), "metrics": pa.list_(pa.string())}
"""The columns of the refused part of a push: all of it if `points` is null, else that number of points."""

COLUMNS: Final = {"kind": pa.string()} | CONTEXT | METRIC | POINT | MEASURES | REFUSAL
"""The columns after those of the sender and the push."""

KINDS: Final = pa.array([{GAUGE: "gauge", SUM: "sum", HISTOGRAM: "histogram"}.get(tag) for tag in range(256)])
"""The column `kind` by the kind of `Metrics`."""

BYTES_AT_ONCE: Final = 2_097_152
"""Pushes of this size are read together: enough for numpy, and not too large for a processor's cache."""

BATCH_ROWS: Final = 8_192
BATCH_BYTES: Final = 16_777_216
"""Maximum rows of a result batch, and bytes of the texts in them. Clients decide how long their texts are."""


class _Group:
    """Pushes that are read together, with their rows in the batch, and refused rows with the reasons."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.plain: list[bytes] = []
        self.arrived_ms: list[int] = []
        self.size = 0
        self.refused: list[tuple[int, str]] = []

    def add(self, row: int, plain: bytes, arrived_ms: int) -> None:
        self.rows.append(row)
        self.plain.append(plain)
        self.arrived_ms.append(arrived_ms)
        self.size += len(plain)


def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn records into rows with all columns of this module.

    A row is a point, or has a `reason` and represents a push. Records have the columns of `SENDER` and
    `PUSH`, `compression`, and `why`, the reason to refuse the whole record. Never raises for invalid data of
    a client.
    """
    for batch in batches:
        group = _Group()
        fields = (_plain(batch, name) for name in ("why", "compression", "packed", "timestamp"))
        for row, (why, compression, packed, arrived) in enumerate(zip(*fields, strict=True)):
            if why is not None:
                group.refused.append((row, why))
                continue
            try:
                plain = canonical(unpack(compression, packed))
            except RefusedError as refusal:
                group.refused.append((row, str(refusal)))
                continue
            group.add(row, plain, arrived // 1_000)
            if group.size >= BYTES_AT_ONCE:
                yield from _rows(batch, group)
                group = _Group()
        yield from _rows(batch, group)


def _plain(batch: pa.RecordBatch, name: str) -> list[Any]:
    column = batch.column(name)
    plain = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    found: list[Any] = plain.to_pylist()
    return found


def _rows(batch: pa.RecordBatch, group: _Group) -> Iterator[pa.RecordBatch]:
    """Yield the rows of points, then those of refused points and refused pushes."""
    if group.rows:
        read, rows = read_points(group.plain, group.arrived_ms), np.array(group.rows)
        yield from _rows_of_points(batch, rows, read)
        parts = read.refused
        columns = {"reason": parts.reason, "points": pa.array(parts.points), "metrics": parts.metrics}
        if len(parts.push):
            yield _batch(batch, rows[parts.push], columns)
    if group.refused:
        places, reasons = zip(*group.refused, strict=True)
        whole = {name: batch.column(name).take(pa.array(places)) for name in PUSH}
        yield _batch(batch, np.array(places), whole | {"reason": pa.array(reasons)})


def _rows_of_points(batch: pa.RecordBatch, rows: np.ndarray, read: Read) -> Iterator[pa.RecordBatch]:
    points, metrics = read.points, read.metrics
    contexts = _arrays(metrics.contexts)
    attributes = pa.array(points.different_attributes, TEXTS)
    numbers = len(points.push) - len(points.measures.count)
    for start, end in _pieces(_text_sizes(read)):
        piece = slice(start, end)
        metric = points.metric[piece]
        histogram: np.ndarray = np.arange(start, end) - numbers
        histograms = pa.array(np.maximum(histogram, 0), mask=histogram < 0)
        in_context = pa.array(metrics.context[metric])
        start_us: np.ndarray = points.start_us[piece].astype(np.int64)
        columns = {name: column.take(in_context) for name, column in contexts.items()}
        columns |= {
            "kind": KINDS.take(pa.array(metrics.kind[metric])),
            "MetricName": metrics.name.take(metric),
            "MetricDescription": metrics.description.take(metric),
            "MetricUnit": metrics.unit.take(metric),
            "AggregationTemporality": metrics.temporality.take(pa.array(metric)),
            "IsMonotonic": metrics.is_monotonic.take(pa.array(metric)),
            "Attributes": attributes.take(pa.array(points.attributes[piece])),
            "point": pa.array(points.number[piece].astype(np.int32)),
            "StartTimeUnix": pa.array(start_us, mask=start_us == 0).cast(TIME),
            "TimeUnix": pa.array(points.time_us[piece].astype(np.int64)).cast(TIME),
            "Flags": pa.array(points.flags[piece]),
            "Value": points.value[piece],
        }
        columns |= {
            name: column.take(histograms)
            for name, column in zip(MEASURES, points.measures, strict=True)
            if end > numbers
        }
        yield _batch(batch, rows[points.push[piece]], columns)


def _arrays(contexts: list[Context]) -> dict[str, pa.Array]:
    values = zip(*contexts, strict=True) if contexts else ((),) * len(CONTEXT)
    return {
        name: pa.array(column, kind) for (name, kind), column in zip(CONTEXT.items(), values, strict=True)
    }


def _text_sizes(read: Read) -> np.ndarray:
    """Return the bytes of each point's texts, about."""
    points, metrics = read.points, read.metrics
    contexts = np.array([len(repr(each)) for each in metrics.contexts], np.int64)
    attributes = np.array([len(repr(each)) for each in points.different_attributes], np.int64)
    names = sum(
        pc.binary_length(each.different).to_numpy()[each.places]
        for each in (metrics.name, metrics.description, metrics.unit)
    )
    sizes: np.ndarray = (names + contexts[metrics.context])[points.metric] + attributes[points.attributes]
    return sizes


def _pieces(sizes: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield the first row of each result batch, and the row after its last."""
    start, until = 0, np.cumsum(sizes)
    while start < len(sizes):
        before = until[start - 1] if start else 0
        end = int(np.searchsorted(until, before + BATCH_BYTES, "right"))
        end = max(min(end, start + BATCH_ROWS), start + 1)
        yield start, end
        start = end


def _batch(batch: pa.RecordBatch, rows: np.ndarray, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Return rows with the senders of these rows of the batch; columns that are not given are null."""
    senders = pa.array(rows, pa.int64())
    made = {name: batch.column(name).take(senders) for name in SENDER}
    types = {name: batch.schema.field(name).type for name in PUSH} | COLUMNS
    for name, kind in types.items():
        made[name] = columns[name] if name in columns else pa.nulls(len(rows), kind)
    return pa.RecordBatch.from_pydict(made)

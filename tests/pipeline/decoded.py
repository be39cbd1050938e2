"""Runs `pipeline.otlp.decode` on pushes without Spark, for tests."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

import pyarrow as pa

from pipeline.otlp.decode import SENDER, decode
from tests.pipeline.events import NOON_MS

TYPES = {
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "node": pa.int32(),
    "subscription_id": pa.int32(),
    "terminating": pa.bool_(),
    "packed": pa.binary(),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}


class Refusal(NamedTuple):
    """A refused push, or the refused points of one."""

    push: int
    reason: str
    points: int | None
    metrics: list[str] | None


@dataclass
class Decoded:
    """The rows of `decode`; `offset` is the place of a point's push."""

    points: list[dict[str, Any]] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)


def decoded(*packed: bytes, compression: str | None = "none", arrived_ms: int = NOON_MS) -> Decoded:
    """Decode these pushes as one batch of records."""
    values: dict[str, list[Any]] = {name: [None] * len(packed) for name in (*SENDER, "headers", "why")}
    values |= {
        "offset": list(range(len(packed))),
        "timestamp": [arrived_ms * 1_000] * len(packed),
        "packed": list(packed),
        "compression": [compression] * len(packed),
    }
    columns = {name: pa.array(each, TYPES.get(name, pa.string())) for name, each in values.items()}
    found = Decoded()
    for batch in decode(iter([pa.RecordBatch.from_pydict(columns)])):
        found.sizes.append(batch.num_rows)
        for row in batch.to_pylist():
            if row["reason"] is None:
                found.points.append(row)
            else:
                found.refusals.append(Refusal(row["offset"], row["reason"], row["points"], row["metrics"]))
    found.refusals.sort()
    return found

"""Reads the metrics of many pushes, with what their points share, and a reason for each refused one.

For `points`. What clients repeat, as names and resources, is read once for each different one.
"""

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from pipeline.otlp.reasons import REASONS, first_of
from pipeline.otlp.repeated import Texts, combined, texts_at
from pipeline.otlp.texts import Attributes, attributes_of
from pipeline.otlp.wire import Buffer, Fields, read_fields

MAX_NAMES_LENGTH: Final = 4_096
MAX_SHARED_BYTES: Final = 8_192
"""Maximum size of data repeated with each point: name, unit and description together; a resource; a scope.
"""

DELTA: Final = 1
CUMULATIVE: Final = 2
"""AGGREGATION_TEMPORALITY_DELTA and _CUMULATIVE."""

NO_DATA: Final = 0
GAUGE: Final = 0x2A
SUM: Final = 0x3A
HISTOGRAM: Final = 0x4A
EXPONENTIAL_HISTOGRAM: Final = 0x52
SUMMARY: Final = 0x5A
"""A metric's kind: the tag of its data, eight times the field's number plus its wire type."""


class Context(NamedTuple):
    """The attributes that the metrics of a scope share."""

    resource_attributes: Attributes = ()
    resource_schema_url: str = ""
    scope_name: str = ""
    scope_version: str = ""
    scope_attributes: Attributes = ()
    scope_dropped_attributes: int = 0
    scope_schema_url: str = ""
    service_name: str = ""


class Metrics(NamedTuple):
    """Metrics as arrays of equal length.

    `push` is the place of a metric's push, `context` that of its context in `contexts`. `temporality` is null
    for gauges, `is_monotonic` for all but sums. `reason` is that to refuse all points, 0 for none. `at` is
    the metric's place in the buffer, and `points` the fields of all points, whose `message` is the metric.
    """

    push: np.ndarray
    at: np.ndarray
    kind: np.ndarray
    name: Texts
    description: Texts
    unit: Texts
    temporality: pa.Array
    is_monotonic: pa.Array
    context: np.ndarray
    contexts: list[Context]
    reason: np.ndarray
    points: Fields


def read_metrics(buffer: Buffer, starts: np.ndarray, ends: np.ndarray) -> Metrics:
    """Read the metrics of pushes, which are these ranges of the buffer."""
    resources = read_fields(buffer, starts, ends)
    in_resources = read_fields(buffer, resources.starts, resources.ends)
    scopes = in_resources.of(0x12)
    in_scopes = read_fields(buffer, scopes.starts, scopes.ends)
    metrics = in_scopes.of(0x12)
    fields = read_fields(buffer, metrics.starts, metrics.ends)
    data = fields.of(GAUGE, SUM, HISTOGRAM, EXPONENTIAL_HISTOGRAM, SUMMARY)
    in_data = read_fields(buffer, data.starts, data.ends)
    count = len(metrics.at)
    kind: np.ndarray = np.full(count, NO_DATA, np.uint8)
    kind[data.message] = data.tags
    temporality = in_data.of(0x10).numbers_by(data.message, count)
    is_monotonic = in_data.of(0x18).numbers_by(data.message, count) != 0
    name, description, unit = (_texts(buffer, metrics, fields.of(tag)) for tag in (0x0A, 0x12, 0x1A))
    places, contexts, wrong_contexts = _contexts(buffer, resources, in_resources, scopes, in_scopes)
    context = places[metrics.message]
    points = in_data.of(0x0A)
    is_known = (temporality == DELTA) | (temporality == CUMULATIVE) | (kind == GAUGE)
    name_lengths = name.lengths()
    reason = first_of(
        wrong_contexts[context],
        (kind == NO_DATA) * REASONS["no data"],
        (kind == EXPONENTIAL_HISTOGRAM) * REASONS["exponential_histogram is not read"],
        (kind == SUMMARY) * REASONS["summary is not read"],
        (name_lengths == 0) * REASONS["no name"],
        (name_lengths + description.lengths() + unit.lengths() > MAX_NAMES_LENGTH)
        * REASONS["name is too long"],
        ~is_known * REASONS["unknown temporality"],
    )
    return Metrics(
        resources.message[scopes.message[metrics.message]],
        metrics.starts,
        kind,
        name,
        description,
        unit,
        pa.array(np.minimum(temporality, CUMULATIVE).astype(np.int32), mask=kind == GAUGE),
        pa.array(is_monotonic, mask=kind != SUM),
        context,
        contexts,
        reason,
        points._replace(message=data.message[points.message]),
    )


def _texts(buffer: Buffer, messages: Fields, fields: Fields, kind: pa.DataType = pa.string()) -> Texts:  # noqa: B008
    """Return the text of each message, empty without the field."""
    starts, ends = messages.starts.copy(), messages.starts.copy()
    starts[fields.message], ends[fields.message] = fields.starts, fields.ends
    return texts_at(buffer, starts, ends, kind)


def _contexts(
    buffer: Buffer, resources: Fields, in_resources: Fields, scopes: Fields, in_scopes: Fields
) -> tuple[np.ndarray, list[Context], np.ndarray]:
    """Return the place of each scope's context, the contexts, and the reasons to refuse them."""
    resource = _texts(buffer, resources, in_resources.of(0x0A), pa.binary())
    resource_url = _texts(buffer, resources, in_resources.of(0x1A))
    scope = _texts(buffer, scopes, in_scopes.of(0x0A), pa.binary())
    scope_url = _texts(buffer, scopes, in_scopes.of(0x1A))
    of_resource = scopes.message
    columns = (
        (resource.places[of_resource], resource.different),
        (resource_url.places[of_resource], resource_url.different),
        (scope.places, scope.different),
        (scope_url.places, scope_url.different),
    )
    places, examples = combined([column for column, _ in columns])
    contexts, reasons = [], []
    for row in examples.tolist():
        of_row = [different[column[row]].as_py() for column, different in columns]
        context, reason = _context(*of_row)
        contexts.append(context)
        reasons.append(REASONS[reason])
    return places, contexts, np.array(reasons, np.uint8)


def _context(resource: bytes, resource_url: str, scope: bytes, scope_url: str) -> tuple[Context, str]:
    """Return a context, or the reason to refuse it."""
    for name, data, url in (("resource", resource, resource_url), ("scope", scope, scope_url)):
        if len(data) + len(url) > MAX_SHARED_BYTES:
            return Context(), f"{name} is too large"
    shared = attributes_of(Resource.FromString(resource).attributes)
    about = InstrumentationScope.FromString(scope)
    made = Context(
        shared,
        resource_url,
        about.name,
        about.version,
        attributes_of(about.attributes),
        about.dropped_attributes_count,
        scope_url,
        dict(shared).get("service.name", ""),
    )
    return made, ""

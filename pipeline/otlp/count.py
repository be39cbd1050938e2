"""Counts the points of a push without parsing them. For `unpack`.

Parsed, an empty point of two bytes takes a hundred bytes and more, so a push could take half a gigabyte. Here
the points are bytes: the messages are those of OTLP down to a metric's data, without all other fields.
"""

from typing import Any, Final

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

KINDS: Final = {"gauge": 5, "sum": 7, "histogram": 9, "exponential_histogram": 10, "summary": 11}
"""The fields of a metric's data."""


def count_points(plain: bytes) -> int:
    """Return the number of points; a metric without data counts as one. Raises DecodeError."""
    data = _MetricsData.FromString(plain)
    return sum(
        _count(metric) for resource in data.below for scope in resource.below for metric in scope.below
    )


def _count(metric: Any) -> int:
    kind = metric.WhichOneof("data")
    return 1 if kind is None else len(getattr(metric, kind).points)


def _metrics_data() -> Any:
    file = FileDescriptorProto(name="weir/points.proto", package="weir", syntax="proto3")
    repeated, single = FieldDescriptorProto.LABEL_REPEATED, FieldDescriptorProto.LABEL_OPTIONAL
    message, as_bytes = FieldDescriptorProto.TYPE_MESSAGE, FieldDescriptorProto.TYPE_BYTES
    for name, below, number in (
        ("MetricsData", "Resource", 1),
        ("Resource", "Scope", 2),
        ("Scope", "Metric", 2),
    ):
        file.message_type.add(name=name).field.add(
            name="below", number=number, label=repeated, type=message, type_name=f".weir.{below}"
        )
    metric = file.message_type.add(name="Metric")
    metric.oneof_decl.add(name="data")
    for kind, number in KINDS.items():
        metric.field.add(
            name=kind, number=number, label=single, type=message, type_name=".weir.Data", oneof_index=0
        )
    points = file.message_type.add(name="Data").field
    points.add(name="points", number=1, label=repeated, type=as_bytes)
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("weir.MetricsData"))


_MetricsData: Final = _metrics_data()

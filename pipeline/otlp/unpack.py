"""Decompresses and checks a push, and writes it in the one form that `wire` reads. For `decode`.

The protobuf library does the checking: it refuses what is not OTLP, merges repeated fields of one value, and
drops unknown fields. Points are counted before they are parsed: an empty point of two bytes takes a hundred
bytes and more then, so a push could take half a gigabyte.
"""

from typing import Any, Final

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from broker.common.errors import ApiError, ErrorCode
from broker.records.compression import Codec, decompress

MAX_UNPACKED_BYTES: Final = 8_388_608
"""Maximum decompressed bytes of a push: four times a broker's default limit."""

MAX_POINTS: Final = 20_000
"""Maximum points of a push; larger pushes are refused whole. A broker shows the first 5,000."""

MIN_POINT_BYTES: Final = 2
"""The shortest point has a tag and a length."""

CODECS: Final = {codec.name.lower(): codec for codec in Codec}
"""The codecs of KIP-714, by their names in the header `compression`."""


KINDS: Final = {"gauge": 5, "sum": 7, "histogram": 9, "exponential_histogram": 10, "summary": 11}
"""The fields of a metric's data."""


class RefusedError(ValueError):
    """The reason why a push cannot be used, for the quarantine."""


def unpack(compression: str | None, packed: bytes) -> bytes:
    """Decompress a push as the broker does.

    Raises RefusedError for an unknown codec, invalid data, or more than MAX_UNPACKED_BYTES.
    """
    codec = CODECS.get(compression or "")
    if codec is None:
        raise RefusedError("unknown compression")
    try:
        plain = bytes(decompress(codec, packed, limit=MAX_UNPACKED_BYTES))
    except ApiError as error:
        is_too_large = error.code is ErrorCode.RECORD_LIST_TOO_LARGE
        raise RefusedError("unpacks to too much" if is_too_large else "does not unpack") from error
    if len(plain) > MAX_UNPACKED_BYTES:
        raise RefusedError("unpacks to too much")
    return plain


def canonical(plain: bytes) -> bytes:
    """Return the MetricsData as the protobuf library writes it.

    Raises RefusedError if it is none, and for more than MAX_POINTS.
    """
    try:
        is_large = len(plain) > MIN_POINT_BYTES * MAX_POINTS
        if is_large and count_points(plain) > MAX_POINTS:
            raise RefusedError("too many points")
        data = MetricsData.FromString(plain)
        if plain and not data.resource_metrics:
            raise RefusedError("not OTLP metrics")
        data.DiscardUnknownFields()
        return bytes(data.SerializeToString())
    except (DecodeError, EncodeError) as error:
        raise RefusedError("not OTLP metrics") from error


def count_points(plain: bytes) -> int:
    """Return the number of points, which are bytes in these messages: OTLP's down to a metric's data, without
    all other fields. A metric without data counts as one. Raises DecodeError.
    """
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

"""Decompresses and checks a push, and writes it in the one form that `wire` reads. For `decode`.

The protobuf library does the checking: it refuses what is not OTLP, merges repeated fields of one value, and
drops unknown fields.
"""

from typing import Final

from google.protobuf.message import DecodeError, EncodeError
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from broker.common.errors import ApiError, ErrorCode
from broker.records.compression import Codec, decompress
from pipeline.otlp.count import count_points

MAX_UNPACKED_BYTES: Final = 8_388_608
"""Maximum decompressed bytes of a push: four times a broker's default limit."""

MAX_POINTS: Final = 20_000
"""Maximum points of a push; larger pushes are refused whole. A broker shows the first 5,000."""

MIN_POINT_BYTES: Final = 2
"""The shortest point has a tag and a length."""

CODECS: Final = {codec.name.lower(): codec for codec in Codec}
"""The codecs of KIP-714, by their names in the header `compression`."""


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

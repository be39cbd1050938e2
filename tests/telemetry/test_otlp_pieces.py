"""A message parsed in pieces equals one parsed whole, and what is damaged is refused."""

import random

import pytest
from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData

from broker.telemetry.otlp import MAX_NESTED, PIECE_BYTES, merge
from tests.telemetry.scene import counter, gauge, metrics

PIECE_SIZES = [1, 2, 7, 64, 300, PIECE_BYTES]


def pieced(data: bytes, piece_bytes: int = PIECE_BYTES) -> tuple[MetricsData, int]:
    """The message and the number of rests."""
    message, rests = MetricsData(), [0]

    def rest() -> None:
        rests[0] += 1

    merge(message, data, rest, piece_bytes)
    return message, rests[0]


def everything() -> MetricsData:
    """Every kind of field that a push may have, more than once."""
    data = MetricsData()
    for at in range(3):
        resource = data.resource_metrics.add(schema_url=f"https://example.org/{at}")
        resource.resource.attributes.add(key="service.name", value=AnyValue(string_value="x" * 90))
        resource.resource.dropped_attributes_count = at
        scope = resource.scope_metrics.add()
        scope.scope.name = "scope"
        scope.metrics.extend([gauge("a", 1.5, node=7), counter("b", 3, rack="r"), Metric(name="empty")])
        histogram = scope.metrics.add(name="h").histogram
        histogram.aggregation_temporality = 1
        for _ in range(5):
            point = histogram.data_points.add(count=9, sum=1.25, explicit_bounds=[1, 2, 3])
            point.bucket_counts.extend([1, 2, 3, 3])
            nested = AnyValue()
            nested.kvlist_value.values.append(KeyValue(key="k", value=AnyValue(int_value=-1)))
            point.attributes.add(key="n", value=nested)
        scope.metrics.add(name="exponential").exponential_histogram.data_points.add(scale=-3, zero_count=2)
        scope.metrics.add(name="summary").summary.data_points.add().quantile_values.add(quantile=0.5, value=1)
    return data


@pytest.mark.parametrize("piece_bytes", PIECE_SIZES)
def test_it_is_the_message_that_one_call_would_have_made(piece_bytes: int) -> None:
    whole = everything()
    assert pieced(whole.SerializeToString(), piece_bytes)[0] == whole


def test_unknown_fields_are_kept() -> None:
    known = everything().SerializeToString()
    for unknown in (b"\xf8\x07\x05", b"\xf9\x07" + bytes(8), b"\xfd\x07" + bytes(4), b"\xfa\x07\x02ab"):
        data = unknown + known
        assert pieced(data, 7)[0].SerializeToString() == MetricsData.FromString(data).SerializeToString()


@pytest.mark.parametrize("piece_bytes", PIECE_SIZES)
def test_damaged_bytes_are_refused_where_one_call_refuses_them(piece_bytes: int) -> None:
    """A group, which OTLP has none of, is refused where the library may pass over it."""
    whole, dice = everything().SerializeToString(), random.Random(7)
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(dice.randint(1, 3)):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        damaged = damaged[: dice.randint(0, len(damaged))]
        try:
            found = pieced(bytes(damaged), piece_bytes)[0]
        except DecodeError:
            continue
        assert found.SerializeToString() == MetricsData.FromString(bytes(damaged)).SerializeToString()


def test_it_refuses_nothing_that_is_well() -> None:
    dice = random.Random(11)
    for _ in range(50):
        many = [
            gauge(f"m{at}", dice.random(), k="v" * dice.randint(0, 9)) for at in range(dice.randint(0, 60))
        ]
        data = metrics(*many)
        assert pieced(data, dice.randint(1, 500))[0] == MetricsData.FromString(data)


@pytest.mark.parametrize(("size", "rests"), [(PIECE_BYTES - 2, 0), (PIECE_BYTES, 1), (2 * PIECE_BYTES, 2)])
def test_it_rests_after_each_piece(size: int, rests: int) -> None:
    found, rested = pieced(b"\x0a\0" * (size // 2))
    assert (len(found.resource_metrics), rested) == (size // 2, rests)


@pytest.mark.parametrize(("size", "rests"), [(PIECE_BYTES, 1), (PIECE_BYTES + 2, 1), (2 * PIECE_BYTES, 2)])
def test_an_embedded_message_is_parsed_in_pieces_when_it_is_longer_than_one(size: int, rests: int) -> None:
    data = b"\x0a" + _length(size) + b"\x12\0" * (size // 2)
    found, rested = pieced(data)
    assert found == MetricsData.FromString(data)
    assert rested == rests


@pytest.mark.parametrize("excess", [-2, 0, 2])
def test_messages_in_each_other_have_a_bound(excess: int) -> None:
    body = b""
    for _ in range((MAX_NESTED + excess) // 2):
        values = b"\x0a" + _length(len(body)) + body
        body = b"\x2a" + _length(len(values)) + values
    message = AnyValue()
    if excess > 1:
        with pytest.raises(DecodeError):
            merge(message, body, lambda: None, 0)
    else:
        merge(message, body, lambda: None, 0)


@pytest.mark.parametrize(
    "data",
    [b"\x0a", b"\x0a\x05ab", b"\x80" * 11, b"\x0b", b"\x0c", b"\x09\0", b"\x0d\0\0", b"\x08", b"\x0a\xff"],
    ids=[
        "no length",
        "cut short",
        "an endless number",
        "a group",
        "its end",
        "64 bits",
        "32 bits",
        "a number",
        "a length",
    ],
)
def test_truncated_data_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        pieced(data)


def _length(size: int) -> bytes:
    text = bytearray()
    while size >= 0x80:
        text.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes((*text, size))

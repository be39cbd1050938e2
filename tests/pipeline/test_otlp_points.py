"""The rows of pushes, point by point, and the reasons for refused ones. Without Spark."""

import gzip
import random

import cramjam
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData

from broker.records.compression import Codec, compress
from pipeline.otlp import points as rules
from pipeline.otlp.metrics import MAX_NAMES_LENGTH, MAX_SHARED_BYTES
from pipeline.otlp.points import AHEAD_MS, LATE_MS
from pipeline.otlp.unpack import KINDS, MAX_POINTS, MAX_UNPACKED_BYTES, RefusedError, unpack
from tests.pipeline.decoded import decoded
from tests.pipeline.pushes import counter, distribution, gauge, histogram, number, payload

INFINITE = float("inf")


def reason(*metrics, **more):
    """Return the one error of a push of these; None if it is valid."""
    found = decoded(payload(*metrics), **more)
    assert len(found.refusals) <= 1
    return found.refusals[0].reason if found.refusals else None


def whole_reason(packed, compression="none"):
    found = decoded(packed, compression=compression)
    (refusal,) = found.refusals
    assert refusal.points is None and not found.points
    return refusal.reason


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())
def test_every_compression_of_the_kip_is_unpacked_up_to_the_bound(codec):
    name, plain = codec.name.lower(), random.Random(1).randbytes(1_000) * 3
    assert unpack(name, bytes(compress(codec, plain))) == plain
    assert len(unpack(name, bytes(compress(codec, bytes(MAX_UNPACKED_BYTES))))) == MAX_UNPACKED_BYTES
    with pytest.raises(RefusedError, match="unpacks to too much"):
        unpack(name, bytes(compress(codec, bytes(MAX_UNPACKED_BYTES + 1))))


def test_a_single_block_of_snappy_is_unpacked_too():
    assert unpack("snappy", bytes(cramjam.snappy.compress_raw(b"x" * 99))) == b"x" * 99


def test_members_of_gzip_follow_one_another():
    assert unpack("gzip", gzip.compress(b"a") + gzip.compress(b"b")) == b"ab"


@pytest.mark.parametrize("name", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize(
    "spoil",
    [lambda data: data[:-3], lambda _: b"\xff\x00 no such thing", lambda _: b"\x82SNAPPY\x00" + b"\x00" * 20],
)
def test_damaged_data_does_not_unpack(name, spoil):
    packed = bytes(compress(Codec[name.upper()], random.Random(2).randbytes(500)))
    with pytest.raises(RefusedError, match=r"does not unpack|unpacks to too much"):
        unpack(name, spoil(packed))


@pytest.mark.parametrize("name", [None, "", "brotli", "NONE", "4"])
def test_an_unknown_compression_is_reported(name):
    assert whole_reason(payload(gauge("g", number(0))), name) == "unknown compression"


def test_data_of_another_compression_than_declared_is_quarantined():
    assert whole_reason(payload(gauge("g", number(0))), "gzip") == "does not unpack"
    assert whole_reason(gzip.compress(payload(gauge("g", number(0))))) == "not OTLP metrics"


@pytest.mark.parametrize("plain", [b"\x0a\xff", b"\xff" * 20, b"\x08", b"hello, world", b"\x08\x01"])
def test_data_that_is_not_otlp_is_quarantined_whole(plain):
    assert whole_reason(plain) == "not OTLP metrics"


def test_a_push_may_say_nothing():
    found = decoded(b"", payload())
    assert not found.points and not found.refusals


def test_random_bytes_never_raise():
    dice = random.Random(3)
    good = payload(
        gauge("g", number(0)), counter("c", number(1, 2)), histogram("h", distribution(0, [1, 2], [5.0]))
    )
    for _ in range(3_000):
        spoiled = bytearray(good)
        for _ in range(dice.randrange(1, 6)):
            spoiled[dice.randrange(len(spoiled))] = dice.randrange(256)
        decoded(bytes(spoiled), compression=dice.choice(["none", "none", "gzip", "snappy", "lz4", "zstd"]))


@pytest.mark.parametrize(
    ("metric", "why"),
    [
        (gauge("g", number(0, 1.5)), None),
        (gauge("g", number(0, 2**62)), None),
        (gauge("g", number(0, float("nan"))), "Value is not a number"),
        (gauge("g", number(0, INFINITE)), "Value is not a number"),
        (counter("c", number(0, -INFINITE)), "Value is not a number"),
        (gauge("g", number(0, None)), "no value"),
        (gauge("g", number(0, None, flags=1)), None),
        (gauge("", number(0)), "no name"),
        (gauge("g" * (MAX_NAMES_LENGTH - 1), number(0)), None),
        (gauge("g" * MAX_NAMES_LENGTH, number(0)), "name is too long"),
        (Metric(name="nothing"), "no data"),
        (counter("c", number(0), temporality=0), "unknown temporality"),
        (counter("c", number(0), temporality=3), "unknown temporality"),
        (histogram("h", distribution(0), temporality=0), "unknown temporality"),
        (histogram("h", distribution(0, count=3, sum=1.5)), None),
        (histogram("h", distribution(0, [1, 2], [5.0])), None),
        (histogram("h", distribution(0, [3])), None),
        (histogram("h", distribution(0, [1, 2], [5.0], sum=INFINITE)), "Sum is not a number"),
        (histogram("h", distribution(0, [1, 2], [5.0], min=float("nan"))), "Min is not a number"),
        (histogram("h", distribution(0, [1, 2], [5.0], max=INFINITE)), "Max is not a number"),
        (histogram("h", distribution(0, count=2**63 - 1)), None),
        (histogram("h", distribution(0, count=2**63)), "Count is too large"),
        (histogram("h", distribution(0, [1, 2])), "buckets do not fit their bounds"),
        (histogram("h", distribution(0, [1, 2, 3], [5.0])), "buckets do not fit their bounds"),
        (histogram("h", distribution(0, [1, 2, 3], [5.0, 5.0])), "buckets do not fit their bounds"),
        (histogram("h", distribution(0, [1, 2, 3], [5.0, INFINITE])), "buckets do not fit their bounds"),
        (histogram("h", distribution(0, [1, 2], [5.0], count=4)), "Count is not that of the buckets"),
        (histogram("h", distribution(0, flags=1, count=0)), None),
    ],
)
def test_an_invalid_point_is_reported_with_its_reason(metric, why):
    assert reason(metric) == why


def test_kinds_that_kafka_s_clients_do_not_push_are_quarantined():
    summary, exponential = Metric(name="s"), Metric(name="e")
    summary.summary.data_points.add()
    exponential.exponential_histogram.data_points.add()
    assert reason(summary, exponential) == "exponential_histogram is not read; summary is not read"


@pytest.mark.parametrize(
    ("off_ms", "why"),
    [
        (0, None),
        (AHEAD_MS, None),
        (AHEAD_MS + 1, "from the future"),
        (-LATE_MS, None),
        (-LATE_MS - 1, "too late"),
    ],
)
def test_a_point_must_be_of_about_the_time_of_its_push(off_ms, why):
    assert reason(gauge("g", number(off_ms / 1000))) == why
    assert reason(histogram("h", distribution(off_ms / 1000))) == why


def test_a_point_without_a_time_is_quarantined():
    metric = gauge("g", number(0))
    metric.gauge.data_points[0].time_unix_nano = 0
    assert reason(metric) == "no time"


def test_the_bad_points_of_a_push_are_counted_and_the_good_ones_are_kept_in_their_places():
    metrics = [
        gauge("good", number(0, 1.0), number(0, float("nan"), node=1), number(1, 3.0)),
        Metric(name="nothing"),
        counter("fine", number(2, 7)),
    ]
    found = decoded(payload(gauge("first", number(0))), payload(*metrics))
    (refusal,) = found.refusals
    assert refusal == (1, "Value is not a number; no data", 2, ["good", "nothing"])
    # Push, place within it, value.
    assert [(each["offset"], each["point"], each["Value"]) for each in found.points] == [
        (0, 0, 1.0),
        (1, 0, 1.0),
        (1, 2, 3.0),
        (1, 4, 7.0),
    ]


def test_a_push_of_too_many_points_is_quarantined_whole():
    for points in (MAX_POINTS - 1, MAX_POINTS):
        assert len(decoded(payload(gauge("g", *[number(0)] * points))).points) == points
    assert whole_reason(payload(gauge("g", *[number(0)] * (MAX_POINTS + 1)))) == "too many points"


@pytest.mark.parametrize("kind", KINDS)
def test_empty_points_of_every_kind_are_counted(kind):
    metric = Metric(name="m")
    points = getattr(metric, kind).data_points
    for _ in range(MAX_POINTS):
        points.add()
    assert reason(metric) is not None
    points.add()
    assert whole_reason(payload(metric)) == "too many points"


def test_metrics_without_data_count_as_points():
    assert reason(*[Metric(name="nothing")] * MAX_POINTS) == "no data"
    assert whole_reason(payload(*[Metric(name="nothing")] * (MAX_POINTS + 1))) == "too many points"


def test_texts_repeated_with_each_point_are_bounded():
    fits = {"r": "x" * (MAX_SHARED_BYTES - 20)}
    assert decoded(payload(gauge("g", number(0)), **fits)).refusals == []
    over = {"r": "x" * MAX_SHARED_BYTES}
    assert decoded(payload(gauge("g", number(0)), **over)).refusals[0].reason == "resource is too large"
    data = MetricsData()
    scope = data.resource_metrics.add().scope_metrics.add()
    scope.scope.name = "x" * MAX_SHARED_BYTES
    scope.metrics.append(gauge("g", number(0), number(0)))
    assert decoded(data.SerializeToString()).refusals == [(0, "scope is too large", 2, ["g"])]


def test_values_of_attributes_are_text_in_the_order_of_their_names_and_the_last_of_a_name_counts():
    metric = gauge("g", number(0, 1.0, node=7, up=True, rack="a", share=0.5))
    attributes = metric.gauge.data_points[0].attributes
    attributes.append(KeyValue(key="rack", value=AnyValue(string_value="b")))
    attributes.append(KeyValue(key="raw", value=AnyValue(bytes_value=b"\x00")))
    listed = AnyValue()
    listed.array_value.values.extend([AnyValue(int_value=1), AnyValue(string_value="é")])
    attributes.append(KeyValue(key="list", value=listed))
    attributes.append(KeyValue(key="empty"))
    (found,) = decoded(payload(metric)).points
    assert found["Attributes"] == [
        ("empty", ""),
        ("list", '[1, "é"]'),
        ("node", "7"),
        ("rack", "b"),
        ("raw", "AA=="),
        ("share", "0.5"),
        ("up", "true"),
    ]


def test_limits_are_those_of_all_events():
    from pipeline import silver

    assert (rules.AHEAD_MS, rules.LATE_MS) == (silver.AHEAD_MS, silver.LATE_MS)

"""OTLP becomes values; invalid, too large or hostile data is refused or counted."""

import math

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from broker.common.errors import ApiError, ErrorCode
from broker.records.compression import Codec, compress
from broker.telemetry.latest import Point, PushedPoints, Shape
from broker.telemetry.otlp import MAX_POINTS, parse, read, unpack
from tests.telemetry.scene import CUMULATIVE, counter, gauge, metrics


def read_all(*new: Metric) -> PushedPoints:
    return read(parse(metrics(*new)))


def one(metric: Metric) -> Point:
    (point,) = read_all(metric).points
    return point


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_is_unpacked_up_to_the_limit(codec: Codec) -> None:
    packed = bytes(compress(codec, b"a" * 1_000))
    assert unpack(codec, packed, 1_000) == b"a" * 1_000
    with pytest.raises(ApiError) as caught:
        unpack(codec, packed, 999)
    assert caught.value.code is ErrorCode.TELEMETRY_TOO_LARGE


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_bomb_is_not_unpacked(codec: Codec) -> None:
    bomb = bytes(compress(codec, bytes(50_000_000)))
    with pytest.raises(ApiError) as caught:
        unpack(codec, bomb, 2_000_000)
    assert caught.value.code is ErrorCode.TELEMETRY_TOO_LARGE


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_data_of_another_codec_is_an_invalid_record(codec: Codec) -> None:
    with pytest.raises(ApiError) as caught:
        unpack(codec, b"\xff\x00 no such thing", 1_000)
    assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("plain", [b"\x0a\xff", b"\xff" * 20, b"\x08", b"hello, world"])
def test_invalid_otlp_is_an_invalid_record(plain: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        parse(plain)
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_nothing_at_all_is_otlp_too() -> None:
    assert read(parse(b"")) == PushedPoints([], 0)


def test_a_gauge_keeps_its_name_and_attributes() -> None:
    assert one(gauge("org.apache.kafka.producer.queue-time", 1.5, node_id=7, up=True, rack="a")) == Point(
        "org.apache.kafka.producer.queue-time",
        (("node_id", "7"), ("up", "true"), ("rack", "a")),
        "org_apache_kafka_producer_queue_time",
        (("node_id", "7"), ("rack", "a"), ("up", "true")),
        Shape.GAUGE,
        1.5,
        False,
    )


def test_sums_say_whether_they_only_grow_and_whether_they_are_differences() -> None:
    delta = one(counter("a.total", 5))
    assert (delta.family, delta.shape, delta.value, delta.is_delta) == ("a_total", Shape.COUNTER, 5.0, True)
    whole = one(counter("a.b", 5, CUMULATIVE))
    assert (whole.family, whole.shape, whole.is_delta) == ("a_b_total", Shape.COUNTER, False)
    wobbly = one(counter("a.b", 5, CUMULATIVE, monotonic=False))
    assert (wobbly.family, wobbly.shape) == ("a_b", Shape.GAUGE)


def test_of_histograms_and_summaries_count_and_sum_are_reported() -> None:
    histogram, summary = Metric(name="h"), Metric(name="s")
    histogram.histogram.data_points.add(count=3, sum=1.5, bucket_counts=[1, 2], explicit_bounds=[1.0])
    summary.summary.data_points.add(count=4, sum=2.5)
    points = [(each.family, each.value) for each in read_all(histogram, summary).points]
    assert points == [("h_count_total", 3), ("h_sum", 1.5), ("s_count_total", 4), ("s_sum", 2.5)]


def test_names_that_prometheus_could_not_read_are_made_to_fit() -> None:
    point = one(gauge("9 lives/é", 1, **{"a-b": "1", "client_id": "spoof", "__name__": "up", "0": "x"}))
    assert point.family == "_9_lives__"
    assert dict(point.labels) == {
        "a_b": "1",
        "attribute_client_id": "spoof",
        "attribute___name__": "up",
        "_0": "x",
    }


def test_points_too_long_or_nameless_are_counted_and_others_are_read() -> None:
    reading = read_all(
        gauge("a" * 257, 1), gauge("b", 1, k="v" * 257), gauge("", 1), gauge("c" * 256, 1, k="v" * 256)
    )
    assert ([each.name for each in reading.points], reading.left_out) == (["c" * 256], 3)


@pytest.mark.parametrize(("attributes", "left_out"), [(32, 0), (33, 1)])
def test_a_point_with_too_many_attributes_is_counted(attributes: int, left_out: int) -> None:
    reading = read_all(gauge("a", 1, **{f"k{number}": "v" for number in range(attributes)}))
    assert (len(reading.points), reading.left_out) == (1 - left_out, left_out)


def test_a_difference_that_is_no_number_is_counted_and_any_other_value_is_reported() -> None:
    nan_delta = counter("a", 1)
    nan_delta.sum.data_points[0].as_double = math.nan
    reading = read_all(nan_delta, gauge("b", math.nan), gauge("c", math.inf))
    assert reading.left_out == 1
    assert [str(each.value) for each in reading.points] == ["nan", "inf"]


def test_points_beyond_the_limit_are_counted() -> None:
    metric = Metric(name="a")
    for _ in range(MAX_POINTS + 1):
        metric.gauge.data_points.add()
    reading = read_all(metric)
    assert (len(reading.points), reading.left_out) == (MAX_POINTS, 1)


def test_metrics_beyond_the_limit_are_counted_without_being_read() -> None:
    full = Metric(name="a")
    for _ in range(MAX_POINTS):
        full.gauge.data_points.add()
    histogram, summary = Metric(name="h"), Metric(name="s")
    histogram.histogram.data_points.add()
    for _ in range(2):
        summary.summary.data_points.add()
    reading = read_all(full, gauge("b", 1), histogram, summary, Metric(name="c"))
    assert (len(reading.points), reading.left_out) == (MAX_POINTS, 1 + 2 + 4)


@pytest.mark.parametrize(("count", "rests"), [(84, 0), (85, 0), (86, 1), (172, 2)])
def test_it_rests_after_every_256_metrics_points_and_attributes(count: int, rests: int) -> None:
    rested: list[int] = []
    data = parse(metrics(*(gauge(f"m{at}", 1, k="v") for at in range(count))))
    read(data, lambda: rested.append(1))
    assert len(rested) == rests


def test_a_metric_without_data_says_nothing() -> None:
    assert read_all(Metric(name="a")) == PushedPoints([], 0)

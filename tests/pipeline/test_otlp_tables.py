"""Pushes through Spark: the columns of the silver tables, the senders, and the refused parts."""

from datetime import UTC, datetime

from broker.records.compression import Codec, compress
from pipeline.otlp.tables import decode_pushes, quarantine_rows
from tests.pipeline.events import raw
from tests.pipeline.pushes import (
    INSTANCE,
    counter,
    distribution,
    gauge,
    histogram,
    number,
    payload,
    push,
    silver_rows,
)

WHO = {
    "cluster": None,
    "node": 1,
    "client_instance_id": INSTANCE,
    "client_id": "a",
    "principal": "alice",
    "address": "10.0.0.1",
    "software_name": "confluent-kafka-python",
    "software_version": "2.16.1",
    "subscription_id": -7,
    "terminating": False,
}


def at(second):
    return datetime(2025, 11, 21, 12, 0, second, tzinfo=UTC).replace(tzinfo=None)


def everything(frame):
    return [row.asDict(recursive=True) for row in frame.orderBy("offset", "point").collect()]


def test_a_point_has_the_columns_of_the_clickhouse_exporter_and_its_client(spark):
    packed = payload(
        gauge("g", number(1, 1.5, node_id=7)),
        counter("c", number(2, 5, start=-3)),
        histogram("h", distribution(3, [1, 2], [5.0], sum=9.0, max=8.0)),
        client_rack="r",
    )
    record = push(4, bytes(compress(Codec.ZSTD, packed)), compression="zstd")
    rows = silver_rows(spark, [record])
    common = {
        "date": datetime(2025, 11, 21).date(),
        "ResourceAttributes": {"client_rack": "r"},
        "ResourceSchemaUrl": "",
        "ScopeName": "kafka",
        "ScopeVersion": "",
        "ScopeAttributes": {},
        "ScopeDroppedAttrCount": 0,
        "ScopeSchemaUrl": "",
        "ServiceName": "",
        "MetricDescription": "",
        "Flags": 0,
        "arrived": at(0),
        "topic": "__weir_client_telemetry",
        "partition": 0,
        "offset": 4,
        **WHO,
    }
    assert everything(rows["gauge"]) == [
        common
        | {"MetricName": "g", "MetricUnit": "1", "Attributes": {"node_id": "7"}, "point": 0}
        | {"StartTimeUnix": None, "TimeUnix": at(1), "Value": 1.5}
    ]
    assert everything(rows["sum"]) == [
        common
        | {"MetricName": "c", "MetricUnit": "1", "Attributes": {}, "point": 1, "TimeUnix": at(2)}
        | {"StartTimeUnix": datetime(2025, 11, 21, 11, 59, 57), "Value": 5.0}
        | {"AggregationTemporality": 1, "IsMonotonic": True}
    ]
    assert everything(rows["histogram"]) == [
        common
        | {"MetricName": "h", "MetricUnit": "ms", "Attributes": {}, "point": 2}
        | {"StartTimeUnix": None, "TimeUnix": at(3), "AggregationTemporality": 1}
        | {"Count": 3, "Sum": 9.0, "BucketCounts": [1, 2], "ExplicitBounds": [5.0], "Min": None, "Max": 8.0}
    ]


def test_a_wrong_push_is_reported_and_kept_as_it_came(spark):
    good = payload(gauge("g", number(0)))
    half = payload(gauge("g", number(0), number(0, float("nan"))))
    pushes = [
        push(0, good),
        push(1, None),
        push(2, good, v="2"),
        push(3, good, v=None),
        push(4, good, client_instance_id=None),
        push(5, good, compression=None),
        push(6, b"\x0a\xff"),
        push(7, half),
        push(8, bytes(compress(Codec.LZ4, bytes(9_000_000))), compression="lz4"),
        push(9, good, client_id=None, node="x", subscription_id="many", terminating="true"),
        push(10, b""),
    ]
    rows = decode_pushes(raw(spark, pushes)).persist()
    aside = {row["offset"]: row for row in quarantine_rows(rows).collect()}
    assert {offset: (row["reason"], row["points"]) for offset, row in aside.items()} == {
        1: ("no value", None),
        2: ("unknown version", None),
        3: ("unknown version", None),
        4: ("no client instance", None),
        5: ("unknown compression", None),
        6: ("not OTLP metrics", None),
        7: ("Value is not a number", 1),
        8: ("unpacks to too much", None),
    }
    assert (aside[7]["value"], aside[7]["headers"], aside[7]["metrics"]) == (None, None, ["g"])
    assert (bytes(aside[6]["value"]), aside[6]["metrics"]) == (b"\x0a\xff", None)
    assert {each["key"]: bytes(each["value"]) for each in aside[6]["headers"]}["principal"] == b"alice"
    kept = rows.where("kind = 'gauge'").orderBy("offset").collect()
    assert [(row["offset"], row["Value"]) for row in kept] == [(0, 1.0), (7, 1.0), (9, 1.0)]
    last = kept[2]
    assert (last["client_id"], last["node"], last["subscription_id"], last["terminating"]) == (
        None,
        None,
        None,
        True,
    )
    rows.unpersist()


def test_more_points_than_are_handed_over_at_once_are_all_there(spark):
    packed = payload(*[gauge(f"g{each}", number(0, float(each))) for each in range(3_000)])
    rows = decode_pushes(raw(spark, [push(offset, packed) for offset in range(4)]))
    assert rows.selectExpr("count(*)", "sum(Value)", "count(DISTINCT offset, point)").first() == (
        12_000,
        4 * 3_000 * 2_999 / 2,
        12_000,
    )

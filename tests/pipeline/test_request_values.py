"""Weir's Java class reads a request as Spark's own functions do, or leaves it to Spark."""

import json
import random

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from pyspark.sql import functions as F

from broker.monitoring.events import activity
from pipeline import java_functions
from pipeline.formats import BROKEN, REQUESTS, VALUES, text_of
from pipeline.histograms import event_of

PHASES = {
    "queue": [[20, 3], [23, 1]],
    "local": [],
    "remote": [[1_000_000, 4]],
    "total": [[edge, 4] for edge in range(20)],
}
FIELDS = {
    "source": "client",
    "principal": "User:alice",
    "client_id": "",
    "api": "FetchConsumer",
    "requests": 16,
    "bytes_in": 0,
    "bytes_out": 10**17,
    "throttle_ms": -1,
    "errors": {"3": 2, "-1": 1},
    "timed": 4,
    "phases": PHASES,
}
WRITTEN = activity.encode(1_763_726_400_000, FIELDS, activity.REQUESTS_VERSION)

SIMPLE = (
    WRITTEN,
    activity.encode(1, {"source": "cached", "api": "Metadata", "requests": 1}),
    activity.encode(-5, {"phases": {}, "errors": {}}),
    b'{"v":2147483647}',
    b'{"v":-2147483648}',
    b'{"requests":999999999999999999}',
    b'{"requests":-999999999999999999}',
    b'{"phases":{"queue":[[0,0]]},"v":1}',
    b'{"phases":{"local":[]}}',
    b'{"phases":{"local":[[3,4],[1,2],[2,5]],"total":[[-1,-1],[0,1]]}}',
    b'{"phases":{"local":[[999999999999999999,999999999999999999],[1,1]]}}',
    *(
        b'{"phases":{"queue":[%s],"local":[[%d,2]]}}'
        % (b",".join(b"[%d,%d]" % (edge, 2 * edge) for edge in range(count)), count)
        for count in (1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 10_000)
    ),
    b'{"errors":{%s}}' % b",".join(b'"%d":1' % code for code in range(50_000)),
)
"""What the class reads."""

LEFT_TO_SPARK = (
    b"",
    b"{}",
    b" ",
    b"null",
    b"[]",
    b"[1]",
    b'"v"',
    b"{",
    b'{"v":1',
    b'{"v":1}}',
    b'{"v":1}{"v":2}',
    b'{"v":1} ',
    b' {"v":1}',
    b'{"v": 1}',
    b'{"v":1,}',
    b'{"v":1,"v":2}',
    b'{"v":1,"new":2}',
    b'{"v":null}',
    b'{"v":"1"}',
    b'{"v":2147483648}',
    b'{"v":1.0}',
    b'{"v":1e0}',
    b'{"v":01}',
    b'{"v":-0}',
    b'{"v":-}',
    b'{"v":+1}',
    b'{"requests":1000000000000000000}',
    b'{"requests":9223372036854775807}',
    b'{"requests":9223372036854775808}',
    b'{"source":"a\\u0062"}',
    b'{"source":"a\\"b"}',
    b'{"source":"a\x00b"}',
    b'{"source":"a\nb"}',
    '{"source":"größer"}'.encode(),
    b'{"source":"\xff\xc0\x80"}',
    b'{"source":"never ended}',
    b'{"source":1}',
    b'{"source":{"a":1}}',
    b'{"errors":[]}',
    b'{"errors":{"1":1,"1":2}}',
    b'{"errors":{"1":null}}',
    b'{"errors":{"1":1,}}',
    b'{"phases":[]}',
    b'{"phases":{"other":[]}}',
    b'{"phases":{"queue":[],"queue":[]}}',
    b'{"phases":{"queue":[[1,2],[1,2]]}}',
    b'{"phases":{"queue":[[2,1],[1,1],[2,1]]}}',
    b'{"phases":{"queue":[[1]]}}',
    b'{"phases":{"queue":[[1,2,3]]}}',
    b'{"phases":{"queue":[1,2]}}',
    b'{"phases":{"queue":[[1,null]]}}',
    b'{"phases":{"queue":[[1,2],]}}',
    b'{"phases":{"queue":null}}',
)


@pytest.fixture(scope="module")
def both(spark):
    """Return what the class and what Spark read of values, as text."""
    if not java_functions.are_known(spark):
        pytest.skip("the session has no class of Weir: make jars, where there is a JDK")

    def read(values):
        options = {"columnNameOfCorruptRecord": BROKEN}
        frame = spark.createDataFrame(list(enumerate(values)), "at int, value binary").coalesce(1)
        by_spark = F.from_json(text_of(F.col("value")), VALUES[REQUESTS], options)
        rows = frame.select(
            "at", java_functions.request_event(F.col("value")).alias("own"), event_of(by_spark).alias("spark")
        )
        texts = rows.select("at", F.col("own").isNotNull().alias("is_read"), *map(as_text, ("own", "spark")))
        found = sorted(texts.collect(), key=lambda row: row["at"])
        return [(row["own"] if row["is_read"] else None, row["spark"]) for row in found]

    return read


def as_text(name):
    return F.to_json(name, {"ignoreNullFields": "false"}).alias(name)


def test_what_a_broker_writes_is_read_by_the_class_as_by_spark(both):
    for value, (own, by_spark) in zip(SIMPLE, both(SIMPLE), strict=True):
        assert own is not None, value
        assert own == by_spark, value
        assert json.loads(own)[BROKEN] is None


def test_every_other_form_is_left_to_spark(both):
    for value, (own, _) in zip(LEFT_TO_SPARK, both(LEFT_TO_SPARK), strict=True):
        assert own is None, value


def test_no_value_and_a_value_cut_at_each_byte_are_left_to_spark(both):
    cut = [None, *(WRITTEN[:size] for size in range(len(WRITTEN)))]
    assert all(own is None for own, _ in both(cut))


def test_a_changed_byte_never_gives_what_spark_does_not_read(both):
    dice = random.Random(5)
    changed = []
    for _ in range(4_000):
        value = bytearray(WRITTEN)
        for _ in range(dice.randint(1, 3)):
            value[dice.randrange(len(value))] = dice.choice(b'{}[]",:-0123456789 \\abqv\x00\xc3')
        changed.append(bytes(value))
    read = [(own, by_spark) for own, by_spark in both(changed) if own is not None]
    assert len(read) > 100
    assert [(own, by_spark) for own, by_spark in read if own != by_spark] == []


def test_a_session_without_the_class_leaves_all_to_spark(spark, monkeypatch):
    monkeypatch.setattr(java_functions, "CLASS", "weir.Missing")
    assert java_functions.are_known(spark.newSession()) is False

"""Weir's Java functions give what the expressions of Spark's own functions give."""

import random

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from pyspark.sql import functions as F

from pipeline import java_functions, silver
from pipeline.formats import PHASES, REQUESTS, VALUES, text_of
from pipeline.gold.latency import buckets
from pipeline.gold.usage import usage_per_minute
from pipeline.histograms import HISTOGRAMS, PHASES_BEFORE, with_histograms
from tests.pipeline.events import raw, record, request, rows_of

MOST = 2**63 - 1

PAIRS = (
    None,
    [],
    [[10, 1]],
    [[10, 1], [20, 2], [40, 3]],
    [[40, 3], [10, 1], [20, 2]],
    [[10, 1], [10, 1]],
    [[20, 1], [10, 1], [20, 1]],
    [[5], [], [1, 2, 3], None, [100, 2]],
    [[None, 1], [1, None], [None, None]],
    [[0, 0], [-1, -1]],
    [[MOST, MOST], [-MOST - 1, -MOST - 1]],
    [[edge, 1] for edge in range(5_000)],
    [[edge, 1] for edge in range(5_000, 0, -1)],
)

COUNTS = (
    None,
    {},
    {"3": 2},
    {"3": MOST, "4": 1},
    {"3": MOST, "4": -1},
    {"3": -MOST, "4": -2},
    {"3": None, "4": 1},
)


@pytest.fixture
def without(monkeypatch):
    """Return a function that calls another as in a session without the classes."""

    def call(act, *arguments):
        with monkeypatch.context() as patch:
            patch.setattr(java_functions, "are_known", lambda spark: False)
            return act(*arguments)

    return call


@pytest.fixture(autouse=True)
def _classes(spark):
    if not java_functions.are_known(spark):
        pytest.skip("the session has no class of Weir: make jars, where there is a JDK")


def some_requests():
    dice = random.Random(7)
    rows = []
    for offset in range(400):
        event = request(
            60 * dice.randrange(3) + 1,
            api=dice.choice(("Produce", "Fetch")),
            client_id=dice.choice("ab"),
            requests=9,
            timed=dice.randrange(4),
            phases={
                name: dice.choice(PAIRS[:-2]) for name in dice.sample(PHASES, dice.randrange(len(PHASES)))
            },
            errors=dice.choice(COUNTS[1:]),
        )
        rows.append(record(REQUESTS, offset, event, event["time_ms"], node=dice.choice("12")))
    return rows


def test_requests_and_their_minutes_are_the_same(spark, without):
    def made():
        valid = silver.valid_rows(silver.parse_events(raw(spark, some_requests()), REQUESTS))
        return [valid, buckets(valid), usage_per_minute(valid)]

    for own, by_spark in zip(made(), without(made), strict=True):
        assert own.schema.simpleString() == by_spark.schema.simpleString()
        found, expected = (sorted(map(str, frame.collect())) for frame in (own, by_spark))
        assert found
        assert found == expected


def test_the_largest_sums_are_null_only_beyond_64_bits(spark):
    frame = spark.createDataFrame(list(enumerate(COUNTS)), "at int, counts map<string,bigint>")
    sums = frame.select("at", java_functions.sum_of_values(F.col("counts")).alias("sum")).orderBy("at")
    assert [row["sum"] for row in sums.collect()] == [None, 0, 2, None, MOST - 1, None, None]


@pytest.mark.parametrize("groups", [1, 3_000])
def test_histograms_are_added_up_over_all_tasks(spark, groups):
    """More groups than a task keeps in one map: it sorts its rows then."""
    rows = spark.range(12_000, numPartitions=3).select(
        (F.col("id") % groups).alias("group"),
        F.array(
            F.create_map(F.col("id") % 100, F.lit(1)), F.lit(None), F.create_map(F.lit(7), F.lit(2**63 - 2))
        ).alias("each"),
    )
    typed = rows.select("group", F.col("each").cast("array<map<bigint,bigint>>").alias("each"))
    merged = typed.groupBy("group").agg(java_functions.merged_histograms(F.col("each")).alias("found"))
    found = merged.select("group", F.inline("found")).collect()
    assert sum(row["count"] for row in found if row["at"] == 0) == 12_000
    assert {row["us"] for row in found if row["at"] == 0} == set(range(100))
    assert [(row["at"], row["us"], row["count"]) for row in found if row["at"] > 0] == [(2, 7, None)] * groups


def test_a_table_of_an_earlier_version_has_its_histograms(spark, without):
    rows = raw(spark, some_requests())
    valid = silver.valid_rows(silver.parse_events(rows, REQUESTS))
    values = F.from_json(text_of(F.col("value")), VALUES[REQUESTS])
    phases = rows.select(*silver.PLACE, values[PHASES_BEFORE].alias(PHASES_BEFORE))
    old = valid.drop(HISTOGRAMS).join(phases, [*silver.PLACE])
    both = old.where("offset < 200").unionByName(valid.where("offset >= 200"), allowMissingColumns=True)
    expected = sorted(rows_of(buckets(valid), "minute", "node", "api", "phase", "us", "count"), key=str)
    for table in (old, both):
        for call in (lambda act, *rows: act(*rows), without):
            found = rows_of(call(buckets, table), "minute", "node", "api", "phase", "us", "count")
            assert sorted(found, key=str) == expected
    assert with_histograms(valid) is valid

"""Merged histograms, compared with counting every pair."""

import json
import random
from collections import Counter, defaultdict
from functools import partial, reduce

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline import silver
from pipeline.formats import BUCKET_COUNTS, BUCKETS, MAX_COUNT, PHASES, REQUESTS, VALUES, text_of
from pipeline.gold.latency import COUNTS, EDGES, buckets, phase_quantiles_per_minute
from pipeline.histograms import MAPS_BEFORE, PAIRS_BEFORE, with_buckets
from tests.pipeline.events import day_sums, raw, record, request, request_before, rows_of, taken

ARRAYS = (BUCKETS, BUCKET_COUNTS)


def some_requests(dice, count):
    """Return requests of all versions, and the sums of their buckets by minute, node, API and phase."""
    expected, rows = Counter(), []
    for offset in range(count):
        api, node, minute = dice.choice(("Produce", "Fetch")), dice.choice("12"), dice.randrange(2)
        phases = {}
        for phase in dice.sample(PHASES, dice.randrange(len(PHASES))):
            # An edge may be there twice.
            phases[phase] = dice.choice(([], [[dice.randrange(4), 1], [7, 2]], [[5, 3]] * 2, [[2**40, 1]]))
            for us, each in phases[phase]:
                expected[f"12:0{minute}", int(node), api, phase, us] += each
        of, version = dice.choice(((request, 3), (request_before, 1), (request_before, 2)))
        event = of(60 * minute + 1, api=api, requests=4, timed=2, phases=phases) | {"v": version}
        rows.append(record(REQUESTS, offset, event, event["time_ms"], node=node))
    return rows, expected


KEY = ("minute", "node", "api", "phase", "us", "count")


def test_every_bucket_of_all_versions_in_a_batch_is_counted(spark):
    rows, expected = some_requests(random.Random(3), 300)
    requests = silver.valid_rows(silver.parse_events(raw(spark, rows), REQUESTS))
    found = rows_of(buckets(requests), *KEY)
    assert {(*key, count) for key, count in expected.items()} == set(found)
    assert len(found) == len(expected)


def test_the_day_of_a_client_has_the_whole_requests_of_all_versions(spark):
    rows, expected = some_requests(random.Random(4), 300)
    requests = silver.valid_rows(silver.parse_events(raw(spark, rows), REQUESTS))
    of_apis = defaultdict(Counter)
    for (_, _, api, phase, us), count in expected.items():
        if phase == "total":
            of_apis[api][us] += count
    whole = [(api, *map(list, zip(*sorted(of.items()), strict=True))) for api, of in of_apis.items()]
    assert rows_of(day_sums(requests, REQUESTS), "api", EDGES, COUNTS) == sorted(whole)


def test_the_handlers_time_is_alike_in_all_versions(spark):
    rows, _ = some_requests(random.Random(5), 200)
    expected = []
    for row in rows:
        event = json.loads(row[4])
        local = (
            event["local_us"]
            if event["v"] == 3
            else sum(us * count for us, count in event["phases"].get("local", ()))
        )
        expected.append((row[2], 2 * local if 2 * local <= MAX_COUNT else 0))
    requests = silver.valid_rows(silver.parse_events(raw(spark, rows), REQUESTS))
    assert rows_of(requests, "offset", "handler_us") == sorted(expected, key=repr)


def test_a_phase_of_tomorrow_is_passed_over(spark):
    event = request(1, timed=1) | {"buckets": [76, 79, 71, 75], "counts": [1, 2, 3, 4]}
    assert rows_of(buckets(taken(spark, REQUESTS, [event])), "phase", "us", "count") == [
        ("local", 7, 3),
        ("total", 7, 4),
    ]


def test_tables_of_earlier_versions_have_the_same_histograms(spark):
    """A table has had a struct of pairs, then a struct of maps, and now two arrays."""
    rows, _ = some_requests(random.Random(6), 90)
    rows = [
        row
        for row in rows
        # A map has no edge twice.
        if len(json.loads(row[4]).get("phases", "?")) != 1 and b"[[5,3],[5,3]]" not in row[4]
    ]
    events = raw(spark, rows)
    requests = silver.valid_rows(silver.parse_events(events, REQUESTS))
    pairs = F.from_json(text_of(F.col("value")), VALUES[REQUESTS])[PAIRS_BEFORE]
    with_pairs = requests.join(events.select(*silver.PLACE, pairs.alias(PAIRS_BEFORE)), [*silver.PLACE])
    is_old = F.col(PAIRS_BEFORE).isNotNull()
    maps = F.struct(
        *(F.map_from_entries(F.transform(F.col(PAIRS_BEFORE)[name], _entry)).alias(name) for name in PHASES)
    )
    old = with_pairs.where(is_old).drop(*ARRAYS)
    new = with_pairs.where(~is_old).drop(PAIRS_BEFORE)
    of_maps = old.withColumn(MAPS_BEFORE, maps).drop(PAIRS_BEFORE)
    expected = rows_of(buckets(requests), *KEY)
    first, second = old.where("offset % 2 = 0"), of_maps.where("offset % 2 = 1")
    for parts in ((old, new), (of_maps, new), (first, second, new)):
        table = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), parts)
        assert rows_of(buckets(table), *KEY) == expected
    alone = rows_of(buckets(requests.join(old.select("offset"), "offset")), *KEY)
    assert rows_of(buckets(old), *KEY) == rows_of(buckets(of_maps), *KEY) == alone
    assert with_buckets(requests).columns == requests.columns


def _entry(pair):
    return F.struct(F.get(pair, 0), F.get(pair, 1))


def test_counts_too_large_to_add_up_fail_no_batch(spark, monkeypatch):
    """As of rows that an earlier version wrote, which took larger counts."""
    monkeypatch.setattr(silver, "MAX_COUNT", 2**63 - 1)
    most = 2**63 - 1
    phases = {"local": [[1, most], [2, 1]], "total": [[1, most], [2, most]], "queue": [[1, most]]}
    more = {"phases": {"local": [[1, most]]}, "local_us": 0}
    events = [request(1, timed=1, phases=phases, local_us=0), request(1, timed=1, **more)]
    found = phase_quantiles_per_minute(taken(spark, REQUESTS, events))
    columns = ("phase", "timed", "p50_us", "max_us")
    assert rows_of(found, *columns) == [
        ("local", None, None, 2),
        ("queue", most, 1, 1),
        ("total", None, None, 2),
    ]

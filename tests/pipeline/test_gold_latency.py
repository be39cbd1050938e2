"""Merged histograms, compared with counting every pair."""

import random
from collections import Counter

from pipeline import silver
from pipeline.formats import PHASES, REQUESTS
from pipeline.gold.latency import buckets, phase_quantiles_per_minute
from tests.pipeline.events import raw, record, request, rows_of, taken


def test_every_pair_is_counted_once(spark):
    dice = random.Random(3)
    expected, rows = Counter(), []
    for offset in range(200):
        api, node, minute = dice.choice(("Produce", "Fetch")), dice.choice("12"), dice.randrange(2)
        phases = {}
        for phase in dice.sample(PHASES, dice.randrange(len(PHASES))):
            phases[phase] = dice.choice(([], None, [[dice.randrange(4), 1], [7, 2]], [[5, 3]] * 2))
            for us, count in phases[phase] or ():
                if [us, count] == [5, 3]:  # An edge that is there twice.
                    continue
                expected[f"12:0{minute}", int(node), api, phase, us] += count
        event = request(60 * minute + 1, api=api, timed=1, phases=phases)
        rows.append(record(REQUESTS, offset, event, event["time_ms"], node=node))
    requests = silver.valid_rows(silver.parse_events(raw(spark, rows), REQUESTS))
    found = rows_of(buckets(requests), "minute", "node", "api", "phase", "us", "count")
    assert {(*key, count) for key, count in expected.items()} == set(found)
    assert len(found) == len(expected)


def test_counts_too_large_to_add_up_fail_no_batch(spark):
    most = 2**63 - 1
    phases = {"local": [[1, most], [2, 1]], "total": [[1, most], [2, most]], "queue": [[1, most]]}
    events = [request(1, timed=1, phases=phases), request(1, timed=1, phases={"local": [[1, most]]})]
    found = phase_quantiles_per_minute(taken(spark, REQUESTS, events))
    columns = ("phase", "timed", "p50_us", "max_us")
    assert rows_of(found, *columns) == [
        ("local", None, None, 2),
        ("queue", most, 1, 1),
        ("total", None, None, 2),
    ]

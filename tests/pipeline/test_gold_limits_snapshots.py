"""Limits from snapshots of all quota rules and marks of shadow mode."""

import random
from datetime import date, timedelta

import pytest
from pyspark.sql import functions as F

from pipeline import silver
from pipeline.formats import QUOTA_CHANGES, REQUESTS
from pipeline.gold.limits import UTILISATION, governed, limits_over_time, used, utilisation_per_minute
from pipeline.gold.usage import usage_per_minute
from pipeline.run import Pipeline
from tests.pipeline.events import (
    NOON_MS,
    quota_change,
    raw,
    record,
    request,
    rows_of,
    shadow_mark,
    snapshot,
    taken,
    taken_quotas,
)

KEY = "producer_byte_rate"
ALICE, BOB = {"user": "alice"}, {"user": "bob"}
ALICES, BOBS = '{"user":"alice"}', '{"user":"bob"}'
PIECE = ("rule", "value", "since", "until")


def limits_of(spark, events):
    return limits_over_time(*taken_quotas(spark, events))


# The resulting limits


def test_rules_of_before_the_topics_are_known_by_the_snapshot(spark):
    rules = ((ALICE, {KEY: 10.0, "consumer_byte_rate": 20.0}, False), (BOB, {KEY: 30.0}, False))
    found = limits_of(spark, snapshot(60, 900, "s", *rules))
    assert rows_of(found, "rule", "key", "value", "since", "until") == [
        (ALICES, "consumer_byte_rate", 20.0, "12:01", None),
        (ALICES, KEY, 10.0, "12:01", None),
        (BOBS, KEY, 30.0, "12:01", None),
    ]


def test_a_snapshot_replaces_what_was_known(spark):
    events = [
        quota_change(0, 1, entity=ALICE, new=10.0),
        quota_change(0, 2, entity=BOB, new=20.0),
        quota_change(0, 3, entity={"user": "eve"}, new=30.0),
        *snapshot(60, 9, "s", (ALICE, {KEY: 10.0}, False), (BOB, {KEY: 21.0}, False)),
        quota_change(120, 10, entity=BOB, new=None),
        *snapshot(180, 10, "t", (ALICE, {KEY: 10.0}, False)),
    ]
    assert rows_of(limits_of(spark, events), *PIECE) == [
        (ALICES, 10.0, "12:00", "12:01"),
        (ALICES, 10.0, "12:01", "12:03"),
        (ALICES, 10.0, "12:03", None),
        (BOBS, 20.0, "12:00", "12:01"),
        (BOBS, 21.0, "12:01", "12:02"),
        ('{"user":"eve"}', 30.0, "12:00", "12:01"),
    ]


def test_an_empty_snapshot_ends_every_limit(spark):
    events = [quota_change(0, 1, entity=ALICE, new=10.0), *snapshot(60, 2, "s")]
    assert rows_of(limits_of(spark, events), *PIECE) == [(ALICES, 10.0, "12:00", "12:01")]


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_snapshot_of_which_a_part_is_missing_is_not_used(spark, missing):
    parts = snapshot(60, 9, "s", (ALICE, {KEY: 11.0}, False), (BOB, {KEY: 21.0}, False))
    del parts[missing]
    # The broker's next start, of which only the beginning has arrived.
    half = snapshot(120, 9, "t", (ALICE, {KEY: 12.0}, True), (BOB, {KEY: 22.0}, True))[:2]
    events = [quota_change(0, 1, entity=ALICE, new=10.0), *parts, *half]
    found = limits_of(spark, events)
    assert rows_of(found, *PIECE, "shadows") == [(ALICES, 10.0, "12:00", None, None)]


def test_a_part_that_came_twice_does_not_stand_for_one_that_is_missing(spark):
    parts = snapshot(60, 9, "s", (ALICE, {KEY: 11.0}, False), (BOB, {KEY: 21.0}, False))
    assert rows_of(limits_of(spark, [parts[0], parts[1], parts[1]]), *PIECE) == []


def test_parts_may_come_after_later_changes(spark):
    head, *rest = snapshot(0, 5, "s", (ALICE, {KEY: 1.0}, False), (BOB, {KEY: 2.0}, False))
    events = [head, quota_change(60, 6, entity=ALICE, new=None), *rest]
    assert rows_of(limits_of(spark, events), *PIECE) == [
        (ALICES, 1.0, "12:00", "12:01"),
        (BOBS, 2.0, "12:00", None),
    ]


def test_of_the_changes_only_those_after_the_snapshot_s_version_count(spark):
    """A change that was committed in the second of the snapshot, and written with the next one."""
    events = [*snapshot(1, 5, "s", (ALICE, {KEY: 7.0}, False)), quota_change(2, 5, entity=ALICE, new=7.0)]
    found = governed(
        used(usage_per_minute(taken(spark, REQUESTS, [request(1, bytes_in=60)]))), limits_of(spark, events)
    )
    assert rows_of(found.where(F.col("key") == KEY), "rule", "value") == [(ALICES, 7.0)]


def test_limits_that_are_only_measured_are_reported_to_be(spark):
    phases = [
        quota_change(-10, 1, entity=ALICE, new=1.0),
        shadow_mark(-10, 1, entity=ALICE, shadow=True),
        shadow_mark(70, 2, entity=ALICE, shadow=False),
        *snapshot(130, 3, "s", (ALICE, {KEY: 1.0}, True)),
        *snapshot(190, 4, "t", (ALICE, {KEY: 1.0}, False)),
        *snapshot(250, 5, "u", (ALICE, {KEY: 1.0}, True)),
        quota_change(310, 6, entity=ALICE, new=None),
        shadow_mark(310, 6, entity=ALICE, shadow=False),
        quota_change(370, 7, entity=ALICE, new=2.0),
        *snapshot(430, 8, "w", (ALICE, {KEY: 2.0}, True)),
        *snapshot(490, 9, "x"),
        quota_change(550, 10, entity=ALICE, new=3.0),
    ]
    usage = usage_per_minute(taken(spark, REQUESTS, [request(60 * at + 1, bytes_in=60) for at in range(11)]))
    found = utilisation_per_minute(usage, limits_of(spark, phases)).where(F.col("key") == KEY)
    assert rows_of(found, "minute", "limit", "shadow") == [
        ("12:00", 1.0, True),
        ("12:01", 1.0, False),
        ("12:02", 1.0, True),
        ("12:03", 1.0, False),
        ("12:04", 1.0, True),
        ("12:06", 2.0, False),
        ("12:07", 2.0, True),
        ("12:09", 3.0, False),
        ("12:10", 3.0, False),
    ]


def test_a_mark_is_of_its_rule_and_of_no_other(spark):
    events = [
        *snapshot(-10, 1, "s", (ALICE, {KEY: 1.0}, True), (BOB, {KEY: 1.0}, False)),
        shadow_mark(-5, 2, entity=BOB, shadow=False),
    ]
    requests = [request(1, principal=name, bytes_in=60) for name in ("alice", "bob")]
    found = utilisation_per_minute(
        usage_per_minute(taken(spark, REQUESTS, requests)), limits_of(spark, events)
    )
    assert rows_of(found.where(F.col("key") == KEY), "rule", "shadow") == [(ALICES, True), (BOBS, False)]


# Old tables


def test_a_table_of_before_there_were_other_events_is_read(spark):
    changes = taken(spark, QUOTA_CHANGES, [quota_change(0, 1, entity=ALICE, new=10.0)])
    old = changes.drop("event", "shadow")
    assert rows_of(limits_over_time(old), *PIECE) == [(ALICES, 10.0, "12:00", None)]
    assert rows_of(limits_over_time(old, None, date(2025, 11, 21)), *PIECE) == [(ALICES, 10.0, "12:00", None)]


def test_a_warehouse_of_before_takes_the_new_records(spark, warehouse):
    old = taken(spark, QUOTA_CHANGES, [quota_change(-60, 1, entity=ALICE, new=10.0)]).drop("event", "shadow")
    warehouse.append_once(silver.TABLES[QUOTA_CHANGES], old, "before", 0)
    rows = [
        record(REQUESTS, 0, request(1, bytes_in=600)),
        record(REQUESTS, 1, request(61, bytes_in=600)),
        *(
            record(QUOTA_CHANGES, 1 + at, each)
            for at, each in enumerate(snapshot(70, 3, "s", (ALICE, {KEY: 20.0}, True)))
        ),
    ]
    pipeline = Pipeline(warehouse)
    pipeline.take(raw(spark, rows), 0)
    pipeline.make_days()
    found = warehouse.read(UTILISATION).where(F.col("key") == KEY)
    assert rows_of(found, "minute", "limit", "shadow") == [("12:00", 10.0, False), ("12:01", 20.0, True)]
    assert warehouse.read(silver.TABLES[QUOTA_CHANGES]).count() == 1
    assert warehouse.read(silver.SNAPSHOTS).count() == 2


def test_a_pipeline_that_begins_with_a_snapshot_needs_no_change(spark, warehouse):
    rows = [record(REQUESTS, 0, request(1, bytes_in=600))]
    parts = snapshot(-60, 3, "s", (ALICE, {KEY: 20.0}, False))
    rows += [record(QUOTA_CHANGES, at, each) for at, each in enumerate(parts)]
    pipeline = Pipeline(warehouse)
    # The parts of one snapshot may arrive in several batches.
    pipeline.take(raw(spark, rows[:2]), 0)
    pipeline.make_days()
    assert warehouse.read(UTILISATION).count() == 0
    pipeline.take(raw(spark, rows[2:]), 1)
    pipeline.make_days()
    found = warehouse.read(UTILISATION).where(F.col("key") == KEY)
    assert rows_of(found, "limit", "utilisation") == [(20.0, 0.5)]
    assert warehouse.read(silver.TABLES[QUOTA_CHANGES]).count() == 0
    assert not warehouse.exists(silver.QUARANTINE)


# Random cases, compared with plain Python


@pytest.mark.parametrize("seed", range(2))
def test_state_at_any_minute_equals_that_of_reading_in_order(spark, seed):
    """For all days and for each, with snapshots of unrecorded changes, and with incomplete ones."""
    dice = random.Random(seed)
    users = ("alice", "bob", "carol")
    truth, known, events, expected = {}, {}, [], []
    for version in range(1, 60):
        second = version * 3_600 - 43_230
        user = dice.choice(users)
        is_reported = dice.random() < 0.6
        match dice.choice(["set", "set", "remove", "mark", "whole", "half"]):
            case "set":
                truth[user] = (float(version), truth.get(user, (0, False))[1])
                result = [quota_change(second, version, entity={"user": user}, new=float(version))]
            case "remove" if user in truth:
                result = [quota_change(second, version, entity={"user": user}, new=None)]
                if truth.pop(user)[1]:
                    result.append(shadow_mark(second, version, entity={"user": user}, shadow=False))
            case "mark" if user in truth:
                value, was = truth[user]
                truth[user] = (value, not was)
                result = [shadow_mark(second, version, entity={"user": user}, shadow=not was)]
            case what if what in ("whole", "half"):
                rules = [({"user": name}, {KEY: value}, mark) for name, (value, mark) in truth.items()]
                result = snapshot(second, version, f"s{version}", *rules)
                is_reported = True
                if what == "half":
                    result.pop(dice.randrange(len(result)))
                else:
                    known = dict(truth)
            case _:
                result = []
        if is_reported:
            events += result
            for each in result:
                _apply(known, each)
        expected.append((version, dict(known)))
    changes, parts = taken_quotas(spark, events)
    use = usage_per_minute(
        taken(
            spark,
            REQUESTS,
            [
                request(version * 3_600 - 43_200, principal=user, bytes_in=60)
                for version in range(1, 60)
                for user in users
            ],
        )
    )
    wanted = {
        (version, user, value, mark) for version, state in expected for user, (value, mark) in state.items()
    }
    noon = date(2025, 11, 21)
    for day in (None, *(noon + timedelta(days=off) for off in range(4))):
        of_day = use if day is None else use.where(F.col("date") == F.lit(day))
        found = governed(used(of_day), limits_over_time(changes, parts, day)).where(F.col("key") == KEY)
        hour = (F.unix_timestamp("minute") - F.lit(NOON_MS // 1000) + 43_260) / 3_600
        rows = found.select(
            hour.cast("long").alias("version"), "principal", "value", "shadow", "date"
        ).collect()
        at_day = {
            each for each in wanted if day is None or (each[0] * 3_600 - 1) // 86_400 == (day - noon).days
        }
        assert {tuple(row)[:4] for row in rows} == at_day, day


def _apply(known, each):
    user = each.get("entity", {}).get("user")
    match each.get("event", "limit"):
        case "limit" if each["new"] is None:
            known.pop(user, None)
        case "limit":
            known[user] = (each["new"], known.get(user, (0, False))[1])
        case "shadow" if user in known:
            known[user] = (known[user][0], each["shadow"])

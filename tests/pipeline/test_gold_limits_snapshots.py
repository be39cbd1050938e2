"""Snapshots of all quota rules and marks of shadow mode: what is known of limits by them."""

import json
import random
from datetime import date, timedelta

import pytest
from pyspark.sql import functions as F

from broker.events.quota_changes import QuotaChangeEvents
from broker.metadata.actor import Actor, Door, Role
from broker.metadata.changes import Change, Delta, Kind, write_pairs
from broker.metadata.image import Image, Limit, QuotaEntry
from pipeline import silver
from pipeline.formats import QUOTA_CHANGES, REQUESTS
from pipeline.gold.limits import UTILISATION, governed, limits_over_time, used, utilisation_per_minute
from pipeline.gold.usage import usage_per_minute
from pipeline.run import Pipeline
from tests.pipeline.events import (
    NOON_MS,
    event,
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


def refusals(spark, values):
    rows = [record(QUOTA_CHANGES, offset, value) for offset, value in enumerate(values)]
    found = silver.opened(raw(spark, rows), QUOTA_CHANGES).select("offset", "reason").collect()
    return [row["reason"] for row in sorted(found)]


# What is understood


def test_records_of_both_versions_are_understood(spark):
    one = quota_change(0, 1, entity=ALICE, new=1.0)
    two = [
        one | {"event": "limit"},
        shadow_mark(0, 1, shadow=True, entity=ALICE),
        *snapshot(0, 1, "s", (ALICE, {KEY: 1.0}, False)),
    ]
    assert refusals(spark, [one, *two]) == [None] * 5
    assert refusals(spark, [one | {"v": 3}, one | {"v": 0}]) == ["unknown version"] * 2


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"event": "tomorrow"}, "unknown event"),
        ({"part": -1}, "part is not a count"),
        ({"parts": -1}, "parts is not a count"),
        ({"part": 2}, "not a part of a snapshot"),
        ({"part": None}, "not a part of a snapshot"),
        ({"parts": None}, "not a part of a snapshot"),
        ({"snapshot": None}, "not a part of a snapshot"),
        ({"entity": None}, "not a part of a snapshot"),
        ({"limits": None}, "not a part of a snapshot"),
        ({"limits": {KEY: None}}, "limits are not numbers"),
        ({"limits": {KEY: float("inf")}}, "limits are not numbers"),
        ({"limits": {KEY: "1"}}, "not JSON of this format"),
        ({"version": None}, "version is not a count"),
        ({"event": "shadow", "shadow": None}, "shadow is missing"),
        ({}, None),
    ],
)
def test_a_part_that_cannot_be_used_is_refused(spark, wrong, reason):
    part = snapshot(0, 1, "s", (ALICE, {KEY: 1.0}, False))[1]
    assert refusals(spark, [part | wrong]) == [reason]


def test_a_snapshot_is_no_change(spark):
    parts = snapshot(0, 2, "s", (ALICE, {KEY: 1.0}, True))
    changes, kept = taken_quotas(spark, [quota_change(0, 1, entity=ALICE, new=1.0), *parts])
    assert rows_of(changes, "event", "key", "new") == [("limit", KEY, 1.0)]
    assert not {"snapshot", "part", "parts", "limits"} & set(changes.columns)
    assert rows_of(kept, "snapshot", "part", "parts", "version", "entity", "limits", "shadow") == [
        ("s", 0, 2, 2, None, None, None),
        ("s", 1, 2, 2, ALICE, {KEY: 1.0}, True),
    ]


# What follows from it


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
    # The next start of the broker, of which nothing arrived yet but the beginning.
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
    """One that was committed in the second of the snapshot, and told with the next one."""
    events = [*snapshot(1, 5, "s", (ALICE, {KEY: 7.0}, False)), quota_change(2, 5, entity=ALICE, new=7.0)]
    found = governed(
        used(usage_per_minute(taken(spark, REQUESTS, [request(1, bytes_in=60)]))), limits_of(spark, events)
    )
    assert rows_of(found.where(F.col("key") == KEY), "rule", "value") == [(ALICES, 7.0)]


def test_limits_that_are_only_measured_are_said_to_be(spark):
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
    # The parts of one snapshot may come in several batches.
    pipeline.take(raw(spark, rows[:2]), 0)
    pipeline.make_days()
    assert warehouse.read(UTILISATION).count() == 0
    pipeline.take(raw(spark, rows[2:]), 1)
    pipeline.make_days()
    found = warehouse.read(UTILISATION).where(F.col("key") == KEY)
    assert rows_of(found, "limit", "utilisation") == [(20.0, 0.5)]
    assert warehouse.read(silver.TABLES[QUOTA_CHANGES]).count() == 0
    assert not warehouse.exists(silver.QUARANTINE)


# By chance, against plain Python


@pytest.mark.parametrize("seed", range(2))
def test_what_is_known_at_any_minute_is_what_who_reads_in_order_knows(spark, seed):
    """For all days and for each, with snapshots of what was not told, and with halves of them."""
    dice = random.Random(seed)
    users = ("alice", "bob", "carol")
    truth, known, events, expected = {}, {}, [], []
    for version in range(1, 60):
        second = version * 3_600 - 43_230
        user = dice.choice(users)
        is_told = dice.random() < 0.6
        match dice.choice(["set", "set", "remove", "mark", "whole", "half"]):
            case "set":
                truth[user] = (float(version), truth.get(user, (0, False))[1])
                told = [quota_change(second, version, entity={"user": user}, new=float(version))]
            case "remove" if user in truth:
                told = [quota_change(second, version, entity={"user": user}, new=None)]
                if truth.pop(user)[1]:
                    told.append(shadow_mark(second, version, entity={"user": user}, shadow=False))
            case "mark" if user in truth:
                value, was = truth[user]
                truth[user] = (value, not was)
                told = [shadow_mark(second, version, entity={"user": user}, shadow=not was)]
            case what if what in ("whole", "half"):
                rules = [({"user": name}, {KEY: value}, mark) for name, (value, mark) in truth.items()]
                told = snapshot(second, version, f"s{version}", *rules)
                is_told = True
                if what == "half":
                    told.pop(dice.randrange(len(told)))
                else:
                    known = dict(truth)
            case _:
                told = []
        if is_told:
            events += told
            for each in told:
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
        here = use if day is None else use.where(F.col("date") == F.lit(day))
        found = governed(used(here), limits_over_time(changes, parts, day)).where(F.col("key") == KEY)
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


# From the broker


def test_what_the_broker_writes_is_what_the_pipeline_knows(spark):
    entity = (("user", "alice"), ("client-id", None))

    def image(version, *limits, shadow=False):
        if not limits:
            return Image(version=version)
        values = {key: Limit(value, NOON_MS, "op") for key, value in limits}
        return Image(version=version, quotas={entity: QuotaEntry(entity, values, 1, NOON_MS, "op", shadow)})

    now = [image(7, (KEY, 10.0), ("request_percentage", 50.5), shadow=True)]
    events = QuotaChangeEvents(100, lambda: now[0])
    operator = Actor("olga", Role.EDITOR, "10.0.0.7", Door.REST)
    values = []
    events.begin(-1)
    values += events.take(NOON_MS)

    def commit(later, *changes):
        delta = Delta.of(
            [Change(Kind.CLIENT_QUOTA, write_pairs(entity), *each) for each in changes], operator
        )
        old, now[0] = now[0], later
        events.follow(old, later, delta)

    commit(image(8, (KEY, 20.0), shadow=True), (KEY, "20"), ("request_percentage", None))
    values += events.take(NOON_MS + 60_000)
    commit(image(9, (KEY, 20.0)), ("shadow", None))
    values += events.take(NOON_MS + 120_000)
    rows = [record(QUOTA_CHANGES, at, value, NOON_MS + 120_000) for at, value in enumerate(values)]
    assert refusals(spark, values) == [None] * 5
    accepted = silver.accepted(silver.opened(raw(spark, rows), QUOTA_CHANGES))
    (_, changes), (_, parts) = silver.by_table(QUOTA_CHANGES, accepted)
    assert rows_of(changes, "event", "actor", "door", "version") == [
        ("limit", "olga", "rest", 8),
        ("limit", "olga", "rest", 8),
        ("shadow", "olga", "rest", 9),
    ]
    rule = '{"client-id":null,"user":"alice"}'
    found = limits_over_time(changes, parts).withColumn("marked", F.to_json("shadows"))
    assert rows_of(found, "rule", "key", "value", "since", "until") == [
        (rule, KEY, 10.0, "12:00", "12:01"),
        (rule, KEY, 20.0, "12:01", None),
        (rule, "request_percentage", 50.5, "12:00", "12:01"),
    ]
    marks = {json.dumps(json.loads(row["marked"])) for row in found.collect()}
    assert marks == {'[{"since": "2025-11-21T12:00:00.000Z", "until": "2025-11-21T12:02:00.000Z"}]'}


def test_an_event_of_version_1_says_the_same_as_before(spark):
    """A reader that knows version 1 only finds in limits what it found, and refuses what is version 2."""
    events = QuotaChangeEvents(100, Image)
    events.begin(-1)
    change = Change(Kind.CLIENT_QUOTA, write_pairs((("user", "alice"),)), KEY, "5")
    mark = Change(Kind.CLIENT_QUOTA, write_pairs((("user", "alice"),)), "shadow", "true")
    events.follow(Image(), Image(version=4), Delta.of([change, mark]))
    limit, marked, part = (json.loads(value) for value in events.take(NOON_MS))
    assert limit == event(
        0,
        event="limit",
        entity=ALICE,
        key=KEY,
        old=None,
        new=5.0,
        actor="broker",
        role="admin",
        address="",
        door="broker",
        version=4,
    )
    assert (marked["v"], part["v"]) == (2, 2)

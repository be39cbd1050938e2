"""Records of quota changes: both versions, and the broker's own records as the pipeline reads them."""

import json

import pytest
from pyspark.sql import functions as F

from broker.metadata.actor import Actor, ChangeOrigin, Role
from broker.metadata.changes import Change, ChangeKind, Delta, write_pairs
from broker.metadata.image import Image, Limit, QuotaEntry
from broker.monitoring.events.quota_changes import QuotaChangeEvents
from pipeline import silver
from pipeline.formats import QUOTA_CHANGES
from pipeline.gold.limits import limits_over_time
from tests.pipeline.events import (
    NOON_MS,
    event,
    quota_change,
    raw,
    record,
    rows_of,
    shadow_mark,
    snapshot,
    taken_quotas,
)

KEY = "producer_byte_rate"
ALICE = {"user": "alice"}


def refusals(spark, values):
    rows = [record(QUOTA_CHANGES, offset, value) for offset, value in enumerate(values)]
    found = silver.parse_events(raw(spark, rows), QUOTA_CHANGES).select("offset", "reason").collect()
    return [row["reason"] for row in sorted(found)]


def test_records_of_both_versions_are_understood(spark):
    one = quota_change(0, 1, entity=ALICE, new=1.0)
    two = [
        one | {"event": "limit"},
        shadow_mark(0, 1, shadow=True, entity=ALICE),
        *snapshot(0, 1, "s", (ALICE, {KEY: 1.0}, False)),
    ]
    assert refusals(spark, [one, *two]) == [None] * 5
    assert refusals(spark, [one | {"v": 3}, one | {"v": 0}]) == ["unknown version"] * 2


def test_both_versions_name_the_origin_alike(spark):
    one = quota_change(0, 1, entity=ALICE, new=1.0, door="wire")
    changes, _ = taken_quotas(spark, [one, shadow_mark(0, 2, shadow=True, entity=ALICE)])
    assert rows_of(changes, "event", "origin") == [("limit", "wire"), ("shadow", "rest")]
    assert "door" not in changes.columns


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


def test_the_pipeline_reads_the_quota_events_of_the_broker(spark):
    entity = (("user", "alice"), ("client-id", None))

    def image(version, *limits, shadow=False):
        if not limits:
            return Image(version=version)
        values = {key: Limit(value, NOON_MS, "op") for key, value in limits}
        return Image(version=version, quotas={entity: QuotaEntry(entity, values, 1, NOON_MS, "op", shadow)})

    now = [image(7, (KEY, 10.0), ("request_percentage", 50.5), shadow=True)]
    events = QuotaChangeEvents(100, lambda: now[0])
    operator = Actor("olga", Role.EDITOR, "10.0.0.7", ChangeOrigin.REST)
    values = []
    events.begin(-1)
    values += [each.value for each in events.drain(NOON_MS)]

    def commit(later, *changes):
        delta = Delta.of(
            [Change(ChangeKind.CLIENT_QUOTA, write_pairs(entity), *each) for each in changes], operator
        )
        old, now[0] = now[0], later
        list(events.on_metadata_update(old, later, delta))

    commit(image(8, (KEY, 20.0), shadow=True), (KEY, "20"), ("request_percentage", None))
    values += [each.value for each in events.drain(NOON_MS + 60_000)]
    commit(image(9, (KEY, 20.0)), ("shadow", None))
    values += [each.value for each in events.drain(NOON_MS + 120_000)]
    rows = [record(QUOTA_CHANGES, at, value, NOON_MS + 120_000) for at, value in enumerate(values)]
    assert refusals(spark, values) == [None] * 5
    accepted = silver.valid_rows(silver.parse_events(raw(spark, rows), QUOTA_CHANGES))
    (_, changes), (_, parts) = silver.by_table(QUOTA_CHANGES, accepted)
    assert rows_of(changes, "event", "actor", "origin", "version") == [
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


def test_a_change_of_version_2_has_these_fields(spark):
    events = QuotaChangeEvents(100, Image)
    events.begin(-1)
    change = Change(ChangeKind.CLIENT_QUOTA, write_pairs((("user", "alice"),)), KEY, "5")
    mark = Change(ChangeKind.CLIENT_QUOTA, write_pairs((("user", "alice"),)), "shadow", "true")
    list(events.on_metadata_update(Image(), Image(version=4), Delta.of([change, mark])))
    limited, marked, part = (json.loads(each.value) for each in events.drain(NOON_MS))
    assert limited == event(
        0,
        event="limit",
        entity=ALICE,
        key=KEY,
        old=None,
        new=5.0,
        actor="broker",
        role="admin",
        address="",
        origin="broker",
        version=4,
    ) | {"v": 2}
    assert (marked["v"], part["v"]) == (2, 2)

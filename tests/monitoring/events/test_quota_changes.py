"""Snapshots of all rules in the topic of quota changes: complete, in parts, and not taken for changes."""

import json
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from broker.controller.commands import AlterClientQuotas, DeleteTopics, QuotaAlteration, QuotaOp, TopicRef
from broker.metadata.actor import BROKER_ITSELF, Actor, ChangeOrigin, Role
from broker.metadata.changes import EntityPairs
from broker.metadata.image import Image, Limit, QuotaEntry
from broker.monitoring.events.quota_changes import (
    DAY_MS,
    MAX_PARTS,
    RETRY_MS,
    SLICE_BYTES,
    QuotaChangeEvents,
    QuotaSnapshots,
)
from broker.monitoring.events.writer import ROWS_PER_CHECKPOINT
from tests.monitoring.events.written import quota_events, second_passes, values
from tests.support.live import alter
from tests.support.running import RunningBroker, running_broker

ON = "events.topics=quota_changes"
TOPIC = "__weir_quota_changes"
OPERATOR = Actor("olga", Role.EDITOR, "10.0.0.7", ChangeOrigin.REST)
ALICE: EntityPairs = (("user", "alice"),)
BOB: EntityPairs = (("user", "bob"), ("client-id", None))
ADDRESS: EntityPairs = (("ip", "10.0.0.9"),)
NOW_MS = 1_763_726_400_000


def image(rules: int, name: str = "u") -> Image:
    entries = {}
    for at in range(rules):
        entity: EntityPairs = (("user", f"{name}{at}"),)
        limits = {"producer_byte_rate": Limit(float(at + 1), NOW_MS, "op")}
        entries[entity] = QuotaEntry(entity, limits, at + 1, NOW_MS, "op", shadow=at % 2 == 1)
    return Image(version=41, quotas=entries)


def taken(
    snapshots: QuotaSnapshots, of: Image, time_ms: int = NOW_MS, most: int = 10_000
) -> list[dict[str, Any]]:
    return [json.loads(part) for part in snapshots.drain(of, time_ms, most)]


def begun(retention_ms: int = 7 * DAY_MS) -> QuotaSnapshots:
    snapshots = QuotaSnapshots()
    snapshots.begin(retention_ms)
    return snapshots


async def set_limits(
    broker: RunningBroker, entity: EntityPairs, shadow: bool | None = None, **limits: float | None
) -> None:
    ops = tuple(QuotaOp(key, value) for key, value in limits.items())
    command = AlterClientQuotas((QuotaAlteration(entity, ops, shadow=shadow),))
    assert all(outcome.ok for outcome in await broker.server.control.apply(command, OPERATOR))


def last_snapshot(broker: RunningBroker) -> list[dict[str, Any]]:
    parts = quota_events(broker, "snapshot")
    return [each for each in parts if each["snapshot"] == parts[-1]["snapshot"]]


# The format


def test_a_part_says_of_which_snapshot_it_is_and_how_many_there_are() -> None:
    head, first, second = taken(begun(), image(2))
    name = head.pop("snapshot")
    assert len(name) == 16 and first.pop("snapshot") == second.pop("snapshot") == name
    common = {"v": 2, "time_ms": NOW_MS, "event": "snapshot", "parts": 3, "version": 41}
    assert head == {**common, "part": 0}
    limits = {"producer_byte_rate": 1.0}
    assert first == {**common, "part": 1, "entity": {"user": "u0"}, "limits": limits, "shadow": False}
    assert (second["part"], second["entity"], second["shadow"]) == (2, {"user": "u1"}, True)


def test_that_there_is_no_rule_is_a_snapshot_too() -> None:
    (head,) = taken(begun(), image(0))
    assert (head["part"], head["parts"]) == (0, 1) and "entity" not in head


def test_two_snapshots_of_the_same_moment_have_different_names() -> None:
    names = {taken(begun(), image(0))[0]["snapshot"] for _ in range(50)}
    assert len(names) == 50


# In slices


def test_a_snapshot_goes_on_for_as_many_seconds_as_it_takes_and_is_of_its_first() -> None:
    snapshots, at_first, later = begun(), image(10_000), image(3, "other")
    slices = [taken(snapshots, at_first)]
    for second in range(1, 12):
        slices.append(taken(snapshots, later, NOW_MS + second * 1000))
    assert [len(each) for each in slices] == [*[MAX_PARTS] * 10, 1, 0]
    parts = [part for each in slices for part in each]
    assert [part["part"] for part in parts] == list(range(10_001))
    assert {part["time_ms"] for part in parts} == {NOW_MS}
    assert {part["entity"]["user"] for part in parts[1:]} == {f"u{at}" for at in range(10_000)}


@pytest.mark.parametrize(
    ("rules", "slices"), [(MAX_PARTS - 2, [MAX_PARTS - 1, 0]), (MAX_PARTS - 1, [MAX_PARTS, 0])]
)
def test_a_snapshot_that_fits_into_a_second_is_reported_in_one(rules: int, slices: list[int]) -> None:
    snapshots = begun()
    assert [len(taken(snapshots, image(rules), NOW_MS + at)) for at in (0, 1_000)] == slices


def test_one_part_more_takes_another_second() -> None:
    snapshots = begun()
    assert [len(taken(snapshots, image(MAX_PARTS), NOW_MS + at)) for at in (0, 1_000, 2_000)] == [
        MAX_PARTS,
        1,
        0,
    ]


def test_long_names_make_slices_shorter() -> None:
    snapshots, of = begun(), image(100, "n" * 30_000)
    found = list(snapshots.drain(of, NOW_MS, 10_000))
    sizes = [len(part) for part in found]
    assert sum(sizes[:-1]) < SLICE_BYTES <= sum(sizes)


@pytest.mark.parametrize("most", [0, 1, 5])
def test_no_more_is_sent_than_the_topic_may_get_in_a_second(most: int) -> None:
    assert len(taken(begun(), image(9), most=most)) == most


def test_changes_of_the_second_come_first_and_count() -> None:
    events = QuotaChangeEvents(3, lambda: image(9))
    events.begin(DAY_MS)
    rows = [json.loads(value) for _, value in events.drain(NOW_MS)]
    assert [row["part"] for row in rows] == [0, 1, 2]
    events.end()
    assert list(events.drain(NOW_MS + 1_000)) == []


# When


def test_without_the_topic_nothing_is_reported() -> None:
    snapshots = QuotaSnapshots()
    snapshots.repeat_soon()
    assert taken(snapshots, image(3)) == []


@pytest.mark.parametrize(
    ("retention_ms", "repeat_ms"),
    [
        (7 * DAY_MS, DAY_MS),
        (-1, DAY_MS),
        (2 * DAY_MS, DAY_MS),
        (2 * DAY_MS - 2, DAY_MS - 1),
        (3_600_000, 1_800_000),
        (0, RETRY_MS),
    ],
)
def test_it_is_repeated_daily_and_before_the_topic_drops_it(retention_ms: int, repeat_ms: int) -> None:
    snapshots = begun(retention_ms)
    assert len(taken(snapshots, image(1))) == 2
    assert taken(snapshots, image(1), NOW_MS + repeat_ms - 1) == []
    assert len(taken(snapshots, image(1), NOW_MS + repeat_ms)) == 2


def test_a_clock_that_is_set_back_repeats_it_at_once() -> None:
    snapshots = begun()
    taken(snapshots, image(1))
    assert len(taken(snapshots, image(1), NOW_MS - 1)) == 2


def test_a_loss_is_made_good_a_minute_after_the_last_snapshot_began() -> None:
    snapshots = begun()
    taken(snapshots, image(1))
    snapshots.repeat_soon()
    assert taken(snapshots, image(1), NOW_MS + RETRY_MS - 1) == []
    assert len(taken(snapshots, image(1), NOW_MS + RETRY_MS)) == 2
    assert taken(snapshots, image(1), NOW_MS + 2 * RETRY_MS) == []


def test_a_loss_half_way_does_not_begin_anew_before_the_end() -> None:
    snapshots = begun()
    (head,) = taken(snapshots, image(2), most=1)
    snapshots.repeat_soon()
    rest = taken(snapshots, image(2), NOW_MS + RETRY_MS)
    assert [part["snapshot"] for part in rest] == [head["snapshot"]] * 2
    assert taken(snapshots, image(2), NOW_MS + RETRY_MS)[0]["snapshot"] != head["snapshot"]


# A broker


async def test_a_broker_reports_all_rules_at_its_start(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as broker:
        await set_limits(broker, ALICE, True, producer_byte_rate=1_000.0, request_percentage=20.5)
        await set_limits(broker, BOB, consumer_byte_rate=7.0)
        await set_limits(broker, ADDRESS, connection_creation_rate=3.0)
        await second_passes(broker, mock_clock)
        assert TOPIC not in broker.server.partitions.by_name
    async with running_broker(tmp_path, ON) as again:
        version = again.server.control.image.version
        await second_passes(again, mock_clock)
        head, *rules = last_snapshot(again)
        assert (head["part"], head["parts"], head["version"]) == (0, 4, version)
        assert sorted(
            (rule["entity"], rule["limits"], rule["shadow"]) for rule in rules if rule["shadow"]
        ) == [({"user": "alice"}, {"producer_byte_rate": 1_000.0, "request_percentage": 20.5}, True)]
        assert [(rule["entity"], rule["limits"]) for rule in rules if not rule["shadow"]] == [
            ({"user": "bob", "client-id": None}, {"consumer_byte_rate": 7.0}),
            ({"ip": "10.0.0.9"}, {"connection_creation_rate": 3.0}),
        ]
        assert quota_events(again, "limit", "shadow") == []
        await second_passes(again, mock_clock)
        assert len(quota_events(again, "snapshot")) == 4


async def test_a_start_that_ended_half_way_leaves_a_half_and_the_next_reports_the_whole(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    slow = "events.max.rows.per.second=1"
    async with running_broker(tmp_path) as unseen:
        for name in "abcdefgh":
            await set_limits(unseen, (("user", name),), producer_byte_rate=1.0)
    async with running_broker(tmp_path, ON, slow) as broker:
        await second_passes(broker, mock_clock)
    async with running_broker(tmp_path, ON, slow) as again:
        half = last_snapshot(again)
        for _ in range(9):
            await second_passes(again, mock_clock)
        whole = last_snapshot(again)
        assert 0 < len(half) < 9 == half[0]["parts"]
        assert [part["part"] for part in whole] == list(range(9))
        assert {part["snapshot"] for part in half} & {part["snapshot"] for part in whole} == set()


async def test_a_snapshot_is_no_row_of_the_audit(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path, ON) as broker:
        await set_limits(broker, ALICE, producer_byte_rate=1.0)
        await second_passes(broker, mock_clock)
        version = broker.server.control.image.version
    async with running_broker(tmp_path, ON) as again:
        await second_passes(again, mock_clock)
        assert len(last_snapshot(again)) == 2
        assert again.server.control.image.version == version


async def test_every_start_reports_them_again_and_without_what_was_removed(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    reported = []
    for limit in (1_000.0, 2_000.0, None):
        async with running_broker(tmp_path) as unseen:
            await set_limits(unseen, ALICE, producer_byte_rate=limit)
        async with running_broker(tmp_path, ON) as broker:
            await second_passes(broker, mock_clock)
            reported.append([rule["limits"] for rule in last_snapshot(broker)[1:]])
            names = {each["snapshot"] for each in quota_events(broker, "snapshot")}
            assert len(names) == len(reported)
    assert reported == [[{"producer_byte_rate": 1_000.0}], [{"producer_byte_rate": 2_000.0}], []]


async def test_a_change_of_the_mark_is_an_event_like_others(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path, ON) as broker:
        await set_limits(broker, BOB, True, producer_byte_rate=1_000.0)
        first = broker.server.control.image.version
        await set_limits(broker, BOB, False)
        await set_limits(broker, BOB, False)
        await set_limits(broker, BOB, True)
        await set_limits(broker, BOB, producer_byte_rate=None)
        await second_passes(broker, mock_clock)
        who = {"actor": "olga", "role": "editor", "address": "10.0.0.7", "origin": "rest"}
        entity = {"user": "bob", "client-id": None}
        marks = quota_events(broker, "shadow")
        assert [mark.pop("shadow") for mark in marks] == [True, False, True, False]
        versions = [mark.pop("version") for mark in marks]
        assert versions[0] == first and versions == sorted(versions)
        assert all(mark == {"event": "shadow", "entity": entity, **who} for mark in marks)
        assert [each["new"] for each in quota_events(broker, "limit")] == [1_000.0, None]


async def test_switching_the_topic_on_writes_all_rules(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as broker:
        await set_limits(broker, ALICE, producer_byte_rate=1.0)
        await alter(broker, events_topics="quota_changes")
        await second_passes(broker, mock_clock)
        assert [rule["limits"] for rule in last_snapshot(broker)[1:]] == [{"producer_byte_rate": 1.0}]
        await alter(broker, events_topics="")
        await set_limits(broker, ALICE, producer_byte_rate=2.0)
        await second_passes(broker, mock_clock)
        assert len(quota_events(broker, "snapshot")) == 2
        await alter(broker, events_topics="quota_changes")
        await second_passes(broker, mock_clock)
        assert [rule["limits"] for rule in last_snapshot(broker)[1:]] == [{"producer_byte_rate": 2.0}]
        assert quota_events(broker, "limit") == []


async def test_a_topic_that_was_deleted_gets_all_rules_again(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path, ON) as broker:
        await set_limits(broker, ALICE, producer_byte_rate=1.0)
        await second_passes(broker, mock_clock)
        await broker.server.control.apply(DeleteTopics((TopicRef(TOPIC),)), BROKER_ITSELF)
        await second_passes(broker, mock_clock)
        assert TOPIC not in broker.server.partitions.by_name
        mock_clock.jump(RETRY_MS / 1000)
        await second_passes(broker, mock_clock)
        assert [rule["limits"] for rule in last_snapshot(broker)[1:]] == [{"producer_byte_rate": 1.0}]


async def test_dropped_changes_are_made_good_by_a_snapshot(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path, ON, "events.max.rows.per.second=2") as broker:
        await second_passes(broker, mock_clock)
        before = len(quota_events(broker, "snapshot"))
        for name in ("a", "b", "c"):
            await set_limits(broker, (("user", name),), producer_byte_rate=1.0)
        await second_passes(broker, mock_clock)
        assert [each["entity"]["user"] for each in quota_events(broker, "limit")] == ["a", "b"]
        assert broker.server.events.log.topics[TOPIC].dropped == 1
        assert len(quota_events(broker, "snapshot")) == before
        mock_clock.jump(RETRY_MS / 1000)
        for _ in range(3):
            await second_passes(broker, mock_clock)
        assert [rule["entity"]["user"] for rule in last_snapshot(broker)[1:]] == ["a", "b", "c"]


async def test_ten_thousand_rules_are_reported_in_slices_and_others_have_their_turns(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    names = (f"u{at}" for at in range(10_000))
    rules = tuple(QuotaAlteration((("user", each),), (QuotaOp("producer_byte_rate", 1.0),)) for each in names)
    async with running_broker(tmp_path) as unseen:
        await unseen.server.control.apply(AlterClientQuotas(rules), OPERATOR)
    async with running_broker(tmp_path, ON) as broker:
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                await trio.lowlevel.checkpoint()
                turns += 1

        found = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count_turns)
            for _ in range(11):
                before = turns
                await broker.server.events.write()
                found.append(
                    (len(values(broker, TOPIC)), turns - before >= MAX_PARTS // ROWS_PER_CHECKPOINT - 1)
                )
            nursery.cancel_scope.cancel()
        assert found[:-1] == [(MAX_PARTS * (at + 1), True) for at in range(10)]
        assert found[-1][0] == 10_001
        assert {each["parts"] for each in last_snapshot(broker)} == {10_001}

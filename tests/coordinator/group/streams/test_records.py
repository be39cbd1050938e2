"""Streams groups in __consumer_offsets: Kafka's format, restarts at every record, failed writes.

The examples were read and written again by Kafka 4.4.0's own classes, to the last byte.
"""

from typing import Any

import pytest

from broker.common.errors import ErrorCode
from broker.common.slices import run_through
from broker.coordinator.group.messages import Endpoint
from broker.coordinator.group.records import KeyType, ModernKey, decode_key, encode_key
from broker.coordinator.group.streams.group import StreamsGroup
from broker.coordinator.group.streams.member import MemberState, StreamsMember
from broker.coordinator.group.streams.records import (
    StoredEpoch,
    current_record,
    decode_current,
    decode_epoch,
    decode_member,
    decode_target,
    decode_target_epoch,
    decode_topology,
    epoch_record,
    member_record,
    topology_record,
)
from broker.coordinator.group.streams.tasks import MemberTasks
from broker.coordinator.group.streams.topology import CopartitionGroup, Subtopology, TopicInfo, Topology
from broker.records.stored_fields import UnreadableRecord
from tests.coordinator.group.streams.streamers import SESSION_MS, Streamers, Thread, settle, tasks

MEMBER = StreamsMember(
    "m", "i", None, "c", "/h", 60_000, 2, "p", Endpoint("h", 65_000), (("a", "1"), ("b", "2"))
)
PLAIN = StreamsMember("m", None, "r", "c", "/h", 60_000, 0, "p")
MOVED = PLAIN.moved(
    MemberState.UNREVOKED_TASKS,
    9,
    MemberTasks({"1": {2: 7}, "0": {1: 8, 0: 9}}, {"0": frozenset({3})}, {"2": frozenset({1})}),
    MemberTasks({"0": {2: 5}}),
)
TARGET = tasks({"1": {2}, "0": {1, 0}}, {"0": {3}})
EPOCH = StoredEpoch(3, 258, 2, (("num.standby.replicas", "1"),), -2, 4)
NEW = StoredEpoch(2, -1, configs=(("num.standby.replicas", "0"),))
TOPOLOGY = Topology(
    5,
    (
        Subtopology(
            "0",
            ("s", "t"),
            (),
            (TopicInfo("c", 0, 1, (("k", "v"),)),),
            ("r",),
            (TopicInfo("q", 3),),
            (CopartitionGroup((0, 1), (), (0,)),),
        ),
        Subtopology("1", (), repartition_source_topics=(TopicInfo("r"),)),
    ),
)


def group() -> StreamsGroup:
    found = StreamsGroup("g")
    found.target_epoch, found.assigned_wall_ms = 2, 1_750_000_000_000
    return found


RECORDS: list[tuple[Any, str, str]] = [
    (
        epoch_record("g", EPOCH),
        "0011 0001 67",
        "0000 00000003 0000000000000102 04"
        " 00 04 00000002 01 19 02 15 6e756d2e7374616e6462792e7265706c69636173 02 31 00"
        " 02 04 fffffffe 03 04 00000004",
    ),
    (
        epoch_record("g", NEW),
        "0011 0001 67",
        "0000 00000002 ffffffffffffffff 01 01 19 02 15 6e756d2e7374616e6462792e7265706c69636173 02 30 00",
    ),
    (
        run_through(StreamsGroup("g").member_record(MEMBER)),
        "0013 0001 67 0001 6d",
        "0000 02 69 00 02 63 03 2f68 0000ea60 00000002 02 70 01 02 68 fde8 00"
        " 03 02 61 02 31 00 02 62 02 32 00 00",
    ),
    (
        member_record("g", PLAIN),
        "0013 0001 67 0001 6d",
        "0000 00 02 72 02 63 03 2f68 0000ea60 00000000 02 70 ff 01 00",
    ),
    (group().target_epoch_record(), "0014 0001 67", "0000 00000002 01 00 08 000001977420dc00"),
    (StreamsGroup("g").target_epoch_record(), "0014 0001 67", "0000 00000001 00"),
    (
        run_through(group().target_record("m", TARGET)),
        "0015 0001 67 0001 6d",
        "0000 03 02 30 03 00000000 00000001 00 02 31 02 00000002 00 02 02 30 02 00000003 00 01 00",
    ),
    (
        run_through(current_record("g", MOVED)),
        "0016 0001 67 0001 6d",
        "0000 00000009 00000000 02"
        " 03 02 30 03 00000000 00000001 01 00 09 03 00000009 00000008"
        " 02 31 02 00000002 01 00 05 02 00000007"
        " 02 02 30 02 00000003 00 02 02 32 02 00000001 00"
        " 02 02 30 02 00000002 01 00 05 02 00000005 01 01 00",
    ),
    (
        run_through(topology_record("g", TOPOLOGY)),
        "0017 0001 67",
        "0000 00000005 03"
        " 02 30 03 02 73 02 74 01 02 02 63 00000000 0001 02 02 6b 02 76 00 00 02 02 72"
        " 02 02 71 00000003 0000 01 00 02 03 0000 0001 01 02 0000 00 00"
        " 02 31 01 01 01 01 02 02 72 00000000 0000 01 00 01 00 00",
    ),
]


@pytest.mark.parametrize(("record", "key", "value"), RECORDS)
def test_the_bytes_are_kafkas(record, key, value):
    assert record == (bytes.fromhex(key), bytes.fromhex(value))


def test_records_are_read_as_they_were_written():
    epoch, new, member, plain, target_epoch, first_epoch, target, current, topology = [
        record[1] for record, *_ in RECORDS
    ]
    assert (decode_epoch(epoch), decode_epoch(new)) == (EPOCH, NEW)
    assert decode_member(StreamsMember("m"), member) == MEMBER
    assert decode_member(StreamsMember("m"), plain) == PLAIN
    assert decode_target_epoch(target_epoch) == (2, 1_750_000_000_000)
    assert decode_target_epoch(first_epoch) == (1, 0)
    assert decode_target(target) == TARGET
    assert decode_current(PLAIN, current) == MOVED
    assert decode_topology(topology) == TOPOLOGY
    for (key, _), *_ in RECORDS:
        decoded = decode_key(key)
        assert decoded is not None and encode_key(decoded) == key


DECODERS: dict[KeyType, Any] = {
    KeyType.STREAMS_GROUP: decode_epoch,
    KeyType.STREAMS_MEMBER: lambda some: decode_member(StreamsMember("m"), some),
    KeyType.STREAMS_TARGET: decode_target_epoch,
    KeyType.STREAMS_TARGET_OF_MEMBER: decode_target,
    KeyType.STREAMS_CURRENT: lambda some: decode_current(PLAIN, some),
    KeyType.STREAMS_TOPOLOGY: decode_topology,
}


@pytest.mark.parametrize(("record", "_key", "_value"), RECORDS)
def test_every_truncated_value_is_unreadable(record, _key, _value):
    key, value = record
    decode = DECODERS[decode_key(key).type]
    for size in range(len(value) - 1):  # the last byte may be tagged fields, which need not be read
        with pytest.raises(UnreadableRecord):
            decode(value[:size])
    with pytest.raises(UnreadableRecord, match="version 1"):
        decode(b"\0\x01" + value[2:])
    for size in range(2, len(key)):
        with pytest.raises(UnreadableRecord):
            decode_key(key[:size])


def test_active_tasks_without_epochs_have_that_of_the_member():
    without = bytes.fromhex("0000 00000009 00000008 01 02 02 30 02 00000004 00 01 01 01 01 01 00")
    assert decode_current(PLAIN, without).assigned == MemberTasks({"0": {4: 9}})
    null = bytes.fromhex("0000 00000009 00000008 01 02 02 30 02 00000004 01 00 01 00 01 01 01 01 01 00")
    assert decode_current(PLAIN, null).assigned == MemberTasks({"0": {4: 9}})


def test_a_state_of_a_later_version_is_unknown():
    unknown = bytes.fromhex("0000 00000009 00000008 04 01 01 01 01 01 01 00")
    assert decode_current(PLAIN, unknown).state is MemberState.UNKNOWN


def busy(talk: Streamers) -> list[Thread]:
    """Two threads that have their tasks, and a third that waits for some."""
    threads = [Thread(talk, "a"), Thread(talk, "b", instance_id="i"), Thread(talk, "c")]
    for each in threads[:2]:
        each.enter()
    settle(*threads[:2])
    threads[2].enter()
    threads[1].beat()
    return threads


def test_a_restart_keeps_everything(talk):
    threads = busy(talk)
    again = talk.reborn()
    assert again.snapshot() == talk.snapshot()
    for each in threads:
        each.talk = again
    settle(*threads)
    assert again.described().state == "Stable"
    assert again.reborn().snapshot() == again.snapshot()


def test_a_restart_starts_the_sessions_and_the_time_to_revoke(talk):
    busy(talk)
    again = talk.reborn()
    assert again.group().members["b"].state is MemberState.UNREVOKED_TASKS
    again.wait(SESSION_MS - 1)
    assert len(again.group().members) == 3
    again.wait(1)
    assert not again.group().members


def test_a_restart_after_any_record_can_go_on(talk):
    busy(talk)
    for count in range(len(talk.records)):
        again = talk.reborn(count)
        if "g" not in again.coordinator.groups.by_id:
            continue
        again.snapshot()
        threads = [Thread(again, each) for each in "xy"]
        for each in threads:
            each.enter()
        again.wait(SESSION_MS - 1)
        settle(*threads)
        again.wait(1)  # the members that were stored send no heartbeats
        settle(*threads)
        assert set(again.group().members) == {"x", "y"}
        assert again.described().state == "Stable", count


def test_the_stored_epochs_of_a_description_are_kept(talk):
    talk.enter("a")
    group = talk.group()
    group.described_epoch, group.failed_epoch = 3, 4
    talk.enter("b")
    again = talk.reborn().group()
    assert (again.described_epoch, again.failed_epoch) == (3, 4)


def test_tombstones_remove_everything(talk):
    busy(talk)
    for each in ("a", "c"):
        talk.beat(each, -1)
    talk.beat("b", -1, instance_id="i")
    assert talk.described().state == "Empty"
    assert talk.delete("g") == [ErrorCode.NONE]
    assert not talk.reborn().coordinator.groups.by_id
    last = {key: value for key, value in talk.records if decode_key(key) is not None}
    assert {
        value for key, value in last.items() if decode_key(key) == ModernKey(KeyType.STREAMS_GROUP, "g")
    } == {None}
    assert set(last.values()) == {None}


@pytest.mark.parametrize(
    "call",
    [
        lambda talk: talk.enter("d"),
        lambda talk: talk.enter("a", process="other"),
        lambda talk: talk.beat("a", -1),
        lambda talk: talk.beat("b", -2, instance_id="i"),
        lambda talk: talk.beat("b", talk.group().members["b"].epoch, owned=tasks()),
    ],
)
def test_a_write_that_fails_is_undone(talk, call):
    busy(talk)
    before, deadline = talk.snapshot(), talk.coordinator.next_deadline()
    call(talk)
    assert talk.last.records
    talk.fail(talk.last)
    assert talk.snapshot() == before
    assert talk.coordinator.next_deadline() == deadline
    assert talk.reborn().snapshot() == before


def test_a_new_group_that_cannot_be_written_is_gone(talk):
    talk.enter("a")
    talk.fail(talk.last)
    assert talk.coordinator.groups.by_id == {}
    assert talk.enter("a").epoch == 2

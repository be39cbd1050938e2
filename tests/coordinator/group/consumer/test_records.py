"""Consumer groups in __consumer_offsets: Kafka's format, restarts at every record, failed writes."""

import random

import pytest

from broker.common.errors import ErrorCode
from broker.common.slices import run_through
from broker.coordinator.group.consumer.assignment import NO_PARTITIONS
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.consumer.member import (
    ClassicProtocols,
    ConsumerMember,
    MemberState,
    ResolvedExpression,
)
from broker.coordinator.group.consumer.records import (
    current_record,
    decode_current,
    decode_epoch,
    decode_expression,
    decode_member,
    expression_record,
    member_record,
)
from broker.coordinator.group.messages import Record
from broker.coordinator.group.records import (
    GroupKey,
    KeyType,
    ModernKey,
    decode_key,
    decode_target,
    decode_target_epoch,
    encode_key,
)
from broker.records.stored_fields import UnreadableRecord
from tests.coordinator.group.consumer.consumers import Consumer, Consumers, settle, topic_id

T, U = topic_id("t"), topic_id("u")
MEMBER = ConsumerMember(
    "m",
    "i",
    None,
    "c",
    "/h",
    5,
    ("t", "u"),
    "x.*",
    "range",
    ClassicProtocols(7, (("range", b"\x01\x02"),)),
)
REVOKING = MEMBER.moved(
    MemberState.UNREVOKED_PARTITIONS, 9, {T: frozenset({1})}, {T: {0: 4, 1: 5}}, {T: frozenset({0})}
)


def group() -> ConsumerGroup:
    found = ConsumerGroup("g")
    found.set_epoch(3, 258)
    found.target_epoch = 2
    return found


RECORDS = [
    (group().epoch_record(), "0003 0001 67", "0000 00000003 01 00 08 0000000000000102"),
    (
        run_through(member_record("g", MEMBER)),
        "0005 0001 67 0001 6d",
        "0000 02 69 00 02 63 03 2f68 03 02 74 02 75 04 782e2a 00000005 06 72616e6765"
        " 01 00 10 00000007 02 06 72616e6765 03 0102 00 00",
    ),
    (group().target_epoch_record(), "0006 0001 67", "0000 00000002 00"),
    (
        run_through(group().target_record("m", {T: frozenset({2, 1})})),
        "0007 0001 67 0001 6d",
        f"0000 02 {T.hex()} 03 00000001 00000002 00 00",
    ),
    (
        run_through(current_record("g", REVOKING)),
        "0008 0001 67 0001 6d",
        f"0000 00000009 00000000 01 02 {T.hex()} 02 00000001 01 00 05 02 00000005"
        f" 02 {T.hex()} 02 00000000 01 00 05 02 00000004 00",
    ),
    (
        run_through(expression_record("g", "x.*", ResolvedExpression(frozenset({"xb", "xa"}), 4, 5))),
        "0010 0001 67 0003 782e2a",
        "0000 03 03 7861 03 7862 0000000000000004 0000000000000005 00",
    ),
]


@pytest.mark.parametrize(("record", "key", "value"), RECORDS)
def test_the_bytes_are_kafkas(record, key, value):
    assert record == (bytes.fromhex(key), bytes.fromhex(value))


def test_records_are_read_as_they_were_written():
    (epoch, member, target_epoch, target, current, expression) = [record[1] for record, *_ in RECORDS]
    assert decode_epoch(epoch) == (3, 258)
    assert decode_member(ConsumerMember("m"), member) == MEMBER
    assert decode_target_epoch(target_epoch) == 2
    assert decode_target(target) == {T: frozenset({1, 2})}
    assert decode_current(MEMBER, current) == REVOKING
    assert decode_expression(expression) == ResolvedExpression(frozenset({"xa", "xb"}), 4, 5)
    for (key, _), *_ in RECORDS:
        decoded = decode_key(key)
        assert decoded is not None and encode_key(decoded) == key


def test_an_epoch_of_kafka_4_0_has_no_hash():
    assert decode_epoch(bytes.fromhex("0000 00000003 00")) == (3, 0)


@pytest.mark.parametrize("tags", ["00", "01 00 01 00", "01 00 05 02 00000005"], ids=["none", "null", "one"])
def test_partitions_without_their_epochs_have_that_of_the_member(tags):
    """Brokers before Kafka 4.3 wrote none."""
    value = f"0000 00000009 00000000 00 02 {T.hex()} 03 00000000 00000001 {tags} 01 00"
    stored = decode_current(MEMBER, bytes.fromhex(value))
    assert (stored.assigned, stored.since) == ({T: frozenset({0, 1})}, {T: 9})


def test_partitions_of_several_epochs_are_read_as_they_were_written():
    member = MEMBER.moved(
        MemberState.STABLE, 9, {T: frozenset({3, 1, 2}), U: frozenset({0, 1})}, {T: {1: 9, 2: 7, 3: 8}, U: 9}
    )
    _, value = run_through(current_record("g", member))
    assert decode_current(MEMBER, value) == member


def test_an_unknown_state_of_a_member_is_kept_as_unknown():
    stored = decode_current(MEMBER, bytes.fromhex("0000 00000001 00000000 63 01 01 00"))
    assert stored.state is MemberState.UNKNOWN


@pytest.mark.parametrize(("record", "_key", "_value"), RECORDS)
def test_every_truncated_value_is_unreadable(record, _key, _value):
    key, value = record
    decoders = {
        KeyType.GROUP: decode_epoch,
        KeyType.MEMBER: lambda some: decode_member(ConsumerMember("m"), some),
        KeyType.TARGET: lambda some: (decode_target_epoch(some), some[6]),
        KeyType.TARGET_OF_MEMBER: decode_target,
        KeyType.CURRENT: lambda some: decode_current(MEMBER, some),
        KeyType.EXPRESSION: decode_expression,
    }
    decode = decoders[decode_key(key).type]
    for size in range(len(value) - 1):  # the last byte are the tagged fields, which need not be read
        with pytest.raises((UnreadableRecord, IndexError)):
            decode(value[:size])
    with pytest.raises(UnreadableRecord, match="version 1"):
        decode(b"\0\x01" + value[2:])


def test_a_restart_keeps_everything(talk):
    a, b = Consumer(talk, "a"), Consumer(talk, "b", instance_id="i", rack_id="r", assignor="range")
    a.enter()
    b.enter()
    a.beat()
    again = talk.reborn()
    assert again.snapshot() == talk.snapshot()
    a.talk = b.talk = again
    settle(a, b)
    assert again.described().state == "Stable"
    assert again.group().epoch == 3


def test_the_order_of_the_keys_does_not_matter(talk):
    a, b = Consumer(talk, "a"), Consumer(talk, "b")
    a.enter()
    b.enter()
    settle(a, b)
    b.leave()
    talk.commit("a", 3)
    values: dict[bytes, bytes] = {}
    for key, value in talk.records:
        values.pop(key, None)
        if value is not None:
            values[key] = value
    for seed in range(10):
        shuffled = list(values.items())
        random.Random(seed).shuffle(shuffled)
        again = Consumers()
        for key, value in shuffled:
            again.coordinator.replay(key, value)
        again.coordinator.loaded(again.now)
        assert again.snapshot() == talk.snapshot()
        assert again.committed() == 42


@pytest.mark.parametrize("seed", range(5))
def test_a_kill_at_any_record_leaves_members_that_carry_on(seed):
    talk, chance = Consumers(), random.Random(seed)
    everyone = [Consumer(talk, name) for name in "abc"]
    for _ in range(25):
        consumer = chance.choice(everyone)
        if not consumer.is_in:
            consumer.enter()
        elif chance.random() < 0.1:
            consumer.leave()
        else:
            consumer.beat()
            consumer.revoke()
    records = talk.records
    for killed_after in range(len(records) + 1):
        again = Consumers()
        again.records = records[:killed_after]
        for key, value in again.records:
            again.coordinator.replay(key, value)
        again._take(again.coordinator.loaded(again.now))
        survivors = [Consumer(again, name) for name in "abc"]
        group_now = again.coordinator.groups.by_id.get("g")
        for each in survivors:
            stored = group_now.members.get(each.member_id) if isinstance(group_now, ConsumerGroup) else None
            if stored is not None and stored.epoch > 0:
                # A live client states its epoch, and goes on with its partitions.
                each.epoch, each.is_in = stored.epoch, True
                each.owned = {"t": set(stored.assigned.get(T, ()))}
                each.target = dict(each.owned)
                each.beat()
            else:
                each.enter()
        for each in survivors:
            if not each.is_in or each.member_id not in again.group().members:
                each.enter()
        settle(*survivors)
        held = sorted(index for each in survivors for index in each.owned.get("t", ()))
        assert held == [0, 1, 2, 3], killed_after


def test_two_stored_owners_of_a_partition_end_with_one(talk, caplog):
    talk.enter("a")
    damaged = [
        *talk.records,
        run_through(
            current_record("g", ConsumerMember("z").moved(MemberState.STABLE, 1, {T: frozenset({0})}, {T: 1}))
        ),
    ]
    again = Consumers()
    for key, value in damaged:
        again.coordinator.replay(key, value)
    again.coordinator.loaded(again.now)
    assert list(again.group().members) == ["a"]
    assert "dropping member z" in caplog.text
    assert again.beat("z", 2).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_damaged_record_changes_nothing(talk):
    talk.enter("a")
    before = talk.snapshot()
    for key, value in list(talk.records):
        assert value is not None
        with pytest.raises(UnreadableRecord):
            talk.coordinator.replay(key, value[:5])
    assert talk.snapshot() == before


@pytest.mark.parametrize(
    "error", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NOT_ENOUGH_REPLICAS]
)
def test_a_call_that_cannot_be_written_changes_nothing(talk, error):
    a, b = Consumer(talk, "a"), Consumer(talk, "b", instance_id="i")
    a.enter()
    b.enter()
    calls = [
        lambda: talk.beat("a", 2),  # begins to revoke
        lambda: talk.enter("c"),
        lambda: talk.beat("b", -2, instance_id="i"),
        lambda: talk.beat("a", -1),
        lambda: talk.enter("d", group="new"),
    ]
    for call in calls:
        before = talk.snapshot()
        records = len(talk.records)
        call()
        assert talk.last.records
        talk.fail(talk.last, error=error)
        assert talk.snapshot() == before
        assert len(talk.records) == records
    assert talk.coordinator.overview("new") is None
    # The members' sessions run on.
    talk.wait(45_000)
    assert talk.group().members == {}


def test_a_failed_heartbeat_is_answered_with_an_error(talk):
    talk.enter("a")
    effects = talk.last
    ((ask, _),) = effects.replies
    talk.fail(effects)
    assert (ask.reply.error, ask.reply.assignment) == (ErrorCode.NOT_COORDINATOR, None)
    assert talk.listed() == []


def test_keys_are_told_apart():
    assert decode_key(bytes.fromhex("0004 0001 67")) == ModernKey(KeyType.PARTITIONS, "g")
    assert decode_key(bytes.fromhex("0002 0001 67")) == GroupKey("g")
    record: Record = (bytes.fromhex("0004 0001 67"), b"\0\0\x01\0")
    talk = Consumers()
    talk.coordinator.replay(*record)
    talk.coordinator.replay(record[0], None)
    assert talk.group().members == {}
    assert NO_PARTITIONS == {}

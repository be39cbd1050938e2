"""Share groups in __consumer_offsets: Kafka's format, restarts at every record, failed writes."""

import random

import pytest

from broker.common.errors import ErrorCode
from broker.common.slices import run_through
from broker.coordinator.group.records import (
    KeyType,
    ModernKey,
    decode_key,
    decode_target,
    decode_target_epoch,
    encode_key,
)
from broker.coordinator.group.share.group import ShareGroup
from broker.coordinator.group.share.member import ShareMember
from broker.coordinator.group.share.records import (
    current_record,
    decode_current,
    decode_epoch,
    decode_member,
    decode_states,
    member_record,
    states_record,
)
from broker.coordinator.group.share.state_partitions import NamedPartitions, StatePartitions
from broker.records.stored_fields import UnreadableRecord
from tests.coordinator.group.share.sharers import SESSION_MS, Sharers, topic_id

T, U, V = topic_id("t"), topic_id("u"), topic_id("v")
MEMBER = ShareMember("m", None, "c", "/h", ("t", "u"))
STATES = StatePartitions(
    {T: NamedPartitions("t", frozenset({1}))}, {U: NamedPartitions("u", frozenset({2, 0}))}, {V: "v"}
)


def group() -> ShareGroup:
    found = ShareGroup("g")
    found.epoch, found.metadata_hash, found.target_epoch, found.states = 3, 258, 2, STATES
    return found


RECORDS = [
    (
        run_through(member_record("g", MEMBER)),
        "000a 0001 67 0001 6d",
        "0000 00 02 63 03 2f68 03 02 74 02 75 00",
    ),
    (group().epoch_record(), "000b 0001 67", "0000 00000003 0000000000000102 00"),
    (group().target_epoch_record(), "000c 0001 67", "0000 00000002 00"),
    (
        run_through(group().target_record("m", {T: frozenset({2, 1})})),
        "000d 0001 67 0001 6d",
        f"0000 02 {T.hex()} 03 00000001 00000002 00 00",
    ),
    (
        run_through(current_record("g", MEMBER.moved(9, {T: frozenset({1})}))),
        "000e 0001 67 0001 6d",
        f"0000 00000009 00000000 00 02 {T.hex()} 02 00000001 00 00",
    ),
    (
        run_through(states_record("g", STATES)),
        "000f 0001 67",
        f"0000 02 {T.hex()} 02 74 02 00000001 00 02 {U.hex()} 02 75 03 00000000 00000002 00"
        f" 02 {V.hex()} 02 76 00 00",
    ),
]


@pytest.mark.parametrize(("record", "key", "value"), RECORDS)
def test_the_bytes_are_kafkas(record, key, value):
    assert record == (bytes.fromhex(key), bytes.fromhex(value))


def test_records_are_read_as_they_were_written():
    member, epoch, target_epoch, target, current, states = [record[1] for record, *_ in RECORDS]
    assert decode_member(ShareMember("m"), member) == MEMBER
    assert decode_epoch(epoch) == (3, 258)
    assert decode_target_epoch(target_epoch) == 2
    assert decode_target(target) == {T: frozenset({1, 2})}
    assert decode_current(MEMBER, current) == MEMBER.moved(9, {T: frozenset({1})})
    assert decode_states(states) == STATES
    for (key, _), *_ in RECORDS:
        decoded = decode_key(key)
        assert decoded is not None and encode_key(decoded) == key
    assert decode_key(bytes.fromhex("0012 0001 67 0001 6d")) is None


DECODERS = {
    KeyType.SHARE_MEMBER: lambda some: decode_member(ShareMember("m"), some),
    KeyType.SHARE_GROUP: decode_epoch,
    KeyType.SHARE_TARGET: decode_target_epoch,
    KeyType.SHARE_TARGET_OF_MEMBER: decode_target,
    KeyType.SHARE_CURRENT: lambda some: decode_current(MEMBER, some),
    KeyType.SHARE_STATES: decode_states,
}


@pytest.mark.parametrize(("record", "_key", "_value"), RECORDS)
def test_every_truncated_value_is_unreadable(record, _key, _value):
    key, value = record
    decode = DECODERS[decode_key(key).type]
    for size in range(len(value) - 1):  # the last byte are the tagged fields, which need not be read
        with pytest.raises(UnreadableRecord):
            decode(value[:size])
    with pytest.raises(UnreadableRecord, match="version 1"):
        decode(b"\0\x01" + value[2:])
    for size in range(2, len(key)):
        with pytest.raises(UnreadableRecord):
            decode_key(key[:size])


def test_a_restart_keeps_everything(talk):
    talk.ready("a", "b")
    again = talk.reborn()
    assert again.snapshot() == talk.snapshot()
    epochs = {each: member.epoch for each, member in again.group().members.items()}
    for member_id, epoch in epochs.items():
        assert again.beat(member_id, epoch).error is ErrorCode.NONE
    assert again.records == talk.records
    # The sessions begin anew.
    again.wait(SESSION_MS)
    assert again.group().members == {}


def test_states_that_were_begun_are_completed_after_a_restart(talk):
    talk.enter("a")
    again = talk.reborn()
    assert again.coordinator.share.take_pending_states() == ["g"]
    again.initialize()
    assert again.beat("a", 2).epoch == 3
    again.beat("a", -1)
    again.begin_deletion("t")
    assert again.reborn().coordinator.share.take_pending_states() == ["g"]


def test_the_order_of_the_keys_does_not_matter(talk):
    talk.ready("a", "b", "c")
    talk.beat("b", -1)
    values: dict[bytes, bytes] = {}
    for key, value in talk.records:
        values.pop(key, None)
        if value is not None:
            values[key] = value
    for seed in range(10):
        shuffled = list(values.items())
        random.Random(seed).shuffle(shuffled)
        again = Sharers()
        for key, value in shuffled:
            again.coordinator.replay(key, value)
        again.coordinator.loaded(again.now)
        assert again.snapshot() == talk.snapshot()


@pytest.mark.parametrize("seed", range(6))
def test_a_kill_at_any_record_leaves_members_that_carry_on(seed):
    talk, chance = Sharers(), random.Random(seed)
    topics = [("t",), ("u",), ("t", "u")]
    for _ in range(30):
        name, known = chance.choice("abc"), talk.coordinator.groups.by_id.get("g")
        member = known.members.get(name) if isinstance(known, ShareGroup) else None
        match chance.randrange(6):
            case 0 if member is not None:
                talk.beat(name, -1)
            case 1:
                talk.initialize()
            case 2:
                talk.set_topics(t=chance.randint(1, 5), u=2)
            case 3 if known is not None:
                talk.begin_deletion("t")
                if chance.random() < 0.5:
                    talk.complete_deletion("t")
            case _ if member is not None:
                talk.beat(name, member.epoch)
            case _:
                talk.enter(name, chance.choice(topics))
    for killed_after in range(len(talk.records) + 1):
        again = talk.reborn(killed_after)
        again.set_topics(t=3, u=2)
        for name in "abc":
            group = again.coordinator.groups.by_id.get("g")
            stored = group.members.get(name) if isinstance(group, ShareGroup) else None
            # A live client states its epoch, or joins again if that is refused.
            if stored is None or again.beat(name, stored.epoch or 1).error is not ErrorCode.NONE:
                if stored is not None:
                    again.beat(name, -1)
                assert again.enter(name, ("t", "u")).error is ErrorCode.NONE
        for _ in range(4):
            again.complete_deletion(*again.coordinator.share.states("g").deleting.values())
            again.initialize()
            for name in "abc":
                member = again.group().members[name]
                assert again.beat(name, member.epoch, topics=("t", "u")).error is ErrorCode.NONE
        held: dict[str, set[int]] = {}
        for partitions in again.assigned().values():
            for topic, indexes in partitions.items():
                held.setdefault(topic, set()).update(indexes)
        assert held == {"t": {0, 1, 2}, "u": {0, 1}}, killed_after
        epoch = again.group().epoch
        for name in "abc":
            again.beat(name, again.group().members[name].epoch)
        assert again.group().epoch == epoch


def test_a_damaged_record_changes_nothing(talk):
    talk.ready("a")
    before = talk.snapshot()
    for key, value in list(talk.records):
        assert value is not None
        with pytest.raises(UnreadableRecord):
            talk.coordinator.replay(key, value[:1])
    assert talk.snapshot() == before


def test_records_of_two_types_of_groups_are_unreadable(talk):
    talk.stable(1)
    classic = talk.records
    with pytest.raises(UnreadableRecord, match="two types"):
        talk.coordinator.replay(*group().epoch_record())
    again = Sharers()
    again.coordinator.replay(*group().epoch_record())
    again.coordinator.replay(*classic[-1])
    assert again.coordinator.classic.described("g", missing_is_error=False).state == "Stable"


def test_tombstones_of_what_is_not_there_are_passed_over(talk):
    for key_type in KeyType:
        talk.coordinator.replay(encode_key(ModernKey(key_type, "g", "m")), None)
    assert talk.listed() == []


@pytest.mark.parametrize("error", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.MESSAGE_TOO_LARGE])
def test_a_call_that_cannot_be_written_changes_nothing(talk, error):
    talk.ready("a", "b")
    epoch = talk.group().members["a"].epoch
    talk.set_topics(t=5)
    calls = [
        lambda: talk.beat("a", epoch),
        lambda: talk.enter("c"),
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
    talk.wait(SESSION_MS)
    assert talk.group().members == {}


def test_states_that_cannot_be_recorded_are_not_changed(talk):
    talk.ready("a")
    talk.beat("a", -1)
    before = talk.snapshot()
    talk.begin("t", 1)
    ((ask, _),) = talk.last.replies
    talk.fail(talk.last)
    assert ask.reply.error is ErrorCode.NOT_COORDINATOR
    assert talk.snapshot() == before
    talk.begin_deletion()
    talk.fail(talk.last)
    assert talk.snapshot() == before
    talk.delete("g")
    talk.fail(talk.last)
    assert talk.snapshot() == before


def test_a_failed_heartbeat_is_answered_with_an_error(talk):
    talk.enter("a")
    effects = talk.last
    ((ask, _),) = effects.replies
    talk.fail(effects)
    assert (ask.reply.error, ask.reply.assignment) == (ErrorCode.NOT_COORDINATOR, None)
    assert talk.listed() == []


def test_a_member_without_a_target_makes_the_next_heartbeat_begin_an_epoch(talk):
    talk.ready("a")
    kept = [
        record for record in talk.records if decode_key(record[0]).type is not KeyType.SHARE_TARGET_OF_MEMBER
    ]
    again = Sharers()
    again.records = kept
    again = again.reborn()
    epoch = again.group().epoch
    assert again.beat("a", again.group().members["a"].epoch).epoch == epoch + 1
    assert again.assigned() == {"a": {"t": {0, 1, 2, 3}}}

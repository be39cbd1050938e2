"""Groups change their protocol: empty ones always, others by the policy, both ways; no offset is lost."""

import random

import pytest

from broker.common.errors import ErrorCode
from broker.common.slices import run_through
from broker.config.sections.groups import ConsumerGroupConfig
from broker.coordinator.group.consumer.embedded import read_assignment
from broker.coordinator.group.messages import LeavingMember, OffsetToCommit
from broker.protocol.codec import encode_data
from broker.protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from broker.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from broker.protocol.messages.consumer_protocol_subscription import TopicPartition as OwnedPartition
from tests.coordinator.group.consumer.consumers import Consumer, Consumers, Partitions, by_name, settle
from tests.coordinator.group.conversation import Ask


def subscription(owned: Partitions | None = None, topics: tuple[str, ...] = ("t",)) -> bytes:
    parts = [OwnedPartition(topic, sorted(indexes)) for topic, indexes in (owned or {}).items()]
    message = ConsumerProtocolSubscription(list(topics), None, parts, -1, "rack")
    return b"\0\x03" + b"".join(encode_data("consumer_protocol_subscription", 3)(message))


def assignment(partitions: Partitions) -> bytes:
    parts = [TopicPartition(topic, sorted(indexes)) for topic, indexes in partitions.items()]
    return b"\0\x03" + b"".join(
        encode_data("consumer_protocol_assignment", 3)(ConsumerProtocolAssignment(parts))
    )


class Classic:
    """A client of the classic protocol with the cooperative assignor: it joins again when it is told to."""

    def __init__(self, talk: Consumers, instance_id: str | None = None) -> None:
        self.talk = talk
        self.member_id = ""
        self.instance_id = instance_id
        self.generation = -1
        self.owned: Partitions = {}
        self.joining: Ask | None = None
        self.syncing: Ask | None = None

    def join(self) -> None:
        protocols = (("cooperative-sticky", subscription(self.owned)),)
        asked = {"instance": self.instance_id, "protocols": protocols, "rebalance": 60_000}
        ask = self.talk.join(self.member_id, **asked)
        if not ask.parked and ask.reply.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = ask.reply.member_id
            ask = self.talk.join(self.member_id, **asked)
        self.joining = ask
        self.go_on()

    def go_on(self) -> None:
        """Act on the replies that have arrived."""
        if self.joining is not None and not self.joining.parked:
            reply, self.joining = self.joining.reply, None
            if reply.error is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id, self.owned = "", {}
            if reply.error is not ErrorCode.NONE:
                self.join()
                return
            self.member_id, self.generation = reply.member_id, reply.generation_id
            assignments = {}
            if reply.members and not reply.skip_assignment:
                ids = sorted(member.member_id for member in reply.members)
                for number, member_id in enumerate(ids):
                    some = {index for index in range(4) if index % len(ids) == number}
                    assignments[member_id] = assignment({"t": some})
            self.syncing = self.talk.sync(
                self.member_id,
                self.generation,
                assignments,
                instance=self.instance_id,
                protocol="cooperative-sticky",
            )
        if self.syncing is not None and not self.syncing.parked:
            reply, self.syncing = self.syncing.reply, None
            if reply.error is not ErrorCode.NONE:
                self.join()
                return
            found = by_name(run_through(read_assignment(reply.assignment, self.talk.topics.by_name)))
            # A cooperative member that has to give up partitions does so, and joins again.
            gives_up = any(indexes - found.get(topic, set()) for topic, indexes in self.owned.items())
            self.owned = found
            if gives_up:
                self.join()

    def beat(self) -> ErrorCode:
        self.go_on()
        if self.joining is not None or self.syncing is not None:
            return ErrorCode.NONE
        error = self.talk.heartbeat(self.member_id, self.generation, instance=self.instance_id)
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id, self.owned = "", {}
        if error is not ErrorCode.NONE:
            self.join()
        return error

    def leave(self) -> None:
        self.owned = {}
        self.talk.leave(LeavingMember(self.member_id, self.instance_id))


def classic_group(talk: Consumers, count: int) -> list[Classic]:
    """Return the members of a stable classic group."""
    members = [Classic(talk) for _ in range(count)]
    for member in members:
        member.join()
    run(talk, *members, rounds=12)
    assert talk.state() == "Stable"
    return members


def run(talk: Consumers, *members: Classic | Consumer, rounds: int = 12) -> None:
    """Let time pass, with heartbeats of all members."""
    for _ in range(rounds):
        talk.wait(1_000)
        for member in members:
            member.beat()
            if isinstance(member, Consumer):
                member.revoke()


def held(*members: Classic | Consumer) -> list[int]:
    return sorted(index for member in members for index in member.owned.get("t", ()))


def test_an_empty_classic_group_becomes_a_consumer_group_with_its_offsets(talk):
    (member,) = classic_group(talk, 1)
    talk.commit(member.member_id, member.generation)
    member.leave()
    talk.wait(0)
    a = Consumer(talk, "a")
    a.enter()
    assert (talk.described().state, talk.committed()) == ("Stable", 42)
    again = talk.reborn()
    assert (again.snapshot(), again.committed()) == (talk.snapshot(), 42)


def test_a_group_of_offsets_only_becomes_a_consumer_group(talk):
    talk.commit()
    talk.enter("a")
    assert (talk.described().state, talk.committed()) == ("Stable", 42)


def test_an_empty_consumer_group_becomes_a_classic_group_with_its_offsets(talk):
    talk.enter("a")
    talk.commit("a", 2)
    talk.beat("a", -1)
    (member,) = classic_group(talk, 1)
    assert (held(member), talk.committed(), talk.state()) == ([0, 1, 2, 3], 42, "Stable")
    assert talk.beat("a", 2).error is ErrorCode.GROUP_ID_NOT_FOUND
    again = talk.reborn()
    assert (again.state(), again.committed()) == ("Stable", 42)


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_policy_without_upgrade_refuses_a_consumer_in_a_classic_group(policy):
    talk = Consumers(consumer=ConsumerGroupConfig(migration_policy=policy))
    classic_group(talk, 1)
    before = talk.snapshot()
    reply = talk.enter("a")
    assert reply.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert reply.message == "Group g is not a consumer group."
    assert talk.snapshot() == before


@pytest.mark.parametrize("policy", ["upgrade", "bidirectional"])
def test_a_classic_group_is_upgraded_when_a_consumer_joins(policy):
    talk = Consumers(consumer=ConsumerGroupConfig(migration_policy=policy))
    members = classic_group(talk, 2)
    a = Consumer(talk, "a")
    a.enter()
    # The members keep what they have until they join again.
    assert held(*members) == [0, 1, 2, 3]
    assert a.owned == {}
    assert [member.beat() for member in members] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    run(talk, a, *members)
    assert talk.described().state == "Stable"
    assert held(a, *members) == [0, 1, 2, 3]
    assert all(member.owned for member in (a, *members))
    assert sorted(member.classic is not None for member in talk.described().members) == [False, True, True]
    again = talk.reborn()
    assert again.snapshot() == talk.snapshot()


def test_members_that_wait_in_a_rebalance_are_told_to_join_the_upgraded_group(talk):
    (member,) = classic_group(talk, 1)
    other = Classic(talk)
    other.join()
    assert other.joining is not None and other.joining.parked
    a = Consumer(talk, "a")
    a.enter()
    assert other.joining.reply.error is ErrorCode.REBALANCE_IN_PROGRESS
    run(talk, a, member, other)
    assert held(a, member, other) == [0, 1, 2, 3]


def test_a_group_of_another_protocol_type_is_not_upgraded(talk):
    talk.join_twice(protocol_type="connect", protocols=(("default", b"x"),))
    assert talk.enter("a").error is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_with_a_malformed_subscription_is_not_upgraded(talk):
    member_id, join = talk.join_twice(protocols=(("range", b"\0"),))
    talk.wait(3_000)
    talk.sync(member_id, join.reply.generation_id, {member_id: b""})
    before = talk.snapshot()
    reply = talk.enter("a")
    assert reply.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert reply.message is not None and "malformed" in reply.message
    assert talk.snapshot() == before


def test_two_classic_members_with_the_same_partition_are_not_upgraded(talk):
    ids = [talk.join_twice(protocols=(("range", subscription()),)) for _ in range(2)]
    talk.wait(6_000)
    generation = ids[0][1].reply.generation_id
    talk.sync(ids[1][0], generation)
    talk.sync(ids[0][0], generation, {each: assignment({"t": {0}}) for each, _ in ids})
    assert talk.state() == "Stable"
    assert talk.enter("a").error is ErrorCode.GROUP_ID_NOT_FOUND
    assert talk.state() == "Stable"


@pytest.mark.parametrize(("size", "error"), [(1, 0), (2, 0), (3, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_classic_group_above_the_size_of_consumer_groups_is_not_upgraded(size, error):
    talk = Consumers(consumer=ConsumerGroupConfig(max_size=2))
    classic_group(talk, size)
    expected = ErrorCode.GROUP_MAX_SIZE_REACHED if size == 2 else error
    assert talk.enter("a").error == expected
    assert (talk.coordinator.overview("g").group_type == "consumer") is (size == 1)


@pytest.mark.parametrize("policy", ["downgrade", "bidirectional"])
def test_a_consumer_group_is_downgraded_when_its_last_consumer_leaves(policy):
    talk = Consumers(consumer=ConsumerGroupConfig(migration_policy=policy))
    a, classic = Consumer(talk, "a"), Classic(talk)
    a.enter()
    classic.join()
    run(talk, a, classic)
    assert held(a, classic) == [0, 1, 2, 3]
    talk.commit(classic.member_id, classic.generation)
    a.leave()
    assert talk.coordinator.overview("g").group_type == "classic"
    run(talk, classic)
    assert (talk.state(), held(classic), talk.committed()) == ("Stable", [0, 1, 2, 3], 42)
    assert talk.reborn().state() == "Stable"


def test_a_downgrade_follows_when_the_last_consumer_is_fenced(talk):
    a, classic = Consumer(talk, "a"), Classic(talk)
    a.enter()
    classic.join()
    run(talk, a, classic)
    run(talk, classic, rounds=45)
    assert talk.coordinator.overview("g").group_type == "classic"
    assert held(classic) == [0, 1, 2, 3]


def test_a_policy_without_downgrade_keeps_classic_members_in_the_consumer_group():
    talk = Consumers(consumer=ConsumerGroupConfig(migration_policy="upgrade"))
    a, classic = Consumer(talk, "a"), Classic(talk)
    a.enter()
    classic.join()
    run(talk, a, classic)
    a.leave()
    run(talk, classic)
    assert talk.described().state == "Stable"
    assert held(classic) == [0, 1, 2, 3]


def test_a_classic_member_must_support_a_common_protocol(talk):
    talk.enter("a")
    other = talk.join(protocol_type="connect", protocols=(("x", b""),))
    assert other.reply.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    first = Classic(talk)
    first.join()
    last = talk.join(protocols=(("roundrobin", subscription()),))
    assert last.reply.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    malformed = talk.join("m", protocols=(("cooperative-sticky", b"\0\x03\x7f"),))
    assert malformed.reply.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_classic_requests_of_a_consumer_are_refused(talk):
    talk.enter("a")
    assert talk.heartbeat("a", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.sync("a", 1).reply.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.leave("a").errors == (ErrorCode.UNKNOWN_MEMBER_ID,)
    assert talk.heartbeat("b", 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_classic_member_states_its_generation(talk):
    talk.enter("a")
    classic = Classic(talk)
    classic.join()
    epoch = classic.generation
    assert talk.heartbeat(classic.member_id, epoch + 1) is ErrorCode.ILLEGAL_GENERATION
    assert talk.sync(classic.member_id, epoch - 1).reply.error is ErrorCode.ILLEGAL_GENERATION
    wrong = talk.sync(classic.member_id, epoch, protocol="range")
    assert wrong.reply.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert talk.commit(classic.member_id, epoch + 1) == [ErrorCode.ILLEGAL_GENERATION]
    assert talk.commit(classic.member_id, epoch, OffsetToCommit("t", 0, 1)) == [ErrorCode.NONE]


@pytest.mark.parametrize(("waited", "members"), [(59_999, 2), (60_000, 1)])
def test_a_classic_member_that_does_not_sync_is_removed(waited, members):
    talk = Consumers(consumer=ConsumerGroupConfig(session_timeout_ms=60_000))
    talk.enter("a")
    protocols = (("cooperative-sticky", subscription()),)
    joined = {"session": 300_000, "rebalance": 60_000, "protocols": protocols}
    member_id = talk.join(**joined).reply.member_id
    talk.join(member_id, **joined)
    began = talk.elapsed
    while talk.elapsed - began < waited:
        talk.wait(min(20_000, waited - (talk.elapsed - began)))
        if talk.elapsed - began < waited:
            talk.beat("a", 2)
    assert len(talk.group().members) == members


@pytest.mark.parametrize(("waited", "members"), [(59_999, 2), (60_000, 1)])
def test_a_classic_member_that_does_not_rejoin_is_removed(waited, members):
    talk = Consumers(consumer=ConsumerGroupConfig(session_timeout_ms=60_000))
    a, classic = Consumer(talk, "a"), Classic(talk)
    a.enter()
    classic.join()
    run(talk, a, classic)
    talk.set_topics(t=5)
    a.beat()
    began = talk.elapsed
    assert talk.heartbeat(classic.member_id, classic.generation) is ErrorCode.REBALANCE_IN_PROGRESS
    while talk.elapsed - began < waited:
        talk.wait(min(5_000, waited - (talk.elapsed - began)))
        if talk.elapsed - began < waited:
            talk.heartbeat(classic.member_id, classic.generation)
            a.beat()
            a.revoke()
    assert len(talk.group().members) == members


def test_a_static_consumer_replaced_by_a_classic_member_downgrades_the_group(talk):
    a = Consumer(talk, "a", instance_id="i")
    a.enter()
    classic = Classic(talk, instance_id="i")
    classic.join()
    run(talk, classic)
    assert talk.coordinator.overview("g").group_type == "classic"
    assert held(classic) == [0, 1, 2, 3]


def test_a_static_classic_member_replaced_by_a_consumer_upgrades_the_group(talk):
    classic = Classic(talk, instance_id="i")
    classic.join()
    run(talk, classic)
    a = Consumer(talk, "a", instance_id="i")
    a.enter()
    settle(a)
    assert [each.member_id for each in talk.described().members] == ["a"]
    assert a.owned == {"t": {0, 1, 2, 3}}
    assert talk.heartbeat(classic.member_id, classic.generation, instance="i") is ErrorCode.FENCED_INSTANCE_ID


def test_a_failed_upgrade_leaves_the_classic_group(talk):
    members = classic_group(talk, 2)
    generation = members[0].generation
    talk.enter("a")
    talk.fail(talk.last)
    assert talk.state() == "Stable"
    assert [talk.heartbeat(each.member_id, generation) for each in members] == [ErrorCode.NONE] * 2
    run(talk, *members)
    assert held(*members) == [0, 1, 2, 3]
    talk.wait(10_000)
    assert talk.state() == "Empty"


def test_a_classic_group_goes_on_after_a_failed_upgrade_in_its_rebalance(talk):
    first, second = Classic(talk), Classic(talk)
    first.join()
    second.join()
    unused = talk.join(protocols=(("cooperative-sticky", subscription()),)).reply.member_id
    assert talk.state() == "PreparingRebalance"
    talk.enter("a")
    talk.fail(talk.last)
    # The waiting members were told to join again; the id that nobody uses does not hold them up for long.
    assert (talk.state(), bool(unused)) == ("PreparingRebalance", True)
    run(talk, first, second, rounds=20)
    assert (talk.state(), held(first, second)) == ("Stable", [0, 1, 2, 3])


def test_a_failed_downgrade_leaves_the_consumer_group(talk):
    a, classic = Consumer(talk, "a"), Classic(talk)
    a.enter()
    classic.join()
    run(talk, a, classic)
    before = talk.snapshot()
    talk.beat("a", -1)
    talk.fail(talk.last)
    assert talk.snapshot() == before
    run(talk, a, classic)
    assert held(a, classic) == [0, 1, 2, 3]


@pytest.mark.rotates
@pytest.mark.parametrize("seed", range(15))
def test_members_of_both_protocols_never_share_a_partition(seed):
    chance, talk = random.Random(seed), Consumers()
    everyone: list[Classic | Consumer] = [Classic(talk) for _ in range(3)]
    everyone += [Consumer(talk, name) for name in "abc"]
    present: set[int] = set()
    for _ in range(120):
        number = chance.randrange(len(everyone))
        member = everyone[number]
        if number not in present:
            member.join() if isinstance(member, Classic) else member.enter()
            present.add(number)
        elif chance.random() < 0.07:
            member.leave()
            if isinstance(member, Classic):
                everyone[number] = Classic(talk)
            present.discard(number)
        else:
            run(talk, member, rounds=1)
            if isinstance(member, Consumer) and not member.is_in:
                present.discard(number)
    members = [everyone[number] for number in sorted(present)]
    run(talk, *members, rounds=80)
    for member in members:
        if isinstance(member, Consumer) and not member.is_in:
            member.enter()
    run(talk, *members, rounds=80)
    if members:
        assert held(*members) == [0, 1, 2, 3]

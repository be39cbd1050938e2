"""The records restore the coordinator's state."""

from collections.abc import Callable
from random import Random

import pytest

from broker.common.errors import ErrorCode
from broker.coordinator.group.messages import LeavingMember, OffsetToCommit
from broker.coordinator.group.records import decode_group_value
from broker.records.stored_fields import UnreadableRecord
from tests.coordinator.group.conversation import Ask, Conversation, subscription


def durable(talk: Conversation) -> dict[str, object]:
    """Return the persistent state: every group's offsets, and the group itself unless it is rebalancing."""
    known: dict[str, object] = {}
    for group in talk.listed():
        described = talk.coordinator.classic.described(group.group_id, missing_is_error=True)
        if described.state in ("Stable", "Empty"):
            known[group.group_id] = described
        known[f"{group.group_id} offsets"] = {
            topic: dict(by_partition)
            for topic, by_partition in talk.coordinator.offsets.committed(group.group_id).items()
        }
    return {name: value for name, value in known.items() if value != {}}


class Crowd:
    """A few clients of a few groups with random actions."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.talk = Conversation(
            max_size=4, offsets_retention_minutes=1, offsets_retention_check_interval_ms=7_000
        )
        self.asks: list[tuple[str, str | None, Ask]] = []
        self.ids: dict[str, list[tuple[str, str | None]]] = {"g": [], "h": []}

    def act(self) -> None:
        actions: list[Callable[[str], None]] = [
            self.join_new,
            self.join_known,
            self.join_known,
            self.sync,
            self.settle,
            self.settle,
            self.commit,
            self.commit,
            self.leave,
            self.pass_time,
            self.pass_time,
            self.administer,
        ]
        self.chance.choice(actions)(self.chance.choice("gh"))
        for group, instance, ask in [each for each in self.asks if not each[2].parked]:
            self.asks.remove((group, instance, ask))
            if ask.reply.error is ErrorCode.NONE and ask.reply.member_id:
                self.ids[group].append((ask.reply.member_id, instance))

    def options(self) -> dict[str, object]:
        topics = self.chance.choice([("t",), ("t", "u")])
        metadata = subscription(*topics)
        protocols = [("range", metadata), ("sticky", metadata)][: self.chance.randint(1, 2)]
        return {"protocols": tuple(protocols), "session": self.chance.choice([6_000, 30_000])}

    def a_member(self, group: str) -> tuple[str, str | None]:
        return self.chance.choice(self.ids[group] or [("nobody", None)])

    def join_new(self, group: str) -> None:
        instance = self.chance.choice([None, None, "a", "b"])
        ask = self.talk.join(group=group, instance=instance, rebalance=10_000, **self.options())
        if ask.reply and ask.reply.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.ids[group].append((ask.reply.member_id, None))
        else:
            self.asks.append((group, instance, ask))

    def join_known(self, group: str) -> None:
        member_id, instance = self.a_member(group)
        ask = self.talk.join(member_id, group=group, instance=instance, rebalance=10_000, **self.options())
        self.asks.append((group, instance, ask))

    def generation(self, group: str, member_id: str, instance: str | None) -> int:
        """Return the generation that the coordinator accepts; clients know it, these guess."""
        for generation in range(60):
            verdict = self.talk.heartbeat(member_id, generation, group=group, instance=instance)
            if verdict is not ErrorCode.ILLEGAL_GENERATION:
                return generation
        return 0

    def sync(self, group: str) -> None:
        for member_id, instance in self.ids[group]:
            generation = self.generation(group, member_id, instance)
            plan = {each: f"{generation}:{each}".encode() for each, _ in self.ids[group]}
            self.talk.sync(member_id, generation, plan, group=group, instance=instance, protocol=None)

    def settle(self, group: str) -> None:
        """Rejoin every known member, and assign the generation."""
        for member_id, instance in self.ids[group]:
            joined = self.talk.join(member_id, group=group, instance=instance, rebalance=10_000)
            self.asks.append((group, instance, joined))
        self.talk.wait(5_000)
        self.sync(group)

    def commit(self, group: str) -> None:
        member_id, instance = self.chance.choice([("", None), self.a_member(group)])
        generation = self.generation(group, member_id, instance) if member_id else -1
        offset = OffsetToCommit(
            self.chance.choice("tuv"), self.chance.randrange(3), self.chance.randrange(99)
        )
        self.talk.commit(
            member_id,
            generation,
            offset,
            group=group,
            instance=instance,
            retention=self.chance.choice([-1, -1, 5_000]),
        )

    def leave(self, group: str) -> None:
        member_id, instance = self.a_member(group)
        self.talk.leave(LeavingMember(self.chance.choice([member_id, ""]), instance), group=group)

    def pass_time(self, group: str) -> None:
        self.talk.wait(self.chance.choice([10, 1_000, 1_000, 4_000, 40_000]))

    def administer(self, group: str) -> None:
        if self.chance.random() < 0.5:
            self.talk.delete_offsets(("t", 0), ("v", 1), group=group)
        else:
            self.talk.delete(group)


@pytest.mark.rotates
@pytest.mark.parametrize("seed", range(40))
def test_records_rebuild_any_group(seed):
    crowd = Crowd(seed)
    for _ in range(150):
        crowd.act()
        if crowd.chance.random() < 0.05:
            before, after = durable(crowd.talk), durable(crowd.talk.restarted())
            fresh = {name for name, value in before.items() if _never_recorded(value)}
            assert {name: after.get(name) for name in before if name not in fresh} == {
                name: value for name, value in before.items() if name not in fresh
            }


def _never_recorded(described: object) -> bool:
    """A group without a generation and without a commit has no record."""
    return getattr(described, "state", "") == "Empty" and not getattr(described, "protocol_type", "")


def test_a_stable_group_goes_on_after_a_restart_as_if_nothing_had_been(talk):
    first, second = talk.stable(2)
    talk.commit(first, 1)
    other = talk.restarted()
    assert other.heartbeat(first, 1) is ErrorCode.NONE
    assert other.sync(second, 1).reply.assignment == f"for {second}".encode()
    assert other.commit(second, 1, OffsetToCommit("t", 1, 7)) == [ErrorCode.NONE]
    assert other.join(second).reply.generation_id == 1
    assert other.join(first).parked
    assert other.members() == talk.members()


def test_a_rebalance_that_was_running_is_forgotten_and_the_last_generation_stands(talk):
    first, second = talk.stable(2)
    talk.join(first)
    other = talk.restarted()
    assert other.state() == "Stable"
    assert list(other.members()) == [first, second]


def test_the_last_record_of_a_key_counts_and_a_tombstone_ends_it(talk):
    talk.commit("", -1, OffsetToCommit("t", 0, 1))
    (first,) = talk.last.records
    talk.commit("", -1, OffsetToCommit("t", 0, 2))
    (second,) = talk.last.records
    other = Conversation()
    for key, value in (first, second):
        other.coordinator.replay(key, value)
    assert other.committed() == 2
    other.coordinator.replay(first[0], None)
    other.coordinator.replay(first[0], None)
    assert other.committed() is None


def test_records_of_other_kinds_of_groups_are_passed_over(talk):
    talk.coordinator.replay(b"\x00\x12\x00\x01g", b"\x00\x00")
    assert talk.listed() == []


def test_an_unreadable_record_changes_nothing(talk):
    talk.stable(1)
    key = talk.last.records[0][0]
    with pytest.raises(UnreadableRecord):
        talk.coordinator.replay(key, b"\x00\x03\x00")
    assert talk.state() == "Stable"


def test_tombstones_of_what_is_not_there_are_passed_over(talk):
    talk.stable(1)
    talk.commit(group="h")
    for key, _ in talk.records:
        Conversation().coordinator.replay(key, None)


def test_a_member_that_rejoins_has_its_new_timeouts_in_the_record(talk):
    (leader,) = talk.stable(1)
    talk.join(leader, session=7_000, rebalance=8_000)
    talk.sync(leader, 2, {})
    (_, value) = talk.records[-1]
    assert value is not None
    (member,) = decode_group_value(value).members
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (7_000, 8_000)

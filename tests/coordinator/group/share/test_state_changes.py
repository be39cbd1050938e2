"""Which share partitions of a group have a state: begun, completed, abandoned, deleted."""

import pytest

from broker.common.errors import ErrorCode
from broker.common.slices import run_through
from broker.coordinator.group.messages import ConsumerHeartbeatRequest, ShareHeartbeatRequest
from broker.coordinator.group.share.group import ShareGroup
from broker.coordinator.group.share.state_partitions import NamedPartitions, StatePartitions
from tests.coordinator.group.conversation import Ask
from tests.coordinator.group.share.sharers import Sharers, by_id, by_name, topic_id

T, U = topic_id("t"), topic_id("u")


def named(name: str, *partitions: int) -> dict[bytes, NamedPartitions]:
    return {topic_id(name): NamedPartitions(name, frozenset(partitions))}


def test_a_first_heartbeat_leaves_states_to_initialize(talk):
    talk.enter("a")
    assert talk.coordinator.share.states("g") == StatePartitions(named("t", 0, 1, 2, 3))
    assert talk.coordinator.share.has_pending_states
    assert talk.coordinator.share.take_pending_states() == ["g"]
    assert not talk.coordinator.share.has_pending_states
    # Another heartbeat begins nothing anew.
    before = len(talk.records)
    talk.beat("a", 2)
    assert len(talk.records) == before


def test_what_could_not_be_initialized_is_begun_again_by_the_next_heartbeat(talk):
    talk.enter("a")
    talk.initialize(failed={T: frozenset({1, 3})})
    assert talk.coordinator.share.states("g") == StatePartitions({}, named("t", 0, 2))
    assert by_name(talk.beat("a", 2).assignment) == {"t": {0, 2}}
    assert talk.coordinator.share.states("g").initializing == named("t", 1, 3)
    talk.initialize()
    assert by_name(talk.beat("a", 3).assignment) == {"t": {0, 1, 2, 3}}


def test_an_empty_group_can_begin_elsewhere(talk):
    talk.ready("a")
    assert talk.begin("t", 0, 1).error is ErrorCode.NON_EMPTY_GROUP
    talk.beat("a", -1)
    assert talk.begin("t", 0, 1).error is ErrorCode.NONE
    states = talk.coordinator.share.states("g")
    assert (states.initializing, states.initialized) == (named("t", 0, 1), named("t", 0, 1, 2, 3))
    talk.initialize()
    assert talk.coordinator.share.states("g") == StatePartitions({}, named("t", 0, 1, 2, 3))
    # A topic that nobody has subscribed to yet.
    talk.set_topics(t=4, u=1)
    talk.begin("u", 0)
    talk.initialize()
    assert talk.coordinator.share.states("g").initialized == named("t", 0, 1, 2, 3) | named("u", 0)


@pytest.mark.parametrize(
    ("group", "message"), [("none", "Group none not found."), ("c", "Group c is not a share group.")]
)
def test_states_are_those_of_share_groups(talk, group, message):
    talk.stable(1, group="c")
    replies = [talk.begin_deletion(group=group), talk.complete_deletion("t", group=group)]
    if group != "none":
        replies.append(talk.begin("t", 0, group=group))
    for reply in replies:
        assert (reply.error, reply.message) == (ErrorCode.GROUP_ID_NOT_FOUND, message)


def test_a_group_begins_with_its_states(talk):
    assert talk.begin("t", 0, group="new").error is ErrorCode.NONE
    assert (talk.group("new").epoch, talk.group("new").members) == (1, {})
    assert talk.reborn().snapshot("new") == talk.snapshot("new")


def test_a_group_that_cannot_be_written_is_not_there(talk):
    talk.begin("t", 0, group="new")
    talk.fail(talk.last, error=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert talk.begin_deletion(group="new").error is ErrorCode.GROUP_ID_NOT_FOUND


def test_deletion_is_begun_and_completed(talk):
    talk.set_topics(t=2, u=1)
    talk.ready("a", topics=("t", "u"))
    assert talk.begin_deletion("t").error is ErrorCode.NON_EMPTY_GROUP
    talk.beat("a", -1)
    assert talk.begin_deletion("t").deleting == {T: "t"}
    assert talk.coordinator.share.states("g") == StatePartitions({}, named("u", 0), {T: "t"})
    # A member that joins meanwhile gets the topic's partitions after the deletion.
    assert by_name(talk.enter("b", ("t", "u")).assignment) == {"u": {0}}
    assert not talk.coordinator.share.states("g").initializing
    assert talk.coordinator.share.take_pending_states() == ["g"]
    talk.complete_deletion("t")
    talk.beat("b", talk.group().members["b"].epoch)
    assert talk.coordinator.share.states("g") == StatePartitions(named("t", 0, 1), named("u", 0))


def test_all_states_are_deleted_with_their_group(talk):
    talk.set_topics(t=2, u=1)
    talk.ready("a", topics=("t", "u"))
    talk.beat("a", -1)
    assert talk.coordinator.share.has_states("g")
    assert talk.begin_deletion().deleting == {T: "t", U: "u"}
    assert talk.coordinator.share.has_states("g")
    talk.complete_deletion("t", "u")
    assert not talk.coordinator.share.has_states("g")
    assert talk.delete("g") == [ErrorCode.NONE]
    assert talk.listed() == []
    assert talk.reborn().listed() == []


def test_a_group_with_members_is_not_deleted(talk):
    talk.ready("a")
    assert talk.delete("g") == [ErrorCode.NON_EMPTY_GROUP]


def test_the_states_of_a_deleted_topic_are_forgotten(talk):
    talk.set_topics(t=2, u=1)
    talk.ready("a", topics=("t", "u"))
    talk.commit(group="other")
    assert [each for each in talk.coordinator.share.with_states_of({T}) if each] == ["g"]
    talk._take(run_through(talk.coordinator.share.topics_gone("g", {T}, talk.now)))
    assert talk.coordinator.share.states("g") == StatePartitions({}, named("u", 0))
    assert [each for each in talk.coordinator.share.with_states_of({T}) if each] == []
    talk.set_topics(u=1)
    assert by_name(talk.beat("a", 3).assignment) == {"u": {0}}


def test_a_topic_that_is_deleted_while_it_is_initialized_stays_forgotten(talk):
    talk.enter("a")
    talk._take(run_through(talk.coordinator.share.topics_gone("g", {T}, talk.now)))
    talk._take(
        run_through(talk.coordinator.share.complete_states("g", by_id({"t": {0, 1}}), {}, Ask(), talk.now))
    )
    assert talk.coordinator.share.states("g") == StatePartitions()


def test_what_is_not_being_initialized_is_not_completed():
    states = StatePartitions(named("t", 0, 1))
    done = by_id({"t": {1, 2}, "u": {0}})
    completed = run_through(states.completed(done, {}))
    assert completed == StatePartitions(named("t", 0), named("t", 1))
    assert not states.has_any([U])


def test_a_heartbeat_of_the_consumer_protocol_starts_no_change_of_a_share_groups_states() -> None:
    sharers = Sharers()
    coordinator = sharers.coordinator
    group = coordinator.groups.by_id["g"] = ShareGroup("g")
    group.states = StatePartitions(initializing={b"t" * 16: NamedPartitions("t", frozenset({0}))})
    heartbeat = ConsumerHeartbeatRequest("g", "m", 0, rebalance_timeout_ms=1_000, topics=("t",), owned={})
    effects = run_through(coordinator.consumer.heartbeat(heartbeat, "token", sharers.now))
    assert effects.replies[0][1].error == ErrorCode.GROUP_ID_NOT_FOUND
    assert coordinator.share.take_pending_states() == []
    run_through(coordinator.share.heartbeat(ShareHeartbeatRequest("g", "m", 1), "token", sharers.now))
    assert coordinator.share.take_pending_states() == ["g"]

"""ShareGroupHeartbeat: members join, learn their partitions and leave, with exact epochs and times."""

from typing import Any

import pytest

from broker.common.errors import ErrorCode
from broker.common.slices import run_through
from broker.config.sections.share_groups import ShareGroupConfig
from broker.coordinator.group.messages import ConsumerHeartbeatRequest, ModernHeartbeatReply
from tests.coordinator.group.conversation import Ask
from tests.coordinator.group.share.sharers import INTERVAL_MS, SESSION_MS, Sharers, by_id, by_name, topic_id

OK = ErrorCode.NONE


def test_a_member_has_partitions_from_its_second_heartbeat_on(talk):
    assert talk.enter("a") == ModernHeartbeatReply(OK, "a", 2, INTERVAL_MS, {})
    assert talk.described().state == "Stable"
    # Nothing has changed, so the member is told nothing.
    assert talk.beat("a", 2) == ModernHeartbeatReply(OK, "a", 2, INTERVAL_MS, None)
    talk.initialize()
    assert talk.beat("a", 2) == ModernHeartbeatReply(OK, "a", 3, INTERVAL_MS, by_id({"t": {0, 1, 2, 3}}))
    before = len(talk.records)
    assert talk.beat("a", 3) == ModernHeartbeatReply(OK, "a", 3, INTERVAL_MS, None)
    assert len(talk.records) == before


def test_a_member_that_missed_the_response_is_answered_again(talk):
    talk.enter("a")
    talk.initialize()
    assert talk.beat("a", 2).epoch == 3
    assert talk.beat("a", 2).epoch == 3


def test_a_full_request_is_answered_with_the_assignment(talk):
    talk.ready("a")
    assert talk.beat("a", 3, topics=("t",)).assignment == by_id({"t": {0, 1, 2, 3}})
    assert talk.group().epoch == 3


def test_two_members_share_the_work_and_the_first_one_learns_it_next(talk):
    talk.ready("a")
    assert by_name(talk.enter("b").assignment) == {"t": {2}}
    assert by_name(talk.beat("a", 3).assignment) == {"t": {0, 1, 3}}
    assert (talk.described().epoch, talk.described().target_epoch) == (4, 4)


def test_more_members_than_partitions_all_have_one(talk):
    members = list("abcdef")
    talk.ready(*members)
    found = talk.assigned()
    assert all(len(found[each]["t"]) >= 1 for each in members)
    assert set().union(*(found[each]["t"] for each in members)) == {0, 1, 2, 3}


def test_a_member_leaves_and_the_others_take_its_partitions(talk):
    talk.ready("a", "b")
    assert talk.beat("a", -1) == ModernHeartbeatReply(OK, "a", -1)
    assert talk.beat("b", talk.group().members["b"].epoch).assignment == by_id({"t": {0, 1, 2, 3}})
    assert talk.beat("a", -1).error is ErrorCode.UNKNOWN_MEMBER_ID
    talk.beat("b", -1)
    assert (talk.described().state, talk.described().members) == ("Empty", ())
    assert talk.coordinator.next_deadline() != talk.elapsed


def test_a_new_partition_is_initialized_and_assigned(talk):
    talk.ready("a")
    talk.set_topics(t=5)
    # Its metadata has changed, so an epoch begins; the partition has no state yet.
    assert talk.beat("a", 3) == ModernHeartbeatReply(OK, "a", 4, INTERVAL_MS, None)
    assert talk.coordinator.share.states("g").initializing[topic_id("t")].partitions == {4}
    talk.initialize()
    assert by_name(talk.beat("a", 4).assignment) == {"t": {0, 1, 2, 3, 4}}


def test_a_topic_that_appears_later_is_found(talk):
    talk.enter("a", ("new",))
    assert not talk.coordinator.share.states("g").initializing
    talk.set_topics(t=4, new=1)
    assert talk.beat("a", 2).epoch == 3
    talk.initialize()
    assert by_name(talk.beat("a", 3).assignment) == {"new": {0}}


def test_a_change_of_the_subscription_begins_an_epoch(talk):
    talk.set_topics(t=2, u=1)
    talk.ready("a")
    assert by_name(talk.beat("a", 3, topics=("u",)).assignment) == {}
    talk.initialize()
    assert by_name(talk.beat("a", 4).assignment) == {"u": {0}}
    # The partitions of "t" keep their states, but nobody subscribes to them: no epoch after epoch.
    assert talk.beat("a", 5).epoch == 5
    assert by_name(talk.beat("a", 5, topics=("t", "u")).assignment) == {"t": {0, 1}, "u": {0}}


def test_the_topics_of_a_subscription_are_a_set(talk):
    talk.ready("a")
    assert talk.beat("a", 3, topics=("t", "t")).epoch == 3
    assert talk.described().members[0].topics == ("t",)


@pytest.mark.parametrize("epoch", [0, 1, 3, 5, 100])
def test_another_epoch_than_the_members_own_or_the_one_before_is_fenced(talk, epoch):
    talk.ready("a")
    for _ in range(2):
        talk.enter("b")
        talk.beat("b", -1)
        talk.beat("a", talk.group().members["a"].epoch)
    # Each of the four changes began an epoch; "a" heard of two of them.
    assert (talk.group().members["a"].epoch, talk.group().members["a"].previous_epoch) == (7, 5)
    reply = talk.beat("a", epoch, **({"topics": ("t",)} if epoch == 0 else {}))
    if epoch == 5:
        assert reply.error is OK
    else:
        assert reply.error is ErrorCode.FENCED_MEMBER_EPOCH
        relation = "greater" if epoch == 100 else "smaller"
        assert f"has a {relation} member epoch ({epoch}) than the one known" in (reply.message or "")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"member_id": "  "}, "MemberId can't be empty."),
        ({"group": ""}, "GroupId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"topics": None}, "SubscribedTopicNames must be set in first request."),
        ({"topics": ()}, "SubscribedTopicNames must be set in first request."),
        ({"epoch": -2}, "MemberEpoch is invalid."),
    ],
)
def test_an_invalid_request_is_refused(talk, fields: dict[str, Any], message):
    stated: dict[str, Any] = {"member_id": "a", "epoch": 0, "topics": ("t",)} | fields
    reply = talk.beat(stated.pop("member_id"), stated.pop("epoch"), **stated)
    assert reply == ModernHeartbeatReply(ErrorCode.INVALID_REQUEST, message=message)
    assert talk.listed() == []


def test_a_member_of_a_missing_group_has_to_join(talk):
    for epoch in (1, -1):
        reply = talk.beat("a", epoch)
        assert reply.error is ErrorCode.GROUP_ID_NOT_FOUND
    talk.ready("a")
    assert talk.beat("z", 2).error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("members", "error"), [(1, OK), (2, OK), (3, ErrorCode.GROUP_MAX_SIZE_REACHED)])
def test_a_group_has_at_most_its_maximum_size(members, error):
    talk = Sharers(share=ShareGroupConfig(max_size=2))
    replies = [talk.enter(f"m{number}") for number in range(members)]
    assert replies[-1].error is error
    # A member of a full group goes on.
    assert talk.beat("m0", 2).error is OK


@pytest.mark.parametrize(("limit", "error"), [(52, ErrorCode.GROUP_MAX_SIZE_REACHED), (53, OK), (54, OK)])
def test_the_names_of_the_members_have_at_most_the_groups_bytes(limit, error):
    # "a", "client", "/10.0.0.1", "t" are 17 bytes; "b" has a rack and a topic of 10 letters each.
    talk = Sharers(max_group_bytes=limit)
    assert talk.enter("a").error is OK
    assert talk.enter("b", ("0123456789",), rack_id="0123456789").error is error


def test_a_silent_member_is_removed_after_its_session(talk):
    talk.ready("a", "b")
    talk.wait(SESSION_MS - 1)
    assert talk.beat("b", talk.group().members["b"].epoch).error is OK
    assert set(talk.group().members) == {"a", "b"}
    talk.wait(1)
    assert set(talk.group().members) == {"b"}
    assert talk.beat("b", talk.group().members["b"].epoch).assignment == by_id({"t": {0, 1, 2, 3}})
    talk.wait(SESSION_MS)
    assert talk.described().state == "Empty"


def test_a_members_old_session_does_not_remove_it_when_it_has_returned(talk):
    talk.ready("a")
    talk.wait(SESSION_MS - 1)
    talk.beat("a", -1)
    talk.enter("a")
    talk.wait(2)
    assert set(talk.group().members) == {"a"}
    talk.wait(SESSION_MS - 2)
    assert talk.group().members == {}


def test_a_group_of_another_type_is_no_share_group(talk):
    talk.stable(1, group="classic")
    reply = talk.enter("a", group="classic")
    assert (reply.error, reply.message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group classic is not a share group.",
    )
    talk.commit(group="simple")
    assert talk.enter("a", group="simple").error is ErrorCode.GROUP_ID_NOT_FOUND
    assert talk.coordinator.offsets.committed("simple")


def test_members_of_other_types_are_refused_by_a_share_group(talk):
    talk.ready("a")
    before = talk.snapshot()
    assert talk.join().reply.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert talk.sync("a", 1).reply.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.heartbeat("a", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.leave("a").errors == (ErrorCode.UNKNOWN_MEMBER_ID,)
    assert talk.commit() == [ErrorCode.GROUP_ID_NOT_FOUND]
    assert talk.commit("a", 3) == [ErrorCode.GROUP_ID_NOT_FOUND]
    assert talk.delete_offsets(("t", 0)).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert talk.coordinator.offsets.check_delete("g") is ErrorCode.GROUP_ID_NOT_FOUND
    assert talk.coordinator.offsets.check_fetch("g", None, -1) is OK
    assert talk.coordinator.consumer.described("g").error is ErrorCode.GROUP_ID_NOT_FOUND
    described = talk.coordinator.classic.described("g", missing_is_error=True)
    assert (described.error, described.message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g is not a classic group.",
    )
    assert talk.snapshot() == before


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_consumer_does_not_join_a_share_group(talk, is_empty):
    talk.ready("a")
    if is_empty:
        talk.beat("a", -1)
    before = talk.snapshot()
    ask = Ask()
    request = ConsumerHeartbeatRequest("g", "c", 0, rebalance_timeout_ms=1, topics=("t",), owned={})
    talk._take(run_through(talk.coordinator.consumer.heartbeat(request, ask, talk.now)))
    assert (ask.reply.error, ask.reply.message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g is not a consumer group.",
    )
    assert talk.snapshot() == before


def test_groups_are_listed_by_type_and_state(talk):
    talk.ready("a")
    talk.commit(group="simple")
    (listed,) = talk.listed(types=("share",))
    assert (listed.group_id, listed.protocol_type, listed.state, listed.group_type, listed.members) == (
        "g",
        "share",
        "Stable",
        "share",
        1,
    )
    assert [each.group_id for each in talk.listed(states=("stable",))] == ["g"]
    assert [each.group_id for each in talk.listed(states=("empty",))] == ["simple"]
    overview = talk.coordinator.overview("g")
    assert overview is not None and (overview.group_type, overview.clients) == (
        "share",
        (("client", "/10.0.0.1"),),
    )

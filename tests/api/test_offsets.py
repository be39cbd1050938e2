"""OffsetCommit, OffsetFetch and OffsetDelete."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.api.a08_offset_commit import RESPONSE, commit_offsets
from broker.api.requests.context import RequestContext
from broker.common.errors import ErrorCode
from broker.common.slices import run_through
from broker.coordinator.group.messages import JoinReply, JoinRequest
from broker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from broker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from broker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.api.group import GROUP, commit, committed, find_coordinator, stable_member
from tests.api.harness import Harness
from tests.coordinator.group.conversation import subscription


@pytest.fixture
async def ready(harness: Harness) -> Harness:
    await harness.create_topic("orders", 2)
    await find_coordinator(harness)
    return harness


@pytest.mark.parametrize("version", range(2, 10))
async def test_committed_offsets_are_fetched(ready: Harness, version: int) -> None:
    assert await commit(ready, 42, version, metadata="note") == ErrorCode.NONE
    topics = [OffsetFetchRequestTopic("orders", [0, 1])]
    for reader in range(1, 8):
        reply = await ready.ask(OffsetFetchRequest(GROUP, topics), reader)
        first, second = reply.topics[0].partitions
        assert (first.committed_offset, first.metadata, first.error_code) == (42, "note", ErrorCode.NONE)
        assert (second.committed_offset, second.metadata, second.error_code) == (-1, "", ErrorCode.NONE)


async def test_the_leader_epoch_comes_back(ready: Harness) -> None:
    part = OffsetCommitRequestPartition(0, 42, 0, "note")
    request = OffsetCommitRequest(GROUP, topics=[OffsetCommitRequestTopic("orders", partitions=[part])])
    await ready.ask(request)
    reply = await ready.ask(OffsetFetchRequest(GROUP, [OffsetFetchRequestTopic("orders", [0])]), 7)
    assert reply.topics[0].partitions[0].committed_leader_epoch == 0


@pytest.mark.parametrize("version", [2, 7])
async def test_null_asks_for_everything_that_is_committed(ready: Harness, version: int) -> None:
    await commit(ready, 1)
    await commit(ready, 2, partition=1)
    reply = await ready.ask(OffsetFetchRequest(GROUP, None), version)
    (topic,) = reply.topics
    assert [(each.partition_index, each.committed_offset) for each in topic.partitions] == [(0, 1), (1, 2)]


@pytest.mark.parametrize("version", [8, 9])
async def test_several_groups_are_asked_for_at_once(ready: Harness, version: int) -> None:
    await commit(ready, 1)
    groups = [
        OffsetFetchRequestGroup(GROUP, topics=None),
        OffsetFetchRequestGroup("nobody", topics=None),
        OffsetFetchRequestGroup("nobody", topics=[OffsetFetchRequestTopics("orders", partition_indexes=[1])]),
    ]
    reply = await ready.ask(OffsetFetchRequest(groups=groups), version)
    found = [
        (group.group_id, group.error_code, [[p.committed_offset for p in t.partitions] for t in group.topics])
        for group in reply.groups
    ]
    assert found == [(GROUP, 0, [[1]]), ("nobody", 0, []), ("nobody", 0, [[-1]])]


async def test_without_a_coordinator_every_version_says_so_in_its_place(harness: Harness) -> None:
    await harness.create_topic("orders")
    topics = [OffsetFetchRequestTopic("orders", [0])]
    oldest = await harness.ask(OffsetFetchRequest(GROUP, topics), 1)
    assert oldest.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    assert (await harness.ask(OffsetFetchRequest(GROUP, topics), 7)).error_code == ErrorCode.NOT_COORDINATOR
    newest = await harness.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP)]))
    assert newest.groups[0].error_code == ErrorCode.NOT_COORDINATOR
    assert await commit(harness, 1) == ErrorCode.NOT_COORDINATOR
    deleted = await harness.ask(OffsetDeleteRequest(GROUP))
    assert deleted.error_code == ErrorCode.NOT_COORDINATOR


async def test_partitions_that_do_not_exist_are_refused_one_by_one(ready: Harness) -> None:
    parts = [OffsetCommitRequestPartition(index, 5) for index in (-1, 0, 2)]
    topics = [OffsetCommitRequestTopic(name, partitions=parts) for name in ("missing", "orders")]
    reply = await ready.ask(OffsetCommitRequest(GROUP, topics=topics))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [[each.error_code for each in topic.partitions] for topic in reply.topics] == [
        [unknown, unknown, unknown],
        [unknown, ErrorCode.NONE, unknown],
    ]
    assert await committed(ready) == 5


@pytest.mark.parametrize("size", [4_095, 4_096, 4_097])
async def test_metadata_has_a_longest(ready: Harness, size: int) -> None:
    error = await commit(ready, 1, metadata="x" * size)
    assert error == (ErrorCode.NONE if size <= 4_096 else ErrorCode.OFFSET_METADATA_TOO_LARGE)


async def test_only_its_members_commit_to_a_group(ready: Harness) -> None:
    member_id, generation = await stable_member(ready)
    assert await commit(ready, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await commit(ready, 1, member_id="stranger", generation=1) == ErrorCode.UNKNOWN_MEMBER_ID
    late = await commit(ready, 1, member_id=member_id, generation=generation - 1)
    assert late == ErrorCode.ILLEGAL_GENERATION
    assert await commit(ready, 1, member_id=member_id, generation=generation) == ErrorCode.NONE


@pytest.mark.parametrize(
    ("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
)
async def test_a_generation_of_no_group_is_refused_in_the_words_of_its_version(
    ready: Harness, version: int, error: ErrorCode
) -> None:
    assert await commit(ready, 1, version, member_id="m", generation=3) == error


async def test_a_group_id_that_no_record_can_hold_is_refused(ready: Harness) -> None:
    assert await commit(ready, 1, group="x" * 8_000) == ErrorCode.NONE
    assert await commit(ready, 1, group="x" * 8_001) == ErrorCode.INVALID_GROUP_ID


async def test_the_group_without_a_name_takes_offsets_and_nothing_else(ready: Harness) -> None:
    assert await commit(ready, 1, group="") == ErrorCode.NONE
    assert await delete(ready, ("orders", 0), group="") == (ErrorCode.INVALID_GROUP_ID, [])
    assert await committed(ready, group="") == 1
    left = await ready.ask(LeaveGroupRequest("", members=[MemberIdentity("m")]))
    assert (left.error_code, left.members) == (ErrorCode.INVALID_GROUP_ID, [])


async def delete(harness: Harness, *partitions: tuple[str, int], group: str = GROUP) -> tuple[int, list[int]]:
    topics = [
        OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(index)]) for name, index in partitions
    ]
    reply = await harness.ask(OffsetDeleteRequest(group, topics))
    return reply.error_code, [each.partitions[0].error_code for each in reply.topics]


async def test_offsets_are_deleted_one_by_one(ready: Harness) -> None:
    await commit(ready, 1)
    await commit(ready, 2, partition=1)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await delete(ready, ("orders", 0), ("orders", 2), ("missing", 0)) == (0, [0, unknown, unknown])
    assert (await committed(ready), await committed(ready, partition=1)) == (-1, 2)


async def test_offsets_in_use_stay(ready: Harness) -> None:
    member_id, generation = await stable_member(ready)
    await commit(ready, 1, member_id=member_id, generation=generation)
    assert await delete(ready, ("orders", 0)) == (0, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC])
    assert await committed(ready) == 1


async def test_no_group_has_no_offsets_to_delete(ready: Harness) -> None:
    assert await delete(ready, ("orders", 0), group="nobody") == (ErrorCode.GROUP_ID_NOT_FOUND, [])


async def test_offsets_go_with_their_topic(ready: Harness) -> None:
    await commit(ready, 1)
    await ready.ask(DeleteTopicsRequest(topics=[DeleteTopicState("orders")]))
    await ready.create_topic("orders", 2)
    assert await committed(ready) == -1


@pytest.mark.parametrize("count", [255, 256, 257, 600])
async def test_many_offsets_are_committed_and_deleted_in_parts(harness: Harness, count: int) -> None:
    await harness.create_topic("wide", count)
    await find_coordinator(harness)
    parts = [OffsetCommitRequestPartition(index, 100 + index) for index in (*range(count), count)]
    request = OffsetCommitRequest(GROUP, topics=[OffsetCommitRequestTopic("wide", partitions=parts)])
    (topic,) = (await harness.ask(request)).topics
    assert [each.error_code for each in topic.partitions] == [0] * count + [3]
    reply = await harness.ask(OffsetFetchRequest(GROUP, None), 7)
    found = {each.partition_index: each.committed_offset for each in reply.topics[0].partitions}
    assert found == {index: 100 + index for index in range(count)}
    answer = await delete(harness, *(("wide", index) for index in (*range(count), count)))
    assert answer == (0, [0] * count + [3])
    assert not (await harness.ask(OffsetFetchRequest(GROUP, None), 7)).topics


async def test_a_group_that_goes_between_two_parts_refuses_the_other_partitions(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """513 partitions are two parts; the error of the second part is that of its partition."""
    await harness.create_topic("wide", 513)
    await find_coordinator(harness)
    parts = [OffsetCommitRequestPartition(index, 1) for index in range(513)]
    await harness.ask(OffsetCommitRequest(GROUP, topics=[OffsetCommitRequestTopic("wide", partitions=parts)]))
    coordinator = harness.groups.coordinator
    really = coordinator.offsets.delete

    def last(group_id: str, partitions: Any, *rest: Any) -> Any:
        return really("nobody" if len(partitions) == 1 else group_id, partitions, *rest)

    monkeypatch.setattr(coordinator.offsets, "delete", last)
    assert await delete(harness, *(("wide", index) for index in range(513))) == (
        0,
        [0] * 512 + [ErrorCode.GROUP_ID_NOT_FOUND],
    )


async def test_a_generation_between_two_parts_has_its_topics_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """513 partitions are two parts. The member begins to consume the topic after the first one."""
    harness = Harness(tmp_path, "group.initial.rebalance.delay.ms=0")
    await harness.create_topic("wide", 513)
    await find_coordinator(harness)
    coordinator = harness.groups.coordinator

    def join(member_id: str, topic: str) -> str:
        protocols = (("range", subscription(topic)),)
        request = JoinRequest(
            GROUP, member_id, None, "c", "/h", 10_000, 60_000, "consumer", protocols, False, True
        )
        ((_, reply),) = run_through(coordinator.classic.join(request, object(), harness.now)).replies
        assert isinstance(reply, JoinReply) and reply.error is ErrorCode.NONE
        return reply.member_id

    member_id = join("", "other")
    really = coordinator.offsets.delete

    def first(*arguments: Any) -> Any:
        effects = really(*arguments)
        if len(arguments[1]) == 512:
            join(member_id, "wide")
        return effects

    monkeypatch.setattr(coordinator.offsets, "delete", first)
    assert await delete(harness, *(("wide", index) for index in range(513))) == (
        0,
        [0] * 512 + [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC],
    )
    harness.close()


async def test_commits_of_many_are_refused_one_by_one(ready: Harness) -> None:
    parts = [OffsetCommitRequestPartition(index, 1) for index in range(3)]
    request = OffsetCommitRequest("g" * 8_001, topics=[OffsetCommitRequestTopic("orders", partitions=parts)])
    (topic,) = (await ready.ask(request)).topics
    invalid, unknown = ErrorCode.INVALID_GROUP_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [each.error_code for each in topic.partitions] == [invalid, invalid, unknown]


def by_id(topic_id: bytes, offset: int, *partitions: int, generation: int = -1) -> OffsetCommitRequest:
    parts = [OffsetCommitRequestPartition(index, offset) for index in partitions]
    topic = OffsetCommitRequestTopic(topic_id=topic_id, partitions=parts)
    return OffsetCommitRequest(GROUP, generation, topics=[topic])


async def fetched_by_id(harness: Harness, *topic_ids: bytes) -> list[tuple[bytes, list[tuple[int, int]]]]:
    """Return the offsets and errors of partition 0 of these topics, or without any of all topics."""
    wanted = [OffsetFetchRequestTopics(topic_id=each, partition_indexes=[0]) for each in topic_ids]
    group = OffsetFetchRequestGroup(GROUP, topics=wanted or None)
    (reply,) = (await harness.ask(OffsetFetchRequest(groups=[group]), 10)).groups
    assert reply.error_code == ErrorCode.NONE
    return [
        (topic.topic_id, [(each.committed_offset, each.error_code) for each in topic.partitions])
        for topic in reply.topics
    ]


async def test_version_10_commits_and_fetches_by_id(ready: Harness) -> None:
    topic_id = ready.control.image.topics["orders"].topic_id
    reply = await ready.ask(by_id(topic_id, 42, 0, 1, 2), 10)
    (topic,) = reply.topics
    assert topic.topic_id == topic_id
    assert [each.error_code for each in topic.partitions] == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert await committed(ready) == 42
    assert await fetched_by_id(ready, topic_id) == [(topic_id, [(42, 0)])]
    assert await fetched_by_id(ready) == [(topic_id, [(42, 0), (42, 0)])]


@pytest.mark.parametrize("unknown", [bytes(16), b"\1" * 16])
async def test_an_unknown_id_is_neither_committed_nor_fetched(ready: Harness, unknown: bytes) -> None:
    reply = await ready.ask(by_id(unknown, 42, 0), 10)
    assert [each.error_code for each in reply.topics[0].partitions] == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert reply.topics[0].topic_id == unknown
    assert await fetched_by_id(ready, unknown) == [(unknown, [(-1, ErrorCode.UNKNOWN_TOPIC_ID)])]
    assert await fetched_by_id(ready) == []


async def test_a_topic_that_is_created_again_has_none_of_the_offsets_of_its_former_id(ready: Harness) -> None:
    former = ready.control.image.topics["orders"].topic_id
    await ready.ask(by_id(former, 42, 0), 10)
    await ready.ask(DeleteTopicsRequest(topics=[DeleteTopicState("orders")]))
    await ready.create_topic("orders", 2)
    topic_id = ready.control.image.topics["orders"].topic_id
    assert await fetched_by_id(ready, former, topic_id) == [
        (former, [(-1, ErrorCode.UNKNOWN_TOPIC_ID)]),
        (topic_id, [(-1, 0)]),
    ]


async def test_an_offset_of_a_former_id_is_not_fetched_by_id(ready: Harness) -> None:
    """As a kill leaves it between the deletion of a topic and the tombstones of its offsets."""
    topic_id = ready.control.image.topics["orders"].topic_id
    await commit(ready, 42)
    offsets = ready.groups.coordinator.offsets.committed(GROUP)["orders"]
    assert offsets[0].topic_id == topic_id
    assert await fetched_by_id(ready, topic_id) == [(topic_id, [(42, 0)])]
    offsets[0] = offsets[0]._replace(topic_id=b"f" * 16)  # type: ignore[index]
    assert await fetched_by_id(ready, topic_id) == [(topic_id, [(-1, 0)])]
    assert await committed(ready) == 42
    offsets[0] = offsets[0]._replace(topic_id=bytes(16))  # type: ignore[index]
    assert await fetched_by_id(ready, topic_id) == [(topic_id, [(42, 0)])]


async def test_a_generation_of_an_unknown_group_is_told_by_id_too(ready: Harness) -> None:
    topic_id = ready.control.image.topics["orders"].topic_id
    reply = await ready.ask(by_id(topic_id, 42, 0, generation=1), 10)
    assert [each.error_code for each in reply.topics[0].partitions] == [ErrorCode.GROUP_ID_NOT_FOUND]


@pytest.mark.parametrize("by_id", [False, True])
async def test_a_topic_that_is_deleted_in_a_pause_is_not_known_any_more(
    ready: Harness, *, by_id: bool
) -> None:
    await ready.create_topic("later")
    before = ready.control.image
    await ready.ask(DeleteTopicsRequest(topics=[DeleteTopicState("later")]))
    topics = [
        OffsetCommitRequestTopic(
            name, before.topics[name].topic_id, partitions=[OffsetCommitRequestPartition(0, 5)]
        )
        for name in ("orders", "later")
    ]
    control = SimpleNamespace(image=before)
    security = SimpleNamespace(allows_topic=lambda *_: True)
    committed_topics: list[str] = []

    def note(some: Any, _token: object) -> Any:
        committed_topics.extend(each.topic for each in some)
        raise StopIteration

    steps = commit_offsets(
        topics,
        RESPONSE,
        ErrorCode.NONE,
        note,
        RequestContext(),
        SimpleNamespace(control=control, security=security),
        by_id=by_id,
    )
    next(steps)
    control.image = ready.control.image
    with pytest.raises(RuntimeError):
        run_through(steps)
    assert committed_topics == ["orders"]

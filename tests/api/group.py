"""A consumer group from the point of view of its members, for the tests of the group handlers."""

from collections.abc import Mapping
from typing import Any

from broker.common.errors import ErrorCode
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.heartbeat import HeartbeatRequest
from broker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from broker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from broker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.api.harness import Asking, Harness

GROUP = "readers"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
INITIAL_DELAY_MS = 3_000
NOTHING: Mapping[str, bytes] = {}


def join_request(member_id: str = "", instance_id: str | None = None, group: str = GROUP) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", b"subscription")]
    return JoinGroupRequest(group, SESSION_MS, REBALANCE_MS, member_id, instance_id, "consumer", protocols)


def sync_request(
    generation: int, member_id: str, assignments: Mapping[str, bytes] = NOTHING
) -> SyncGroupRequest:
    parts = [SyncGroupRequestAssignment(*each) for each in assignments.items()]
    return SyncGroupRequest(GROUP, generation, member_id, None, "consumer", "range", parts)


async def find_coordinator(harness: Harness) -> None:
    reply = await harness.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]))
    assert reply.coordinators[0].error_code == ErrorCode.NONE


async def begin_join(harness: Harness, client_id: str = "test") -> tuple[str, Asking]:
    """Return (id, its waiting JoinGroup) of a new member that has rejoined with its assigned id."""
    reply = await harness.ask(join_request(), client_id=client_id)
    assert reply.error_code == ErrorCode.MEMBER_ID_REQUIRED
    return reply.member_id, await harness.put(join_request(reply.member_id), client_id=client_id)


async def stable_member(harness: Harness) -> tuple[str, int]:
    """Return (id, generation) of the only member of a stable group; its assignment is b"all"."""
    member_id, joining = await begin_join(harness)
    harness.advance(INITIAL_DELAY_MS)
    joined = harness.answer(joining)
    synced = await harness.ask(sync_request(joined.generation_id, member_id, {member_id: b"all"}))
    assert (synced.error_code, bytes(synced.assignment)) == (ErrorCode.NONE, b"all")
    return member_id, joined.generation_id


async def heartbeat(harness: Harness, member_id: str, generation: int, group: str = GROUP) -> ErrorCode:
    return ErrorCode((await harness.ask(HeartbeatRequest(group, generation, member_id))).error_code)


def commit_request(
    offset: int,
    *,
    topic: str = "orders",
    partition: int = 0,
    member_id: str = "",
    generation: int = -1,
    group: str = GROUP,
    metadata: str | None = None,
) -> OffsetCommitRequest:
    parts = [OffsetCommitRequestPartition(partition, offset, -1, metadata)]
    topics = [OffsetCommitRequestTopic(topic, partitions=parts)]
    return OffsetCommitRequest(group, generation, member_id, -1, None, topics)


async def commit(harness: Harness, offset: int, version: int | None = None, **more: Any) -> ErrorCode:
    reply = await harness.ask(commit_request(offset, **more), version)
    return ErrorCode(reply.topics[0].partitions[0].error_code)


async def committed(harness: Harness, topic: str = "orders", partition: int = 0, group: str = GROUP) -> int:
    """Return the committed offset, or -1."""
    request = OffsetFetchRequestGroup(
        group, topics=[OffsetFetchRequestTopics(topic, partition_indexes=[partition])]
    )
    (answer,) = (await harness.ask(OffsetFetchRequest(groups=[request]))).groups
    assert answer.error_code == ErrorCode.NONE
    return int(answer.topics[0].partitions[0].committed_offset)

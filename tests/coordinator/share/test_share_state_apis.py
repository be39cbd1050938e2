"""The APIs of the share coordinator (83 to 87), on the states that the leaders of partitions use."""

from typing import Any

import pytest

from broker.common.errors import ErrorCode
from broker.coordinator.share.persister import SHARE_STATE_TOPIC
from broker.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteStateData,
)
from broker.protocol.messages.delete_share_group_state import PartitionData as DeletedPartition
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
)
from broker.protocol.messages.initialize_share_group_state import PartitionData as InitializedPartition
from broker.protocol.messages.read_share_group_state import PartitionData as ReadPartition
from broker.protocol.messages.read_share_group_state import ReadShareGroupStateRequest, ReadStateData
from broker.protocol.messages.read_share_group_state_summary import PartitionData as SummarizedPartition
from broker.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
)
from broker.protocol.messages.write_share_group_state import PartitionData as WrittenPartition
from broker.protocol.messages.write_share_group_state import (
    StateBatch,
    WriteShareGroupStateRequest,
    WriteStateData,
)
from tests.api.harness import Harness
from tests.coordinator.share.consumers import Member
from tests.coordinator.share.members import ACCEPT

Batch = tuple[int, int, int, int]


class Leader:
    """The leader of the share partitions of the group "readers" in another broker."""

    def __init__(self, harness: Harness, group: str = "readers") -> None:
        self.harness = harness
        self.group = group
        self.topic_id = harness.partitions.by_name["orders"].topic_id
        self.partition = 0

    async def _ask(self, message: Any, version: int | None = None) -> Any:
        (topic,) = (await self.harness.ask(message, version)).results
        (partition,) = topic.partitions
        assert (topic.topic_id, partition.partition) == (self.topic_id, self.partition)
        return partition

    async def initialize(self, state_epoch: int, start: int) -> int:
        asked = InitializedPartition(self.partition, state_epoch, start)
        topics = [InitializeStateData(self.topic_id, [asked])]
        return int((await self._ask(InitializeShareGroupStateRequest(self.group, topics))).error_code)

    async def read(self, leader_epoch: int = 0) -> Any:
        topics = [ReadStateData(self.topic_id, [ReadPartition(self.partition, leader_epoch)])]
        return await self._ask(ReadShareGroupStateRequest(self.group, topics))

    async def write(
        self,
        *batches: Batch,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start: int = -1,
        complete: int = -1,
        version: int | None = None,
    ) -> int:
        states = [StateBatch(*each) for each in batches]
        asked = WrittenPartition(self.partition, state_epoch, leader_epoch, start, complete, states)
        topics = [WriteStateData(self.topic_id, [asked])]
        written = await self._ask(WriteShareGroupStateRequest(self.group, topics), version)
        return int(written.error_code)

    async def delete(self) -> int:
        topics = [DeleteStateData(self.topic_id, [DeletedPartition(self.partition)])]
        return int((await self._ask(DeleteShareGroupStateRequest(self.group, topics))).error_code)

    async def summary(self) -> tuple[int, int, int, int]:
        topics = [ReadStateSummaryData(self.topic_id, [SummarizedPartition(self.partition)])]
        found = await self._ask(ReadShareGroupStateSummaryRequest(self.group, topics))
        return found.error_code, found.start_offset, found.state_epoch, found.leader_epoch

    async def complete(self, version: int = 1) -> int:
        """Return the number of records whose delivery is complete."""
        topics = [ReadStateSummaryData(self.topic_id, [SummarizedPartition(self.partition)])]
        found = await self._ask(ReadShareGroupStateSummaryRequest(self.group, topics), version)
        return int(found.delivery_complete_count)


async def test_a_state_from_its_initialization_to_its_deletion(harness: Harness) -> None:
    leader = Leader(harness, "others")
    assert await leader.summary() == (0, -1, 0, 0)
    assert (await leader.read()).error_code == ErrorCode.INVALID_REQUEST
    assert await leader.write() == ErrorCode.INVALID_REQUEST
    assert await leader.delete() == 0
    assert await leader.initialize(3, 10) == 0
    assert await leader.write((10, 14, 2, 1), (15, 15, 0, 2), state_epoch=3, start=12) == 0
    state = await leader.read()
    assert (state.start_offset, state.state_epoch) == (12, 3)
    found = [
        (each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in state.state_batches
    ]
    assert found == [(12, 14, 2, 1), (15, 15, 0, 2)]
    assert await leader.summary() == (0, 12, 3, 0)
    assert await leader.delete() == 0
    assert await leader.summary() == (0, -1, 0, 0)


async def test_version_1_has_the_number_of_complete_records(harness: Harness) -> None:
    leader = Leader(harness, "others")
    assert await leader.complete() == -1
    assert await leader.initialize(3, -1) == 0
    assert await leader.complete() == -1
    assert await leader.initialize(4, 10) == 0
    assert await leader.complete() == 0
    assert await leader.write((10, 14, 2, 1), (15, 15, 4, 2), state_epoch=4) == 0
    assert await leader.complete() == 6
    assert await leader.write(state_epoch=4, start=10, complete=9) == 0
    assert (await leader.complete(), await leader.complete(0)) == (9, -1)
    assert (await leader.read(7)).error_code == 0  # stores the leader's epoch
    assert await leader.complete() == 9
    assert await leader.write(state_epoch=4, leader_epoch=7, start=16, version=0) == 0
    assert await leader.complete() == 0


@pytest.mark.parametrize(
    ("last", "expected"), [(2**31 - 3, 2**31 - 2), (2**31 - 2, 2**31 - 1), (2**31, 2**31 - 1)]
)
async def test_the_number_fits_the_message(harness: Harness, last: int, expected: int) -> None:
    leader = Leader(harness, "others")
    await leader.initialize(0, 0)
    assert await leader.write((0, last, 2, 1)) == 0
    assert await leader.complete() == expected


async def test_epochs_fence_leaders_that_are_out_of_date(harness: Harness) -> None:
    leader = Leader(harness, "others")
    await leader.initialize(3, 0)
    assert await leader.initialize(2, 0) == ErrorCode.FENCED_STATE_EPOCH
    assert await leader.write(state_epoch=2) == ErrorCode.FENCED_STATE_EPOCH
    assert (await leader.read(5)).error_code == 0
    assert (await leader.read(4)).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert await leader.write(state_epoch=3, leader_epoch=4) == ErrorCode.FENCED_LEADER_EPOCH
    assert await leader.write(state_epoch=3, leader_epoch=5) == 0
    assert await leader.summary() == (0, 0, 3, 5)


@pytest.mark.parametrize("batch", [(5, 4, 2, 1), (-1, 4, 2, 1), (0, 4, 1, 1), (0, 4, 5, 1), (0, 4, 2, -1)])
async def test_a_state_that_no_record_can_have_is_refused(harness: Harness, batch: Batch) -> None:
    leader = Leader(harness)
    log = harness.partitions.log(SHARE_STATE_TOPIC, 0)
    assert log is not None
    end = log.high_watermark
    assert await leader.write(batch) == ErrorCode.INVALID_REQUEST
    assert log.high_watermark == end


async def test_the_whole_range_of_offsets_can_be_written(harness: Harness) -> None:
    leader = Leader(harness)
    assert await leader.write((0, 2**63 - 1, 0, 32_767)) == 0
    assert await leader.write((5, 5, 2, 1)) == 0
    assert [(each.first_offset, each.last_offset) for each in (await leader.read()).state_batches] == [
        (0, 4),
        (5, 5),
        (6, 2**63 - 1),
    ]


@pytest.mark.parametrize(
    ("partition", "error"),
    [(2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (-1, ErrorCode.INVALID_REQUEST)],
)
async def test_partitions_that_do_not_exist(harness: Harness, partition: int, error: ErrorCode) -> None:
    leader = Leader(harness)
    leader.partition = partition
    codes = [
        await leader.initialize(0, 0),
        (await leader.read()).error_code,
        await leader.write(),
        await leader.delete(),
        (await leader.summary())[0],
    ]
    assert set(codes) == {error}


@pytest.mark.parametrize(("length", "error"), [(0, 42), (1, 0), (8_000, 0), (8_001, 42)])
async def test_the_length_of_a_group_id(harness: Harness, length: int, error: int) -> None:
    leader = Leader(harness, "€" * length)
    assert await leader.initialize(0, 0) == error


async def test_a_written_state_applies_to_the_members_of_this_broker(harness: Harness) -> None:
    """A deletion and a new state end what the members hold; a higher leader epoch fences this broker."""
    harness.append("orders", *range(10))
    member, leader = Member(harness), Leader(harness)
    assert await member.acquired() == [(0, 9, 1)]
    await leader.initialize(1, 5)
    assert await member.acknowledged((0, 9, [ACCEPT])) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await member.acquired() == [(5, 9, 1)]
    await leader.read(7)
    assert await member.acknowledged((5, 9, [ACCEPT])) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    reply = await member.fetch()
    assert reply.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    await leader.delete()
    reply = await member.fetch()
    assert reply.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("key", "error"),
    [
        ("readers:AAECAwQFBgcICQoLDA0ODw:0", ErrorCode.NONE),
        ("a:b:AAECAwQFBgcICQoLDA0ODw:0", ErrorCode.NONE),
        ("", ErrorCode.INVALID_REQUEST),
        ("readers", ErrorCode.INVALID_REQUEST),
        (":AAECAwQFBgcICQoLDA0ODw:0", ErrorCode.INVALID_REQUEST),
        ("readers:AAECAwQFBgcICQoLDA0OD:0", ErrorCode.INVALID_REQUEST),
        ("readers:AAECAwQFBgcICQoLDA0ODw:-1", ErrorCode.INVALID_REQUEST),
        ("readers:AAECAwQFBgcICQoLDA0ODw:", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_the_coordinator_of_a_share_partition(harness: Harness, key: str, error: ErrorCode) -> None:
    (found,) = (await harness.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]))).coordinators
    assert (found.error_code, found.node_id) == (error, -1 if error else 1)


async def test_before_version_6_there_is_no_share_coordinator(harness: Harness) -> None:
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=["readers:AAECAwQFBgcICQoLDA0ODw:0"])
    (found,) = (await harness.ask(request, 5)).coordinators
    assert found.error_code == ErrorCode.INVALID_REQUEST

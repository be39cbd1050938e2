"""A transactional producer and a reader of committed records, message by message, on a `Harness`."""

from collections.abc import Sequence
from typing import Any

from broker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from broker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from broker.protocol.messages.end_txn import EndTxnRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.init_producer_id import InitProducerIdRequest
from broker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from broker.protocol.schema import ZERO_UUID
from broker.records.build import NewRecord, build_batch
from broker.records.control import marker_of
from broker.records.header import TRANSACTIONAL_FLAG, header_at
from broker.records.walk import batches, records
from tests.api.harness import WALL_MS, Harness

GROUP = 0
TRANSACTION = 1

PRODUCE = {1: 11, 2: 12}
END = {1: 4, 2: 5}
OFFSETS = {1: 4, 2: 5}
"""The versions of the requests that a client of each transaction version sends."""


class TransactionalProducer:
    """A producer of transaction version 1 or 2. Each method returns the error code of the response."""

    def __init__(self, harness: Harness, transactional_id: str = "t", *, client_version: int = 2) -> None:
        self.harness = harness
        self.transactional_id = transactional_id
        self.client_version = client_version
        self.producer_id = self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}

    async def find(self) -> None:
        for kind in (GROUP, TRANSACTION):
            reply = await self.harness.ask(
                FindCoordinatorRequest(key_type=kind, coordinator_keys=[self.transactional_id])
            )
            assert reply.coordinators[0].error_code == 0

    async def init(
        self, timeout_ms: int = 60_000, *, resume: bool = False, version: int | None = None
    ) -> int:
        request = InitProducerIdRequest(self.transactional_id, timeout_ms)
        if resume:
            request.producer_id, request.producer_epoch = self.producer_id, self.epoch
        reply = await self.harness.ask(request, version)
        if not reply.error_code:
            self._is(reply.producer_id, reply.producer_epoch)
        return int(reply.error_code)

    async def begin(self, timeout_ms: int = 60_000) -> "TransactionalProducer":
        await self.find()
        assert await self.init(timeout_ms) == 0
        return self

    def _is(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch

    async def add(self, *partitions: int, topic: str = "events") -> list[int]:
        request = AddPartitionsToTxnRequest(
            self.transactional_id,
            self.producer_id,
            self.epoch,
            [AddPartitionsToTxnTopic(topic, list(partitions))],
        )
        reply = await self.harness.ask(request, 3)
        (result,) = reply.results_by_topic_v3_and_below
        return [each.partition_error_code for each in result.results_by_partition]

    def batch(self, values: Sequence[bytes], sequence: int, *, flags: int = TRANSACTIONAL_FLAG) -> bytes:
        return bytes(
            build_batch(
                [NewRecord(None, value, WALL_MS) for value in values],
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=sequence,
                attributes=flags,
            )
        )

    async def send(
        self, *values: bytes, partition: int = 0, topic: str = "events", version: int | None = None
    ) -> int:
        key = topic, partition
        sequence = self.sequences.get(key, 0)
        data = PartitionProduceData(partition, self.batch(values, sequence))
        request = ProduceRequest(
            self.transactional_id, -1, 1_000, [TopicProduceData(topic, partition_data=[data])]
        )
        reply = await self.harness.ask(request, version or PRODUCE[self.client_version])
        code = int(reply.responses[0].partition_responses[0].error_code)
        if not code:
            self.sequences[key] = sequence + len(values)
        return code

    async def write(self, *values: bytes, partition: int = 0) -> None:
        """Send, after AddPartitionsToTxn where the client's version needs it."""
        if self.client_version == 1:
            assert await self.add(partition) == [0]
        assert await self.send(*values, partition=partition) == 0

    async def add_group(self, group: str) -> int:
        request = AddOffsetsToTxnRequest(self.transactional_id, self.producer_id, self.epoch, group)
        return int((await self.harness.ask(request)).error_code)

    async def commit_offset(
        self,
        group: str,
        offset: int,
        *,
        topic: str | bytes = "events",
        partition: int = 0,
        version: int | None = None,
        **member: Any,
    ) -> int:
        """Commit an offset of a topic, which from version 6 has an id."""
        name, topic_id = (topic, ZERO_UUID) if isinstance(topic, str) else ("", topic)
        request = TxnOffsetCommitRequest(
            self.transactional_id,
            group,
            self.producer_id,
            self.epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name, topic_id, [TxnOffsetCommitRequestPartition(partition, offset)]
                )
            ],
            **member,
        )
        reply = await self.harness.ask(request, version or OFFSETS[self.client_version])
        return int(reply.topics[0].partitions[0].error_code)

    async def end(self, *, commit: bool, run: bool = True) -> int:
        """End the transaction; `run` the timer that writes its markers."""
        request = EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, commit)
        reply = await self.harness.ask(request, END[self.client_version])
        if not reply.error_code and self.client_version == 2:
            self._is(reply.producer_id, reply.producer_epoch)
        if run:
            self.harness.run_transactions()
        return int(reply.error_code)


def fetch_of(partition: int, offset: int, *, committed: bool, max_wait_ms: int = 0) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=int(committed),
        session_epoch=-1,
        topics=[
            FetchTopic(
                "events",
                partitions=[
                    FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
                ],
            )
        ],
    )


async def fetched(harness: Harness, partition: int = 0, *, committed: bool = True, offset: int = 0) -> Any:
    """The response for one partition."""
    reply = await harness.ask(fetch_of(partition, offset, committed=committed), 12)
    return reply.responses[0].partitions[0]


async def visible(harness: Harness, partition: int = 0, *, committed: bool = True) -> list[bytes]:
    """The values that a consumer sees: it leaves out what the response says was aborted."""
    found = await fetched(harness, partition, committed=committed)
    assert found.error_code == 0
    aborted = sorted(
        ((each.first_offset, each.producer_id) for each in found.aborted_transactions or ()), reverse=True
    )
    skipped: set[int] = set()
    values: list[bytes] = []
    for batch in batches(bytes(found.records)):
        header = header_at(batch)
        while aborted and aborted[-1][0] <= header.last_offset:
            skipped.add(aborted.pop()[1])
        if header.is_control:
            marker = marker_of(batch)
            if marker is not None and not marker.is_commit:
                skipped.discard(header.producer_id)
        elif not (header.attributes & TRANSACTIONAL_FLAG and header.producer_id in skipped):
            values += [each.value or b"" for each in records(batch)]
    return values

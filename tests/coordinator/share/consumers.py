"""Members of a share group that send ShareFetch and ShareAcknowledge to a networkless broker."""

from collections.abc import Sequence
from typing import Any

from broker.protocol.messages.share_acknowledge import (
    AcknowledgementBatch as Acknowledged,
)
from broker.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from broker.protocol.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
)
from broker.records.walk import batches, records
from tests.api.harness import Asking, Connection, Harness

Ack = tuple[int, int, list[int]]


class Member:
    """A member with one partition. `epoch` is that of its next request."""

    def __init__(
        self, harness: Harness, name: str = "a", group: str = "readers", topic: str = "orders"
    ) -> None:
        self.harness = harness
        self.name = name
        self.group = group
        self.topic_id = harness.partitions.by_name[topic].topic_id
        self.epoch = 0
        self.connection = Connection()
        self.connection.id = f"connection of {name}"

    def fetch_request(
        self,
        *acks: Ack,
        partition: int = 0,
        records: int = 500,
        batch_size: int = 500,
        wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1_000_000,
        epoch: int | None = None,
        forget: Sequence[int] = (),
        acquire_mode: int = 0,
    ) -> ShareFetchRequest:
        asked = FetchPartition(partition, [AcknowledgementBatch(*each) for each in acks])
        named = self.epoch == 0 or acks
        return ShareFetchRequest(
            self.group,
            self.name,
            self.epoch if epoch is None else epoch,
            wait_ms,
            min_bytes,
            max_bytes,
            records,
            batch_size,
            acquire_mode,
            topics=[FetchTopic(self.topic_id, [asked])] if named else [],
            forgotten_topics_data=[ForgottenTopic(self.topic_id, list(forget))] if forget else [],
        )

    async def renew(self, *acks: Ack, **limits: int) -> Any:
        """Return the response to a ShareFetch that renews locks."""
        nothing = {"records": 0, "min_bytes": 0, "max_bytes": 0}
        request = self.fetch_request(*acks, **(nothing | limits))
        request.is_renew_ack = True
        reply = await self.harness.ask(request, connection=self.connection)
        self.epoch += reply.error_code == 0
        return reply

    async def put(self, *acks: Ack, **options: Any) -> Asking:
        """Send a ShareFetch that may wait."""
        request = self.fetch_request(*acks, **options)
        asking = await self.harness.put(request, connection=self.connection)
        self.epoch += 1
        return asking

    async def fetch(self, *acks: Ack, **options: Any) -> Any:
        """Return the response to a ShareFetch that does not wait."""
        return self.harness.answer(await self.put(*acks, **options))

    async def acquired(self, *acks: Ack, **options: Any) -> list[tuple[int, int, int]]:
        return acquired_in(await self.fetch(*acks, **options))

    async def acknowledge(
        self, *acks: Ack, partition: int = 0, epoch: int | None = None, renews: bool = False
    ) -> Any:
        asked = AcknowledgePartition(partition, [Acknowledged(*each) for each in acks])
        request = ShareAcknowledgeRequest(
            self.group,
            self.name,
            self.epoch if epoch is None else epoch,
            renews,
            topics=[AcknowledgeTopic(self.topic_id, [asked])],
        )
        reply = await self.harness.ask(request, connection=self.connection)
        self.epoch += 1
        return reply

    async def acknowledged(self, *acks: Ack) -> int:
        """Acknowledge and return the error of the partition."""
        return code_of(await self.acknowledge(*acks))

    async def close(self) -> Any:
        return await self.acknowledge(epoch=-1)


def code_of(reply: Any) -> int:
    assert reply.error_code == 0, reply.error_code
    (topic,) = reply.responses
    (partition,) = topic.partitions
    return int(partition.error_code)


def acquired_in(reply: Any) -> list[tuple[int, int, int]]:
    """Return the acquired ranges of a response with at most one partition."""
    assert reply.error_code == 0, reply.error_code
    found = []
    for topic in reply.responses:
        for partition in topic.partitions:
            assert partition.error_code == 0, partition.error_code
            for each in partition.acquired_records:
                found.append((each.first_offset, each.last_offset, each.delivery_count))
    return found


def offsets_in(reply: Any) -> list[int]:
    """Return the offsets of the records in a response."""
    return [
        record.offset
        for topic in reply.responses
        for partition in topic.partitions
        for batch in batches(partition.records)
        for record in records(batch)
    ]

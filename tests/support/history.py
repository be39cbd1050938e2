"""Producers that keep a history of what was acknowledged, and a reader that checks a log against it.

Used by tests/endtoend around crashes. A record is sent once and never again, so one that was not acknowledged
may be in the log or not; one that was is there once, at its offset. Knows the wire and nothing of the broker.
"""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import trio

from broker.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.records.build import NewRecord, build_batch
from broker.records.walk import batches, records
from tests.support.batches import is_whole
from tests.support.produce import PRODUCE_VERSION, produce_request
from tests.support.wire import WireClient, connect

TOPIC = "history"
PARTITIONS = 4
FETCH_VERSION = 11
FETCH_BYTES = 4_000_000

ENDS = (OSError, EOFError, trio.BrokenResourceError, trio.ClosedResourceError)
"""What a client sees of a broker that dies."""


@dataclass
class History:
    """By partition: what was acknowledged, and how many were sent."""

    acknowledged: list[dict[int, bytes]] = field(default_factory=lambda: [{} for _ in range(PARTITIONS)])
    sent: int = 0

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged))

    async def produce(self, port: int, name: str, *, records_each: int = 3) -> None:
        """Until cancelled, or until the broker is gone."""
        try:
            client = await connect(port, name)
            async with client.stream:
                while True:
                    await self.produce_once(client, self.sent % PARTITIONS, records_each)
        except ENDS:
            return

    async def produce_once(
        self, client: WireClient, partition: int, records_each: int = 3, padding: int = 50
    ) -> int:
        """One batch with acks=all; the error code."""
        values = [
            b"%s %d %s" % (str(client.client_id).encode(), self.sent + n, bytes(padding))
            for n in range(records_each)
        ]
        self.sent += records_each
        now_ms = time.time_ns() // 1_000_000
        batch = bytearray(build_batch([NewRecord(None, value, now_ms) for value in values]))
        answer = await client.ask(produce_request(batch, TOPIC, partition, acks=-1), PRODUCE_VERSION)
        result = answer.responses[0].partition_responses[0]
        if result.error_code == 0:
            known = self.acknowledged[partition]
            for delta, value in enumerate(values):
                assert result.base_offset + delta not in known, "an offset was given out twice"
                known[result.base_offset + delta] = value
        return int(result.error_code)

    async def check(self, port: int) -> int:
        """The log has what was acknowledged, once and in its place, at dense offsets. How many it has."""
        client = await connect(port, "reader")
        total = 0
        async with client.stream:
            for partition, acknowledged in enumerate(self.acknowledged):
                found = [record async for record in read_all(client, partition)]
                assert [offset for offset, _ in found] == list(range(len(found)))
                values = [value for _, value in found]
                assert len(set(values)) == len(values), "a record is there twice"
                lost = {
                    offset for offset, value in acknowledged.items() if values[offset : offset + 1] != [value]
                }
                assert not lost, f"partition {partition} lost what it had acknowledged at {sorted(lost)[:5]}"
                total += len(found)
        return total


async def make_topic(port: int, **configs: str) -> None:
    """`configs` have underscores for dots."""
    client = await connect(port)
    rows = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    async with client.stream:
        topic = CreatableTopic(TOPIC, PARTITIONS, 1, configs=rows)
        answer = await client.ask(CreateTopicsRequest([topic], 5_000), 5)
        assert answer.topics[0].error_code == 0


async def read_all(client: WireClient, partition: int) -> AsyncIterator[tuple[int, bytes]]:
    """(offset, value) of every record, whose batches have been checked."""
    offset = 0
    while True:
        fetched = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            topics=[FetchTopic(TOPIC, partitions=[fetched])],
        )
        answer = await client.ask(request, FETCH_VERSION)
        found = answer.responses[0].partitions[0]
        assert found.error_code == 0, found
        if not found.records:
            assert offset == found.high_watermark
            return
        for batch in batches(found.records):
            assert is_whole(batch)
            for record in records(batch):
                assert record.value is not None
                yield record.offset, record.value
                offset = record.offset + 1

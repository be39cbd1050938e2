"""A producer without idempotence and without a client library: one batch at a time, never sent again.

A batch without an answer may be there or not; one with an answer must be there.
"""

import time
from typing import Final

import trio

from benchmarks.soak.ledger import make_value
from benchmarks.soak.stage import Stage
from benchmarks.soak.topics import PARTITIONS, RAW
from benchmarks.soak.visitors import connect
from broker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.records.build import NewRecord, build_batch

BATCH: Final = 8
EVERY_S: Final = 0.1
BATCHES: Final = 200
"""On one connection."""


async def produce(stage: Stage) -> None:
    """Produce a number of batches."""
    ledger = stage.ledgers[RAW]
    client = await connect(stage, "raw")
    async with client.stream:
        for turn in range(BATCHES):
            numbers = [ledger.next_number() for _ in range(BATCH)]
            now_ms = time.time_ns() // 1_000_000
            records = [NewRecord(None, make_value(RAW, number), now_ms) for number in numbers]
            partition = turn % PARTITIONS
            data = PartitionProduceData(partition, bytearray(build_batch(records)))
            request = ProduceRequest(None, -1, 30_000, [TopicProduceData(RAW, partition_data=[data])])
            answer = await client.ask(request, 9)
            told = answer.responses[0].partition_responses[0]
            if told.error_code:
                stage.report("raw", f"produce refused with error {told.error_code}")
            else:
                for at, number in enumerate(numbers):
                    ledger.acknowledge(partition, told.base_offset + at, number)
            await trio.sleep(EVERY_S)

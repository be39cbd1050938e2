"""Persisters over the logs of a networkless broker, with one partition of __share_group_state."""

from broker.config.sections import ShareCoordinatorConfig
from broker.controller.commands import BROKER_ITSELF, CreateTopics, NewTopic
from broker.coordinator.share.persister import SHARE_STATE_TOPIC, ShareStatePersister
from broker.log.partition import PartitionLog
from broker.records.walk import batches, records
from tests.api.harness import Harness


def one_partition(harness: Harness, updates: int = 500) -> ShareStatePersister:
    config = ShareCoordinatorConfig(topic_partitions=1, updates_per_snapshot=updates)

    async def create_topic() -> None:
        topic = NewTopic(SHARE_STATE_TOPIC, 1, 1, (("cleanup.policy", "delete"), ("flush.ms", "60000")))
        await harness.control.apply(CreateTopics((topic,)), BROKER_ITSELF)

    return ShareStatePersister(config, harness.partitions, harness.clock, create_topic)


def records_of(log: PartitionLog) -> list[tuple[bytes, bytes | None]]:
    """Return the keys and values of all records."""
    found: list[tuple[bytes, bytes | None]] = []
    offset = log.log_start_offset
    while offset < log.high_watermark:
        for batch in batches(log.read(offset, 10_000_000, min_one_batch=True).read()):
            for record in records(batch):
                assert record.key is not None
                found.append((record.key, record.value))
                offset = record.offset + 1
    return found

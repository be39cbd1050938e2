"""Share groups with a dead letter queue on a networkless broker, and what is in their queues."""

from typing import Any, Final

from broker.controller.commands import (
    BROKER_ITSELF,
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    IncrementalAlterConfigs,
    OpType,
    ResourceType,
)
from broker.coordinator.share.states import SharePartitionKey
from broker.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from broker.records.walk import Record, batches, records
from tests.api.harness import Harness

QUEUE: Final = "dlq.orders"
ENABLED: Final = ("errors.deadletterqueue.group.enable", "true")

REJECTED: Final = b"Offset rejected by client."
TOO_OFTEN: Final = b"Offset delivery count exceeded the threshold."


async def configure(harness: Harness, topic: str = QUEUE, **more: str) -> None:
    """Set the dead letter queue of the group "readers"; `copies="true"`: with keys and values."""
    values = {"errors.deadletterqueue.topic.name": topic}
    if "copies" in more:
        values["errors.deadletterqueue.copy.record.enable"] = more["copies"]
    resource = ConfigResource(ResourceType.GROUP, "readers")
    ops = tuple(ConfigOp(key, OpType.SET, value) for key, value in values.items())
    command = IncrementalAlterConfigs((ConfigAlteration(resource, ops),))
    (outcome,) = await harness.control.apply(command, BROKER_ITSELF)
    assert not outcome.error, outcome


async def add_queue(
    harness: Harness, *settings: tuple[str, str], name: str = QUEUE, partitions: int = 1
) -> None:
    configs = [CreatableTopicConfig(key, value) for key, value in (ENABLED, *settings)]
    reply = await harness.ask(CreateTopicsRequest([CreatableTopic(name, partitions, 1, [], configs)]))
    assert reply.topics[0].error_code == 0, reply


def letters(harness: Harness, name: str = QUEUE, partition: int = 0) -> list[Record]:
    """Return the dead letters in a partition; none if the topic does not exist."""
    log = harness.partitions.log(name, partition)
    if log is None:
        return []
    found: list[Record] = []
    while (offset := len(found)) < log.high_watermark:
        for batch in batches(log.read(offset, 10_000_000, min_one_batch=True).read()):
            found += records(batch)
    return found


def offsets(harness: Harness, name: str = QUEUE, partition: int = 0) -> list[int]:
    """Return the offsets of the records of which there are dead letters, in the order of these."""
    return [int(header_of(each, "offset")) for each in letters(harness, name, partition)]


def header_of(letter: Record, name: str) -> bytes:
    value = dict(letter.headers)[f"__dlq.errors.{name}"]
    assert value is not None
    return value


def state_of(harness: Harness, member: Any, partition: int = 0) -> tuple[tuple[int, int, int, int], ...]:
    """Return the stored states of a share partition: first and last offset, state, deliveries."""
    state = harness.share.persister.state(SharePartitionKey("readers", member.topic_id, partition))
    assert state is not None
    return tuple((first, last, int(kind), count) for first, last, kind, count in state.batches)

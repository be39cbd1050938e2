"""Settings of topics that the broker creates on demand or for its own use. (Kafka: AutoTopicCreationManager)

Called by Metadata and FindCoordinator, by the event writer and for share groups. An internal topic has the
same settings whichever client triggers its creation.
"""

from typing import Final

from broker.config.sections import EventConfig, GroupConfig, ShareCoordinatorConfig, TransactionConfig
from broker.config.sections.topics import TOPIC_SETTINGS
from broker.config.table import BrokerConfig
from broker.controller.commands import NewTopic
from broker.coordinator.group_service import OFFSETS_TOPIC
from broker.coordinator.share.persister import SHARE_STATE_TOPIC
from broker.coordinator.transaction_service import TRANSACTIONS_TOPIC
from broker.metadata.image import OUR_TOPICS

FLUSH_MS: Final = 60_000
"""Longest time that a committed offset or the state of a transaction stays in the page cache only.

Kafka never flushes it. Here the broker deletes old records of the topic periodically, and only after the
remaining records are flushed.
"""

STATE_BYTES: Final = 16 * 1024 * 1024
"""A state has 20 bytes for each range of records in flight, and all records of a batch are in flight."""

EVENT_SEGMENT_BYTES: Final = 64 * 1024 * 1024
EVENT_BATCH_BYTES: Final = 16 * 1024 * 1024
"""Pushed telemetry can be as large as telemetry.max.bytes."""


def automatic_topic(name: str, config: BrokerConfig) -> NewTopic:
    own = own_topic(name, config.groups, config.transactions, config.share_coordinator, config.events)
    return own or NewTopic(name)


def own_topic(
    name: str,
    groups: GroupConfig,
    transactions: TransactionConfig,
    share: ShareCoordinatorConfig,
    events: EventConfig,
) -> NewTopic | None:
    """Return the topic of this name if it is an internal topic."""
    if name == OFFSETS_TOPIC:
        return _state_topic(name, groups.offsets_topic_partitions, groups.offsets_topic_segment_bytes)
    if name == TRANSACTIONS_TOPIC:
        return _state_topic(name, transactions.topic_partitions, transactions.topic_segment_bytes)
    if name == SHARE_STATE_TOPIC:
        return _share_state_topic(name, share)
    return _event_topic(name, events) if name.startswith(OUR_TOPICS) else None


def _state_topic(name: str, partitions: int, segment_bytes: int) -> NewTopic:
    settings = (
        ("cleanup.policy", "compact"),
        ("compression.type", "producer"),
        ("flush.ms", str(FLUSH_MS)),
        _segment_bytes(segment_bytes),
    )
    return NewTopic(name, partitions, 1, settings)


def _segment_bytes(size: int) -> tuple[str, str]:
    """Return the setting of a topic whose segments may be smaller than those of a client's topic."""
    least, _ = TOPIC_SETTINGS["segment.bytes"].kind.bounds or (0, 0)
    return "segment.bytes" if size >= least else "internal.segment.bytes", str(size)


def _share_state_topic(name: str, share: ShareCoordinatorConfig) -> NewTopic:
    settings = (
        ("cleanup.policy", "delete"),
        ("compression.type", "producer"),
        ("flush.ms", str(FLUSH_MS)),
        ("max.message.bytes", str(STATE_BYTES)),
        ("retention.ms", "-1"),
        _segment_bytes(share.topic_segment_bytes),
    )
    return NewTopic(name, share.topic_partitions, 1, settings)


def _event_topic(name: str, events: EventConfig) -> NewTopic:
    settings = (
        ("cleanup.policy", "delete"),
        ("compression.type", "producer"),
        ("max.message.bytes", str(EVENT_BATCH_BYTES)),
        ("retention.bytes", str(events.retention_bytes)),
        ("retention.ms", str(events.retention_ms)),
        ("segment.bytes", str(EVENT_SEGMENT_BYTES)),
    )
    return NewTopic(name, events.topic_partitions, 1, settings)

"""What a topic is like that the broker makes because somebody asked for it, or for its own use. (Kafka:
AutoTopicCreationManager)

Called by Metadata and FindCoordinator, and by the event writer. A topic of the broker's own is the same
whoever asked first.
"""

from typing import Final

from broker.api.broker import Broker
from broker.config.sections import EventConfig, GroupConfig
from broker.control.commands import NewTopic
from broker.metadata.image import OUR_TOPICS
from broker.services.group_service import OFFSETS_TOPIC

FLUSH_MS: Final = 60_000
"""How long a committed offset may lie in the page cache only. Kafka leaves it there; here the topic is
shortened from time to time, and only after what remains is on the disk.
"""

EVENT_SEGMENT_BYTES: Final = 64 * 1024 * 1024
EVENT_BATCH_BYTES: Final = 16 * 1024 * 1024
"""Pushed telemetry is as large as telemetry.max.bytes allows."""


def automatic_topic(name: str, broker: Broker) -> NewTopic:
    return own_topic(name, broker.group_config, broker.control.config.events) or NewTopic(name)


def own_topic(name: str, groups: GroupConfig, events: EventConfig) -> NewTopic | None:
    """The topic of this name, if it is one of the broker's own."""
    if name == OFFSETS_TOPIC:
        return _offsets_topic(groups)
    return _event_topic(name, events) if name.startswith(OUR_TOPICS) else None


def _offsets_topic(groups: GroupConfig) -> NewTopic:
    settings = (
        ("cleanup.policy", "compact"),
        ("compression.type", "producer"),
        ("flush.ms", str(FLUSH_MS)),
        ("segment.bytes", str(groups.offsets_topic_segment_bytes)),
    )
    return NewTopic(OFFSETS_TOPIC, groups.offsets_topic_partitions, 1, settings)


def _event_topic(name: str, events: EventConfig) -> NewTopic:
    settings = (
        ("cleanup.policy", "delete"),
        ("compression.type", "producer"),
        ("max.message.bytes", str(EVENT_BATCH_BYTES)),
        ("retention.bytes", str(events.retention_bytes)),
        ("retention.ms", str(events.retention_ms)),
        ("segment.bytes", str(EVENT_SEGMENT_BYTES)),
    )
    return NewTopic(name, 1, 1, settings)

"""What a topic is like that the broker makes because somebody asked for it. (Kafka: AutoTopicCreationManager)

Called by Metadata and FindCoordinator. An internal topic is the same whoever asked first.
"""

from typing import Final

from broker.config.rooms import GroupConfig
from broker.control.commands import NewTopic
from broker.services.group_service import OFFSETS_TOPIC

FLUSH_MS: Final = 60_000
"""How long a committed offset may lie in the page cache only. Kafka leaves it there; here the topic is
shortened from time to time, and only after what remains is on the disk.
"""


def automatic_topic(name: str, groups: GroupConfig) -> NewTopic:
    if name != OFFSETS_TOPIC:
        return NewTopic(name)
    settings = (
        ("cleanup.policy", "compact"),
        ("compression.type", "producer"),
        ("flush.ms", str(FLUSH_MS)),
        ("segment.bytes", str(groups.offsets_topic_segment_bytes)),
    )
    return NewTopic(name, groups.offsets_topic_partitions, 1, settings)

"""The topics that the members of a consumer group subscribe to, read from their metadata when asked for.

Called by `offsets` and `expiry` before offsets are deleted or expire. A generation only keeps its members'
metadata: reading 10,000 topics takes 3 ms for each member, and most generations never need them. (Kafka:
ClassicGroup.computeSubscribedTopics) Members of the consumer protocol state their topics.
"""

import struct
from collections.abc import Container, Iterator

from broker.common.slices import Steps
from broker.coordinator.group.any_group import AnyGroup
from broker.coordinator.group.modern_group import ModernGroup

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class SubscribedTopics:
    """The topics of interest that one generation subscribes to.

    `is_known` is False if any member's metadata cannot be read: the group may then use every topic.
    """

    __slots__ = ("_subscriptions", "_topics")

    def __init__(self, subscriptions: object, topics: set[str] | None) -> None:
        self._subscriptions = subscriptions
        self._topics = topics

    def __contains__(self, topic: str) -> bool:
        return self._topics is None or topic in self._topics

    @property
    def is_known(self) -> bool:
        return self._topics is not None

    def is_of(self, group: AnyGroup) -> bool:
        """Return whether these are the topics of the group's present generation."""
        return self._subscriptions is group.subscriptions


def subscribed_topics(group: AnyGroup, wanted: Container[str]) -> Steps[SubscribedTopics]:
    """Return which of the `wanted` topics the group's generation subscribes to.

    The result is of the generation at the start.
    """
    if isinstance(group, ModernGroup):
        return SubscribedTopics(group.subscriptions, {topic for topic in group.subscribed if topic in wanted})
    subscriptions = group.subscriptions
    if subscriptions is None:
        return SubscribedTopics(None, None)
    found: set[str] = set()
    try:
        for metadata in subscriptions:
            for topic in topics_of(metadata):
                if topic in wanted:
                    found.add(topic)
                yield
            yield
    except ValueError:
        return SubscribedTopics(subscriptions, None)
    return SubscribedTopics(subscriptions, found)


def topics_of(metadata: bytes) -> Iterator[str]:
    """Yield a consumer's subscribed topics. Raises ValueError for other metadata.

    Reads only the start of ConsumerProtocolSubscription, which all versions share.
    """
    try:
        (count,) = _INT32.unpack_from(metadata, _INT16.size)
        at = _INT16.size + _INT32.size
        if count < 0:
            raise ValueError(f"invalid number of topics {count}")
        for _ in range(count):
            (size,) = _INT16.unpack_from(metadata, at)
            start, at = at + _INT16.size, at + _INT16.size + size
            if size < 0 or at > len(metadata):
                raise ValueError(f"invalid length {size} of a topic at {start}")
            yield metadata[start:at].decode()
    except struct.error as error:
        raise ValueError("the subscription ends early") from error

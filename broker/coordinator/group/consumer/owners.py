"""The partitions of a group that some member has, or has not given up yet."""

from broker.common.errors import BrokerBug
from broker.coordinator.group.consumer.assignment import Assignment

NONE: frozenset[int] = frozenset()


class Owners:
    """The partitions by topic. A set is replaced and never modified, so that a copy costs one dictionary, and
    the partitions of a topic with one member are the set that the member has.
    """

    __slots__ = ("_by_topic",)

    def __init__(self) -> None:
        self._by_topic: dict[bytes, frozenset[int]] = {}

    def copy(self) -> "Owners":
        other = Owners()
        other._by_topic = dict(self._by_topic)
        return other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Owners) and self._by_topic == other._by_topic

    __hash__ = None  # type: ignore[assignment]

    def add(self, assignment: Assignment) -> None:
        """Add the partitions of a member. Raises BrokerBug if another one has some of them."""
        by_topic = self._by_topic
        for topic_id, partitions in assignment.items():
            known = by_topic.get(topic_id)
            if known is None:
                by_topic[topic_id] = partitions
            elif known.isdisjoint(partitions):
                by_topic[topic_id] = known | partitions
            else:
                raise BrokerBug(
                    f"partitions {sorted(known & partitions)} of {topic_id.hex()} have two owners"
                )

    def remove(self, assignment: Assignment) -> None:
        """Remove the partitions of a member."""
        by_topic = self._by_topic
        for topic_id, partitions in assignment.items():
            known = by_topic.get(topic_id, NONE)
            if len(known) <= len(partitions):
                by_topic.pop(topic_id, None)
            else:
                by_topic[topic_id] = known - partitions

    def free(self, topic_id: bytes, partitions: frozenset[int]) -> frozenset[int]:
        """Return the partitions that no member has."""
        known = self._by_topic.get(topic_id)
        return partitions if known is None else partitions - known

    def has_any(self, assignment: Assignment) -> bool:
        """Return whether a member has one of the partitions."""
        by_topic = self._by_topic
        return any(
            not partitions.isdisjoint(by_topic.get(topic_id, NONE))
            for topic_id, partitions in assignment.items()
        )

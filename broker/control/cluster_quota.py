"""Limits of the number of topics and partitions: `cluster.quota.topic.count` and `.partition.count`. (AutoMQ:
ReplicationControlManager.checkTopicQuota and checkPartitionQuota)

Used by the planners of CreateTopics and CreatePartitions, with one instance per command. Internal topics
count and are refused too, as in AutoMQ. Two things differ: each topic of a request is accepted or refused
individually, and the error is POLICY_VIOLATION instead of AutoMQ's THROTTLING_QUOTA_EXCEEDED, which clients
would retry in vain.
"""

from broker.config.kinds import LONG_MAX
from broker.control.plan import Situation
from broker.errors import ApiError, ErrorCode


class ClusterQuota:
    """The remaining allowance of one command. Topics are counted only if there is a limit."""

    __slots__ = ("_most_partitions", "_most_topics", "_partitions", "_topics")

    def __init__(self, at: Situation) -> None:
        limits, topics = at.config.broker_quotas, at.image.topics
        self._most_topics = limits.topic_count
        self._most_partitions = limits.partition_count
        self._topics = len(topics)
        self._partitions = (
            sum(topic.partitions for topic in topics.values()) if limits.partition_count < LONG_MAX else 0
        )

    def take(self, topics: int, partitions: int) -> None:
        """Use up part of the allowance. Raises ApiError POLICY_VIOLATION, without effect, above a limit."""
        if self._topics + topics > self._most_topics:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"There are {self._topics} topics, and cluster.quota.topic.count allows {self._most_topics}.",
            )
        if self._partitions + partitions > self._most_partitions:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"There are {self._partitions} partitions; {partitions} more would exceed the "
                f"{self._most_partitions} that cluster.quota.partition.count allows.",
            )
        self._topics += topics
        self._partitions += partitions

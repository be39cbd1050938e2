"""How many topics and partitions there may be in all: `cluster.quota.topic.count` and `.partition.count`.
(AutoMQ: ReplicationControlManager.checkTopicQuota and checkPartitionQuota)

Used by the planners of CreateTopics and CreatePartitions, for one command each. Internal topics count like
any other and are refused like any other, as in AutoMQ. Two things are different here: each topic of a request
is accepted or refused by itself, and the error is POLICY_VIOLATION where AutoMQ's is
THROTTLING_QUOTA_EXCEEDED, which clients take as an order to ask again, and asking again does not help.
"""

from broker.config.kinds import LONG_MAX
from broker.control.plan import Situation
from broker.errors import ApiError, ErrorCode


class ClusterQuota:
    """What is left for one command. Topics are only counted where there is a limit."""

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
        """So many more of either. Raises ApiError POLICY_VIOLATION, and takes nothing, where that is beyond
        the limit.
        """
        if self._topics + topics > self._most_topics:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"There are {self._topics} topics, and cluster.quota.topic.count allows {self._most_topics}.",
            )
        if self._partitions + partitions > self._most_partitions:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"There are {self._partitions} partitions; {partitions} more would be beyond the "
                f"{self._most_partitions} that cluster.quota.partition.count allows.",
            )
        self._topics += topics
        self._partitions += partitions

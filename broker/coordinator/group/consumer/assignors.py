"""The assignors by name, and what they are given. (Kafka: ConsumerGroupPartitionAssignor, GroupSpec)

Called by `epochs` to compute the target assignment of a group.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from broker.common.steps import Steps
from broker.config.sections.consumer_groups import RANGE, UNIFORM
from broker.coordinator.group.consumer import range_assignor, uniform
from broker.coordinator.group.consumer.subscriber import Assigned, Subscriber

Assign = Callable[[Mapping[str, Subscriber], Mapping[bytes, int]], Steps[Assigned]]
"""Returns the partitions of each member, with pauses. The second argument has the partition count of each
topic.
"""

ASSIGNORS: Final[Mapping[str, Assign]] = MappingProxyType(
    {UNIFORM: uniform.assign, RANGE: range_assignor.assign}
)

"""The union of the three types of group."""

from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.group import ClassicGroup
from broker.coordinator.group.share.group import ShareGroup

AnyGroup = ClassicGroup | ConsumerGroup | ShareGroup

GroupsById = dict[str, AnyGroup]

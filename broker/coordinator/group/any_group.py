"""The union of the four types of group."""

from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.group import ClassicGroup
from broker.coordinator.group.share.group import ShareGroup
from broker.coordinator.group.streams.group import StreamsGroup

AnyGroup = ClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup

GroupsById = dict[str, AnyGroup]

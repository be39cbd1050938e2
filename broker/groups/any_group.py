"""A group of either protocol. What both have in common needs no look at the class."""

from broker.groups.consumer.group import ConsumerGroup
from broker.groups.group import Group

AnyGroup = Group | ConsumerGroup

Groups = dict[str, AnyGroup]
"""By group id."""

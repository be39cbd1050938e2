"""A group of any type. What they have in common needs no look at the class."""

from broker.groups.consumer.group import ConsumerGroup
from broker.groups.group import Group
from broker.groups.share.group import ShareGroup

AnyGroup = Group | ConsumerGroup | ShareGroup

Groups = dict[str, AnyGroup]
"""By group id."""

"""A member of a share group. (Kafka: ShareGroupMember)"""

from typing import ClassVar, Final

import msgspec
from msgspec.structs import replace

from broker.coordinator.group.consumer.assignment import NO_PARTITIONS, Assignment
from broker.coordinator.group.modern_group import JOINS, bytes_of

STABLE: Final = 0
"""The only state of a member in the records: it gives up partitions without being asked."""


class ShareMember(msgspec.Struct, frozen=True):
    """A member and its current assignment. `topics` are the subscribed names, sorted."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    epoch: int = JOINS
    previous_epoch: int = -1
    assigned: Assignment = NO_PARTITIONS

    regex: ClassVar[None] = None

    @property
    def size(self) -> int:
        """The bytes of its names, for `group.max.bytes`."""
        texts = (self.member_id, self.rack_id, self.client_id, self.client_host)
        return bytes_of([text for text in texts if text]) + bytes_of(self.topics)

    def session_ms(self, timeout_ms: int) -> int:
        return timeout_ms

    def without_assignment(self) -> "ShareMember":
        return replace(self, epoch=JOINS, previous_epoch=-1, assigned=NO_PARTITIONS)

    def moved(self, epoch: int, assigned: Assignment) -> "ShareMember":
        """Return the member with the assignment of this epoch. It keeps its epoch as the previous one."""
        return replace(self, epoch=epoch, previous_epoch=self.epoch, assigned=assigned)

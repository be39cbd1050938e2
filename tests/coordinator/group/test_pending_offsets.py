"""Offsets in transactions whose outcome is open."""

from broker.coordinator.group.messages import CommittedOffset
from broker.coordinator.group.pending_offsets import PendingOffset, PendingOffsets


def offset(number: int) -> CommittedOffset:
    return CommittedOffset(number, -1, "", 0)


def test_offsets_are_pending_until_every_producer_has_ended() -> None:
    pending = PendingOffsets()
    assert not pending.has("g", "t", 0)
    pending.add(1, "g", "t", 0, offset(5))
    pending.add(1, "g", "t", 0, offset(6))
    pending.add(2, "g", "t", 0, offset(7))
    assert pending.has("g", "t", 0) and not pending.has("g", "t", 1) and not pending.has("h", "t", 0)
    assert pending.end(1, lambda _: True) == [PendingOffset("g", "t", 0, offset(6))]
    assert pending.has("g", "t", 0)
    assert pending.end(2, lambda _: True) == [PendingOffset("g", "t", 0, offset(7))]
    assert not pending.has("g", "t", 0)
    assert pending.end(2, lambda _: True) == []


def test_a_marker_ends_the_groups_of_its_partition_only() -> None:
    pending = PendingOffsets()
    pending.add(1, "g", "t", 0, offset(5))
    pending.add(1, "h", "t", 0, offset(6))
    assert pending.end(1, lambda group: group == "g") == [PendingOffset("g", "t", 0, offset(5))]
    assert pending.has("h", "t", 0)
    assert pending.end(1, lambda group: group == "h") == [PendingOffset("h", "t", 0, offset(6))]

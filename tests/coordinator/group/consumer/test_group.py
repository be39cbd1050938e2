"""Which partitions are free, and what two owners of one partition bring about."""

import pytest

from broker.common.errors import BrokerBug
from broker.coordinator.group.consumer.group import Owners

T, U = b"t" * 16, b"u" * 16


def some(*indexes: int) -> frozenset[int]:
    return frozenset(indexes)


def test_partitions_are_free_until_a_member_has_them_and_after_it_has_released_them() -> None:
    owners = Owners()
    assert owners.free(T, some(0, 1)) == some(0, 1)
    owners.add({T: some(0), U: some(5)})
    owners.add({T: some(2)})
    assert owners.free(T, some(0, 1, 2)) == some(1)
    assert owners.has_any({T: some(1, 2)}) and not owners.has_any({T: some(1), U: some(0)})
    owners.remove({T: some(0)})
    assert owners.free(T, some(0, 1, 2)) == some(0, 1)
    owners.remove({T: some(2)})
    owners.remove({U: some(5)})
    assert owners == Owners()


def test_a_second_owner_is_a_bug_and_a_copy_stays_as_it_is() -> None:
    owners = Owners()
    owners.add({T: some(0, 1)})
    before = owners.copy()
    with pytest.raises(BrokerBug, match=r"partitions \[1\] of 7474.* have two owners"):
        owners.add({T: some(1, 2)})
    owners.add({T: some(2)})
    assert before.free(T, some(0, 1, 2)) == some(2) and before != owners


def test_empty_sets_of_damaged_records_leave_nothing_behind() -> None:
    owners = Owners()
    owners.add({T: some()})
    owners.add({T: some(0)})
    owners.remove({T: some(0)})
    owners.remove({T: some()})
    assert owners == Owners()

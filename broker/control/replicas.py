"""Checks that the topic planners share: manual assignments on the only broker, and the maximum per request.

(Kafka: ReplicationControlManager, with its codes and messages)
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Final, TypeVar

from broker.errors import ApiError, ErrorCode
from broker.steps import Steps

Item = TypeVar("Item", bound=Hashable)

KEYS_AT_ONCE: Final = 128
"""Names compared per step."""

MAX_PARTITIONS: Final = 10_000
"""Per request. (Kafka: MAX_PARTITIONS_PER_BATCH)"""


def repeated(items: Iterable[Item]) -> set[Item]:
    """Return the items that occur more than once."""
    return {item for item, count in Counter(items).items() if count > 1}


def repeated_in_steps(items: Iterable[Item]) -> Steps[set[Item]]:
    """As `repeated`, in steps of KEYS_AT_ONCE items."""
    seen: set[Item] = set()
    twice: set[Item] = set()
    for number, item in enumerate(items):
        (twice if item in seen else seen).add(item)
        if number % KEYS_AT_ONCE == KEYS_AT_ONCE - 1:
            yield
    return twice


def check_replicas(assignments: Sequence[tuple[int, ...]], node_id: int) -> None:
    """Raise ApiError INVALID_REPLICA_ASSIGNMENT unless each partition is on this broker exactly once."""
    for brokers in assignments:
        unknown = [broker for broker in brokers if broker != node_id]
        if not brokers:
            problem = "an empty replica list."
        elif unknown:
            problem = f"broker {unknown[0]}, but no such broker is registered."
        elif len(brokers) > 1:
            problem = f"the broker {node_id} more than once."
        else:
            continue
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {problem}"
        )


class PartitionAllowance:
    """The number of partitions that one request can still create."""

    def __init__(self) -> None:
        self._left = MAX_PARTITIONS

    def take(self, count: int) -> None:
        """Use up `count`. Raises ApiError POLICY_VIOLATION, and takes nothing, if fewer are left."""
        if count > self._left:
            raise ApiError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
        self._left -= count

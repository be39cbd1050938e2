"""What the topic planners share: manual assignments on the one broker there is, and the bound on a request.

(Kafka: ReplicationControlManager, in its codes and words)
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Final, TypeVar

from broker.errors import ApiError, ErrorCode
from broker.steps import Steps

Item = TypeVar("Item", bound=Hashable)

KEYS_AT_ONCE: Final = 128
"""Names that are compared between two pauses."""

MOST_PARTITIONS: Final = 10_000
"""In one request. (Kafka: MAX_PARTITIONS_PER_BATCH)"""


def repeated(items: Iterable[Item]) -> set[Item]:
    """Those that occur more than once."""
    return {item for item, count in Counter(items).items() if count > 1}


def repeated_in_steps(items: Iterable[Item]) -> Steps[set[Item]]:
    """The same; stops after every few items."""
    seen: set[Item] = set()
    twice: set[Item] = set()
    for number, item in enumerate(items):
        (twice if item in seen else seen).add(item)
        if number % KEYS_AT_ONCE == KEYS_AT_ONCE - 1:
            yield
    return twice


def check_replicas(assignments: Sequence[tuple[int, ...]], node_id: int) -> None:
    """Raises ApiError INVALID_REPLICA_ASSIGNMENT unless each partition is on this broker, once."""
    for brokers in assignments:
        strangers = [broker for broker in brokers if broker != node_id]
        if not brokers:
            problem = "an empty replica list."
        elif strangers:
            problem = f"broker {strangers[0]}, but no such broker is registered."
        elif len(brokers) > 1:
            problem = f"the broker {node_id} more than once."
        else:
            continue
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {problem}"
        )


class PartitionAllowance:
    """How many more partitions one request may make."""

    def __init__(self) -> None:
        self._left = MOST_PARTITIONS

    def take(self, count: int) -> None:
        """Raises ApiError POLICY_VIOLATION, and takes nothing, where `count` is more than is left."""
        if count > self._left:
            raise ApiError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
        self._left -= count

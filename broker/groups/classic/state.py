"""The phases of a classic group, and which may follow which. Knows nothing else."""

from enum import Enum
from typing import Final


class State(Enum):
    """By the names that DescribeGroups and ListGroups use."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


FOLLOWS: Final = {
    # Members come, go or change; everybody is waited for.
    State.PREPARING_REBALANCE: frozenset({State.EMPTY, State.STABLE, State.COMPLETING_REBALANCE}),
    # A generation has begun; its leader's assignment is waited for.
    State.COMPLETING_REBALANCE: frozenset({State.PREPARING_REBALANCE}),
    State.STABLE: frozenset({State.COMPLETING_REBALANCE}),
    # Nobody came to the rebalance.
    State.EMPTY: frozenset({State.PREPARING_REBALANCE}),
    # Only an empty group is ever deleted.
    State.DEAD: frozenset({State.EMPTY}),
}
"""The phases that each may follow."""

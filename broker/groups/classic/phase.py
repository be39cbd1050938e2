"""The phases of a classic group, and which may follow which. Knows nothing else."""

from enum import Enum
from typing import Final


class Phase(Enum):
    """By the names that DescribeGroups and ListGroups use."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


FOLLOWS: Final = {
    # Members come, go or change; everybody is waited for.
    Phase.PREPARING_REBALANCE: frozenset({Phase.EMPTY, Phase.STABLE, Phase.COMPLETING_REBALANCE}),
    # A generation has begun; its leader's assignment is waited for.
    Phase.COMPLETING_REBALANCE: frozenset({Phase.PREPARING_REBALANCE}),
    Phase.STABLE: frozenset({Phase.COMPLETING_REBALANCE}),
    # Nobody came to the rebalance.
    Phase.EMPTY: frozenset({Phase.PREPARING_REBALANCE}),
    # Only an empty group is ever deleted.
    Phase.DEAD: frozenset({Phase.EMPTY}),
}
"""The phases that each may follow."""

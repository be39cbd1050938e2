"""The states of a classic group and the allowed transitions."""

from enum import Enum
from typing import Final


class State(Enum):
    """States by the names that DescribeGroups and ListGroups use."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


VALID_PREVIOUS_STATES: Final = {
    # Members join, leave or change; the group waits for all members.
    State.PREPARING_REBALANCE: frozenset({State.EMPTY, State.STABLE, State.COMPLETING_REBALANCE}),
    # A generation has begun; the group waits for the leader's assignment.
    State.COMPLETING_REBALANCE: frozenset({State.PREPARING_REBALANCE}),
    State.STABLE: frozenset({State.COMPLETING_REBALANCE}),
    # No member joined the rebalance.
    State.EMPTY: frozenset({State.PREPARING_REBALANCE}),
    # Only an empty group can be deleted.
    State.DEAD: frozenset({State.EMPTY}),
}
"""Allowed previous states of each state."""

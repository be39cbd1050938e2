"""What a command comes to: its answer, and the changes that make it true.

Every planner of this room is a function (command, situation) -> Plan that touches nothing; `Control` commits
the changes, does the effects, and only then gives the answer. Planners of commands with entries are
generators that yield None after every PLANNED_AT_ONCE of them, and return the plan.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from broker.config.load import Configuration
from broker.config.table import BrokerConfig
from broker.control.commands import Outcome
from broker.errors import ErrorCode
from broker.metadata.actor import Actor, Role
from broker.metadata.changes import Change
from broker.metadata.image import Image

Answer = TypeVar("Answer")
PLANNED_AT_ONCE: Final = 128
"""Entries between two yields; ours. One takes up to ten microseconds."""

Effect = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Plan(Generic[Answer]):
    """`effects` are for what is not kept: done once the changes hold, and not when they could not be written.
    They must not fail.
    """

    answer: Answer
    changes: tuple[Change, ...] = ()
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class Situation:
    """Who asks, and what holds: `configuration` is what the start fixed, `config` adds the image's dynamic
    settings. `check_config` raises ConfigError where the running broker cannot go over to other ones.
    """

    image: Image
    configuration: Configuration
    config: BrokerConfig
    actor: Actor
    check_config: Callable[[BrokerConfig], None]

    @property
    def node_id(self) -> int:
        return self.config.broker.node_id

    def refusal(self, needed: Role, code: ErrorCode) -> Outcome | None:
        """What an actor of too low a role is told; None where the role is enough. Every planner begins with
        this.
        """
        if self.actor.role >= needed:
            return None
        held, wanted = self.actor.role.name.lower(), needed.name.lower()
        return Outcome(code, f"{self.actor.name} has the role {held}, and this needs the role {wanted}")

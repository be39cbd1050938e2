"""The result of planning a command: its result value and the changes to commit.

Every planner in this package is a pure function (command, situation) -> Plan. `Control` commits the changes,
runs the effects, and only then returns the result. Planners of commands with entries are generators that
yield None after every PLANNED_AT_ONCE entries and return the plan.
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
"""Entries between two yields; ours. Planning an entry takes up to ten microseconds."""

Effect = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Plan(Generic[Answer]):
    """`effects` change state outside the metadata; they run after the commit, only if it succeeds, and must
    not fail.
    """

    answer: Answer
    changes: tuple[Change, ...] = ()
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class Situation:
    """The actor and the current state: `configuration` is fixed at start, `config` adds the image's dynamic
    settings. `check_config` raises ConfigError if the running broker cannot switch to another configuration.
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
        """Return the refusal for an actor without the needed role; None if the role suffices. All planners
        call this first.
        """
        if self.actor.role >= needed:
            return None
        held, wanted = self.actor.role.name.lower(), needed.name.lower()
        return Outcome(
            code, f"{self.actor.name} has the role {held}; this operation requires the role {wanted}"
        )

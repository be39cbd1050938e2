"""Planning a command: the current state, the resulting plan, and the search for repeated entries; and
operations.

Every planner in this package is a pure function (command, situation) -> Plan. `Control` commits the changes,
runs the effects, and only then returns the result. Planners of commands with entries are generators that
yield after each entry and return the plan.

An operation is the work of a command outside the metadata, such as reading records or resetting a group's
offsets. `Control` runs it and then writes its notes to the audit trail, before the caller gets the result. An
operation checks the role first. It either waits for nothing after its work, or changes nothing: a cancelled
caller never leaves work without notes.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar

import msgspec

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Steps, freed
from broker.config.load import Configuration
from broker.config.table import BrokerConfig
from broker.controller.commands import EntryOutcome
from broker.metadata.actor import Actor, ChangeOrigin, Role, lacks_role
from broker.metadata.changes import Change
from broker.metadata.image import Image

Result = TypeVar("Result")
Item = TypeVar("Item", bound=Hashable)
Effect = Callable[[], None]


class Plan(msgspec.Struct, Generic[Result], frozen=True):
    """`effects` change state outside the metadata; they run after the commit, only if it succeeds, and must
    not fail.
    """

    result: Result
    changes: tuple[Change, ...] = ()
    effects: tuple[Effect, ...] = ()


class Situation(msgspec.Struct, frozen=True):
    """The actor and the current state: `configuration` is fixed at start, `config` adds the image's dynamic
    settings; `wall_ms` is the wall clock. The steps of `check_config` raise ConfigError if the running broker
    cannot switch to another configuration.
    """

    image: Image
    configuration: Configuration
    config: BrokerConfig
    actor: Actor
    check_config: Callable[[BrokerConfig], Steps[None]]
    wall_ms: int

    @property
    def node_id(self) -> int:
        return self.config.broker.node_id

    def refusal(self, needed: Role, code: ErrorCode) -> EntryOutcome | None:
        """Return the refusal for an actor without the needed role; None if the role suffices. All planners
        call this first.
        """
        if self.actor.role >= needed:
            return None
        if self.actor.origin is ChangeOrigin.WIRE and self.config.security.authorizer_class_name:
            return EntryOutcome(code, f"{self.actor.name} is not authorized")
        return EntryOutcome(code, lacks_role(self.actor.name, self.actor.role, needed))

    def require(self, needed: Role, code: ErrorCode) -> None:
        """Raise ApiError with `code` for an actor without the needed role."""
        refusal = self.refusal(needed, code)
        if refusal is not None:
            raise ApiError(refusal.error, refusal.message)


def repeated(items: Iterable[Item]) -> set[Item]:
    """Return the items that occur more than once."""
    return {item for item, count in Counter(items).items() if count > 1}


def repeated_in_steps(items: Iterable[Item]) -> Steps[set[Item]]:
    """As `repeated`, in steps."""
    seen: set[Item] = set()
    duplicates: set[Item] = set()
    for item in items:
        (duplicates if item in seen else seen).add(item)
        yield
    yield from freed(seen)
    return duplicates


class Done(msgspec.Struct, Generic[Result], frozen=True):
    """The result of an operation. `notes` are rows of the audit trail that have no state; without any, there
    is nothing to record.
    """

    result: Result
    notes: tuple[Change, ...] = ()


Operation = Callable[[Any, Situation], Awaitable[Done[Any]]]
"""Called as (command, situation). Raises ApiError."""

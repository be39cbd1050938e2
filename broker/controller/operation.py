"""Operations: commands whose work is outside the metadata, such as reading records or resetting a group's
offsets.

`Control` runs an operation and then writes its notes to the audit trail, before the caller gets the result.
An operation checks the role first. It either waits for nothing after its work, or changes nothing: a
cancelled caller never leaves work without notes.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import msgspec

from broker.controller.plan import Situation
from broker.metadata.changes import Change

Result = TypeVar("Result")


class Done(msgspec.Struct, Generic[Result], frozen=True):
    """The result of an operation. `notes` are rows of the audit trail that have no state; without any, there
    is nothing to record.
    """

    result: Result
    notes: tuple[Change, ...] = ()


Operation = Callable[[Any, Situation], Awaitable[Done[Any]]]
"""Called as (command, situation). Raises ApiError."""

"""The top of every task that is to run for as long as the broker does.

Wrapped around each nursery of the broker's tree. Trouble of one request, connection or disk is caught where
it belongs; what comes up to here is a fault of ours that nobody knows the extent of. So the broker stops,
says which task it was, and leaves with a status that whoever supervises processes understands. (Kafka:
FatalExitError, Exit.exit; others of its threads log and end alone, and a broker without its reaper looks
alive.)
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVarTuple

import trio

from broker.errors import FatalExitError

Arguments = TypeVarTuple("Arguments")


class TaskStarter(Protocol):
    """As much of a nursery as starting a task takes."""

    def start_soon(
        self,
        async_fn: Callable[[*Arguments], Awaitable[object]],
        *args: *Arguments,
        name: object = None,
    ) -> None: ...


class Supervisor:
    """Starts tasks in a nursery. One that fails raises FatalExitError with its name, and ends the tree."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.cancel_scope = nursery.cancel_scope
        self._nursery = nursery

    def start_soon(
        self,
        async_fn: Callable[[*Arguments], Awaitable[object]],
        *args: *Arguments,
        name: object = None,
    ) -> None:
        self._nursery.start_soon(_watched, name or async_fn, async_fn, args, name=name or async_fn)

    async def start(self, async_fn: Callable[..., Awaitable[object]], *args: Any, name: object = None) -> Any:
        """What the task says when it has started. What it raises before is its caller's, unchanged."""
        return await self._nursery.start(_started, name or async_fn, async_fn, args, name=name or async_fn)


@asynccontextmanager
async def open_supervisor() -> AsyncIterator[Supervisor]:
    """A nursery, supervised."""
    async with trio.open_nursery() as nursery:
        yield Supervisor(nursery)


async def _watched(
    name: object, async_fn: Callable[..., Awaitable[object]], args: tuple[object, ...]
) -> None:
    try:
        await async_fn(*args)
    except Exception as error:
        raise FatalExitError(_reason(error), task=str(name)) from error
    except BaseException as error:
        _sign(error, str(name))
        raise


async def _started(
    name: object,
    async_fn: Callable[..., Awaitable[object]],
    args: tuple[object, ...],
    *,
    task_status: trio.TaskStatus[object],
) -> None:
    status = _Status(task_status)
    try:
        await async_fn(*args, task_status=status)
    except Exception as error:
        if not status.has_started:
            raise
        raise FatalExitError(_reason(error), task=str(name)) from error
    except BaseException as error:
        _sign(error, str(name))
        raise


class _Status:
    """Passes on that a task has started, and remembers it."""

    def __init__(self, task_status: trio.TaskStatus[object]) -> None:
        self._task_status = task_status
        self.has_started = False

    def started(self, value: object = None) -> None:
        self.has_started = True
        self._task_status.started(value)


class LastError:
    """Takes a fatal error past those who would not let it through: a web framework answers 500 to anything
    that its pages raise, and goes on.
    """

    def __init__(self) -> None:
        self._error: FatalExitError | None = None
        self._told = trio.Event()

    def tell(self, error: FatalExitError) -> None:
        """The broker is to stop with it, in the name of the task that calls. Only the first one counts."""
        _sign(error, trio.lowlevel.current_task().name)
        self._error = self._error or error
        self._told.set()

    async def wait(self) -> None:
        """Raises it."""
        await self._told.wait()
        assert self._error is not None
        raise self._error


def _sign(error: BaseException, name: str) -> None:
    """Fatal errors that no inner supervisor has signed get the name of this task."""
    if isinstance(error, FatalExitError):
        error.task = error.task or name
    elif isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            _sign(each, name)


def _reason(error: Exception) -> str:
    """The kind and the words of what went wrong; of a group, of the first in it."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"

"""Stops the broker when one of its long-running tasks fails.

Wraps each nursery of the broker's task tree. Errors of one request, connection or disk are handled where they
occur; an exception that reaches a supervisor is a bug of unknown extent. The broker then stops, names the
task, and exits with a status for the process supervisor. (Kafka: FatalExitError, Exit.exit; other Kafka
threads log the error and end, so that a broker without its reaper looks healthy.)
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVarTuple

import trio

from broker.common.errors import FatalExitError

Arguments = TypeVarTuple("Arguments")


class TaskStarter(Protocol):
    """The part of a nursery's interface that starts a task."""

    def start_soon(
        self,
        async_fn: Callable[[*Arguments], Awaitable[object]],
        *args: *Arguments,
        name: object = None,
    ) -> None: ...


class Supervisor:
    """Starts tasks in a nursery. A task that fails raises FatalExitError with its name, and ends the tree."""

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
        """Start a task and return its `started` value. An exception before `started` is raised unchanged."""
        return await self._nursery.start(_started, name or async_fn, async_fn, args, name=name or async_fn)


@asynccontextmanager
async def open_supervisor() -> AsyncIterator[Supervisor]:
    """Open a supervised nursery."""
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
        _set_task(error, str(name))
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
        _set_task(error, str(name))
        raise


class _Status:
    """Forwards `started`, and records that the task has started."""

    def __init__(self, task_status: trio.TaskStatus[object]) -> None:
        self._task_status = task_status
        self.has_started = False

    def started(self, value: object = None) -> None:
        self.has_started = True
        self._task_status.started(value)


class LastError:
    """Carries a fatal error past code that would swallow it: a web framework answers 500 to any exception of
    a page, and continues.
    """

    def __init__(self) -> None:
        self._error: FatalExitError | None = None
        self._reported = trio.Event()

    def report(self, error: FatalExitError) -> None:
        """Stop the broker with `error`, in the name of the calling task. Only the first error counts."""
        _set_task(error, trio.lowlevel.current_task().name)
        self._error = self._error or error
        self._reported.set()

    async def wait(self) -> None:
        """Wait for an error and raise it."""
        await self._reported.wait()
        assert self._error is not None
        raise self._error


def _set_task(error: BaseException, name: str) -> None:
    """Set the task name of fatal errors that an inner supervisor has not set."""
    if isinstance(error, FatalExitError):
        error.set_task(name)
    elif isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            _set_task(each, name)


def _reason(error: Exception) -> str:
    """Return the type and message of an error; for a group, of the first error in it."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"

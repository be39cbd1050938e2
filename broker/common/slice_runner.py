"""Runs `common.slices` generators in a task, with a turn for other tasks after each slice."""

from collections.abc import Awaitable, Callable

import trio

from broker.common.errors import ApiError
from broker.common.slices import Result, Slices, ThreadWork, advance


async def run_slices(
    slices: Slices[Result],
    *,
    pause: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
    to_the_end: bool = False,
) -> Result:
    """Run the slices and return their result. Short work runs without a pause; after longer work there is one
    pause more, so that what follows begins a slice of its own.

    `to_the_end`: finish even if the task is cancelled. Otherwise a cancellation leaves what the slices have
    done.
    """
    with trio.CancelScope(shield=to_the_end):
        return await _run(slices, pause)
    raise AssertionError("unreachable: this scope is never cancelled")


async def _run(slices: Slices[Result], pause: Callable[[], Awaitable[None]]) -> Result:
    error: ApiError | None = None
    paused = False
    while True:
        try:
            work = advance(slices, error)
        except StopIteration as end:
            if paused:
                await pause()
            result: Result = end.value
            return result
        error = None
        if work is None:
            paused = True
            await pause()
        else:
            error = await trio.to_thread.run_sync(_attempt, work)


def _attempt(work: ThreadWork) -> ApiError | None:
    try:
        work.run()
    except ApiError as error:
        return error
    return None


class OneAtATime:
    """Runs one work after the other, such as readings that each hold a decompressed batch of up to 64 MB."""

    def __init__(self) -> None:
        self._turn = trio.Lock()

    async def run(self, slices: Slices[Result]) -> Result:
        """Run the slices and return their result."""
        async with self._turn:
            return await run_slices(slices)

"""Runs `records.slices` work of the console on the event loop, with decompression in a thread.

Made by `server`, used by the operations of broker.controller. Requests have their own task for such work
(`network.handling.sliced_requests`).
"""

import time
from typing import Final, TypeVar

import trio

from broker.common.errors import ApiError
from broker.records.slices import Slices

SLICE_S: Final = 0.0003
"""Duration of a slice between two checkpoints; ours, shorter than that of a change, because reading is not
urgent.
"""

Result = TypeVar("Result")


class OneReading:
    """Runs one reading after the other: each has a decompressed batch of up to 64 MB in memory."""

    def __init__(self) -> None:
        self._turn = trio.Lock()

    async def run(self, slices: Slices[Result]) -> Result:
        """Run the slices and return their result."""
        async with self._turn:
            return await run_slices(slices)


async def run_slices(slices: Slices[Result], *, to_the_end: bool = False) -> Result:
    """Run the slices and return their result; there is no checkpoint after the last.

    `to_the_end`: finish even if the task is cancelled. Otherwise a cancellation leaves what the slices have
    done.
    """
    with trio.CancelScope(shield=to_the_end):
        return await _run(slices)
    raise AssertionError("unreachable: this scope is never cancelled")


async def _run(slices: Slices[Result]) -> Result:
    until = time.perf_counter() + SLICE_S
    failure: ApiError | None = None
    while True:
        try:
            step = next(slices) if failure is None else slices.throw(failure)
        except StopIteration as end:
            result: Result = end.value
            return result
        failure = None
        if step is not None:
            try:
                await trio.to_thread.run_sync(step.run)
            except ApiError as error:
                failure = error
        elif time.perf_counter() >= until:
            await trio.lowlevel.checkpoint()
        else:
            continue
        until = time.perf_counter() + SLICE_S

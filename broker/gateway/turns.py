"""Runs long operations in pieces, with a turn for other tasks after each."""

import trio

from broker.common.steps import Result, Steps


async def in_turns(steps: Steps[Result]) -> Result:
    """Run all pieces and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
        await trio.lowlevel.checkpoint()

"""The task that lets temporary limits of quotas begin and end on time."""

from typing import Final

import trio

from broker.controller.control import Control

TASK: Final = "temporary-limits"

INTERVAL_S: Final = 1.0
"""How soon a step of the wall clock is seen. A limit that begins or ends by itself is not late by this."""


async def switch_temporary_limits(control: Control) -> None:
    """Run until cancelled. Sleeps while there are no temporary limits."""
    changed = trio.Event()

    def wake() -> None:
        changed.set()

    control.on_temporary_limits = wake
    while True:
        with trio.move_on_after(_wait_s(control)):
            await changed.wait()
        changed = trio.Event()
        await control.switch_limits()


def _wait_s(control: Control) -> float:
    if not control.has_temporary_limits:
        return float("inf")
    due_ms = control.next_switch_ms
    if due_ms is None:
        return INTERVAL_S
    return min(max(due_ms - control.wall_ms(), 0) / 1000, INTERVAL_S)

"""When a broker and its console have done all that there was to do."""

from trio.testing import wait_all_tasks_blocked


async def settled() -> None:
    """The console itself steps back until all others are blocked; this waits for it too."""
    await wait_all_tasks_blocked(cushion=0.001)

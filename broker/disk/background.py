"""The threads for blocking work that no request waits for: retention, timed flushes, recovery points and
moves between log directories. Made by `server`, used by `tasks` and `log_mover`. (Kafka: KafkaScheduler)

What a client or an administrator waits for runs in other threads: the metadata log, flushes that an answer
waits for, telemetry exports and name look-ups.
"""

from collections.abc import Callable

import trio


class BackgroundThreads:
    """At most `size` pieces of work run at once; the others wait in the order in which they came."""

    def __init__(self, size: int) -> None:
        self._limiter = trio.CapacityLimiter(size)

    def resize(self, size: int) -> None:
        """Work that runs already goes on."""
        self._limiter.total_tokens = size

    async def run(self, work: Callable[[], None]) -> None:
        """Returns when `work` has ended in its thread. Cancelled while it waits for a thread, nothing has
        been run; work that has begun is finished first.
        """
        await trio.to_thread.run_sync(work, limiter=self._limiter)

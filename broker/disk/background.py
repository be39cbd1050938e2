"""The threads for blocking work that no request waits for: retention, timed flushes, recovery points and
moves between log directories.

Made by `server`, used by `tasks` and `log_mover`. (Kafka: KafkaScheduler)

Work that a client or an administrator waits for runs in other threads: the metadata log, flushes before a
response, telemetry exports and name look-ups.
"""

from collections.abc import Callable

import trio


class BackgroundThreads:
    """Runs at most `size` jobs at once; others wait in order of arrival."""

    def __init__(self, size: int) -> None:
        self._limiter = trio.CapacityLimiter(size)

    def resize(self, size: int) -> None:
        """Change the number of threads; running jobs continue."""
        self._limiter.total_tokens = size

    async def run(self, work: Callable[[], None]) -> None:
        """Run `work` in a thread and wait for it.

        If cancelled while waiting for a thread, `work` has not run; if cancelled later, `work` finishes
        first.
        """
        await trio.to_thread.run_sync(work, limiter=self._limiter)

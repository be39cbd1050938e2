"""The waiting times between requests to upstream nodes: a backoff after failures, and a sleep that can be cut
short.
"""

import trio

from broker.config.sections import UpstreamConfig
from broker.gateway.upstream.errors import Reason, UpstreamError


class ReconnectBackoff:
    """The time to wait after each failed connection: twice as long as before, up to a limit. Without jitter,
    since one gateway opens few connections of its own. (Kafka: reconnect.backoff.ms and its maximum)

    Refused credentials are not tried more often than `upstream.metadata.max.age.ms`: some brokers lock users
    out who try too often. Neither are brokers of another cluster.
    """

    def __init__(self, config: UpstreamConfig) -> None:
        self._first_ms = config.reconnect_backoff_ms
        self._most_ms = config.reconnect_backoff_max_ms
        self._period_ms = config.metadata_max_age_ms
        self._next_ms = self._first_ms

    def after_s(self, error: UpstreamError) -> float:
        """Return the seconds to wait after one more failure."""
        now_ms, self._next_ms = self._next_ms, min(self._next_ms * 2, self._most_ms)
        if error.reason in (Reason.CREDENTIALS, Reason.CLUSTER):
            now_ms = max(now_ms, self._period_ms)
        return now_ms / 1_000

    def reset(self) -> None:
        """Start again, after a success."""
        self._next_ms = self._first_ms


class Alarm:
    """A task's sleep that `ring` ends. A ring since the last `reset` ends the next sleep, too."""

    def __init__(self) -> None:
        self._rung = trio.Event()

    def ring(self) -> None:
        self._rung.set()

    async def sleep(self, least_s: float, most_s: float) -> None:
        """Sleep for `most_s`, or until `ring`, but at least `least_s`: thousands of clients can ring at
        once.
        """
        now = trio.current_time()
        await trio.sleep_until(now + least_s)
        with trio.move_on_at(now + most_s):
            await self._rung.wait()

    def reset(self) -> None:
        """Forget earlier rings: the task is about to do what they ask for."""
        self._rung = trio.Event()

"""Authentication of a connection: its log line, the requests of an expiring session, failed and late logins.
(Kafka: Selector.pollSelectionKeys, DelayedAuthenticationFailureClose; KIP-368: SocketServer's
processCompletedReceives)

The responder logs a SASL login, TLS handshakes log that of a client's certificate. The processor of a
listener with `connections.max.reauth.ms` asks `SaslSessions` about every frame; broker.security.sasl
defines sessions. Each processor has one `FailedLogins` and one `LateLogins`, which sleep until the next
deadline.
"""

import logging
from collections import deque
from typing import Final

from broker.network.clock import TrioClock
from broker.network.connection.channel import Channel
from broker.network.connection.receive import Frame
from broker.network.reaper import Reaper
from broker.network.selector import Ending, Selector
from broker.protocol.api_key import NAMES, ApiKey

logger = logging.getLogger(__name__)


def log_authenticated(channel: Channel, *, again: bool = False) -> None:
    """Log a login, or with `again` a re-authentication (KIP-368). The channel's principal must be set."""
    logger.debug(
        "Successfully %sauthenticated with %s:%d",
        "re-" if again else "",
        channel.address,
        channel.port,
        extra={
            "connection": channel.id,
            "listener": channel.listener,
            "principal": f"User:{channel.principal}",
            "mechanism": channel.sasl_mechanism or "SSL",
        },
    )


ENDED: Final = "its session has ended"


class SaslSessions:
    """The sessions of one processor. `frame_limit` is the maximum frame size during a login or
    re-authentication.
    """

    def __init__(self, selector: Selector, frame_limit: int) -> None:
        self._counts = selector.counts
        self._frame_limit = frame_limit

    def refusal(self, channel: Channel, frame: Frame, now_ms: int) -> str | None:
        """Return the reason to close the connection, or None to handle the request. A handshake too soon
        after the last one is handled, and gets ILLEGAL_SASL_STATE.
        """
        return self.refusal_of(channel, int.from_bytes(frame[:2], "big"), now_ms)

    def refusal_of(self, channel: Channel, key: int, now_ms: int) -> str | None:
        """As `refusal`, for a request of this API."""
        session = channel.session
        if session is None:
            return None
        if session.renewing:
            if key != ApiKey.SASL_AUTHENTICATE:
                return f"{NAMES.get(key, key)} during re-authentication"
            channel.read_no_further()
            return None
        if key == ApiKey.SASL_HANDSHAKE and session.begin_renewal(now_ms):
            channel.receive.limit = self._frame_limit
            channel.read_no_further()
            return None
        if session.is_over(now_ms):
            self._counts.expired += 1
            return ENDED
        return None


class FailedLogins:
    """Keeps the connection of a failed login, muted, for `connection.failed.authentication.delay.ms`, which
    slows down password guessing and delays no other connection.
    """

    def __init__(self, name: str, selector: Selector, delay_ms: int, clock: TrioClock) -> None:
        self._selector = selector
        self._delay_ms = delay_ms
        self._clock = clock
        self._waiting: deque[tuple[int, Channel]] = deque()
        self.reaper = Reaper(f"{name}-failed-logins", self._next_deadline, self._close_due, clock)

    def add(self, channel: Channel) -> None:
        """Add a connection whose error response has been written."""
        due_ms = self._clock.ms() + self._delay_ms
        self._waiting.append((due_ms, channel))
        self.reaper.wake_by(due_ms)

    def _next_deadline(self) -> int | None:
        return self._waiting[0][0] if self._waiting else None

    def _close_due(self, now_ms: int) -> None:
        while self._waiting and self._waiting[0][0] <= now_ms:
            channel = self._waiting.popleft()[1]
            self._selector.close_channel(
                channel, "the login failed", logging.INFO, Ending.FAILED_AUTHENTICATION
            )


class LateLogins:
    """Closes connections that have not finished TLS handshake and login
    `connection.authentication.timeout.ms` after they were accepted, so that unauthenticated peers cannot
    occupy connection slots.
    """

    def __init__(self, name: str, selector: Selector, limit_ms: int, clock: TrioClock) -> None:
        self._selector = selector
        self._limit_ms = limit_ms
        self._clock = clock
        self._waiting: deque[tuple[int, Channel]] = deque()
        self.reaper = Reaper(f"{name}-late-logins", self._next_deadline, self._close_due, clock)

    def add(self, channel: Channel) -> None:
        due_ms = self._clock.ms() + self._limit_ms
        self._waiting.append((due_ms, channel))
        self.reaper.wake_by(due_ms)

    def _next_deadline(self) -> int | None:
        waiting = self._waiting
        while waiting and (waiting[0][1].authenticated or waiting[0][1].closed):
            waiting.popleft()
        return waiting[0][0] if waiting else None

    def _close_due(self, now_ms: int) -> None:
        while self._waiting and self._waiting[0][0] <= now_ms:
            channel = self._waiting.popleft()[1]
            if not channel.authenticated:
                reason = f"not authenticated within {self._limit_ms} ms"
                self._selector.close_channel(channel, reason, logging.INFO)

"""Contains an unexpected exception within its connection or request. (Kafka: Processor.processException and
processChannelException, KafkaRequestHandler)

Every step of the network layer that works for one connection or one request reports unexpected exceptions
here: one log line with the traceback, and one count for the step. The caller then closes that connection, or
answers that request with an error; all others continue. Exceptions in shared parts (the epoll object, a
listening socket, the metadata writer) are not reported here: they stop the broker, see `supervisor`.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import TypeVarTuple

from broker.common.errors import FatalExitError

logger = logging.getLogger(__name__)

Arguments = TypeVarTuple("Arguments")


class FailedStep(Enum):
    """The step in which an exception was raised."""

    ACCEPT = "accept"
    """From the accepted socket to a processor's queue: connection quotas, socket options, hand-off."""
    THROTTLED_SOCKET = "throttled-socket"
    """A throttled socket whose wait for the rate of its address has ended."""
    REGISTER = "register"
    """From a processor's queue to the selector: channel, TLS, epoll, listeners of new connections."""
    RECEIVE = "receive"
    """Reading, decrypting, and other epoll events of a connection."""
    ADMIT = "admit"
    """From a frame to a request in the request channel."""
    SEND = "send"
    """Writing a response, and the steps after it: mute state, login."""
    HANDSHAKE = "handshake"
    """One step of a TLS handshake."""
    CLOSE = "close"
    """One step of closing: the epoll, the socket, buffers, quotas, listeners of closed connections."""
    EXPIRE = "expire"
    """Checking whether a connection is idle, or its login late."""
    UNMUTE = "unmute"
    """The end of a throttle, and the check whether its client complies."""
    USER_LIMIT = "user-limit"
    """A login that waited for the connection rate of its user."""
    GROUP_TIMER = "group-timer"
    """Due deadlines of one consumer group: sessions and rebalances."""
    SHARE_TIMER = "share-timer"
    """Locks of share groups that end, dead letters, and the deletion of obsolete states."""
    TRANSACTION_TIMER = "transaction-timer"
    """Timeouts, markers and completions of transactions, which are tried again."""
    STREAMS_TOPICS = "streams-topics"
    """Creating the internal topics of Streams applications."""
    HANDLE = "handle"
    """Decoding a request, and its handler."""
    RESPOND = "respond"
    """From a handler's outcome to a queued response: quotas, throttling, encoding."""
    CALLBACK = "callback"
    """Completing a delayed request, or one that waited for a flush."""


class Failures:
    """`counts` maps every step to its number of exceptions since the start."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(FailedStep, 0)

    def report(self, place: FailedStep, error: Exception, **about: object) -> None:
        """Count and log an exception. `about` names the connection or API, with the keys of other log lines.

        Raises `error` again if it is FatalExitError, which requests the end of the process. A MemoryError is
        logged in one line without a traceback, or only counted if there is no memory for the line.
        """
        if isinstance(error, FatalExitError):
            raise error
        self.counts[place] += 1
        if isinstance(error, MemoryError):
            with suppress(MemoryError):
                logger.error("out of memory for a request", extra={"place": place.value, **about})
            return
        logger.error(
            "unexpected exception",
            exc_info=error,
            extra={"place": place.value, "reason": f"{type(error).__name__}: {error}", **about},
        )

    def attempt(
        self, place: FailedStep, connection: str, step: Callable[[*Arguments], object], *arguments: *Arguments
    ) -> bool:
        """Run one step for `connection` and report its exception. Returns whether it raised nothing."""
        try:
            step(*arguments)
        except Exception as error:  # noqa: BLE001 - reported with its traceback
            self.report(place, error, connection=connection)
            return False
        return True

"""Contains an unexpected exception in the connection or the request that it belongs to. (Kafka:
Processor.processException and processChannelException, KafkaRequestHandler)

Every step of the network layer that works for one connection or one request reports here what it did not
expect: one log line with the traceback, and one count for the place. The caller then ends that connection, or
answers that request with an error; all others go on. Exceptions of what all connections share (the epoll, a
listening socket, the metadata writer) never come here: they stop the broker, see `supervisor`.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import TypeVarTuple

from broker.errors import FatalExitError

logger = logging.getLogger(__name__)

Arguments = TypeVarTuple("Arguments")


class Place(Enum):
    """The step in which an exception was raised."""

    ACCEPT = "accept"
    """From the accepted socket to a processor's queue: connection quotas, socket options, hand-over."""
    PARKED_SOCKET = "parked-socket"
    """A connection that waited for the rate of its address."""
    REGISTER = "register"
    """From a processor's queue to the selector: channel, TLS, epoll, listeners of new connections."""
    RECEIVE = "receive"
    """Reading and decrypting, and what epoll reports of a connection."""
    ADMIT = "admit"
    """From a frame to a request in the request channel."""
    SEND = "send"
    """Writing a response, and what follows once it is written: mute state, login."""
    HANDSHAKE = "handshake"
    """One step of a TLS handshake."""
    CLOSE = "close"
    """One step of closing: the epoll, the socket, buffers, quotas, listeners of closed connections."""
    EXPIRE = "expire"
    """Looking whether a connection is idle, or its login late."""
    UNMUTE = "unmute"
    """The end of a throttle, and the look whether its client obeys."""
    USER_LIMIT = "user-limit"
    """A login that waited for the connection rate of its user."""
    GROUP_TIMER = "group-timer"
    """What time brings to one consumer group: sessions and rebalances that are over."""
    HANDLE = "handle"
    """Decoding a request, and its handler."""
    RESPOND = "respond"
    """From a handler's outcome to a response in the queue: quotas, throttling, encoding."""
    CALLBACK = "callback"
    """Completing a request that was parked, or that waited for the disk."""


class Failures:
    """`counts` are the exceptions by place since the start; every place is in it."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts = dict.fromkeys(Place, 0)

    def report(self, place: Place, error: Exception, **about: object) -> None:
        """Counts and logs it. `about` says which connection or API, in the words of the log's other lines.

        Raises `error` if that is FatalExitError, which asks for the end of the process. A MemoryError is told
        in one line without a traceback, and by the count alone where there is no memory for the line.
        """
        if isinstance(error, FatalExitError):
            raise error
        self.counts[place] += 1
        if isinstance(error, MemoryError):
            with suppress(MemoryError):
                logger.error("no memory is left for a request", extra={"place": place.value, **about})
            return
        logger.error(
            "unexpected exception",
            exc_info=error,
            extra={"place": place.value, "reason": f"{type(error).__name__}: {error}", **about},
        )

    def attempt(
        self, place: Place, connection: str, step: Callable[[*Arguments], object], *arguments: *Arguments
    ) -> bool:
        """Takes one step for `connection`, and reports what it raises; whether it raised nothing."""
        try:
            step(*arguments)
        except Exception as error:  # noqa: BLE001 - reported with its traceback
            self.report(place, error, connection=connection)
            return False
        return True

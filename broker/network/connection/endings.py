"""The log line of a connection that ends, in the words that operators of Kafka search for. (Kafka:
Selector.pollSelectionKeys)

Kafka's other endings have lines of other classes, or none: they are "connection closed" here. Every line has
the reason as a field.
"""

from enum import Enum, auto
from typing import assert_never

from broker.network.connection.channel import Channel


class Ending(Enum):
    """The reason why a connection ends."""

    CLOSED = auto()
    """The broker closes it, for the given reason."""
    DISCONNECTED = auto()
    """The peer has gone, or the socket failed."""
    FAILED_AUTHENTICATION = auto()
    """A TLS handshake, a login or a re-authentication failed."""
    UNEXPECTED_ERROR = auto()
    """The peer sent bytes that are no request, or the broker failed."""


def ending_line(ending: Ending, channel: Channel, reason: str) -> str:
    """Return the line. A re-authentication (KIP-368) fails on a connection that has a session."""
    peer = f"/{channel.address} (channelId={channel.id})"
    match ending:
        case Ending.CLOSED:
            return "connection closed"
        case Ending.DISCONNECTED:
            return f"Connection with {peer} disconnected"
        case Ending.FAILED_AUTHENTICATION:
            again = "" if channel.session is None else "re-"
            return f"Failed {again}authentication with {peer} ({reason})"
        case Ending.UNEXPECTED_ERROR:
            return f"Unexpected error from {peer}; closing connection"
        case _:
            assert_never(ending)

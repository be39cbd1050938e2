"""Observers of connections and throttles, such as the event log (`broker.monitoring.events`).

Called by the socket server, the gate and the throttling; outside the path of requests that are not throttled.
Observers must neither wait nor raise.
"""

from typing import Protocol

from broker.network.connection.channel import Channel
from broker.quotas.throttled import Throttle


class ConnectionObserver(Protocol):
    def opened(self, channel: Channel) -> None:
        """Record an admitted connection, whose client is not yet known."""

    def closed(self, channel: Channel, reason: str) -> None:
        """Record the end of an open connection."""

    def refused(self, listener: str, address: str, rule: str, bound: float) -> None:
        """Record a refused connection."""

    def delayed(self, listener: str, address: str, throttle_ms: int, bound: float) -> None:
        """Record a connection delayed because its address exceeds its connection rate."""

    def throttled(self, channel: Channel, throttle: Throttle) -> None:
        """Record a throttle of a channel that exceeds a quota."""


ConnectionObservers = list[ConnectionObserver]
"""The registered observers; initially none."""

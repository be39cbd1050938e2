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


class ConnectionObservers:
    """The registered observers; initially none."""

    def __init__(self) -> None:
        self.all: list[ConnectionObserver] = []

    def opened(self, channel: Channel) -> None:
        for each in self.all:
            each.opened(channel)

    def closed(self, channel: Channel, reason: str) -> None:
        for each in self.all:
            each.closed(channel, reason)

    def refused(self, listener: str, address: str, rule: str, bound: float) -> None:
        for each in self.all:
            each.refused(listener, address, rule, bound)

    def delayed(self, listener: str, address: str, throttle_ms: int, bound: float) -> None:
        for each in self.all:
            each.delayed(listener, address, throttle_ms, bound)

    def throttled(self, channel: Channel, throttle: Throttle) -> None:
        for each in self.all:
            each.throttled(channel, throttle)

"""Who hears of connections and throttles as they come and go: whoever writes them down (`broker.events`).

Told by the socket server, the gate and whoever holds channels; none of these are on the path of a request
that is not held. Knows nothing of what a watcher does with it, but that it neither waits nor fails.
"""

from typing import Protocol

from broker.network.connection.channel import Channel
from broker.quotas.verdict import Throttle


class ConnectionObserver(Protocol):
    def opened(self, channel: Channel) -> None:
        """A connection was let in; who it is will be known later."""

    def closed(self, channel: Channel, reason: str) -> None:
        """An open connection has ended."""

    def refused(self, listener: str, address: str, rule: str, bound: float) -> None:
        """A connection was not let in."""

    def delayed(self, listener: str, address: str, throttle_ms: int, bound: float) -> None:
        """A connection is held before it is read, for its address makes too many of them."""

    def throttled(self, channel: Channel, throttle: Throttle) -> None:
        """A channel is held for a broken quota."""


class ConnectionObservers:
    """Those who want to hear; to begin with nobody."""

    __slots__ = ("all",)

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

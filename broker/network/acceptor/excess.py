"""Closes connections beyond `max.connections`: first those whose peer is gone and whose requests are still
served, then the least recently used. (Kafka: Processor.closeExcessConnections,
Selector.lowestPriorityChannel)

One task for all processors of a socket server. It sleeps until the gate reports an excess, so it costs
requests nothing; it never closes a connection of the protected listener.
"""

import logging
from collections.abc import Callable, Iterable
from heapq import nsmallest
from typing import Final

import trio

from broker.network.connection.channel import Channel
from broker.network.selector import UNWATCHED, Selector
from broker.quotas.connections import ConnectionQuotas

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 0.3
"""Pause before the next attempt while excess connections have not reached a processor. (Kafka's poll timeout)
"""


class ExcessConnections:
    """`selectors` returns (listener name, selector) pairs."""

    def __init__(
        self, quotas: ConnectionQuotas, selectors: Callable[[], Iterable[tuple[str, Selector]]]
    ) -> None:
        self._quotas = quotas
        self._selectors = selectors
        self._wake = trio.Event()

    def poke(self) -> None:
        """Check for an excess."""
        self._wake.set()

    async def run(self) -> None:
        """Close excess connections until cancelled, one per turn so that others are served in between."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while excess := self._quotas.excess:
                for selector, channel in self._lowest_priority(excess):
                    if not self._quotas.excess:
                        break
                    which = "closing" if is_closing(channel) else "least recently used"
                    selector.close_channel(channel, f"{which}, beyond max.connections", logging.INFO)
                    await trio.lowlevel.checkpoint()
                if self._quotas.excess:
                    await trio.sleep(RETRY_SECONDS)

    def _lowest_priority(self, count: int) -> list[tuple[Selector, Channel]]:
        open_channels = (
            (selector, channel)
            for listener, selector in self._selectors()
            if not self._quotas.is_protected(listener)
            for channel in selector
        )
        return nsmallest(count, open_channels, key=lambda pair: _priority(pair[1]))


def is_closing(channel: Channel) -> bool:
    """Return whether the peer is gone and received requests are still served. (Kafka: closingChannels)"""
    return channel.interest == UNWATCHED


def _priority(channel: Channel) -> tuple[bool, int, int]:
    """Of connections that were active in the same millisecond, one that waits for a response closes last."""
    return not is_closing(channel), channel.last_active_ms, channel.requests_in_flight

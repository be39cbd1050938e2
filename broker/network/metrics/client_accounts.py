"""Updates the usage accounts of clients: every second from open connections, and when a connection closes.

Created by the socket server. Adds nothing to a request; an update costs half a microsecond per inactive
connection and four per active one.
"""

from collections.abc import Callable, Iterable
from typing import Final

import trio

from broker.network.clock import TrioClock
from broker.network.connection.channel import Channel
from broker.quotas.accounts import Accounts

NAME: Final = "client-usage-timer"

LOOKED_AT_PER_SECOND: Final = 1_000
"""Average number of connections examined per second; with more connections, updates are less frequent."""


class ClientAccounts:
    """`channels` returns all open connections."""

    def __init__(self, channels: Callable[[], Iterable[Channel]], clock: TrioClock) -> None:
        self._channels = channels
        self._clock = clock
        self._accounts = Accounts()

    def look(self) -> Accounts:
        """Update and return the accounts."""
        self._accounts.update(self._channels(), self._clock.ms())
        return self._accounts

    def closed(self, channel: Channel) -> None:
        self._accounts.closed(channel, self._clock.ms())

    async def run(self) -> None:
        """Update the accounts until cancelled."""
        while True:
            connections = sum(account.connections for account in self._accounts)
            await trio.sleep(max(1.0, connections / LOOKED_AT_PER_SECOND))
            self.look()

"""Brings the clients' accounts up to date: every second from the connections that are open, and from each
that closes.

Made by the socket server. Adds nothing to a request; a look costs half a microsecond for each connection that
did nothing and four for one that did.
"""

from collections.abc import Callable, Iterable
from typing import Final

import trio

from broker.network.clock import TrioClock
from broker.network.connection.channel import Channel
from broker.quotas.accounts import Accounts

NAME: Final = "client-usage-timer"

LOOKED_AT_PER_SECOND: Final = 1_000
"""Connections, on average: where there are more, looks are rarer than one a second."""


class ClientAccounts:
    """`channels` answers all open connections."""

    def __init__(self, channels: Callable[[], Iterable[Channel]], clock: TrioClock) -> None:
        self._channels = channels
        self._clock = clock
        self._accounts = Accounts()

    def look(self) -> Accounts:
        """The accounts as of now."""
        self._accounts.look(self._channels(), self._clock.ms())
        return self._accounts

    def closed(self, channel: Channel) -> None:
        self._accounts.closed(channel, self._clock.ms())

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            connections = sum(account.connections for account in self._accounts)
            await trio.sleep(max(1.0, connections / LOOKED_AT_PER_SECOND))
            self.look()

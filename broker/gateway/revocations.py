"""Closes the connections of clients that may no longer be logged in, with gateway.upstream.principal other
than `gateway`: the gateway then lends each client a login at the upstream cluster, and takes it back.

A user of PLAIN or SCRAM that is removed at the gateway is out within CHECK_EVERY_S. Access tokens end by
themselves, and certificates are not revoked here: their owners are out when their entry in the map goes, or
their delegation token is expired at the cluster.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import trio

from broker.common.limited_lines import shown
from broker.common.principal import Principal
from broker.network.connection.channel import Channel
from broker.network.selector import Selector
from broker.security.plain import MECHANISM as PLAIN
from broker.security.plain import PlainAuthenticator
from broker.security.scram import MECHANISMS

logger = logging.getLogger(__name__)

CHECK_EVERY_S: Final = 15
"""Ours: a removed user is out within a minute."""

LOOKED_AT: Final = 500
CLOSED: Final = 20
"""Connections that are looked at, and those that are closed, before other tasks have their turn; ours."""

REMOVED: Final = "the user was removed at the gateway"

Selectors = Callable[[], Iterable[tuple[str, Selector]]]
"""Returns the selectors of all processors, each with the name of its listener."""

ScramUsers = Mapping[str, Mapping[str, object]]
"""The mechanisms of each SCRAM user of the gateway."""


class Revocations:
    """`is_judged` says whether the gateway logs in the clients of a listener. `forget` is called with each
    principal that is no longer a user of the gateway.
    """

    def __init__(
        self,
        selectors: Selectors,
        is_judged: Callable[[str], bool],
        plain: Callable[[], PlainAuthenticator],
        scram: Callable[[], ScramUsers],
        forget: Callable[[str], None],
    ) -> None:
        self._selectors = selectors
        self._is_judged = is_judged
        self._plain = plain
        self._scram = scram
        self._forget = forget

    def connected(self) -> set[str]:
        """Return the principals of all connections that the gateway has logged in."""
        return {
            channel.principal
            for listener, selector in self._selectors()
            if self._is_judged(listener)
            for channel in selector
        }

    async def close(self, principals: Collection[str], reason: str) -> None:
        """Close the connections of these principals. If cancelled, some stay open."""
        wanted = frozenset(principals)
        await self._close_those(lambda channel: channel.principal in wanted, reason)

    async def run(self) -> None:
        """Close the connections of removed users, until cancelled."""
        while True:
            await trio.sleep(CHECK_EVERY_S)
            for principal in await self._close_those(self._is_removed, REMOVED):
                self._forget(principal)

    def _is_removed(self, channel: Channel) -> bool:
        """Whether the user of a login by name and password does not exist any more."""
        mechanism = channel.sasl_mechanism
        if not channel.authenticated:
            return False
        if mechanism == PLAIN:
            return not self._plain().has(channel.listener, channel.principal)
        return mechanism in MECHANISMS and mechanism not in self._scram().get(channel.principal, ())

    async def _close_those(self, is_meant: Callable[[Channel], bool], reason: str) -> set[str]:
        """Return the principals of the connections that were closed."""
        closed: set[str] = set()
        count = 0
        for listener, selector in list(self._selectors()):
            if not self._is_judged(listener):
                continue
            for number, channel in enumerate(list(selector), 1):
                if number % LOOKED_AT == 0:
                    await trio.lowlevel.checkpoint()
                if channel.fd < 0 or not is_meant(channel):
                    continue
                closed.add(channel.principal)
                selector.close_channel(channel, reason, logging.INFO)
                count += 1
                if count % CLOSED == 0:
                    await trio.lowlevel.checkpoint()
        for principal in closed:
            name = str(Principal(shown(principal)))
            logger.info("a client's connections were closed", extra={"principal": name, "reason": reason})
        return closed

"""Credentials by principal from a file: gateway.upstream.principal=map.

The file has the form of `server.properties`, with a principal's name and what would be
`upstream.sasl.jaas.config` on each line:

    alice=org.apache.kafka.common.security.scram.ScramLoginModule required username="a" password="a-secret";
    CN\\=bob,O\\=Example=org.apache.kafka.common.security.scram.ScramLoginModule required username=...

A principal that is not in it is refused: there is no entry for all others, as one that was forgotten would
silently become it.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import trio

from broker.common.clock import Clock
from broker.common.errors import ConfigError
from broker.config.load import parse
from broker.config.sections import UpstreamConfig
from broker.config.sections.gateway import MAP_KEY
from broker.gateway.upstream.errors import UpstreamError
from broker.gateway.upstream.principals import RefusedPrincipals
from broker.security.client_login import ClientCredentials
from broker.security.watched_files import CHECK_EVERY_MS, read_setting, stamps

logger = logging.getLogger(__name__)

MAX_FILE_BYTES: Final = 2 * 1024 * 1024
"""Of the file, which is 15,000 entries; ours. It is read in a thread, in a second or two at most."""

USER_PREFIX: Final = "User:"

NOT_LISTED: Final = f"the file of {MAP_KEY} has no entry for it"

CloseClients = Callable[[Collection[str], str], Awaitable[None]]
"""Closes the connections of clients with these principals, for a reason."""

Entries = Mapping[str, ClientCredentials]


class MappedPrincipals:
    """The credentials in the file `name`. `close` is called with the principals whose entries have gone or
    have another user.
    """

    def __init__(self, name: str, config: UpstreamConfig, clock: Clock, close: CloseClients) -> None:
        """Raises ConfigError for a file that cannot be used."""
        self._name = name
        self._close = close
        self._refused = RefusedPrincipals(clock)
        self._entries: Entries = {}
        self._gone: set[str] = set()
        self.configure(config)

    async def credentials(self, principal: str) -> ClientCredentials | None:
        found = self._entries.get(principal)
        if found is None:
            raise self._refused.error(principal, NOT_LISTED)
        return found

    async def refused(
        self, principal: str, credentials: ClientCredentials | None, error: UpstreamError
    ) -> None:
        raise self._refused.error(principal, f"the credentials in the file of {MAP_KEY}: {error}")

    def configure(self, config: UpstreamConfig) -> None:
        """Read the file, for the mechanism of `config`. Raises ConfigError."""
        seen = stamps([Path(self._name)])
        self._use(read_entries(self._name, config.sasl_mechanism))
        self._mechanism = config.sasl_mechanism
        self._seen = seen

    def forget(self, principal: str) -> None:
        """Do nothing: the file decides."""

    async def run(self) -> None:
        """Read the file again whenever it changes, until cancelled. A file that cannot be used is logged once
        per change, and the previous entries stay.
        """
        while True:
            await trio.sleep(CHECK_EVERY_MS / 1_000)
            seen = stamps([Path(self._name)])
            if seen != self._seen:
                self._seen = seen
                await self._read_again()
            if self._gone:
                gone, self._gone = self._gone, set()
                await self._close(gone, f"the file of {MAP_KEY} has changed")

    async def _read_again(self) -> None:
        mechanism = self._mechanism
        try:
            found = await trio.to_thread.run_sync(partial(read_entries, self._name, mechanism))
        except ConfigError as error:
            logger.warning("cannot use the new credentials of principals", extra={"reason": str(error)})
            return
        if mechanism != self._mechanism:
            return
        self._use(found)
        extra = {"file": self._name, "principals": len(found)}
        logger.info("credentials of principals read again", extra=extra)

    def _use(self, found: Entries) -> None:
        """Log in with these entries, and let `run` close the connections of those that others had. Another
        mechanism closes none: their logins end.
        """
        before, self._entries = self._entries, kept(self._entries, found)
        for principal, old in before.items():
            new = found.get(principal)
            if new is None or new.name != old.name:
                self._gone.add(principal)


def kept(before: Entries, found: Entries) -> Entries:
    """Return `found`, with the objects of unchanged entries: they have derived their keys already."""
    return {
        principal: old if (old := before.get(principal)) is not None and old.equals(new) else new
        for principal, new in found.items()
    }


def read_entries(name: str, mechanism: str) -> Entries:
    """Return the credentials in a file, by principal. Raises ConfigError, which names the line and shows no
    secret.
    """
    text = read_setting(MAP_KEY, name, MAX_FILE_BYTES, "utf-8", "not UTF-8")
    found: dict[str, ClientCredentials] = {}
    for entry in parse(text):
        place, principal = f"{name}, line {entry.line}", entry.key
        if not principal or principal.startswith(USER_PREFIX):
            allowed = (
                "the name of a principal before `=`, without `User:`; `\\` before `=`, `:` and spaces in it"
            )
            raise ConfigError(MAP_KEY, principal, allowed, place)
        if principal in found:
            raise ConfigError(MAP_KEY, principal, "one entry for each principal", place)
        try:
            found[principal] = ClientCredentials.from_jaas(MAP_KEY, entry.value, mechanism)
        except ConfigError as error:
            raise error.located(place) from error
    if not found:
        raise ConfigError(MAP_KEY, name, "a file with the credentials of at least one principal")
    return found

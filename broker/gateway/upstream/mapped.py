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
from pathlib import Path
from typing import Final, NamedTuple

import trio

from broker.common.clock import Clock
from broker.common.errors import ConfigError
from broker.common.slice_runner import run_slices
from broker.common.slices import Steps, run_through
from broker.config.load import properties_in_steps
from broker.config.sections import UpstreamConfig
from broker.config.sections.gateway import MAP_KEY
from broker.gateway.upstream.errors import UpstreamError
from broker.gateway.upstream.principals import RefusedPrincipals
from broker.security.client_login import ClientCredentials, login_module
from broker.security.plain import MECHANISM as PLAIN
from broker.security.scram import MECHANISMS
from broker.security.watched_files import CHECK_EVERY_MS, read_setting, stamps

logger = logging.getLogger(__name__)

MAX_FILE_BYTES: Final = 2 * 1024 * 1024
"""Of the file, which is 15,000 entries; ours."""

USER_PREFIX: Final = "User:"

NOT_LISTED: Final = f"the file of {MAP_KEY} has no entry for it"

CloseClients = Callable[[Collection[str], str], Awaitable[None]]
"""Closes the connections of clients with these principals, for a reason."""

Entries = dict[str, ClientCredentials]


class MapFile(NamedTuple):
    """`places` has the first line of each login module."""

    entries: Entries
    places: Mapping[str, str]

    def check(self, mechanism: str) -> None:
        """Raise ConfigError if an entry is for another mechanism."""
        wanted = login_module(mechanism)
        for module, place in self.places.items():
            if module != wanted:
                raise ConfigError(MAP_KEY, module, f"the login module of {mechanism}: {wanted}", place)


class MappedPrincipals:
    """The credentials in the file `name`. `close` is called with the principals whose entries have gone or
    have another user.

    `_latest` is the last content that could be read, `_entries` the last that fits the mechanism, and
    `_compared` the entries of the open connections.
    """

    def __init__(self, name: str, config: UpstreamConfig, clock: Clock, close: CloseClients) -> None:
        """Raises ConfigError for a file that cannot be used."""
        self._name = name
        self._close = close
        self._refused = RefusedPrincipals(clock)
        self._mechanism = config.sasl_mechanism
        self._seen = stamps([Path(name)])
        self._latest = run_through(read_map(name, read_text(name), self._mechanism))
        self._latest.check(self._mechanism)
        self._entries = self._compared = self._latest.entries

    async def credentials(self, principal: str) -> ClientCredentials | None:
        found = self._entries.get(principal)
        if found is None:
            raise self._refused.error(principal, NOT_LISTED)
        is_same_module = login_module(found.mechanism) == login_module(self._mechanism)
        if found.mechanism != self._mechanism and is_same_module:
            found = self._entries[principal] = found.for_mechanism(self._mechanism)
        return found

    async def refused(
        self, principal: str, credentials: ClientCredentials | None, error: UpstreamError
    ) -> None:
        raise self._refused.error(principal, f"the credentials in the file of {MAP_KEY}: {error}")

    def check(self, config: UpstreamConfig) -> None:
        """Raise ConfigError if the entries are for another mechanism than that of `config`: all of them, or
        the first of a file that has changed and is still to be read.
        """
        latest = self._latest
        if stamps([Path(self._name)]) not in (self._seen, [None]):
            latest = _beginning(self._name, config.sasl_mechanism)
        latest.check(config.sasl_mechanism)

    def configure(self, config: UpstreamConfig) -> None:
        """Use the mechanism of `config`, with a file that has changed once `run` has read it. Raises
        ConfigError.
        """
        self.check(config)
        self._mechanism = config.sasl_mechanism
        if login_module(self._mechanism) in self._latest.places:
            self._entries = self._latest.entries

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
            if self._compared is not self._entries:
                before, self._compared = self._compared, self._entries
                gone = await run_slices(_gone(before, self._compared))
                if gone:
                    await self._close(gone, f"the file of {MAP_KEY} has changed")

    async def _read_again(self) -> None:
        """Read the file in a thread and parse it in slices: requests do not wait for it."""
        try:
            text = await trio.to_thread.run_sync(read_text, self._name)
            found = await run_slices(read_map(self._name, text, self._mechanism))
            await run_slices(_keep(self._entries, found.entries))
            self._latest = found
            found.check(self._mechanism)
        except ConfigError as error:
            logger.warning("cannot use the new credentials of principals", extra={"reason": str(error)})
            return
        self._entries = found.entries
        extra = {"file": self._name, "principals": len(found.entries)}
        logger.info("credentials of principals read again", extra=extra)


def _gone(before: Entries, now: Entries) -> Steps[list[str]]:
    """Return the principals whose entries have gone or have another user."""
    found = []
    for principal, old in list(before.items()):
        new = now.get(principal)
        if new is None or new.name != old.name:
            found.append(principal)
        yield
    return found


def _keep(before: Entries, found: Entries) -> Steps[None]:
    """Put the objects of unchanged entries into `found`: they have derived their keys already."""
    for principal, old in list(before.items()):
        new = found.get(principal)
        if new is not None and old.equals(new):
            found[principal] = old
        yield


def read_text(name: str) -> str:
    """Return the content of a file with credentials. Raises ConfigError."""
    return read_setting(MAP_KEY, name, MAX_FILE_BYTES, "utf-8", "not UTF-8")


def read_map(name: str, text: str, mechanism: str) -> Steps[MapFile]:
    """Return the content of a file, whose entries may also be for another mechanism. Raises ConfigError,
    which names the line and shows no secret.
    """
    entries: Entries = {}
    places: dict[str, str] = {}
    for entry in properties_in_steps(text):
        yield
        if entry is None:
            continue
        place, principal = f"{name}, line {entry.line}", entry.key
        if not principal or principal.startswith(USER_PREFIX):
            allowed = (
                "the name of a principal before `=`, without `User:`; `\\` before `=`, `:` and spaces in it"
            )
            raise ConfigError(MAP_KEY, principal, allowed, place)
        if principal in entries:
            raise ConfigError(MAP_KEY, principal, "one entry for each principal", place)
        try:
            entries[principal] = found = _credentials(entry.value, mechanism)
        except ConfigError as error:
            raise error.located(place) from error
        places.setdefault(login_module(found.mechanism), place)
    if not entries:
        raise ConfigError(MAP_KEY, name, "a file with the credentials of at least one principal")
    return MapFile(entries, places)


def _beginning(name: str, mechanism: str) -> MapFile:
    """Return what a file begins with. Raises ConfigError."""
    for entry in properties_in_steps(read_text(name)):
        if entry is not None:
            place = f"{name}, line {entry.line}"
            return MapFile({}, {login_module(_credentials(entry.value, mechanism).mechanism): place})
    return MapFile({}, {})


def _credentials(text: str, mechanism: str) -> ClientCredentials:
    """Return the credentials of an entry, for the mechanism if they can be. Raises ConfigError."""
    try:
        return ClientCredentials.from_jaas(MAP_KEY, text, mechanism)
    except ConfigError as error:
        other = next(iter(MECHANISMS)) if mechanism == PLAIN else PLAIN
        try:
            return ClientCredentials.from_jaas(MAP_KEY, text, other)
        except ConfigError:
            raise error from None

"""The key set of one issuer of access tokens, from a file or a URL, and when it is read again.

`access_tokens` asks for keys. broker.server.parts.oauthbearer_keys reads sets while the broker runs; a file
is also read once at the start, which fails if it cannot. Sockets and tasks are the caller's. (Kafka:
RefreshingHttpsJwks, JwksFileVerificationKeyResolver)
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from broker.common.errors import ConfigError
from broker.common.json_web_keys import PublicKey, key_for, read_keys
from broker.config.sections import SecurityConfig
from broker.config.sections.security import JWKS_URL, key_file
from broker.security.watched_files import read_regular

MAX_BYTES: Final = 1_048_576

DEMAND_MS: Final = 10_000
"""Least time between two refreshes for tokens of unknown keys, whatever their number: anybody can send such a
token. Kafka refreshes once in 60 s for each of up to 16 unknown key ids, and without limit for more."""


class KeySource(msgspec.Struct, frozen=True):
    """The location of a key set. Listeners with equal sources share one set."""

    url: str
    refresh_ms: int
    backoff_ms: int
    backoff_max_ms: int

    @property
    def file(self) -> Path | None:
        path = key_file(self.url)
        return None if path is None else Path(path)


def sources_of(config: SecurityConfig) -> list[KeySource]:
    """Return the sources of all listeners, each once."""
    listeners = dict.fromkeys(["", *(listener for listener, _, _ in config.overrides)])
    found = [source_of(config.for_listener(listener)) for listener in listeners]
    return [source for source in dict.fromkeys(found) if source is not None]


def source_of(config: SecurityConfig) -> KeySource | None:
    """Return the source of one listener, whose settings these are; None if it has none."""
    if not config.jwks_endpoint_url:
        return None
    return KeySource(
        config.jwks_endpoint_url, config.jwks_refresh_ms, config.jwks_backoff_ms, config.jwks_backoff_max_ms
    )


class IssuerKeys:
    """The keys as they were last read; none before the first time.

    `demand` is called for each token of an unknown key; the task that reads a URL sets it.
    """

    def __init__(self, source: KeySource) -> None:
        """Raises ConfigError for a file that cannot be used."""
        self.source = source
        self.demand: Callable[[], None] = lambda: None
        self.keys: tuple[PublicKey, ...] = ()
        if source.file is not None:
            try:
                self.keys = keys_of_file(source.file)
            except ValueError as error:
                raise ConfigError(JWKS_URL, source.url, f"a file with a JSON Web Key Set: {error}") from error

    def find(self, key_id: object, algorithm: str) -> PublicKey | None:
        """Return the key of a token; None if it is unknown."""
        key = key_for(self.keys, key_id, algorithm)
        if key is None:
            self.demand()
        return key


def keys_of_file(file: Path) -> tuple[PublicKey, ...]:
    """Read a key set. Raises ValueError with the reason, for people."""
    try:
        return read_keys(read_regular(str(file), MAX_BYTES))
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from error


class RefreshTimes:
    """When to read the key set of a URL: every `refresh_ms`, after a failure sooner, and for unknown keys.

    `next_ms` is the time of the next attempt.
    """

    def __init__(self, source: KeySource, now_ms: int) -> None:
        self._refresh_ms = source.refresh_ms
        self._backoff_ms = source.backoff_ms
        self._backoff_max_ms = source.backoff_max_ms
        self._failures = 0
        self._demanded_ms = now_ms - DEMAND_MS
        self.next_ms = now_ms

    @property
    def is_failing(self) -> bool:
        return self._failures > 0

    def succeeded(self, now_ms: int) -> None:
        self._failures = 0
        self.next_ms = now_ms + self._refresh_ms

    def failed(self, now_ms: int) -> None:
        # 63 doublings of 1 ms exceed the largest setting.
        wait_ms = min(self._backoff_ms << min(self._failures, 63), self._backoff_max_ms)
        self._failures += 1
        self.next_ms = now_ms + wait_ms

    def demanded(self, now_ms: int) -> bool:
        """Note a token of an unknown key; return whether the next attempt is earlier than before."""
        at_ms = max(now_ms, self._demanded_ms + DEMAND_MS)
        if self.is_failing or at_ms >= self.next_ms:
            return False
        self.next_ms = self._demanded_ms = at_ms
        return True

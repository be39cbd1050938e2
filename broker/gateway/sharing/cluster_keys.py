"""The secret keys that all gateways of a cluster share, from a file or the environment.

The first key signs, all of them verify: so a key is replaced while gateways run. `signing` uses the keys; no
text, log line or view has more of one than its id.
"""

import hashlib
import logging
from pathlib import Path
from typing import Final

import trio

from broker.common.errors import ConfigError
from broker.config.sections import GatewayConfig
from broker.security.watched_files import CHECK_EVERY_MS, read_setting, stamps

logger = logging.getLogger(__name__)

KEYS: Final = "gateway.cluster.keys"
LOCATION: Final = "gateway.cluster.keys.location"

HIDDEN: Final = "(hidden)"

MIN_KEY: Final = 32
MAX_KEY: Final = 512
"""Characters of a key; ours. `openssl rand -hex 32` prints 64."""

MAX_KEYS: Final = 8
MAX_FILE_BYTES: Final = 65_536

ID_DIGITS: Final = 8


class ClusterKey:
    """`id` names the key in records and log lines, and reveals nothing of `secret`."""

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        self.id = hashlib.sha256(b"id of a key of Weir's gateways\0" + secret).hexdigest()[:ID_DIGITS]

    def __repr__(self) -> str:
        return f"ClusterKey({self.id})"


class ClusterKeys:
    """The keys of `gateway.cluster.keys` or of the file of `gateway.cluster.keys.location`."""

    def __init__(self, config: GatewayConfig) -> None:
        """Raises ConfigError if there is no key, or one that cannot be used."""
        self._config = config
        self._seen = stamps(self._files())
        self._use(self._read())

    def _use(self, keys: list[ClusterKey]) -> None:
        self.first = keys[0]
        self._by_id = {key.id: key for key in keys}
        self.get = self._by_id.get

    async def follow_file(self) -> None:
        """Read the file again whenever it changes, until cancelled. A file that cannot be used is logged once
        for each change, and the keys before it stay.
        """
        while True:
            await trio.sleep(CHECK_EVERY_MS / 1_000)
            seen = stamps(self._files())
            if seen == self._seen:
                continue
            self._seen = seen
            try:
                self._use(self._read())
            except ConfigError as error:
                logger.warning("cannot use the new keys of the gateways", extra={"reason": str(error)})
                continue
            logger.info(
                "keys of the gateways read again",
                extra={"signs": self.first.id, "verify": ",".join(self._by_id)},
            )

    def _files(self) -> list[Path]:
        name = self._config.cluster_keys_location
        return [Path(name)] if name else []

    def _read(self) -> list[ClusterKey]:
        if not self._config.cluster_keys_location:
            return read_keys(KEYS, self._config.cluster_keys)
        name = str(Path(self._config.cluster_keys_location))
        text = read_setting(LOCATION, name, MAX_FILE_BYTES, "ascii", "not ASCII text")
        return read_keys(LOCATION, text, name)


def read_keys(setting: str, text: str, shown: str = HIDDEN) -> list[ClusterKey]:
    """Return the keys of a text, which has white space or commas between them. Raises ConfigError, which
    shows `shown`.
    """
    words = text.replace(",", " ").split()
    if not 1 <= len(words) <= MAX_KEYS:
        raise ConfigError(setting, shown, f"1 to {MAX_KEYS} keys, and it has {len(words)}")
    for word in words:
        if not MIN_KEY <= len(word) <= MAX_KEY or not word.isascii() or not word.isprintable():
            allowed = (
                f"keys of {MIN_KEY} to {MAX_KEY} printable characters: `openssl rand -hex 32` prints one"
            )
            raise ConfigError(setting, shown, allowed)
    keys = [ClusterKey(word.encode()) for word in words]
    if len({key.id for key in keys}) < len(keys):
        raise ConfigError(setting, shown, "keys that differ from each other")
    return keys

"""The id of the upstream cluster that an earlier start found, in a file beside the metadata. (Kafka:
meta.properties)

A gateway whose addresses suddenly lead to another cluster, after a mistake in DNS or in the configuration,
must not mix the two: the quotas, the clients' offsets and their transactions belong to one of them.
"""

import logging
import os
from pathlib import Path
from typing import Final

from broker.common.errors import ConfigError
from broker.config.load import parse

logger = logging.getLogger(__name__)

NAME: Final = "upstream.properties"
KEY: Final = "cluster.id"


class ClusterIdentity:
    """The file in `directory`."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / NAME

    def read(self) -> str | None:
        """Return the id, or None before it is known. Raises ConfigError if the file is damaged, OSError."""
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except UnicodeDecodeError as error:
            raise self._damaged() from error
        found = {each.key: each.value for each in parse(text)}
        if not found.get(KEY):
            raise self._damaged()
        return found[KEY]

    def write(self, cluster_id: str) -> None:
        """Remember the id. A disk that refuses is logged: the next start then takes the id that it finds."""
        temporary = self._path.with_suffix(".new")
        try:
            temporary.write_text(f"{KEY}={cluster_id}\n", encoding="utf-8")
            os.replace(temporary, self._path)
        except OSError as error:
            logger.error("cannot store the id of the upstream cluster", extra={"reason": str(error)})

    def _damaged(self) -> ConfigError:
        allowed = f"a line {KEY}=<id of the upstream cluster>; delete the file to accept any cluster"
        return ConfigError(KEY, "(damaged)", allowed, str(self._path))

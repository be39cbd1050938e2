"""Restricts the folders of key stores and trust stores that dynamic settings can name.

Called by `configs`. A client that sets a location makes the broker read a file and report errors about it. A
location outside these folders is therefore refused before the file is accessed, with the message for a
missing file. The configuration file is not restricted. (Kafka reads any path; its config providers have
`allowed.paths`, KIP-993.)
"""

import os
from collections.abc import Iterator, Mapping
from typing import Final

from broker.config.sections.tls import ALLOWED_STORE
from broker.config.setting import split_listener
from broker.errors import ConfigError

LOCATIONS: Final = frozenset({"ssl.keystore.location", "ssl.truststore.location"})
CONSOLE: Final = "console."


def check_location(key: str, text: str, directories: tuple[str, ...], static: Mapping[str, str]) -> None:
    """Check a location against `directories`; if empty, against the folders of the stores that `static`
    names.

    Raises ConfigError.
    """
    if not text or not is_location(key):
        return
    allowed = directories or tuple(_directories_of(static))
    if os.pardir in text.split(os.sep) or not any(_is_within(text, each) for each in allowed):
        raise ConfigError(key, text, ALLOWED_STORE)


def is_location(key: str) -> bool:
    return split_listener(key)[1].removeprefix(CONSOLE) in LOCATIONS


def _directories_of(static: Mapping[str, str]) -> Iterator[str]:
    return (
        os.path.dirname(os.path.abspath(text)) for key, text in static.items() if text and is_location(key)
    )


def _is_within(text: str, directory: str) -> bool:
    """Compare by name only; links in such a folder are trusted."""
    folder, path = os.path.abspath(directory), os.path.abspath(text)
    return os.path.commonpath([folder, path]) == folder and path != folder

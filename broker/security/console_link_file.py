"""The file from which `weir console-link` creates links for a running broker.

It holds the console's URL and the code key. broker.app writes it into the first of `log.dirs` at each start,
readable by its owner only, and removes it at shutdown. A user who can read it can also read and write the
broker's data. The broker keeps it locked, so that a file left by a killed broker is recognised as stale.
"""

import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

FILE_NAME: Final = "weir-console-link.json"


class ConsoleLink(NamedTuple):
    """`url` is the console's URL, with a trailing slash."""

    url: str
    key: bytes


class ConsoleLinkFile:
    """The file, which exists until `close`. Raises OSError if it cannot be written."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, directory: str, link: ConsoleLink) -> None:
        self._path = Path(directory, FILE_NAME)
        # A leftover file must not pass its permissions on.
        self._path.unlink(missing_ok=True)
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        text = json.dumps({"url": link.url, "key": link.key.hex()})
        os.write(self._descriptor, text.encode())

    def close(self) -> None:
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


def read_console_link(directory: str) -> ConsoleLink:
    """Read the file of a running broker.

    Raises FileNotFoundError if no broker with a console runs in this directory, other OSErrors if the file
    cannot be read, ValueError for invalid content.
    """
    path = Path(directory, FILE_NAME)
    with path.open(encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            read = json.loads(file.read(4_096))
            return ConsoleLink(str(read["url"]), bytes.fromhex(read["key"]))
    raise FileNotFoundError(path)

"""The file by which `weir console-link` makes links for a broker that runs: the console's URL and the key of
its codes.

Written by broker.app into the first of `log.dirs`, readable by its owner only, made anew at each start and
removed at the end. Who may read it may read and write the broker's data too. The broker keeps it locked, so
that what a killed broker has left behind is known for that.
"""

import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

FILE_NAME: Final = "weir-console-link.json"


class ConsoleLink(NamedTuple):
    """`url` is that of the console, with a slash at its end."""

    url: str
    key: bytes


class ConsoleLinkFile:
    """One that is there until `close`. Raises OSError where it cannot be written."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, directory: str, link: ConsoleLink) -> None:
        self._path = Path(directory, FILE_NAME)
        # What another broker has left must not lend this one its permissions.
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
    """Raises FileNotFoundError where no broker with a console runs in this directory, other OSErrors where
    the file cannot be read, ValueError where it holds something else.
    """
    path = Path(directory, FILE_NAME)
    with path.open(encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            read = json.loads(file.read(4_096))
            return ConsoleLink(str(read["url"]), bytes.fromhex(read["key"]))
    raise FileNotFoundError(path)

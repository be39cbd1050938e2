"""The output of Spark's JVM while it starts: kept from the terminal, and searched for the reason of a
failure.

Used by `command`. Ivy, which fetches missing jars, writes hundreds of lines to standard error before Spark's
log level has an effect. The JVM inherits the file, which has no name, for as long as it lives.
"""

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Final

from pipeline.errors import first_line

AT_ONCE: Final = 1 << 20
"""Bytes at the end of what was written, which have the reason."""

NOT_FETCHED: Final = (
    "Spark could not fetch its jars ({}). `make jars` in a checkout of Weir installs them, with Maven; "
    "WEIR_PIPELINE_JARS names another folder that has them"
)
NOT_STARTED: Final = "Spark did not start: {}"

_FETCHED: Final = re.compile(r"^\s*downloading \S+/(\S+)", re.MULTILINE)
_UNREACHED: Final = re.compile(r"Host \S+ not found|Server access error at url \S+ \([^)]*\)")
_UNRESOLVED: Final = re.compile(r"unresolved dependency: ([\w.-]+)#([\w.-]+);([\w.-]+)")
_REASON: Final = re.compile(r"^(?:Exception in thread \"main\" |Error: |Error occurred|Caused by: )(.*)")
_FRAME: Final = re.compile(r"^\s+(?:at |\.\.\. )")


class StartLog:
    """The end of what was written to standard error within `kept`."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def last_fetched(self) -> str | None:
        """Return the name of the jar that Ivy fetches or has fetched last, None if it fetches none."""
        end = os.fstat(self._file.fileno()).st_size
        written = os.pread(self._file.fileno(), AT_ONCE, max(0, end - AT_ONCE))
        names = _FETCHED.findall(written.decode(errors="replace"))
        return names[-1] if names else None

    def reason(self, error: Exception) -> str:
        """Return one sentence: why Spark did not start. `error` is PySpark's, which often does not know."""
        end = self._file.seek(0, os.SEEK_END)
        self._file.seek(max(0, end - AT_ONCE))
        return reason_in(self._file.read().decode(errors="replace"), error)


@contextmanager
def kept() -> Iterator[StartLog]:
    """Keep standard error of this process, and of those that it starts in the block, in a file of no name."""
    sys.stderr.flush()
    theirs = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield StartLog(file)
        finally:
            sys.stderr.flush()
            os.dup2(theirs, 2)
            os.close(theirs)


def reason_in(written: str, error: Exception) -> str:
    """Return the reason in what Spark wrote; without one, that of `error`."""
    if unresolved := _UNRESOLVED.search(written):
        unreached = _UNREACHED.search(written)
        missing = "{}:{}:{} was not found".format(*unresolved.groups())
        return NOT_FETCHED.format(unreached[0] if unreached else missing)
    lines = [line for line in written.splitlines() if line.strip() and not _FRAME.match(line)]
    named = [found[1] for line in lines if (found := _REASON.match(line)) and found[1]]
    return NOT_STARTED.format(named[0] if named else first_line(error))

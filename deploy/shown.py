"""Runs a command for `make` and shows what it does: `python -m deploy.shown TEXT COMMAND...`.

The text and the last line of the command's output are one line (pipeline.progress). If the command fails, its
output is written to standard error. Needs Python alone, because it runs before anything is installed.
"""

import re
import subprocess
import sys
from collections import deque
from typing import Final

from pipeline.progress import Progress

INTERRUPTED: Final = 130
KEPT: Final = 1_000
"""Lines of the output that a failure shows, the last ones."""

_ESCAPE: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_FETCHED: Final = re.compile(r"(?:\[INFO\] )?(Download(?:ing|ed)) (?:from \S+: )?(?:\S+/)?(\S+)(.*)")


def shown(text: str, command: list[str], progress: Progress) -> int:
    """Run the command; return its status."""
    last, lines = "", deque[str](maxlen=KEPT)

    def what() -> str:
        return f"{text}: {last}" if last else text

    with (
        progress.stage(what),
        subprocess.Popen(  # noqa: S603 - the command of the Makefile
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            last = in_short(line) or last
    if process.returncode:
        sys.stderr.writelines(_ESCAPE.sub("", line) for line in lines)
    return process.returncode


def in_short(line: str) -> str:
    """Return a line of pip or Maven without escape sequences and addresses."""
    plain = " ".join(_ESCAPE.sub("", line).split())
    fetched = _FETCHED.match(plain)
    return plain if fetched is None else "{} {}{}".format(*fetched.groups())


if __name__ == "__main__":
    try:
        sys.exit(shown(sys.argv[1], sys.argv[2:], Progress()))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)

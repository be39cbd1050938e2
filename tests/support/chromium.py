"""The Chromium that drives the console's pages, where one is installed."""

import shutil
from typing import Final

PROGRAMS: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The shell comes first: it has no windows, so a new page takes a third of the processor time."""


def find_chromium() -> str | None:
    """Return the path of the first of `PROGRAMS` that is installed, or None."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)

"""Look up the locked versions among the vulnerabilities that the Python package index publishes.

`make audit` runs `python requirements/audit.py LOCK...`, with the network. The exit status is 0 if the
index answered for every version and knows no vulnerability, 1 if it knows one, 2 if one is unanswered.
PyPI answers for every version. An index that stands in for it may answer for the newest of a package only.
"""

import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from pip._internal.models.index import PyPI

ENTRY: Final = re.compile(r"(?m)^([\w.-]+)==([^\s;]+)")

Page = dict[str, Any]
"""What the index says of a version: `info` and `vulnerabilities`."""


def locked(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Return each name and version of the lock files once, in order."""
    return sorted({(found[1].lower(), found[2]) for text in texts for found in ENTRY.finditer(text)})


def vulnerabilities(get: Callable[[str], Page | None], name: str, version: str) -> list[Page] | None:
    """Return what is known of one version, None if the index did not answer for it.

    `get` returns the page at a path below the index, None if there is none.
    """
    page = get(f"{name}/{version}/json")
    if page is None:
        page = get(f"{name}/json")
        if page is None or page["info"]["version"] != version:
            return None
    known = page.get("vulnerabilities")
    return None if known is None else [each for each in known if not each.get("withdrawn")]


def report(get: Callable[[str], Page | None], versions: Iterable[tuple[str, str]]) -> tuple[list[str], int]:
    """Return the lines to print and the exit status."""
    found: list[str] = []
    unanswered: list[str] = []
    count = 0
    for name, version in versions:
        count += 1
        known = vulnerabilities(get, name, version)
        if known is None:
            unanswered.append(f"{name} {version}")
        for each in known or ():
            names = ", ".join([each["id"], *each.get("aliases", ())])
            fixed = ", ".join(each.get("fixed_in") or ()) or "no version"
            found.append(f"{name} {version}: {names}; fixed in {fixed}")
    lines = [
        *found,
        f"{count - len(unanswered)} of {count} versions looked up, {len(found)} vulnerabilities.",
    ]
    if unanswered:
        lines.append(f"The index did not answer for {', '.join(unanswered)}.")
    return lines, 1 if found else 2 if unanswered else 0


def _get(path: str) -> Page | None:
    try:
        with urllib.request.urlopen(f"{PyPI.pypi_url}/{path}", timeout=60) as answer:  # noqa: S310 - pip's
            page = json.load(answer)
    except urllib.error.HTTPError as refused:
        if refused.code == 404:
            return None
        raise
    assert isinstance(page, dict)
    return page


def main() -> None:
    lines, status = report(_get, locked(Path(lock).read_text(encoding="utf-8") for lock in sys.argv[1:]))
    sys.stdout.write("\n".join(lines) + "\n")
    sys.exit(status)


if __name__ == "__main__":
    main()

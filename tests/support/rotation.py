"""Which cases of a computed set run: a quarter for each commit in `make test`, and all in `make test-all`.

Used by tests/conftest.py. The mark `rotates` is for cases that a program chose: seeds, positions of a damaged
byte, every pair of two tables. A case that stands for a named bad input, or for a limit, never has it.
"""

import subprocess
from collections import defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final
from zlib import crc32

QUARTERS: Final = 4
ALL: Final = "all"
OF_COMMIT: Final = "commit"


def quarter_of(setting: str, checkout: Path) -> int | None:
    """The quarter that `ROTATION` asks for; None: all of them. Unset is all."""
    if setting in ("", ALL):
        return None
    if setting == OF_COMMIT:
        return _number_of_commit(checkout) % QUARTERS
    if setting not in map(str, range(QUARTERS)):
        raise ValueError(f"ROTATION={setting}: not {ALL}, {OF_COMMIT} or 0 to {QUARTERS - 1}")
    return int(setting)


def _number_of_commit(checkout: Path) -> int:
    """How many commits there are, 0 without Git. A shallow clone counts always the same: the seconds of its
    commit's time stand for the number.
    """
    try:
        if _git(checkout, "rev-parse", "--is-shallow-repository") == "true":
            return int(_git(checkout, "log", "-1", "--format=%ct"))
        return int(_git(checkout, "rev-list", "--count", "HEAD"))
    except (OSError, subprocess.CalledProcessError):
        return 0


def _git(checkout: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", checkout, *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def left_out(marked: Iterable[str], quarter: int) -> set[str]:
    """Of the node ids that rotate, those that wait for another commit. Of each function at least one runs;
    which one depends on nothing but the names of its cases.
    """
    functions: defaultdict[str, set[str]] = defaultdict(set)
    for node_id in marked:
        functions[node_id.partition("[")[0]].add(node_id)
    return set().union(*(cases - _kept(cases, quarter) for cases in functions.values()))


def _kept(cases: Collection[str], quarter: int) -> set[str]:
    """Neighbours are spread over the quarters, as the checksums of their names are."""
    ordered = sorted(cases, key=lambda case: (crc32(case.encode()), case))
    return set(ordered[quarter::QUARTERS]) or {ordered[quarter % len(ordered)]}


def is_named(node_id: str, path: Path, arguments: Iterable[str], directory: Path) -> bool:
    """Whether an argument of the command line names this test, its function or its class, and not only its
    file. Paths are relative to the directory.
    """
    name = node_id.partition("::")[2]
    for argument in arguments:
        file, _, named = argument.partition("::")
        if (
            named
            and (directory / file).resolve() == path
            and f"{name}[".startswith((f"{named}[", f"{named}::"))
        ):
            return True
    return False

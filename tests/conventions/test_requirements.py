"""The lock files agree with pyproject.toml, and only locked versions are installed."""

import re
import tomllib
from importlib.metadata import requires
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conventions.sources import ROOT

PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS: Final = PROJECT["project"]["optional-dependencies"]
RUNTIME: Final = PROJECT["project"]["dependencies"]
PINNED: Final = {
    "build": PROJECT["build-system"]["requires"],
    "docs": EXTRAS["docs"],
    "sbom": EXTRAS["sbom"],
    "wheels": EXTRAS["wheels"],
    "runtime": RUNTIME,
    "compile": [*RUNTIME, *EXTRAS["compile"]],
    "dev": [*RUNTIME, *EXTRAS["dev"]],
    "insights": [*RUNTIME, *EXTRAS["insights"]],
    "pipeline": [*RUNTIME, *EXTRAS["pipeline"]],
    "notebook": [*RUNTIME, *EXTRAS["notebook"]],
}
HASHED: Final = re.compile(r"(\S+==\S+(?: ; .+?)?)((?: --hash=sha256:[0-9a-f]{64})+)")


def _text(lock: str) -> str:
    return (ROOT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")


def _entries(lock: str) -> list[str]:
    """Return the locked versions, each on one line."""
    lines = [line for line in _text(lock).splitlines() if not line.startswith("#")]
    return "\n".join(lines).replace(" \\\n   ", "").splitlines()


def _locked(lock: str) -> dict[str, set[str]]:
    """Return the versions of each package; several if they depend on the machine."""
    found: dict[str, set[str]] = {}
    for entry in _entries(lock):
        matched = HASHED.fullmatch(entry)
        assert matched is not None, entry
        wanted = Requirement(matched[1])
        found.setdefault(canonicalize_name(wanted.name), set()).add(str(wanted.specifier)[2:])
    return found


def test_every_stage_of_the_image_begins_with_another_stage_or_a_base_pinned_by_digest() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    bases = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.MULTILINE))
    stages = re.findall(r"^FROM (\S+)(?: AS (\S+))?$", text, re.MULTILINE)
    assert len(stages) == len(re.findall(r"^FROM ", text, re.MULTILINE)) > 1
    known = {"scratch", *(name for _, name in stages)}
    for source, _ in stages:
        base = bases[source.strip("${}")] if source.startswith("$") else source
        assert base in known or re.fullmatch(r"[\w./:-]+@sha256:[0-9a-f]{64}", base), base


@pytest.mark.parametrize("lock", PINNED)
def test_everything_is_pinned_exactly(lock: str) -> None:
    """A version may be for some versions of Python only."""
    exact = re.compile(r"[\w.-]+(\[[\w,]+\])?==(\d+!)?[\w.]+(; python_version (<|>=) '3\.\d+')?")
    assert [each for each in PINNED[lock] if not exact.fullmatch(each)] == []


@pytest.mark.parametrize("lock", PINNED)
def test_a_lock_has_the_versions_that_the_project_pins(lock: str) -> None:
    locked, pinned = _locked(lock), dict[str, set[str]]()
    for each in map(Requirement, PINNED[lock]):
        pinned.setdefault(canonicalize_name(each.name), set()).add(str(each.specifier)[2:])
    assert {name: locked.get(name) for name in pinned} == pinned, "run make lock"


def test_modules_are_compiled_by_the_checked_mypy() -> None:
    assert set(EXTRAS["compile"]) <= set(EXTRAS["dev"])


@pytest.mark.parametrize("lock", PINNED)
def test_every_locked_version_has_its_hashes(lock: str) -> None:
    assert [entry for entry in _entries(lock) if not HASHED.fullmatch(entry)] == []


@pytest.mark.parametrize("lock", PINNED)
def test_no_lock_names_an_index(lock: str) -> None:
    assert not re.search(r"://|--(?:extra-)?index-url|--find-links|--trusted-host", _text(lock))


@pytest.mark.parametrize("lock", ["compile", "dev", "insights", "pipeline", "notebook"])
def test_all_locks_have_the_same_runtime_versions(lock: str) -> None:
    both = {name: versions for name, versions in _locked(lock).items() if name in _locked("runtime")}
    assert both == _locked("runtime")


def test_every_dependency_of_the_runtime_is_locked() -> None:
    """Check the packages installed here; the lock may have more, for other machines."""
    locked = _locked("runtime")
    left = [Requirement(each) for each in RUNTIME]
    seen: set[str] = set()
    while left:
        needed = left.pop()
        name = canonicalize_name(needed.name)
        if name in seen or (needed.marker is not None and not needed.marker.evaluate({"extra": ""})):
            continue
        seen.add(name)
        assert name in locked, f"{name}: run make lock"
        left += [Requirement(each) for each in requires(name) or ()]


def test_make_and_the_image_install_locked_versions_only() -> None:
    files = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("Makefile", "Dockerfile")}
    install = re.compile(r"\t\$\(PIP\) |bin/pip (?:--python \S+ )?install --no")
    checked = ("--require-hashes", "$(LOCKED)", "--no-deps")
    for name, text in files.items():
        found = [each for each in re.split(r"\n|&&", text.replace("\\\n", "")) if install.search(each)]
        assert found and [each for each in found if not any(word in each for word in checked)] == [], name

"""The documents name files, tests, targets and anchors that exist."""

import re
from itertools import chain
from pathlib import Path
from typing import Final

import pytest

from tests.conventions.sources import ROOT

DOCUMENTS: Final = sorted(chain([ROOT / "README.md"], (ROOT / "docs").glob("*.md")))
LINK: Final = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)")
TEST: Final = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
ANCHOR: Final = re.compile(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)")
COMMAND: Final = re.compile(r"(?:^|`|\$ )(?:[A-Z_]+=\S+ )*make ([a-z][\w-]*)", re.MULTILINE)


def _make_targets() -> set[str]:
    return set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_named_make_target_exists(document: Path) -> None:
    named = set(COMMAND.findall(document.read_text(encoding="utf-8")))
    assert named - _make_targets() == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_has_a_target(document: Path) -> None:
    links = LINK.findall(document.read_text(encoding="utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


def _anchors(document: Path) -> set[str]:
    """Return the anchors of a page's headings on GitHub and GitLab."""
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_anchor_has_a_heading(document: Path) -> None:
    links = ANCHOR.findall(document.read_text(encoding="utf-8"))
    pages = ((document.parent / name if name else document, anchor) for name, anchor in links)
    assert [(page.name, anchor) for page, anchor in pages if anchor not in _anchors(page)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_named_test_exists(document: Path) -> None:
    for path, name in TEST.findall(document.read_text(encoding="utf-8")):
        assert (ROOT / path).exists(), path
        assert not name or f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path}::{name}"


def test_the_readme_says_how_to_run_and_how_to_test() -> None:
    assert {"run", "test"} <= set(COMMAND.findall((ROOT / "README.md").read_text(encoding="utf-8")))


def test_every_target_is_in_the_makefile_help() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    helped = set(re.findall(r'@echo "make ([a-z][\w-]*)', makefile))
    assert _make_targets() - helped == {"help", "conventions", "format", "clean"}


def test_ci_calls_the_readmes_test_command() -> None:
    assert re.search(
        r"^(exec )?make test\b", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE
    )

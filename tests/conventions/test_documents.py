"""The documents name files, tests, targets and anchors that exist."""

import ast
import re
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final

import pytest

from broker.api import registry
from broker.protocol.api_key import NAMES
from tests.conventions.sources import ROOT, modules

README: Final = ROOT / "README.md"
CONTRIBUTING: Final = ROOT / "CONTRIBUTING.md"
DOCUMENTS: Final = sorted(
    chain(ROOT.glob("*.md"), *((ROOT / name).glob("*.md") for name in ("docs", "examples")))
)
SECURITY: Final = ROOT / "docs" / "security.md"
FIGURES: Final = ROOT / "docs" / "benchmarks-log.md"
LINK: Final = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)")
TEST: Final = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
ANCHOR: Final = re.compile(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)")
SOURCE: Final = re.compile(r"`((?:[a-z_]\w*/)+\w+\.py)`")
METHOD: Final = re.compile(r"`([A-Z][A-Za-z]*[a-z])\.([a-z]\w*)(?:\(\))?`")
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


@cache
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


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_named_source_file_exists(document: Path) -> None:
    """Paths are from the root of the repository, or from broker/."""
    named = set(SOURCE.findall(document.read_text(encoding="utf-8")))
    assert [name for name in named if not any((ROOT / at / name).exists() for at in ("", "broker"))] == []


def _methods() -> dict[str, set[str]]:
    """Return the members that the product's classes define or annotate, by the name of the class."""
    found: dict[str, set[str]] = {}
    for module in modules():
        if module.derived or not module.name.startswith(("broker/", "webui/", "pipeline/")):
            continue
        for node in module.nodes:
            if isinstance(node, ast.ClassDef):
                members = found.setdefault(node.name, set())
                for each in ast.walk(node):
                    match each:
                        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                            members.add(name)
                        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Attribute(attr=name):
                            members.add(name)
    return found


def test_every_named_method_exists() -> None:
    """Names of Kafka's classes are not followed by a method in backticks."""
    methods = _methods()
    named = {each for path in DOCUMENTS for each in METHOD.findall(path.read_text(encoding="utf-8"))}
    assert len(named) > 2
    assert {f"{name}.{member}" for name, member in named if member not in methods.get(name, ())} == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_test_that_is_named_without_its_file_exists(document: Path) -> None:
    named = set(re.findall(r"`(test_\w+)`", document.read_text(encoding="utf-8")))
    assert named - _tests() == set()


@cache
def _tests() -> set[str]:
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    return {name for text in texts for name in re.findall(r"def (test_\w+)\(", text)}


def test_every_promise_of_the_security_model_names_its_test() -> None:
    promises = re.findall(r"^\| [KSC]\d+ \|.*$", SECURITY.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(promises) > 40
    assert [row for row in promises if not TEST.search(row)] == []


def test_the_longest_piece_of_every_api_has_a_figure() -> None:
    figures = set(re.findall(r"^\| (\w+) \|.* ms ", FIGURES.read_text(encoding="utf-8"), re.MULTILINE))
    assert {NAMES[api.key] for api in registry.load()} - figures == set()


def _helped() -> set[str]:
    return set(re.findall(r'@echo "make ([a-z][\w-]*)', (ROOT / "Makefile").read_text(encoding="utf-8")))


def test_the_table_of_commands_has_every_target_of_the_makefile_help() -> None:
    table = re.findall(r"^\| `make .*$", CONTRIBUTING.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(COMMAND.findall("\n".join(table))) == _helped()


def test_every_target_is_in_the_makefile_help() -> None:
    parts_of_check = {"types", "style", "async", "imports", "dockerfile", "conventions"}
    assert _make_targets() - _helped() == {"help", "format", "clean"} | parts_of_check


def test_the_readme_names_no_command_that_its_installation_does_not_bring() -> None:
    """`make run` installs into .venv, which is not on the path."""
    commands = re.findall(r"^\$ (\S+)", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(commands) == {"make", "export", "curl", "docker", ".venv/bin/weir"}


def test_no_document_publishes_a_port_without_logins_to_other_machines() -> None:
    """A `docker run` that publishes to every address has a file with logins mounted."""
    runs = [
        command
        for document in DOCUMENTS
        for command in re.findall(r"docker run (?:.*\\\n)*.*", document.read_text(encoding="utf-8"))
    ]
    assert len(runs) > 2
    open_ = [run for run in runs if re.search(r"-p \d+:", run)]
    assert [run for run in open_ if "server.properties" not in run] == []


def test_ci_calls_the_documented_test_command() -> None:
    assert re.search(
        r"^ *make test(?![-\w])", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE
    )

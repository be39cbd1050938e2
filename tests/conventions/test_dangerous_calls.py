"""No code runs data: no pickle, no eval, no shell, and no HTML made of text by scripts."""

import ast
from typing import Final

import pytest

from tests.conventions.sources import Module, modules, other_sources

UNPICKLING: Final = frozenset({"pickle", "marshal", "shelve", "dill", "jsonpickle"})
COMPILES: Final = "broker/protocol/emitter.py"
"""Compiles functions from the schemas in the repository; no data from a socket reaches it."""

MARKUP: Final = ("innerHTML =", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function")
SHIPPED: Final = [each for each in modules() if each.name.startswith(("broker/", "webui/"))]


def _calls(module: Module) -> set[str]:
    return {
        node.func.id
        for node in module.nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }


def _imports(module: Module) -> set[str]:
    found = set()
    for node in module.nodes:
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def test_no_module_unpickles_or_evaluates() -> None:
    for module in SHIPPED:
        assert not _imports(module) & UNPICKLING, module.name
        assert not _calls(module) & {"eval", "exec"} or module.name == COMPILES, module.name


def test_no_module_starts_a_shell() -> None:
    for module in SHIPPED:
        for node in module.nodes:
            shell = isinstance(node, ast.keyword) and node.arg == "shell"
            system = isinstance(node, ast.Attribute) and node.attr in ("system", "popen")
            assert not shell and not system, module.name


@pytest.mark.parametrize("word", MARKUP)
def test_no_script_makes_html_of_text(word: str) -> None:
    scripts = [path for path in other_sources() if path.suffix == ".js"]
    assert scripts
    assert [path.name for path in scripts if word in path.read_text(encoding="utf-8")] == []

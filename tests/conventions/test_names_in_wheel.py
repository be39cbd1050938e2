"""Modules of Weir do not depend on their names: in a wheel they are in the package `weir`."""

import ast
from collections.abc import Iterator
from functools import cache
from typing import Final

import pytest

from deploy.weir_backend import PACKAGES, inside_weir
from tests.conventions.sources import ROOT, Module, modules

INSTALLED: Final = ("weir", *PACKAGES)
TAKE_A_NAME: Final = frozenset(
    ("import_module", "getLogger", "files", "find_spec", "PackageLoader", "QuartTrio")
)
"""Functions whose argument names a module, or something after it."""


@cache
def _names() -> frozenset[str]:
    return frozenset(each.name[:-3].replace("/", ".").removesuffix(".__init__") for each in modules())


def _installed() -> Iterator[Module]:
    yield from (each for each in modules() if each.path.relative_to(ROOT).parts[0] in INSTALLED)


def _named(tree: ast.Module) -> list[str]:
    """Return the texts that name a module of Weir as Python does: whole, as `module:attribute`, or as the
    beginning of such a name.
    """
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            module = node.value.partition(":")[0].removesuffix(".")
            if "." in node.value and module in _names() and module.partition(".")[0] in PACKAGES:
                found.append(node.value)
        elif isinstance(node, ast.Call) and node.args:
            function, first = ast.unparse(node.func).rpartition(".")[2], node.args[0]
            if function in TAKE_A_NAME and isinstance(first, ast.Constant) and first.value in PACKAGES:
                found.append(first.value)
    return found


def test_no_text_names_a_module_of_ours() -> None:
    """Except the table of commands, before whose names the program puts what is missing."""
    found = {module.name: texts for module in _installed() if (texts := _named(module.tree))}
    commands = found.pop("broker/__main__.py")
    assert all(":" in text for text in commands)
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        'import_module("broker.log.slice")',
        'f"broker.api.{name}"',
        '"pipeline.command:pipeline"',
        '(sys.executable, "-m", "webui.insights.worker")',
        'importlib.import_module("broker")',
        'PackageLoader("templates", "")',
        'logging.getLogger("webui")',
    ],
)
def test_a_text_that_names_one_is_found(text: str) -> None:
    assert _named(ast.parse(text)) != []


@pytest.mark.parametrize("text", ['"broker"', '"broker.id"', '"broker.quota.enabled"', 'print("pipeline")'])
def test_a_text_that_names_none_is_not_found(text: str) -> None:
    assert _named(ast.parse(text)) == []


def test_every_import_can_be_moved() -> None:
    for module in _installed():
        inside_weir(module.text.encode(), module.name)

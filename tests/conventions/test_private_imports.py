"""What the console takes of the web framework, its server and Trio beyond their public names."""

import ast
from typing import Final

from tests.conventions.sources import ROOT, Module, modules

TYPES_AND_SETTINGS: Final = {"hypercorn.typing", "hypercorn.config"}


def _imported(module: Module) -> set[str]:
    found = set()
    for node in module.nodes:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
    return found


def test_only_one_file_imports_more_of_hypercorn_than_types_and_settings() -> None:
    found = {
        module.name
        for module in modules()
        if module.path.is_relative_to(ROOT / "webui") or module.path.is_relative_to(ROOT / "broker")
        if any(name.startswith("hypercorn") for name in _imported(module) - TYPES_AND_SETTINGS)
    }
    assert found == {"webui/http/http_server.py"}


def test_nothing_private_of_trio_or_of_the_web_framework_is_imported() -> None:
    private = {
        (module.name, name)
        for module in modules()
        for name in _imported(module)
        if name.split(".")[0] in ("trio", "quart", "quart_trio", "hypercorn", "werkzeug", "h11")
        if any(part.startswith("_") for part in name.split("."))
    }
    assert private == {("webui/tables/slices.py", "trio._core")}

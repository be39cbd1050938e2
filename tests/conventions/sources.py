"""The project's own files, parsed, for the tests of the conventions."""

import ast
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PYTHON_ROOTS: Final = (
    "weir",
    "broker",
    "webui",
    "templates",
    "pipeline",
    "tests",
    "benchmarks",
    "demo",
    "deploy",
    "docs",
    "examples",
    "requirements",
)
OTHER_SOURCES: Final = ("webui/**/*.css", "webui/**/*.js", "templates/**/*.html", "benchmarks/load/*.?")
# Fetched, measured and third-party files.
NOT_OURS: Final = frozenset({"node_modules", "peers", "results", "vendor", "__pycache__"})


@dataclass(frozen=True)
class Module:
    path: Path
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of the tree, which many tests look at."""
        return tuple(ast.walk(self.tree))

    @property
    def derived(self) -> bool:
        """Whether broker.protocol.derive writes the file; tests/protocol/test_derive.py compares it."""
        return self.path.is_relative_to(ROOT / "broker" / "protocol" / "messages")


@cache
def modules() -> tuple[Module, ...]:
    found = (path for root in PYTHON_ROOTS for path in sorted((ROOT / root).rglob("*.py")) if _is_ours(path))
    # Nothing of the millions of nodes is garbage.
    gc.disable()
    try:
        return tuple(_read(path) for path in found)
    finally:
        gc.enable()


def other_sources() -> Iterator[Path]:
    for pattern in OTHER_SOURCES:
        yield from (path for path in sorted(ROOT.glob(pattern)) if path.is_file() and _is_ours(path))


def _read(path: Path) -> Module:
    text = path.read_text(encoding="utf-8")
    return Module(path, text, ast.parse(text, str(path)))


def _is_ours(path: Path) -> bool:
    folders = path.relative_to(ROOT).parts[:-1]
    return not any(folder in NOT_OURS or (folder.startswith(".") and folder != ".ci") for folder in folders)

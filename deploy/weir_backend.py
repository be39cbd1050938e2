"""Builds the distribution: pyproject.toml names this module as the build backend.

A checkout, and the source distribution, have the packages `broker`, `webui`, `templates` and `pipeline` at
the top. A wheel has one name, `weir`: it is built from a copy in which they are packages of `weir`, and
import each other as such. An editable installation uses the checkout as it is.
"""

import ast
import os
import shutil
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

PACKAGES: Final = ("broker", "webui", "templates", "pipeline")
COPIED: Final = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE")
NOT_INSTALLED: Final = shutil.ignore_patterns("__pycache__", "*.so", "jars")


class UnclearImportError(Exception):
    """An import that binds the first of several names, as `import broker.log.slice` does."""


# There is no prepare_metadata_for_build_wheel: the names in the metadata are those of the wheel.
def build_wheel(
    wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None
) -> str:
    """Build a wheel, compiled if WEIR_COMPILED=1, and return its name. (PEP 517)"""
    from setuptools import build_meta  # replaces distutils, which only a build may do

    wheel_directory = os.path.abspath(wheel_directory)
    with TemporaryDirectory() as copy:
        place(Path.cwd(), Path(copy))
        with chdir(copy):
            name: str = build_meta.build_wheel(wheel_directory, config_settings)
    return name


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    """Build a source distribution and return its name. (PEP 517)"""
    from setuptools import build_meta

    name: str = build_meta.build_sdist(sdist_directory, config_settings)
    return name


def build_editable(
    wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None
) -> str:
    """Build a wheel that leads to this checkout, and return its name. (PEP 660)"""
    from setuptools import build_meta

    name: str = build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    return name


def place(checkout: Path, copy: Path) -> None:
    """Write what a wheel is built from into an empty folder."""
    for name in COPIED:
        shutil.copy2(checkout / name, copy)
    weir = copy / "weir"
    shutil.copytree(checkout / "weir", weir, ignore=NOT_INSTALLED)
    for name in PACKAGES:
        shutil.copytree(checkout / name, weir / name, ignore=NOT_INSTALLED)
    for path in weir.rglob("*.py"):
        source = path.read_bytes()
        moved = inside_weir(source, str(path.relative_to(weir)))
        if moved != source:
            path.write_bytes(moved)


def inside_weir(source: bytes, name: str = "") -> bytes:
    """Return the source of a module, which imports the packages from `weir`. All else, also in texts, stays.

    Raises UnclearImportError with the place; `name` is that of the file.
    """
    lines = source.splitlines(keepends=True)
    tree = ast.parse(source, name)
    # From the end, so that what is inserted moves nothing that is still to be changed.
    for line, column, before, after in sorted(_changes(tree, name), reverse=True):
        text = lines[line - 1]
        assert text.startswith(before, column), f"{name}:{line}: not {before!r}"
        lines[line - 1] = text[:column] + after + text[column + len(before) :]
    return b"".join(lines)


def _changes(tree: ast.Module, name: str) -> Iterator[tuple[int, int, bytes, bytes]]:
    """Yield the line and column of each change, what is there, and what replaces it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and _is_ours(node.module or ""):
            yield node.lineno, node.col_offset, b"from ", b"from weir."
        elif isinstance(node, ast.Import):
            for each in node.names:
                if not _is_ours(each.name):
                    continue
                if each.asname is not None:
                    yield each.lineno, each.col_offset, b"", b"weir."
                elif len(node.names) == 1 and "." not in each.name:
                    yield node.lineno, node.col_offset, b"import ", b"from weir import "
                else:
                    raise UnclearImportError(f"{name}:{node.lineno}: use `from`, not {ast.unparse(node)}")


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES

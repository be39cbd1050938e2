"""Finds out whether Weir's hot modules run compiled by mypyc, this one among them, or interpreted.

pyproject.toml lists them. `make compiled` builds them beside their sources, and Python imports a build rather
than its source, so `weir` and the tests refuse to run a build that is older than a source.
"""

import os
from pathlib import Path
from typing import Final

COMPILED: Final = not __file__.endswith(".py")

KIND: Final = "compiled" if COMPILED else "interpreted"


def newer_source(module: str | None = None) -> str | None:
    """Return a file of the checkout that has changed since `module`, this one, was compiled. None if there is
    none, if `module` is a source, or if it is installed elsewhere than in a checkout, where sources do not
    change.

    Every module of the broker counts: the build contains constants of modules that it only imports.
    """
    module = module or __file__  # a compiled module has another path until it is imported
    package = Path(module).parents[1]
    root = package.parent
    if module.endswith(".py") or not (root / "setup.py").exists():
        return None
    built_ns = os.stat(module).st_mtime_ns
    for name in ("pyproject.toml", "setup.py"):
        if os.stat(root / name).st_mtime_ns > built_ns:
            return name
    for folder, _, files in os.walk(package):
        for name in files:
            path = os.path.join(folder, name)
            if name.endswith(".py") and os.stat(path).st_mtime_ns > built_ns:
                return os.path.relpath(path, root)
    return None

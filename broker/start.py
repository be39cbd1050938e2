"""Starts the program `weir`, in a checkout with the build of its sources if there is one.

deploy.compiled_build, which `make run` starts, copies the package `broker` into a folder of the virtual
environment, compiles the hot modules of the copy, and names the folder after the signature of the sources.
Here `broker` becomes that copy, so that no build is ever imported beside a source that has changed since.

Until that is decided, no other module of Weir is imported. WEIR_BUILD=no starts the sources.
"""

import fcntl
import hashlib
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

import broker

ABOVE: Final = broker.__name__.removesuffix("broker")
"""What the names of Weir's packages begin with: nothing in a checkout, "weir." where it is installed."""

ROOT: Final = Path(__file__).parents[1]
BUILDS: Final = Path(sys.prefix) / "compiled"
LOG: Final = "log"
"""What the last build printed."""
FAILED: Final = "failed"
"""The signature of the sources that could not be compiled last."""
LOCK: Final = "lock"
"""Locked while a build is made; in the folder of a build, while a process uses it."""


def main() -> None:
    """Run `weir`."""
    if is_checkout(ROOT):
        use_build(ROOT, BUILDS)
    import_module(f"{broker.__name__}.__main__").main()


def is_checkout(root: Path) -> bool:
    """Return whether these sources can change, and have no modules of `make compiled` beside them."""
    return (root / "setup.py").exists() and not any((root / "broker" / "server").glob("compiled.*.so"))


def is_off() -> bool:
    return os.environ.get("WEIR_BUILD") == "no"


def use_build(root: Path, builds: Path) -> bool:
    """Let all further imports of `broker` find the build of these sources, until the process ends. Returns
    whether there is one.
    """
    if is_off() or not builds.is_dir():
        return False
    build = builds / signature(root)
    if hold(build) is None or not (build / "broker").is_dir():  # it can be removed before it is locked
        return False
    broker.__path__[:] = [str(build / "broker")]
    return True


def hold(folder: Path, how: int = fcntl.LOCK_SH) -> int | None:
    """Lock a folder. Returns the descriptor, whose end is that of the lock. None if another has locked it."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def signature(root: Path) -> str:
    """Return a name for this state of what is compiled, by which Python, and with what."""
    digest = hashlib.sha256(sys.version.encode())
    for path in ("pyproject.toml", "setup.py", "requirements/compile.txt"):
        _add(digest, path, os.stat(root / path))
    for path, found in _sources(os.path.join(root, "broker"), "broker"):
        _add(digest, path, found)
    return digest.hexdigest()[:16]


def _sources(folder: str, path: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if entry.name.endswith(".py"):
            yield f"{path}/{entry.name}", entry.stat()
        elif entry.is_dir() and entry.name != "__pycache__":
            yield from _sources(entry.path, f"{path}/{entry.name}")


def _add(digest: "hashlib._Hash", path: str, found: os.stat_result) -> None:
    digest.update(f"{path} {found.st_mtime_ns} {found.st_size}\n".encode())


def why_interpreted(root: Path = ROOT, builds: Path = BUILDS) -> str:
    """Return why `weir` runs interpreted, and what changes that."""
    if not (root / "setup.py").exists():
        return "installed without compiled modules"
    if is_off():
        return "WEIR_BUILD=no"
    missing = missing_tool()
    if missing is not None:
        return f"{missing}, so `make run` cannot compile it"
    if not builds.is_dir():
        return "`make run` compiles it"
    free = hold(builds, fcntl.LOCK_EX)
    if free is None:
        return "it is being compiled"
    os.close(free)
    if failed(builds) == signature(root):
        return f"their build failed, see {builds / LOG}; `make interpreted` lets `make run` try it again"
    if any(builds.glob(f"*/{LOCK}")):
        return "the sources have changed since they were compiled; `make run` compiles them"
    return f"the last build has not ended, see {builds / LOG}; `make run` builds again"


def failed(builds: Path) -> str:
    """Return the signature of the sources whose build failed, "" if none did."""
    try:
        return (builds / FAILED).read_text()
    except OSError:
        return ""


def missing_tool() -> str | None:
    """Return what a build lacks."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        return f"there is no C compiler ({compiler})"
    if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
        return "Python's headers are missing"
    return None


if __name__ == "__main__":
    main()

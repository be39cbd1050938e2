"""Compiles the hot modules of this checkout for the next start: `python -m deploy.compiled_build`.

`make run` starts it beside the broker. The build is a copy of the package `broker` in a folder of the virtual
environment, named after the signature of the sources (broker/start.py, which uses it). The folder gets that
name when it is complete. One process builds at a time, and removes what a killed one left. It has the lowest
priority, and is the first that the kernel ends if memory runs out. It goes on when the broker stops.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from broker import start

COPIED: Final = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE", "requirements/compile.txt")
UNFINISHED: Final = "unfinished"
REMOVED: Final = "removed"
WITHIN_S: Final = 3_600
NEEDED_KB: Final = 2_000_000
"""What the C compiler takes at most, and as much again for the broker."""
TORN: Final = 3
"""How often the sources are copied at most while they change."""


def main() -> None:
    """Build if there is something to build, and say so in one line."""
    if not start.is_checkout(start.ROOT) or start.is_off():
        return
    missing = start.missing_tool()
    if missing is not None:
        _say(f"Weir runs interpreted: {missing}.")
        return
    with building(start.BUILDS) as is_alone:
        if not is_alone or is_built(start.ROOT, start.BUILDS):
            return
        free_kb = _free_kb()
        if free_kb < NEEDED_KB:
            _say(f"Weir runs interpreted: of the 2 GB to compile it, {free_kb // 1_000} MB are free.")
            return
        log = start.BUILDS / start.LOG
        _say(f"Weir compiles its hot modules in the background, for the next start: {log}")
        _step_back(log)
        try:
            build(start.ROOT, start.BUILDS, compile_in)
        finally:
            _end_children()


@contextmanager
def building(builds: Path) -> Iterator[bool]:
    """Lock the folder of builds, which is made. Yields False at once while another process builds."""
    builds.mkdir(exist_ok=True)
    (builds / start.LOCK).touch()
    lock = start.hold(builds, fcntl.LOCK_EX)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            os.close(lock)


def is_built(root: Path, builds: Path) -> bool:
    return (builds / start.signature(root)).exists()


def build(root: Path, builds: Path, compile_in: Callable[[Path], None]) -> Path | None:
    """Build in a folder that has its name in the end, and remove the other builds that no process uses.
    Returns None if the sources change all the time. Raises what `compile_in` raises, which compiles a copy.

    The caller holds the lock of `building`.
    """
    for left in (UNFINISHED, REMOVED):
        shutil.rmtree(builds / left, ignore_errors=True)
    copy = builds / UNFINISHED
    name = copy_sources(root, copy)
    if name is None:
        return None
    compile_in(copy)
    for path in copy.iterdir():
        if path.name != "broker":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    (copy / start.LOCK).touch()
    _write_to_disk(copy)
    copy.rename(builds / name)
    for other in builds.iterdir():
        if other.name != name and other.is_dir():
            _remove(other, builds / REMOVED)
    return builds / name


def copy_sources(root: Path, copy: Path) -> str | None:
    """Copy what a build needs. Returns the signature of what was copied, None if it changes all the time."""
    for _ in range(TORN):
        shutil.rmtree(copy, ignore_errors=True)
        name = start.signature(root)
        shutil.copytree(
            root / "broker", copy / "broker", ignore=shutil.ignore_patterns("__pycache__", "*.so")
        )
        (copy / "requirements").mkdir()
        for each in COPIED:
            shutil.copy2(root / each, copy / each)
        if start.signature(root) == name:
            return name
    return None


def compile_in(copy: Path) -> None:
    """Compile the modules of a copy, with mypy in an environment of its own. Raises CalledProcessError."""
    root, venv = start.ROOT, Path(f"{sys.prefix}-compile")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
    }
    make = ("make", "--silent", f"VENV={sys.prefix}", f"{venv}/ready")
    subprocess.run(make, cwd=root, env=environment, check=True, timeout=WITHIN_S)
    python = venv / "bin" / "python"
    setup = (python, "setup.py", "--quiet", "build_ext", "--inplace")
    compiling = environment | {"WEIR_COMPILED": "1"}
    subprocess.run(setup, cwd=copy, env=compiling, check=True, timeout=WITHIN_S)
    # The bytecode of the first start; and a build that cannot be imported is none.
    subprocess.run((sys.executable, "-m", "compileall", "-q", "broker"), cwd=copy, check=True)
    check = "import broker.server.app; from broker.server.compiled import COMPILED; assert COMPILED"
    subprocess.run((sys.executable, "-c", check), cwd=copy, check=True)


def _remove(folder: Path, to: Path) -> None:
    """Remove a build unless a process uses it. It loses its name first, in one step."""
    lock = start.hold(folder, fcntl.LOCK_EX)
    if lock is not None:
        folder.rename(to)
        os.close(lock)
        shutil.rmtree(to)


def _write_to_disk(folder: Path) -> None:
    """A name that survives a loss of power must not name files without content."""
    for parent, _, names in os.walk(folder):
        for path in (parent, *(os.path.join(parent, name) for name in names)):
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)


def _step_back(log: Path) -> None:
    """Leave the terminal, and let everything else go first."""
    os.setsid()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for standard in (1, 2):
        os.dup2(written, standard)
    os.close(written)
    os.nice(19)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    Path("/proc/self/oom_score_adj").write_text("1000")


def _end_children() -> None:
    """End what a build that was stopped has started, and did not wait for."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)


def _free_kb() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0])
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

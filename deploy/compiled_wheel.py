"""Builds wheels with compiled modules for this machine's processor: `make wheel PYTHONS="python3.11 ..."`.

Each Python gets an environment of its own for the build, with what requirements/ locks. mypyc's modules need
nothing but the C library, and of it only old functions, so auditwheel finds that the wheel runs with an older
glibc than this machine's, and names the wheel after the oldest one.
"""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

PIP: Final = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
LOCKED: Final = ("--require-hashes", "--requirement=requirements/build.txt")


def main(pythons: list[str]) -> None:
    auditwheel = Path(sys.executable).with_name("auditwheel")
    for python in pythons:
        print(f"Weir is compiled for {python}, which takes some 200 s of a core.", flush=True)
        with TemporaryDirectory() as folder:
            wheel = build(python, Path(folder))
            # There is no library to copy into the wheel, so nothing in it is patched.
            run(str(auditwheel), "repair", "--patcher=none", "--wheel-dir=dist", str(wheel))


def build(python: str, folder: Path) -> Path:
    """Return a wheel for a Python, named after this machine."""
    environment = folder / "environment"
    run(python, "-m", "venv", "--without-pip", str(environment))
    pip = (*PIP, "--python", str(environment / "bin" / "python"))
    run(*pip, "install", *LOCKED, "--requirement=requirements/compile.txt")
    # mypyc writes C in the order of sets, which is that of hashes.
    compiled = {"WEIR_COMPILED": "1", "PYTHONHASHSEED": "0"}
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), ".", **compiled)
    (wheel,) = folder.glob("*.whl")
    return wheel


def run(*command: str, **environment: str) -> None:
    subprocess.run(command, check=True, env=os.environ | environment)


if __name__ == "__main__":
    main(sys.argv[1:])

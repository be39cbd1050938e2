"""A checkout of a few files, whose program prints which of its builds runs. Used by the tests of builds."""

from pathlib import Path
from typing import Final

FILES: Final = {
    "pyproject.toml": "",
    "setup.py": "",
    "README.md": "",
    "LICENSE": "",
    "NOTICE": "",
    "requirements/compile.txt": "",
    "broker/__init__.py": "",
    "broker/kind.py": "KIND = 'sources'\n",
    "broker/__main__.py": "from broker.kind import KIND\ndef main(): print(KIND)\n",
    "broker/server/__init__.py": "",
}


def small_checkout(root: Path) -> Path:
    """Write the files into `root`, which is made."""
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def compiled_as(name: str, copy: Path) -> None:
    """Stand in for the compiler: the program of this copy prints `name`."""
    (copy / "broker" / "kind.py").write_text(f"KIND = {name!r}\n")
    (copy / "build").mkdir()

"""A wheel, installed where no checkout is: the command starts, and what the console serves is in it."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from broker.version import VERSION

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("broker", "webui", "templates", "pipeline")
FILES: Final = ("*.py", "*.html", "*.css", "*.js", "*.svg", "*.xml", "*.java")


@pytest.mark.endtoend
def test_an_installed_wheel_has_the_command_and_what_it_serves(tmp_path: Path) -> None:
    source, site = tmp_path / "source", tmp_path / "site"
    ignored = shutil.ignore_patterns("__pycache__", "jars", "*.so")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "setup.py"):
        shutil.copy(ROOT / name, source)
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    wheel_to = ("wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(tmp_path))
    _run(*pip, *wheel_to, str(source))
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"weir_broker-{VERSION}-py3-none-any.whl"
    _run(*pip, "install", "--no-deps", "--no-index", "--target", str(site), str(wheel))
    for package in PACKAGES:
        kept = {
            str(path.relative_to(source))
            for pattern in FILES
            for path in (source / package).rglob(pattern)
            if path.is_file()
        }
        assert [name for name in sorted(kept) if not (site / name).exists()] == []
    set_path = f"import sys; sys.path.insert(0, {str(site)!r})"
    where = _run(sys.executable, "-P", "-c", f"{set_path}; import broker; print(broker.__file__)")
    assert Path(where.strip()).is_relative_to(site)
    output = _run(
        sys.executable, "-P", "-c", f"{set_path}; import broker.__main__ as it; it.main(['--version'])"
    )
    assert output == f"weir, version {VERSION}, interpreted\n"
    assert (site / "bin" / "weir").exists()


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT.parent).stdout

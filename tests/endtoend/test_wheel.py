"""A source distribution and its wheel, installed where no checkout is: the command starts, and it has what
the console serves.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path
from typing import Final

import pytest

from broker.common.version import VERSION

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("broker", "webui", "templates", "pipeline")
ROOT_FILES: Final = ("pyproject.toml", "README.md", "LICENSE", "NOTICE", "setup.py")
FILES: Final = ("*.py", "*.html", "*.css", "*.js", "*.svg", "*.xml", "*.java")
NAME: Final = f"weir_broker-{VERSION}"
NEWER_S: Final = 1_700_000_000


@pytest.mark.endtoend
def test_a_wheel_of_the_source_distribution_has_the_command_and_what_it_serves(tmp_path: Path) -> None:
    source = copied_to(tmp_path / "source")
    packaged = {
        str(path.relative_to(source))
        for package in PACKAGES
        for pattern in FILES
        for path in (source / package).rglob(pattern)
        if path.is_file()
    }

    make = f"from setuptools.build_meta import build_sdist; build_sdist({str(tmp_path)!r})"
    _run(sys.executable, "-c", make, cwd=source)
    with tarfile.open(tmp_path / f"{NAME}.tar.gz") as distribution:
        names = {name.partition("/")[2] for name in distribution.getnames()}
    assert (packaged | set(ROOT_FILES)) - names == set()

    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    wheel_to = ("wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(tmp_path))
    _run(*pip, *wheel_to, str(tmp_path / f"{NAME}.tar.gz"))
    fresh = tmp_path / "fresh"
    _run(sys.executable, "-m", "venv", "--without-pip", str(fresh))
    python, command = fresh / "bin" / "python", fresh / "bin" / "weir"
    wheel = tmp_path / f"{NAME}-py3-none-any.whl"
    _run(*pip, "--python", str(python), "install", "--no-deps", "--no-index", str(wheel))
    site = Path(_run(str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    assert [name for name in sorted(packaged) if not (site / name).exists()] == []
    assert (site / f"{NAME}.dist-info" / "licenses" / "LICENSE").read_text().split() == (
        (ROOT / "LICENSE").read_text().split()
    )

    # No index is reachable everywhere: what Weir needs is that of this environment, behind its own packages.
    (site / "needed.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    where = _run(str(python), "-c", "import broker, webui; print(broker.__file__, webui.__file__)")
    assert all(Path(file).is_relative_to(site) for file in where.split())
    kind = "interpreted: installed without compiled modules"
    assert _run(str(command), "--version") == f"weir, version {VERSION}, {kind}\n"
    assert "Commands:" in _run(str(command), "--help")


@pytest.mark.endtoend
def test_the_same_sources_make_the_same_archives(tmp_path: Path) -> None:
    """Byte for byte, in another folder, with other times and modes of the files, as in another checkout."""
    made: list[dict[str, bytes]] = []
    for name, seconds, umask in (("one", NEWER_S, 0o022), ("other", NEWER_S + 1_000, 0o077)):
        source, archives = copied_to(tmp_path / name), tmp_path / f"{name} archives"
        for path in source.rglob("*"):
            path.chmod(path.stat().st_mode & ~umask)
            os.utime(path, (seconds, seconds))
        for kind in ("sdist", "wheel"):
            make = f"from setuptools.build_meta import build_{kind}; build_{kind}({str(archives)!r})"
            _run(sys.executable, "-c", make, cwd=source, umask=umask, SOURCE_DATE_EPOCH=str(NEWER_S))
        made.append({path.name: path.read_bytes() for path in archives.iterdir()})
    assert made[0] == made[1]
    assert set(made[0]) == {f"{NAME}.tar.gz", f"{NAME}-py3-none-any.whl"}
    with tarfile.open(tmp_path / "one archives" / f"{NAME}.tar.gz") as distribution:
        times = {member.mtime for member in distribution}
    assert times == {NEWER_S}


def copied_to(folder: Path) -> Path:
    """Copy the sources of the distribution, without what a checkout has beside them."""
    ignored = shutil.ignore_patterns("__pycache__", "jars", "*.so")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=ignored)
    for name in ROOT_FILES:
        shutil.copy(ROOT / name, folder)
    return folder


def _run(*command: str, cwd: Path = ROOT.parent, umask: int = -1, **environment: str) -> str:
    env = os.environ | environment
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=cwd, env=env, umask=umask)
    return done.stdout

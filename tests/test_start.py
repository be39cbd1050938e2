"""A checkout runs the build of its sources, and no other; without one, `weir --version` says why."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from broker import start
from broker.start import hold, is_checkout, signature, why_interpreted
from deploy.compiled_build import build, building
from tests.support.small_checkout import compiled_as, small_checkout

SOURCE: str = "broker/kind.py"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("WEIR_BUILD")  # tests/conftest.py sets it
    return small_checkout(tmp_path / "checkout")


@pytest.fixture
def builds(tmp_path: Path) -> Path:
    return tmp_path / "builds"


def make(root: Path, builds: Path, name: str = "build") -> Path:
    with building(builds) as is_alone:
        assert is_alone
        made = build(root, builds, partial(compiled_as, name))
    assert made is not None
    return made


def weir(root: Path, builds: Path) -> str:
    """What the program of the checkout prints."""
    begin = (
        f"import sys; sys.path.insert(0, {str(root)!r}); from pathlib import Path; from broker import start"
    )
    where = f"start.ROOT, start.BUILDS = Path({str(root)!r}), Path({str(builds)!r})"
    (root / "broker" / "start.py").write_bytes(Path(start.__file__).read_bytes())
    os.utime(root / "broker" / "start.py", ns=(0, 0))
    command = (sys.executable, "-B", "-P", "-c", f"{begin}; {where}; start.main()")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_the_build_of_these_sources_runs(root: Path, builds: Path) -> None:
    assert weir(root, builds) == "sources"
    make(root, builds)
    assert weir(root, builds) == "build"


def test_no_build_runs_beside_a_changed_source(root: Path, builds: Path) -> None:
    assert weir(root, builds) == "sources"
    make(root, builds, "first")
    (root / SOURCE).write_text("KIND = 'edited!'\n")
    assert weir(root, builds) == "edited!"
    make(root, builds, "second")
    assert weir(root, builds) == "second"


def test_a_variable_turns_builds_off(root: Path, builds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert weir(root, builds) == "sources"
    make(root, builds)
    monkeypatch.setenv("WEIR_BUILD", "no")
    assert weir(root, builds) == "sources"
    monkeypatch.setenv("WEIR_BUILD", "yes")
    assert weir(root, builds) == "build"


def test_modules_that_were_compiled_beside_their_sources_come_first(root: Path, builds: Path) -> None:
    assert weir(root, builds) == "sources"
    make(root, builds)
    assert is_checkout(root)
    (root / "broker" / "server" / "compiled.cpython-311.so").touch()
    assert not is_checkout(root)
    assert weir(root, builds) == "sources"


def test_what_is_installed_has_no_builds(root: Path) -> None:
    (root / "setup.py").unlink()
    assert not is_checkout(root)


@pytest.mark.parametrize("name", ["pyproject.toml", "setup.py", "requirements/compile.txt", SOURCE])
@pytest.mark.parametrize("change_ns", [-1_000, 0, 1_000])
def test_the_signature_has_the_times_of_what_is_compiled(root: Path, name: str, change_ns: int) -> None:
    before, found = signature(root), os.stat(root / name)
    os.utime(root / name, ns=(found.st_atime_ns, found.st_mtime_ns + change_ns))
    assert (signature(root) == before) is (change_ns == 0)


def larger(root: Path) -> None:
    found = os.stat(root / SOURCE)
    (root / SOURCE).write_text("KIND = 'another size'\n")
    os.utime(root / SOURCE, ns=(found.st_atime_ns, found.st_mtime_ns))


@pytest.mark.parametrize(
    "change",
    [
        larger,
        lambda root: (root / SOURCE).unlink(),
        lambda root: (root / SOURCE).rename(root / "broker" / "server" / "kind.py"),
        lambda root: (root / "broker" / "server" / "new.py").touch(),
    ],
)
def test_the_signature_has_names_and_sizes(root: Path, change: Callable[[Path], None]) -> None:
    before = signature(root)
    change(root)
    assert signature(root) != before


def test_the_signature_has_nothing_else(root: Path) -> None:
    before = signature(root)
    (root / "broker" / "__pycache__").mkdir()
    (root / "broker" / "__pycache__" / "kind.py").touch()
    (root / "broker" / "schema.json").touch()
    (root / "README.md").write_text("Weir")
    assert signature(root) == before


def test_the_python_is_part_of_the_signature(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signature(root)
    monkeypatch.setattr(sys, "version", "4.0")
    assert signature(root) != before


def test_a_build_that_is_removed_is_not_used(root: Path, builds: Path) -> None:
    assert weir(root, builds) == "sources"
    made = make(root, builds)
    lock = hold(made, fcntl.LOCK_EX)
    assert lock is not None
    assert weir(root, builds) == "sources"
    os.close(lock)
    assert weir(root, builds) == "build"


def test_the_version_says_why_it_is_interpreted(
    root: Path, builds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "missing_tool", lambda: None)
    assert why_interpreted(root, builds) == "`make run` compiles it"
    with building(builds):
        assert why_interpreted(root, builds) == "it is being compiled"
    assert "the last build has not ended" in why_interpreted(root, builds)
    make(root, builds)
    (root / SOURCE).write_text("")
    assert "the sources have changed" in why_interpreted(root, builds)
    monkeypatch.setattr(start, "missing_tool", lambda: "there is no C compiler (cc)")
    assert why_interpreted(root, builds).startswith("there is no C compiler (cc), so ")
    monkeypatch.setenv("WEIR_BUILD", "no")
    assert why_interpreted(root, builds) == "WEIR_BUILD=no"
    (root / "setup.py").unlink()
    assert why_interpreted(root, builds) == "installed without compiled modules"


def test_a_missing_compiler_and_missing_headers_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", str(tmp_path / "cc") + " -pthread")
    assert start.missing_tool() == f"there is no C compiler ({tmp_path / 'cc'})"
    monkeypatch.setenv("CC", sys.executable)
    monkeypatch.setattr(start.sysconfig, "get_path", lambda _name: str(tmp_path))
    assert start.missing_tool() == "Python's headers are missing"
    (tmp_path / "Python.h").touch()
    assert start.missing_tool() is None

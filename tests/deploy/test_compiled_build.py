"""A build appears when it is complete; one is made at a time, and a killed one leaves nothing in the way."""

import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Never

import pytest

from broker import start
from broker.start import hold, signature
from deploy import compiled_build
from deploy.compiled_build import NEEDED_KB, UNFINISHED, BuildFailedError, build, building, copy_sources
from tests.support.small_checkout import compiled_as, small_checkout

compile_it = partial(compiled_as, "build")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return small_checkout(tmp_path / "checkout")


@pytest.fixture
def builds(tmp_path: Path) -> Path:
    return tmp_path / "builds"


def is_built(root: Path, builds: Path) -> bool:
    return (builds / signature(root)).exists()


def folders(builds: Path) -> set[str]:
    return {path.name for path in builds.iterdir() if path.is_dir()}


def test_a_build_has_the_package_and_its_lock_only(root: Path, builds: Path) -> None:
    assert not is_built(root, builds)
    with building(builds):
        made = build(root, builds, compile_it)
    assert made == builds / signature(root) and is_built(root, builds)
    assert {path.name for path in made.iterdir()} == {"broker", "lock"}
    assert (made / "broker" / "kind.py").read_text() == "KIND = 'build'\n"
    assert (root / "broker" / "kind.py").read_text() == "KIND = 'sources'\n"


def test_nothing_is_built_if_it_cannot_be_compiled(root: Path, builds: Path) -> None:
    def fail(copy: Path) -> Never:
        compile_it(copy)
        raise OSError("no space left")

    with building(builds), pytest.raises(OSError, match="no space left"):
        build(root, builds, fail)
    assert not is_built(root, builds)
    with building(builds):
        assert build(root, builds, compile_it) is not None
    assert folders(builds) == {signature(root)}


def test_one_process_builds_at_a_time_and_a_killed_one_is_none(root: Path, builds: Path) -> None:
    wait = (
        "import sys, time; from pathlib import Path; from deploy.compiled_build import build, building\n"
        f"with building(Path({str(builds)!r})) as is_alone:\n"
        "    assert is_alone\n"
        "    wait = lambda copy: (print('building', flush=True), time.sleep(60))\n"
        f"    build(Path({str(root)!r}), Path({str(builds)!r}), wait)\n"
    )
    with subprocess.Popen([sys.executable, "-c", wait], stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None and first.stdout.readline() == "building\n"
        with building(builds) as is_alone:
            assert not is_alone
        first.send_signal(signal.SIGKILL)
    assert (builds / UNFINISHED).exists() and not is_built(root, builds)
    with building(builds) as is_alone:
        assert is_alone
        build(root, builds, compile_it)
    assert folders(builds) == {signature(root)}


def test_a_build_that_runs_is_kept(root: Path, builds: Path) -> None:
    with building(builds):
        old = build(root, builds, compile_it)
        assert old is not None
        used = hold(old)
        assert used is not None
        for size, kept in (("1", {old.name}), ("22", {old.name})):
            (root / "broker" / "kind.py").write_text(f"SIZE = {size}\n")
            build(root, builds, compile_it)
            assert folders(builds) == kept | {signature(root)}, "the one between is used by no process"
        compiled_build.os.close(used)
        (root / "broker" / "kind.py").write_text("SIZE = 333\n")
        build(root, builds, compile_it)
    assert folders(builds) == {signature(root)}


def test_sources_that_change_while_they_are_copied_are_copied_again(
    root: Path, builds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = iter(("a", "b", "b", "b"))
    monkeypatch.setattr(start, "signature", lambda _root: next(seen))
    assert copy_sources(root, builds / "copy") == "b"
    assert (builds / "copy" / "broker" / "kind.py").exists()
    changing = iter(range(100))
    monkeypatch.setattr(start, "signature", lambda _root: str(next(changing)))
    assert build(root, builds, compile_it) is None
    assert next(changing) == 2 * compiled_build.TORN


@pytest.fixture
def in_place(root: Path, builds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`main` builds the small checkout, with a compiler that is not there, and stays in this process."""
    monkeypatch.delenv("WEIR_BUILD")
    monkeypatch.setattr(start, "ROOT", root)
    monkeypatch.setattr(start, "BUILDS", builds)
    monkeypatch.setattr(start, "missing_tool", lambda: None)
    for name in ("_step_back", "_end_children"):
        monkeypatch.setattr(compiled_build, name, lambda *_: None)
    monkeypatch.setattr(compiled_build, "compile_in", compile_it)


@pytest.mark.usefixtures("in_place")
def test_one_line_says_that_it_builds_and_none_that_it_is_built(
    root: Path, builds: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled_build.main()
    (line,) = capsys.readouterr().err.splitlines()
    assert "compiles its hot modules in the background" in line and str(builds / "log") in line
    assert is_built(root, builds)
    compiled_build.main()
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("in_place")
def test_nothing_is_built_beside_another_build_or_where_it_is_off(
    root: Path, builds: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with building(builds):
        compiled_build.main()
    monkeypatch.setenv("WEIR_BUILD", "no")
    compiled_build.main()
    monkeypatch.delenv("WEIR_BUILD")
    (root / "broker" / "server" / "compiled.so").touch()
    (root / "broker" / "server" / "compiled.cpython-311.so").touch()
    compiled_build.main()
    assert capsys.readouterr().err == "" and folders(builds) == set()


@pytest.mark.usefixtures("in_place")
def test_a_build_that_failed_is_tried_again_when_the_sources_change(
    root: Path, builds: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_copy: Path) -> Never:
        raise BuildFailedError("an internal error of the compiler")

    monkeypatch.setattr(compiled_build, "compile_in", fail)
    with pytest.raises(BuildFailedError):
        compiled_build.main()
    capsys.readouterr()
    compiled_build.main()
    assert "the build of these sources failed, see" in capsys.readouterr().err
    assert "failed" in start.why_interpreted(root, builds)
    (root / "broker" / "kind.py").write_text("KIND = 'changed'\n")
    monkeypatch.setattr(compiled_build, "compile_in", compile_it)
    compiled_build.main()
    assert is_built(root, builds) and start.failed(builds) == ""


@pytest.mark.usefixtures("in_place")
def test_an_environment_that_cannot_be_made_is_tried_again(
    root: Path, builds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_copy: Path) -> Never:
        raise subprocess.CalledProcessError(2, "make")

    monkeypatch.setattr(compiled_build, "compile_in", fail)
    with pytest.raises(subprocess.CalledProcessError):
        compiled_build.main()
    monkeypatch.setattr(compiled_build, "compile_in", compile_it)
    compiled_build.main()
    assert is_built(root, builds)


@pytest.mark.usefixtures("in_place")
def test_a_folder_that_cannot_be_written_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(start, "BUILDS", tmp_path / "file" / "builds")
    compiled_build.main()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("Weir runs interpreted: ") and "Not a directory" in line


def test_builds_are_removed_but_the_one_in_use(
    root: Path, builds: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with building(builds):
        used = build(root, builds, compile_it)
    assert used is not None
    lock = hold(used)
    assert lock is not None
    compiled_build.remove(builds)
    assert folders(builds) == {used.name} and f"A process uses {used}" in capsys.readouterr().err
    compiled_build.os.close(lock)
    compiled_build.remove(builds)
    assert folders(builds) == set() and capsys.readouterr().err == ""


def test_a_source_that_goes_while_it_is_copied_is_no_error(
    root: Path, builds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = iter((FileNotFoundError("gone"), None))
    real = compiled_build._copy

    def copy(one: Path, other: Path) -> None:
        if (error := next(copies)) is not None:
            raise error
        real(one, other)

    monkeypatch.setattr(compiled_build, "_copy", copy)
    assert copy_sources(root, builds / "copy") == signature(root)


def test_an_interpreter_that_has_gone_has_no_version(tmp_path: Path) -> None:
    assert compiled_build.version_of(Path(sys.executable)) == sys.version
    (tmp_path / "python").symlink_to(tmp_path / "gone")
    assert compiled_build.version_of(tmp_path / "python") is None


@pytest.mark.usefixtures("in_place")
def test_what_is_missing_is_said(
    builds: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(start, "missing_tool", lambda: "Python's headers are missing")
    compiled_build.main()
    assert capsys.readouterr().err == "Weir runs interpreted: Python's headers are missing.\n"
    assert not builds.exists()


@pytest.mark.usefixtures("in_place")
@pytest.mark.parametrize(
    ("free_kb", "builds_it"), [(NEEDED_KB - 1, False), (NEEDED_KB, True), (NEEDED_KB + 1, True)]
)
def test_a_machine_without_memory_for_the_compiler_builds_nothing(
    root: Path,
    builds: Path,
    free_kb: int,
    builds_it: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(compiled_build, "_free_kb", lambda: free_kb)
    compiled_build.main()
    assert is_built(root, builds) is builds_it
    assert ("Weir runs interpreted" in capsys.readouterr().err) is not builds_it


def test_the_free_memory_of_this_machine_is_read() -> None:
    assert 10_000 < compiled_build._free_kb() < 10**10

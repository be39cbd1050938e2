"""Records, indexes and checkpoints are readable by the broker's user and group only."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.log.directories import tighten
from tests.log.harness import fill, make, open_store


@pytest.fixture(params=[0o000, 0o022, 0o027, 0o077], ids=lambda umask: f"umask-{umask:04o}")
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield int(request.param)
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def modes(directory: Path) -> tuple[set[int], set[int]]:
    """Return the modes of all folders, including the log directory, and of all files."""
    entries = list(directory.rglob("*"))
    folders = {mode(each) for each in (directory, *entries) if each.is_dir()}
    return folders, {mode(each) for each in entries if each.is_file()}


def written(where: Path) -> None:
    """Write every kind of file of the log: segments, indexes, snapshots, checkpoints, markers."""
    store, _ = open_store(where)
    log = make(store, segment_bytes=1_000)
    fill(log, 40)
    log.delete_records_before(15)
    assert store.close() == []


def test_files_are_0640_and_folders_0750_at_most_whatever_the_umask(where: Path, umask: int) -> None:
    written(where)
    assert len(list(where.rglob("*.log"))) > 1 and len(list(where.rglob("*checkpoint"))) >= 2
    assert modes(where) == ({0o750 & ~umask}, {0o640 & ~umask})


def open_to_all(where: Path) -> None:
    """Set modes as an earlier version left them under umask 0022, in a folder created by the operator."""
    for each in (where, *where.rglob("*")):
        each.chmod(0o755 if each.is_dir() else 0o644)


def test_a_start_takes_the_rights_of_others_from_an_old_data_directory(where: Path) -> None:
    written(where)
    open_to_all(where)
    entries = len(list(where.rglob("*")))
    store, recovery = open_store(where)
    (exposure,) = recovery.exposed
    # The start removes one marker.
    assert exposure.tightened >= entries - 1 and exposure.error is None
    assert exposure.mode == 0o755
    folders, files = modes(where)
    assert (folders, files) == ({0o755, 0o750}, {0o640}) and mode(where) == 0o755, (
        "the directory itself is told"
    )
    assert store.close() == []
    again, recovery = open_store(where)
    assert [each.tightened for each in recovery.exposed] == [0], "once"
    again.close()


def test_a_private_directory_is_not_reported(where: Path) -> None:
    written(where)
    where.chmod(0o750)
    store, recovery = open_store(where)
    assert recovery.exposed == []
    store.close()


@pytest.mark.parametrize("others", [0o001, 0o002, 0o004])
def test_each_right_of_others_on_the_directory_is_reported(tmp_path: Path, others: int) -> None:
    tmp_path.chmod(0o750 | others)
    assert tighten(str(tmp_path)).mode == 0o750 | others
    tmp_path.chmod(0o770)
    assert not tighten(str(tmp_path))


@pytest.mark.parametrize(
    ("before", "after"), [(0o640, 0o640), (0o644, 0o640), (0o660, 0o640), (0o600, 0o600)]
)
def test_rights_are_taken_and_never_given(tmp_path: Path, before: int, after: int) -> None:
    folder = tmp_path / "events-0"
    folder.mkdir(0o700)
    file = folder / "00000000000000000000.log"
    file.touch()
    file.chmod(before)
    exposure = tighten(str(tmp_path))
    assert mode(file) == after and exposure.tightened == (before != after)
    assert mode(folder) == 0o700


@pytest.mark.parametrize(
    "name", ["events-0.0123456789abcdef0123456789abcdef-delete", "x.0-stray", "y.0-future"]
)
def test_folders_that_were_put_aside_are_private_too(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    folder.chmod(0o755)
    (folder / "a.log").touch()
    (folder / "a.log").chmod(0o644)
    assert tighten(str(tmp_path)).tightened == 2
    assert (mode(folder), mode(folder / "a.log")) == (0o750, 0o640)


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "home"
    other.mkdir()
    (tmp_path / "notes.txt").touch()
    (tmp_path / "events-0").mkdir(0o750)
    (tmp_path / "elsewhere").touch()
    (tmp_path / "events-0" / "link.log").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "events-1").symlink_to(other)
    for each in (other, tmp_path / "notes.txt", tmp_path / "elsewhere"):
        each.chmod(0o777)
    assert tighten(str(tmp_path)).tightened == 0
    assert {mode(each) for each in (other, tmp_path / "notes.txt", tmp_path / "elsewhere")} == {0o777}


def test_a_file_whose_mode_cannot_be_changed_is_reported_and_the_rest_is_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "events-0"
    folder.mkdir(0o750)
    for name in ("a.log", "b.log"):
        (folder / name).touch()
        (folder / name).chmod(0o644)
    chmod = os.chmod

    def refused(path: str, mode: int) -> None:
        if path.endswith("a.log"):
            raise PermissionError(1, "Operation not permitted", path)
        chmod(path, mode)

    monkeypatch.setattr(os, "chmod", refused)
    exposure = tighten(str(tmp_path))
    assert exposure.tightened == 1 and str(folder / "a.log") in str(exposure.error)
    assert (mode(folder / "a.log"), mode(folder / "b.log")) == (0o644, 0o640)

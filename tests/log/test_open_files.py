"""Out of descriptors: files are closed until one can be opened, and the limit is lowered for a while."""

import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.config.sections.log import LogConfig
from broker.log.disk import MIN_OPEN_FILES, OpenFiles
from broker.log.store import LogStore
from tests.log.harness import append, batch, bytes_from, make, open_store


class Kernel:
    """Allows at most `most` open files of the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.most = 1_000
        self.number = errno.EMFILE
        self.open_fds: set[int] = set()
        self._open, self._close = os.open, os.close
        monkeypatch.setattr(os, "open", self.open)
        monkeypatch.setattr(os, "close", self.close)

    def open(self, *arguments: object, **named: object) -> int:
        if len(self.open_fds) >= self.most:
            raise OSError(self.number, os.strerror(self.number))
        fd = self._open(*arguments, **named)  # type: ignore[arg-type]
        self.open_fds.add(fd)
        return fd

    def close(self, fd: int) -> None:
        self.open_fds.discard(fd)
        self._close(fd)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    yield Kernel(monkeypatch)
    monkeypatch.undo()


def paths(where: Path, count: int) -> list[str]:
    made = [where / str(number) for number in range(count)]
    for path in made:
        path.touch()
    return [str(path) for path in made]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_half_of_the_files_are_let_go_when_no_descriptor_is_left(
    tmp_path: Path, kernel: Kernel, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    kernel.number = number
    files = OpenFiles(100)
    wanted = paths(tmp_path, 60)
    kernel.most = 40
    for path in wanted:
        files.get(path)
    assert files.capacity == 20 and len(files) == 20 and len(kernel.open_fds) == 20
    assert len([each for each in caplog.records if "out of file descriptors" in each.message]) == 1
    assert files.get(wanted[0]).fd in kernel.open_fds


def test_descriptors_that_readers_hold_do_not_stop_it_until_none_is_left_to_let_go(
    tmp_path: Path, kernel: Kernel, caplog: pytest.LogCaptureFixture
) -> None:
    files = OpenFiles(100)
    wanted = paths(tmp_path, 60)
    lent = [files.get(path) for path in wanted[:30]]
    files.clear()
    kernel.most = 31
    for _ in range(2):
        for path in wanted[30:]:
            files.get(path)
    assert (files.capacity, len(files)) == (MIN_OPEN_FILES, 1)
    kernel.most = 30
    files.clear()
    with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
        files.get(wanted[40])
    lent.pop()
    assert files.get(wanted[40])
    assert len([each for each in caplog.records if "out of file descriptors" in each.message]) == 1


def test_an_error_that_is_not_about_descriptors_lets_nothing_go(tmp_path: Path) -> None:
    files = OpenFiles(100)
    for path in paths(tmp_path, 20):
        files.get(path)
    with pytest.raises(FileNotFoundError):
        files.get(str(tmp_path / "missing"))
    assert (len(files), files.capacity) == (20, 100)


def test_it_recovers_to_what_it_began_with(tmp_path: Path, kernel: Kernel) -> None:
    files = OpenFiles(50)
    kernel.most = 32
    for path in paths(tmp_path, 33):
        files.get(path)
    grown = [files.capacity]
    for _ in range(3):
        files.recover()
        grown.append(files.capacity)
    assert grown == [16, 32, 50, 50]


@pytest.mark.parametrize(("descriptors", "most"), [(None, 512), (1_024, 512), (1_023, 511), (64, 32)])
def test_segments_get_at_most_half_of_the_descriptors(
    tmp_path: Path, descriptors: int | None, most: int
) -> None:
    assert LogStore(LogConfig(dirs=(str(tmp_path),)), descriptors).max_open_files == most


def test_partitions_are_made_written_and_read_with_hardly_any_descriptor(tmp_path: Path) -> None:
    store, _ = open_store(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_now = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 12, hard))
    try:
        logs = [make(store, index=index) for index in range(100)]
        for log in logs:
            append(log, batch(b"a"))
        assert all(bytes_from(log, 0) for log in logs)
        assert all(log.offline is None for log in logs)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    store.close()

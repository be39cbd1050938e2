"""An unreadable segment takes its partition offline, however it is found: by a reader, a lookup, retention,
or a slice on its way to a socket.
"""

import errno
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.common.errors import ApiError, ErrorCode, UnreadableRegion
from broker.common.slices import run_through
from broker.log import disk
from broker.log.partition import PartitionLog
from broker.log.slice import READ_AHEAD
from broker.log.store import LogStore
from tests.log.harness import NOW, append, fill, log_files, make, open_store, sized

Use = Callable[[PartitionLog], object]


@pytest.fixture
def reopened(where: Path) -> Iterator[LogStore]:
    """Reopen two partitions with records after a clean stop.

    The start has read the first segment of one partition and closed it again; then a directory replaces it.
    """
    store, _ = open_store(where)
    for index in range(2):
        log = make(store, index=index)
        fill(log, 3)
        log.roll()
        fill(log, 3)
    store.close()
    store, recovery = open_store(where, max_open_files=1)
    assert not recovery.unclean
    (broken, *_) = log_files(where)
    broken.unlink()
    broken.mkdir()
    yield store
    store.close()


USES: dict[str, Use] = {
    "read": lambda log: log.read(0, 1_000, min_one_batch=True),
    "lookup by time": lambda log: run_through(log.offset_for_timestamp(NOW)),
    "newest record": lambda log: run_through(log.max_timestamp()),
    "retention": lambda log: log.retire(NOW),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_an_unreadable_segment_met_after_a_clean_start_takes_its_partition_offline(
    reopened: LogStore, use: Use
) -> None:
    broken, well = make(reopened, index=0), make(reopened, index=1)
    reported: list[object] = []
    reopened.on_offline(reported.append)
    with pytest.raises(ApiError) as refused:
        use(broken)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert broken.offline is not None and reported == [broken] and list(reopened.offline) == [broken]
    with pytest.raises(ApiError) as refused:
        broken.stage(sized(100), now_wall_ms=NOW)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert well.read(0, 1_000, min_one_batch=True)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_lack_of_descriptors_or_memory_takes_nothing_offline(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    fill(log, 1)

    def refuse(*_: object, **__: object) -> object:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(disk.OpenFiles, "get", refuse)
        with pytest.raises(ApiError) as refused:
            log.read(0, 1_000, min_one_batch=True)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR and log.offline is None
    assert log.read(0, 1_000, min_one_batch=True)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


def shortened(log: PartitionLog, size: int) -> None:
    """Truncate the file from outside, so that its later bytes cannot be read."""
    os.truncate(log.segments[-1].path, size)


@pytest.mark.parametrize("transfer", ["sendfile", "mmap"])
@pytest.mark.parametrize("size", [200, 400_000])
@pytest.mark.parametrize("how", ["send_to", "piece", "read"])
def test_a_slice_that_cannot_be_read_takes_its_partition_offline_and_is_counted(
    where: Path, pair: tuple[socket.socket, socket.socket], transfer: str, size: int, how: str
) -> None:
    store, _ = open_store(where, transfer=transfer)
    log, well = make(store), make(store, index=1)
    append(log, sized(size))
    fill(well, 1)
    lent = log.read(0, size, min_one_batch=True)
    shortened(log, 0)
    if how == "piece" and size > 200 and transfer == "sendfile":
        assert lent.piece() is None
        how = "send_to"
    with pytest.raises(UnreadableRegion, match="truncated"):
        {"send_to": lambda: lent.send_to(pair[0]), "piece": lent.piece, "read": lent.read}[how]()
    assert log.offline is not None and log.metrics.failed_reads == 1
    assert well.offline is None and well.metrics.failed_reads == 0
    with pytest.raises(ApiError) as refused:
        log.read(0, size, min_one_batch=True)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    store.close()


@pytest.mark.parametrize("transfer", ["sendfile", "mmap"])
@pytest.mark.parametrize("size", [200, 400_000])
def test_a_cold_read_of_a_truncated_file_is_refused_before_anything_is_promised(
    where: Path, transfer: str, size: int
) -> None:
    store, _ = open_store(where)
    log = make(store)
    append(log, sized(size))
    append(log, sized(size))
    store.close()
    store, _ = open_store(where, transfer=transfer)
    log, well = make(store), make(store, index=1)
    fill(well, 1)
    shortened(log, size + 150)
    with pytest.raises(ApiError) as refused:
        log.read(1, size, min_one_batch=True)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.offline is not None and well.offline is None
    store.close()


@pytest.mark.parametrize(
    ("broken_at", "is_refused"),
    [(0, True), (700_000, True), (READ_AHEAD - 1, True), (READ_AHEAD, False), (READ_AHEAD + 1, False)],
)
@pytest.mark.parametrize("is_remembered", [False, True])
def test_a_read_of_what_is_not_cached_promises_the_mebibyte_that_it_has_read(
    where: Path, monkeypatch: pytest.MonkeyPatch, broken_at: int, is_refused: bool, is_remembered: bool
) -> None:
    """The page cache is empty, and the disk fails for one byte.

    An offset that was just appended behaves the same.
    """

    def read_into(_file: disk.OpenFile, view: memoryview, position: int) -> None:
        if position <= broken_at < position + len(view):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    store, _ = open_store(where)
    log = make(store)
    append(log, sized(READ_AHEAD), sized(READ_AHEAD))
    if not is_remembered:
        log._forget_positions()
    monkeypatch.setattr(disk, "is_cached", lambda _file, _position: False)
    monkeypatch.setattr(disk, "read_into", read_into)
    if is_refused:
        with pytest.raises(ApiError) as refused:
            log.read(0, 2 * READ_AHEAD, min_one_batch=True)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    else:
        assert len(log.read(0, 2 * READ_AHEAD, min_one_batch=True)) == READ_AHEAD
    assert (log.offline is not None) is is_refused
    monkeypatch.undo()
    store.close()


@pytest.mark.parametrize("cached", [True, None])
def test_records_that_are_cached_are_not_read_beforehand(
    where: Path, monkeypatch: pytest.MonkeyPatch, cached: bool | None
) -> None:
    """None: the file system cannot tell."""
    looks: list[int] = []

    def is_cached(_file: disk.OpenFile, position: int) -> bool | None:
        looks.append(position)
        return cached

    def refuse(*_: object) -> None:
        pytest.fail("it was read")

    store, _ = open_store(where)
    log = make(store)
    append(log, sized(600_000))
    monkeypatch.setattr(disk, "is_cached", is_cached)
    monkeypatch.setattr(disk, "read_into", refuse)
    for _ in range(2):
        log.read(0, 600_000, min_one_batch=True)
        assert looks == [0, 262_144, 524_288, 599_999]
        looks.clear()
        log._forget_positions()
    monkeypatch.undo()
    store.close()


@pytest.mark.parametrize(("size", "looks"), [(65_535, []), (65_536, []), (65_537, [0, 65_536])])
def test_a_small_slice_of_a_remembered_offset_is_not_looked_at(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch, size: int, looks: list[int]
) -> None:
    """It is copied before the first byte of its response is sent."""
    looked: list[int] = []

    def is_cached(_file: disk.OpenFile, position: int) -> bool:
        looked.append(position)
        return True

    append(log, sized(size))
    monkeypatch.setattr(disk, "is_cached", is_cached)
    assert len(log.read(0, size, min_one_batch=True)) == size
    assert looked == looks


@pytest.mark.parametrize(("size", "looks"), [(65_535, [65_534]), (65_536, [65_535]), (65_537, [0, 65_536])])
def test_a_small_slice_that_must_be_found_is_looked_at_once(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch, size: int, looks: list[int]
) -> None:
    """Finding it has read its first bytes; the kernel reads the others in the same run."""
    looked: list[int] = []

    def is_cached(_file: disk.OpenFile, position: int) -> bool:
        looked.append(position)
        return True

    append(log, sized(size))
    log._forget_positions()
    monkeypatch.setattr(disk, "is_cached", is_cached)
    assert len(log.read(0, size, min_one_batch=True)) == size
    assert looked == looks


@pytest.mark.parametrize(
    ("cached_to", "promised"),
    [
        (0, READ_AHEAD),
        (262_143, READ_AHEAD),
        (262_144, 262_144 + READ_AHEAD),
        (2_000_000, 7 * 262_144 + READ_AHEAD),
        (2_999_999, 3_000_000),
    ],
)
def test_promised_bytes_end_a_mebibyte_behind_cached_ones(
    where: Path, monkeypatch: pytest.MonkeyPatch, cached_to: int, promised: int
) -> None:
    store, _ = open_store(where)
    log = make(store)
    append(log, *(sized(100_000) for _ in range(30)))
    monkeypatch.setattr(disk, "is_cached", lambda _file, position: position <= cached_to)
    assert len(log.read(0, 3_000_000, min_one_batch=True)) == promised
    monkeypatch.undo()
    store.close()


@pytest.mark.parametrize("size", [READ_AHEAD - 1, READ_AHEAD, READ_AHEAD + 1])
def test_the_first_batch_is_promised_whole(where: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """A consumer cannot continue after a partial batch."""
    store, _ = open_store(where)
    log = make(store)
    append(log, sized(size), sized(READ_AHEAD))
    monkeypatch.setattr(disk, "is_cached", lambda _file, _position: False)
    assert len(log.read(0, 10 * READ_AHEAD, min_one_batch=True)) == max(size, READ_AHEAD)
    monkeypatch.undo()
    store.close()


@pytest.mark.parametrize(
    ("number", "is_ours"),
    [
        (errno.EFAULT, True),
        (errno.EIO, True),
        (errno.EPIPE, False),
        (errno.ECONNRESET, False),
        (errno.ETIMEDOUT, False),
        (errno.EAGAIN, False),
        (errno.ENOMEM, False),
    ],
)
def test_an_error_of_the_socket_takes_nothing_offline(log: PartitionLog, number: int, is_ours: bool) -> None:
    fill(log, 1)
    log.read(0, 1_000, min_one_batch=True).failed(OSError(number, os.strerror(number)))
    assert (log.offline is not None) is is_ours


def test_a_reader_that_hangs_up_takes_nothing_offline(
    log: PartitionLog, pair: tuple[socket.socket, socket.socket]
) -> None:
    append(log, sized(400_000))
    lent = log.read(0, 400_000, min_one_batch=True)
    pair[1].close()
    with pytest.raises(BrokenPipeError):
        lent.send_to(pair[0])
    assert log.offline is None and log.metrics.failed_reads == 0

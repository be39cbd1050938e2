"""Sending bytes from the page cache to a socket: every byte arrives once, and little is mapped."""

import errno
import mmap
import os
import socket

import pytest

from broker.log.disk import OpenFile
from broker.log.slice import EMPTY, MAX_COPIED_BYTES, WINDOW_BYTES, FileSlice, MappedWindows, Sendfile
from tests.log.harness import append, make, open_store, sized

CONTENT = os.urandom(65_536) * 640
"""40 MB: two windows and a half."""
BUDGET = 64 * 1_048_576


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> OpenFile:
    path = tmp_path_factory.mktemp("slices") / "segment"
    path.write_bytes(CONTENT)
    return OpenFile(os.open(path, os.O_RDWR))


@pytest.fixture(params=["mmap", "sendfile"])
def transfer(request):
    made = MappedWindows(BUDGET) if request.param == "mmap" else Sendfile()
    yield made
    made.close()


@pytest.fixture
def pair():
    """A non-blocking socket, and the socket that receives its bytes."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    yield ours, theirs
    ours.close()
    theirs.close()


def drain(theirs: socket.socket) -> bytes:
    pieces = []
    try:
        while piece := theirs.recv(1 << 20):
            pieces.append(piece)
    except BlockingIOError:
        pass
    return b"".join(pieces)


def send_all(lent: FileSlice, pair) -> bytes:
    ours, theirs = pair
    arrived = []
    while lent.remaining:
        before = lent.remaining
        try:
            sent = lent.send_to(ours)
            assert sent > 0 and lent.remaining == len(lent) == before - sent
        except BlockingIOError:
            assert lent.remaining == before
            arrived.append(drain(theirs))
    arrived.append(drain(theirs))
    return b"".join(arrived)


@pytest.mark.parametrize(
    ("position", "length"),
    [
        (0, 1),
        (4_095, 2),
        (12_345, 65_535),
        (12_345, 65_536),
        (12_345, MAX_COPIED_BYTES),
        (12_345, MAX_COPIED_BYTES + 1),
        (1, 262_143),
        (1, 262_144),
        (999, 1_048_576),
        (WINDOW_BYTES - 1, 2),
        (WINDOW_BYTES - 500_000, 1_000_000),
        (WINDOW_BYTES - 10, WINDOW_BYTES + 20),
        (len(CONTENT) - 1_000_000, 1_000_000),
    ],
)
def test_exactly_the_slice_arrives(file, transfer, pair, position, length):
    lent = FileSlice(file, position, length, transfer)
    wanted = CONTENT[position : position + length]
    assert lent.read() == wanted
    assert send_all(lent, pair) == wanted
    assert lent.send_to(pair[0]) == 0 and not lent and lent.read() == b""


@pytest.mark.parametrize(
    "length", [1, 65_535, 65_536, MAX_COPIED_BYTES, MAX_COPIED_BYTES + 1, 262_144, 1_048_576]
)
def test_a_piece_is_the_beginning_of_what_is_left(file, transfer, length):
    lent = FileSlice(file, 777, length, transfer)
    piece = lent.piece()
    if piece is not None:
        assert piece == CONTENT[777 : 777 + len(piece)]
        lent.advance(len(piece))
        assert lent.read() == CONTENT[777 + len(piece) : 777 + length]
        piece.release()


def test_a_full_socket_is_reported_once_nothing_goes(file, transfer, pair):
    lent = FileSlice(file, 0, 20_000_000, transfer)
    while lent.remaining:
        try:
            lent.send_to(pair[0])
        except BlockingIOError:
            break
    assert 0 < lent.remaining < 20_000_000
    with pytest.raises(BlockingIOError):
        lent.send_to(pair[0])


def test_a_broken_connection_is_an_error(file, transfer, pair):
    pair[1].close()
    with pytest.raises(BrokenPipeError):
        FileSlice(file, 0, 1_000_000, transfer).send_to(pair[0])


def test_an_empty_slice_sends_nothing(pair):
    assert not EMPTY and len(EMPTY) == 0 and EMPTY.read() == b"" and EMPTY.send_to(pair[0]) == 0


def test_no_more_than_the_budget_is_mapped(file, pair):
    windows = MappedWindows(WINDOW_BYTES)
    for position in range(0, len(CONTENT) - 1_000_000, 5_000_000):
        send_all(FileSlice(file, position, 1_000_000, windows), pair)
        assert 0 < windows.mapped_bytes <= WINDOW_BYTES
    windows.close()
    assert windows.mapped_bytes == 0


def test_a_window_is_mapped_once_for_many_slices(file, pair, monkeypatch):
    windows = MappedWindows(BUDGET)
    send_all(FileSlice(file, 0, 1_000_000, windows), pair)
    monkeypatch.setattr("mmap.mmap", None)
    send_all(FileSlice(file, 3_000_000, 1_000_000, windows), pair)
    send_all(FileSlice(file, 1_000, 70_000, windows), pair)
    windows.close()


def test_a_window_follows_the_growth_of_its_file(tmp_path, pair):
    path = tmp_path / "growing"
    path.write_bytes(CONTENT[:300_000])
    file = OpenFile(os.open(path, os.O_RDWR))
    windows = MappedWindows(BUDGET)
    assert send_all(FileSlice(file, 0, 300_000, windows), pair) == CONTENT[:300_000]
    os.pwrite(file.fd, CONTENT[300_000:900_000], 300_000)
    assert send_all(FileSlice(file, 290_000, 600_000, windows), pair) == CONTENT[290_000:890_000]
    assert windows.mapped_bytes == 900_000
    windows.close()


def test_a_window_that_is_still_referenced_does_no_harm(file):
    windows = MappedWindows(WINDOW_BYTES)
    piece = FileSlice(file, 0, 1_000_000, windows).piece()
    other = FileSlice(file, WINDOW_BYTES, 1_000_000, windows).piece()
    assert piece[:10] == CONTENT[:10]
    windows.close()
    assert other[:10] == CONTENT[WINDOW_BYTES : WINDOW_BYTES + 10]
    piece.release()
    other.release()


@pytest.mark.parametrize("length", [1_000, 100_000, 200_000, 1_000_000])
def test_a_file_that_is_too_short_is_an_error_and_no_signal(tmp_path, transfer, pair, length):
    path = tmp_path / "short"
    path.write_bytes(CONTENT[: length - 1])
    file = OpenFile(os.open(path, os.O_RDWR))
    lent = FileSlice(file, 0, length, transfer)
    with pytest.raises(OSError, match="truncated"):
        send_all(lent, pair)
    with pytest.raises(OSError, match="truncated"):
        send_all(FileSlice(file, length + 10_000, length, transfer), pair)


def test_bytes_outlive_their_file(tmp_path, transfer, pair):
    path = tmp_path / "segment"
    path.write_bytes(CONTENT[:2_000_000])
    lent = FileSlice(OpenFile(os.open(path, os.O_RDWR)), 0, 2_000_000, transfer)
    path.unlink()
    assert send_all(lent, pair) == CONTENT[:2_000_000]


@pytest.mark.parametrize("way", ["mmap", "sendfile"])
def test_a_log_s_slices_arrive(tmp_path, pair, way):
    store, _ = open_store(tmp_path, transfer=way)
    log = make(store, segment_bytes=3_000_000)
    made = [sized(700_000) for _ in range(10)]
    append(log, *made)
    for offset in range(10):
        lent = log.read(offset, 1_500_000, min_one_batch=True)
        in_segment = made[offset : offset // 4 * 4 + 4]
        assert send_all(lent, pair) == b"".join(in_segment)[:1_500_000]
    store.close()


def test_just_written_bytes_can_be_read_without_the_disk(file, transfer):
    assert FileSlice(file, 0, len(CONTENT), transfer).is_cached() in (True, None)  # None: a tmpfs cannot tell
    assert EMPTY.is_cached() is True


@pytest.mark.parametrize(
    ("missing", "cached"), [((), True), ((100,), False), ((199,), False), ((99, 150, 200), True)]
)
def test_a_slice_needs_the_disk_if_its_first_or_its_last_byte_does(
    file, transfer, monkeypatch, missing, cached
):
    def preadv(_fd, _buffers, position, flags):
        assert flags == os.RWF_NOWAIT
        if position in missing:
            raise BlockingIOError
        return 1

    monkeypatch.setattr(os, "preadv", preadv)
    assert FileSlice(file, 100, 100, transfer).is_cached() is cached


def test_bytes_beyond_the_end_of_a_file_are_not_cached(tmp_path, transfer):
    path = tmp_path / "short"
    path.write_bytes(CONTENT[:1_000])
    file = OpenFile(os.open(path, os.O_RDWR))
    assert FileSlice(file, 0, 1_000, transfer).is_cached() in (True, None)
    assert FileSlice(file, 0, 1_001, transfer).is_cached() in (False, None)


@pytest.mark.parametrize("length", [1_000, 300_000, 3_000_000])
def test_a_slice_that_is_copied_maps_nothing(file, transfer, length):
    lent = FileSlice(file, 0, length, transfer)
    lent.copies()
    piece = lent.piece()
    assert (piece is None) is (length > MAX_COPIED_BYTES)
    if piece is not None:
        assert not isinstance(piece.obj, mmap.mmap)
    if isinstance(transfer, MappedWindows):
        assert transfer.mapped_bytes == 0


@pytest.mark.parametrize(
    ("error", "cached"), [(errno.EOPNOTSUPP, None), (errno.EINVAL, None), (errno.EIO, False)]
)
def test_a_file_system_that_does_not_say_is_not_taken_at_its_word(file, transfer, monkeypatch, error, cached):
    def preadv(*_arguments):
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "preadv", preadv)
    assert FileSlice(file, 0, 10, transfer).is_cached() is cached

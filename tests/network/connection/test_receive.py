"""Framing: whole, byte by byte and in random chunks agree; sizes just below, at and above the limit."""

import contextlib
import random
import re
import socket
import struct
from collections.abc import Iterator
from mmap import mmap
from typing import Any

import pytest

from broker.common.errors import ProtocolViolation
from broker.network.connection.frame_pool import TRUSTED_FRAME, FramePool
from broker.network.connection.receive import MAX_AT_ONCE, SCRATCH_BYTES, EndOfStream, Receive
from tests.support.resident import resident_bytes

LIMIT = 300_000


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def new_receive(limit: int = LIMIT, pool: FramePool | None = None) -> Receive:
    return Receive(limit, memoryview(bytearray(SCRATCH_BYTES)), pool or FramePool())


def drain(receive: Receive, ours: socket.socket) -> None:
    while receive.read(ours) is None:
        pass


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def feed(receive: Receive, ours: socket.socket, theirs: socket.socket, chunks: list[bytes]) -> list[bytes]:
    """Every frame that comes out when `chunks` arrive one after the other."""
    frames = []
    for chunk in chunks:
        view = memoryview(chunk)
        while view:
            theirs.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                view = view[theirs.send(view) :]
            while (frame := receive.read(ours)) is not None:
                frames.append(bytes(frame))
                while (again := receive.next_buffered()) is not None:
                    frames.append(bytes(again))
    return frames


BODIES = [
    b"",
    b"x",
    b"\0\0produce-like",
    bytes(range(256)) * 4,
    b"a" * 70_000,
    b"tail",
    b"b" * 200_000,
    b"end",
]


def test_whole_byte_by_byte_and_random_chunks_give_the_same_frames(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    stream = b"".join(map(framed, BODIES))
    small = b"".join(map(framed, BODIES[:4]))
    rng = random.Random(7)
    cuts = sorted(rng.sample(range(1, len(stream)), 40))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert feed(new_receive(), *pair, [stream]) == BODIES
    assert feed(new_receive(), *pair, pieces) == BODIES
    assert feed(new_receive(), *pair, [small[i : i + 1] for i in range(len(small))]) == BODIES[:4]


@pytest.mark.parametrize("size", [LIMIT - 1, LIMIT])
def test_a_frame_up_to_the_limit_is_read(pair: tuple[socket.socket, socket.socket], size: int) -> None:
    assert feed(new_receive(), *pair, [framed(bytes(size))]) == [bytes(size)]


@pytest.mark.parametrize("size", [LIMIT + 1, 2**31 - 1, -1, -(2**31)])
def test_a_size_above_the_limit_or_below_zero_is_a_violation(
    pair: tuple[socket.socket, socket.socket], size: int
) -> None:
    ours, theirs = pair
    theirs.sendall(struct.pack(">i", size) + b"whatever follows")
    kafkas = f"(size = {size})" if size < 0 else f"(size = {size} larger than {LIMIT})"
    with pytest.raises(ProtocolViolation, match=re.escape(kafkas)):
        new_receive().read(ours)


@pytest.mark.parametrize("greeting", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"])
def test_http_and_tls_are_refused_by_their_size(
    pair: tuple[socket.socket, socket.socket], greeting: bytes
) -> None:
    ours, theirs = pair
    theirs.sendall(greeting)
    with pytest.raises(ProtocolViolation):
        new_receive(limit=104_857_600).read(ours)


def test_the_end_of_the_stream_is_reported_also_within_a_frame(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    receive = new_receive()
    theirs.sendall(struct.pack(">i", 100_000) + bytes(70_000))
    theirs.close()
    assert receive.read(ours) is None
    with pytest.raises(EndOfStream):
        drain(receive, ours)


def test_a_large_announcement_that_is_not_sent_holds_a_small_buffer(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    pool = FramePool()
    receive = new_receive(limit=100_000_000, pool=pool)
    theirs.sendall(struct.pack(">i", 90_000_000) + b"\0")
    assert receive.read(ours) is None
    assert pool.outstanding == 131_072
    receive.close()
    assert pool.outstanding == 0


def test_a_referenced_buffer_is_not_reused() -> None:
    pool = FramePool()
    frame = memoryview(pool.take(100_000, 0))[:100_000]
    kept = frame[10:20]
    pool.release(frame)
    assert pool.idle_bytes == 0
    assert pool.take(100_000, 0) is not kept.obj


def test_an_unreferenced_buffer_is_reused() -> None:
    pool = FramePool()
    frame = pool.take(100_000, 0)
    pool.release(memoryview(frame)[:100_000])
    assert pool.idle_bytes == 131_072
    assert pool.take(90_000, 0) is frame
    assert pool.idle_bytes == 0


@pytest.mark.parametrize("size", [TRUSTED_FRAME - 1, TRUSTED_FRAME, TRUSTED_FRAME + 1, 20_000_000])
def test_a_very_large_frame_arrives_in_a_mapping(
    pair: tuple[socket.socket, socket.socket], size: int
) -> None:
    """It grows where it is; what came before is not copied, and nothing is kept."""
    pool = FramePool()
    body = random.Random(1).randbytes(size)
    receive = new_receive(limit=size, pool=pool)
    frames = feed(receive, *pair, [framed(body)])
    while not frames:  # the buffer was full before the socket was empty
        frames += [bytes(frame) for frame in [receive.read(pair[0])] if frame is not None]
    assert frames == [body]
    buffer = pool.take(TRUSTED_FRAME + 1, TRUSTED_FRAME)
    assert isinstance(buffer, mmap) and not isinstance(pool.take(TRUSTED_FRAME, 0), mmap)
    assert pool.grow(buffer, 3 * TRUSTED_FRAME) is buffer and len(buffer) == 4 * TRUSTED_FRAME
    before, kept = pool.outstanding, pool.idle_bytes
    pool.release(memoryview(buffer)[:1])
    assert (pool.outstanding, pool.idle_bytes) == (before - 4 * TRUSTED_FRAME, kept)


@pytest.mark.parametrize(
    ("size", "is_mapped"), [(TRUSTED_FRAME - 1, False), (TRUSTED_FRAME, False), (TRUSTED_FRAME + 1, True)]
)
def test_a_very_large_frame_is_in_a_mapping_from_its_first_byte_on(size: int, is_mapped: bool) -> None:
    """A copy of 4 MiB into a mapping, when the frame had grown so far, took 9 ms of new memory."""
    pool = FramePool()
    first = buffer = pool.take(size, 0)
    assert isinstance(buffer, mmap) == is_mapped
    while len(buffer) < size:
        buffer = pool.grow(buffer, size)
    assert buffer is first
    pool.give_back(buffer)
    assert pool.outstanding == 0


class Endless:
    """A socket with unlimited data."""

    def __init__(self, head: bytes) -> None:
        self.head = head
        self.taken: list[int] = []

    def recv_into(self, view: memoryview) -> int:
        if self.head:
            view[:4], self.head = self.head, b""
            return 4
        self.taken.append(len(view))
        return len(view)


def test_no_more_than_a_megabyte_is_taken_from_the_kernel_in_one_go() -> None:
    sock: Any = Endless(struct.pack(">i", 3_000_000))
    receive = new_receive(limit=3_000_000)
    while receive.read(sock) is None:
        pass
    assert sock.taken == [MAX_AT_ONCE, MAX_AT_ONCE, 3_000_000 - 2 * MAX_AT_ONCE]


def random_stream(chance: random.Random) -> tuple[bytes, list[int]]:
    """Return a hundred frames, of which some are large, then a hostile size; and the sizes of the frames."""
    sizes = [chance.choice((1, 2, 17, 300)) for _ in range(99)] + [chance.randrange(SCRATCH_BYTES, 100_000)]
    chance.shuffle(sizes)
    hostile = chance.choice((-1, -(2**31), LIMIT + 1, 2**31 - 1))
    frames = b"".join(framed(chance.randbytes(size)) for size in sizes)
    return frames + struct.pack(">i", hostile) + chance.randbytes(50), sizes


def sizes_read(stream: bytes, ours: socket.socket, theirs: socket.socket, pool: FramePool) -> list[int]:
    """Return the sizes of the frames before the one whose size is refused."""
    receive, view, seen = new_receive(pool=pool), memoryview(stream), []
    try:
        while True:
            with contextlib.suppress(BlockingIOError):
                view = view[theirs.send(view) :]
            frame = receive.read(ours)
            while frame is not None:
                seen.append(len(frame))
                if isinstance(frame, memoryview):
                    pool.release(frame)
                frame = receive.next_buffered()
    except ProtocolViolation:
        receive.close()
        return seen


def test_a_million_random_frames_leave_no_memory_behind() -> None:
    """Ten thousand connections, each of which ends with a hostile size."""
    chance, pool = random.Random(17), FramePool()
    streams = [random_stream(chance) for _ in range(20)]
    before = 0
    for number in range(10_000):
        if number == 1_000:
            before = resident_bytes()
        stream, sizes = streams[number % len(streams)]
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            theirs.setblocking(False)
            assert sizes_read(stream, ours, theirs, pool) == sizes
        assert pool.outstanding == 0
    assert resident_bytes() - before < 4_000_000

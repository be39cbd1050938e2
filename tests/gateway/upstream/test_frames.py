"""Frames over a socket pair: whole, in pieces, at the limit, and cut."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from broker.common.errors import ProtocolViolation
from broker.gateway.upstream.frames import CHUNK_BYTES, FrameStream
from broker.network.connection.receive import EndOfStream
from tests.support.hostile import framed

BODIES = [b"", b"x", bytes(range(256)), b"a" * CHUNK_BYTES, b"b" * 100_000, b"end"]


@contextmanager
def pair(limit: int = 1 << 20) -> Iterator[tuple[FrameStream, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        yield FrameStream(ours, ours.fileno(), limit), theirs


async def feed(sock: socket.socket, data: bytes, piece: int) -> None:
    for at in range(0, len(data), piece):
        unsent = memoryview(data)[at : at + piece]
        while unsent:
            await trio.lowlevel.wait_writable(sock)
            unsent = unsent[sock.send(unsent) :]
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("piece", [1, 3, 1_000, 1 << 20])
async def test_frames_are_the_same_in_pieces_of_all_sizes(piece: int) -> None:
    bodies = BODIES if piece > 100 else [body[:300] for body in BODIES]
    with pair() as (frames, peer):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(feed, peer, b"".join(map(framed, bodies)), piece)
            assert [await frames.receive() for _ in bodies] == bodies
        assert not frames.has_buffered


@pytest.mark.parametrize("size", [0, 99, 100])
async def test_a_frame_up_to_the_limit_is_read(size: int) -> None:
    with pair(limit=100) as (frames, peer):
        peer.send(framed(b"x" * size))
        assert await frames.receive() == b"x" * size


@pytest.mark.parametrize("size", [101, -1, -(1 << 31), (1 << 31) - 1])
async def test_a_size_outside_the_limits_is_a_violation(size: int) -> None:
    with pair(limit=100) as (frames, peer):
        peer.send(size.to_bytes(4, "big", signed=True))
        with pytest.raises(ProtocolViolation, match="Invalid receive"):
            await frames.receive()


async def test_a_tls_alert_is_named() -> None:
    with pair() as (frames, peer):
        peer.send(b"\x15\x03\x03\x00\x02\x02\x50")
        with pytest.raises(ProtocolViolation, match="the broker speaks TLS"):
            await frames.receive()


@pytest.mark.parametrize("cut", [0, 3, 4, 9])
async def test_the_end_of_the_stream_within_a_frame_is_the_end(cut: int) -> None:
    with pair() as (frames, peer):
        peer.send(framed(b"abcdef")[:cut])
        peer.close()
        with pytest.raises(EndOfStream):
            await frames.receive()


async def test_a_cancelled_receive_loses_nothing() -> None:
    with pair() as (frames, peer):
        peer.send(framed(b"abcdef")[:7])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(frames.receive)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        peer.send(framed(b"abcdef")[7:])
        assert await frames.receive() == b"abcdef"


async def test_a_frame_that_the_kernel_takes_in_parts_arrives_whole() -> None:
    frame = framed(bytes(range(256)) * 20_000)
    with pair() as (frames, peer):
        got = bytearray()

        async def read() -> None:
            while len(got) < len(frame):
                await trio.lowlevel.wait_readable(peer)
                got.extend(peer.recv(50_000))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(frames.send, frame)
            await wait_all_tasks_blocked()
            nursery.start_soon(read)
        assert got == frame

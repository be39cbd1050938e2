"""Responses of buffers and file regions leave whole and in order, however little a socket takes."""

import contextlib
import errno
import os
import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import cast

import pytest

from broker.common.errors import UnreadableRegion
from broker.network.connection.send import MAX_AT_ONCE, TOGETHER_BYTES, Part, Send, send_at_once


class Region:
    """A file region over bytes. `piecewise` 0 offers no piece, nor are there pieces behind `most_used` bytes
    of others.
    """

    most_used = 0

    def __init__(self, data: bytes, piecewise: int) -> None:
        self.left = data
        self.piecewise = piecewise

    @property
    def remaining(self) -> int:
        return len(self.left)

    def __len__(self) -> int:
        return len(self.left)

    def piece(self, used: int = 0) -> memoryview | None:
        self.used = used
        return memoryview(self.left)[: self.piecewise] if self.piecewise and used <= self.most_used else None

    def advance(self, sent: int) -> None:
        self.left = self.left[sent:]

    def failed(self, error: OSError) -> OSError:
        self.error = error
        return UnreadableRegion(error.errno, error.strerror)

    def is_readable(self) -> bool:
        return True

    def send_to(self, sock: socket.socket) -> int:
        sent = sock.send(self.left)
        self.advance(sent)
        return sent


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
    with ours, theirs:
        yield ours, theirs


def parts(piecewise: int) -> list[Part]:
    return [
        b"head",
        Region(b"a" * 30_000, piecewise),
        b"between",
        Region(b"b" * 10, piecewise),
        Region(b"c" * 9_999, piecewise),
        b"tail",
    ]


WHOLE = b"head" + b"a" * 30_000 + b"between" + b"b" * 10 + b"c" * 9_999 + b"tail"


@pytest.mark.parametrize("piecewise", [0, 1_000, 100_000])
def test_everything_leaves_once_and_in_order(
    pair: tuple[socket.socket, socket.socket], piecewise: int
) -> None:
    ours, theirs = pair
    send = Send(parts(piecewise))
    received = b""
    for _ in range(10_000):
        done = send.write(ours)
        try:
            while more := theirs.recv(1_777):
                received += more
        except BlockingIOError:
            pass
        if done:
            break
    assert received == WHOLE
    assert send.written == len(WHOLE)


@pytest.mark.parametrize("already", [0, 3, 4, 5, 4 + 30_000, 4 + 30_000 + 7 + 10 + 1])
def test_a_send_goes_on_where_one_call_stopped(
    pair: tuple[socket.socket, socket.socket], already: int
) -> None:
    ours, theirs = pair
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1_000_000)
    assert Send(parts(100_000), already).write(ours)
    received = b""
    while len(received) < len(WHOLE) - already:
        received += theirs.recv(65_536)
    assert received == WHOLE[already:]


def test_one_call_takes_a_response_whose_regions_all_offer_whole_pieces(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = pair

    def at_once(*response: Part) -> int:
        return send_at_once(ours, list(response), sum(map(len, response)))

    assert at_once(b"head", Region(b"x" * 10, 100), b"tail") == 18
    assert theirs.recv(100) == b"headxxxxxxxxxxtail"
    assert at_once(b"head", Region(b"x" * 10, 9), b"tail") == -1
    assert at_once(b"head", Region(b"x" * 10, 0)) == -1
    assert at_once(*parts(100_000)) == -1
    two = [Region(b"x" * 10, 100), Region(b"y" * 10, 100)]
    assert at_once(b"1", two[0], b"2", two[1]) == -1
    monkeypatch.setattr(Region, "most_used", 10)
    assert at_once(b"1", two[0], b"2", two[1]) == 22
    assert theirs.recv(100) == b"1xxxxxxxxxx2yyyyyyyyyy"


def test_one_call_takes_no_more_parts_and_bytes_than_its_limits(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = pair
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1_000_000)
    monkeypatch.setattr(Region, "most_used", 1_000_000)
    for count, sent in (
        (MAX_AT_ONCE - 1, MAX_AT_ONCE - 1),
        (MAX_AT_ONCE, MAX_AT_ONCE),
        (MAX_AT_ONCE + 1, -1),
    ):
        assert send_at_once(ours, [b"x"] * count, count) == sent
    for size, fits in ((TOGETHER_BYTES - 1, True), (TOGETHER_BYTES, True), (TOGETHER_BYTES + 1, False)):
        response: list[Part] = [b"x", Region(b"x" * (size - 3), size), b"x", b"x"]
        assert (send_at_once(ours, response, size) == size) is fits
        assert (send_at_once(Recording(), response[:3], size) == size - 1) is True  # type: ignore[arg-type]
        with contextlib.suppress(BlockingIOError):
            while theirs.recv(1_000_000):
                pass
    with pytest.raises(BlockingIOError):
        theirs.recv(1)


class Recording:
    """A socket that takes everything."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def sendmsg(self, run: list[bytes], *_: object) -> int:
        self.calls.append(len(run))
        return sum(map(len, run))


@pytest.mark.parametrize(("most_used", "calls"), [(9, [3, 2, 1]), (10, [5, 1]), (19, [5, 1]), (20, [6])])
def test_the_pieces_of_one_call_are_all_that_fit_together(
    monkeypatch: pytest.MonkeyPatch, most_used: int, calls: list[int]
) -> None:
    """The second region is asked with the 10 bytes of the first, the third with 20 or, in a call of its own,
    with none.
    """
    monkeypatch.setattr(Region, "most_used", most_used)
    regions = [Region(b"x" * 10, 100) for _ in range(3)]
    sock = Recording()
    send = Send([b"head", regions[0], b"-", regions[1], b"-", regions[2]])
    assert send.write(cast("socket.socket", sock))
    assert sock.calls == calls and send.written == 36


class Refusing:
    """A socket whose kernel cannot read the bytes to send."""

    def __init__(self, number: int) -> None:
        self.number = number

    def sendmsg(self, *_: object) -> int:
        raise OSError(self.number, os.strerror(self.number))


@pytest.mark.parametrize(("number", "is_reported"), [(errno.EFAULT, True), (errno.EPIPE, False)])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_region_is_reported_when_the_kernel_cannot_read_its_pages(
    number: int, is_reported: bool, at_once: bool
) -> None:
    region, sock = Region(b"abc", 3), cast("socket.socket", Refusing(number))
    write: Callable[[], object]
    write = (
        partial(send_at_once, sock, [b"head", region], 7)
        if at_once
        else partial(Send([b"head", region]).write, sock)
    )
    with pytest.raises(OSError, match=os.strerror(number)):
        write()
    assert hasattr(region, "error") is is_reported

"""Reading headers from sockets: no byte behind them, the deadline on the mock clock, and how many at once."""

import os
import random
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from ipaddress import ip_network

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.common.proxy_headers import ProxyHeaders, is_in
from broker.common.proxy_protocol import Client, HeaderError, HeaderRefusal
from tests.common.test_proxy_protocol import HEADERS, REFUSED
from tests.support.machine_speed import WITHIN_S
from tests.support.proxy_protocol import CLIENT, v1, v2

REQUEST = b"\0\0\0\x0a of the client"
TIMEOUT_S = 10.0
Found = Client | None | HeaderRefusal | str

LEFT = "left without a byte"


class Pairs:
    """Real TCP connections of this machine: what tells how many bytes wait holds for TCP alone."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._listening = self._open.enter_context(socket.create_server(("127.0.0.1", 0)))

    def connect(self) -> tuple[socket.socket, trio.socket.SocketType]:
        """Return a balancer's side and ours."""
        theirs = self._open.enter_context(socket.create_connection(self._listening.getsockname()))
        theirs.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ours = self._open.enter_context(self._listening.accept()[0])
        ours.setblocking(False)
        return theirs, trio.socket.from_stdlib_socket(ours)

    def close(self) -> None:
        self._open.close()


@pytest.fixture
def pairs() -> Iterator[Pairs]:
    pairs = Pairs()
    yield pairs
    pairs.close()


def headers(*, requires: bool, most: int = 10) -> ProxyHeaders:
    return ProxyHeaders((ip_network("127.0.0.0/8"),), requires=requires, timeout_s=TIMEOUT_S, most=most)


async def found(reader: ProxyHeaders, sock: trio.socket.SocketType, *, is_trusted: bool = True) -> Found:
    try:
        return await reader.read(sock, is_trusted=is_trusted)
    except HeaderError as error:
        return LEFT if error.reason is None else error.reason


class Reading:
    """A header that a task reads."""

    def __init__(
        self,
        nursery: trio.Nursery,
        reader: ProxyHeaders,
        sock: trio.socket.SocketType,
        is_trusted: bool = True,
    ) -> None:
        self.found: list[Found] = []
        nursery.start_soon(self._read, reader, sock, is_trusted)

    async def _read(self, reader: ProxyHeaders, sock: trio.socket.SocketType, is_trusted: bool) -> None:
        self.found.append(await found(reader, sock, is_trusted=is_trusted))


def left_in(sock: trio.socket.SocketType) -> bytes:
    """What the kernel holds for the reader of the connection."""
    duplicate = socket.socket(fileno=os.dup(sock.fileno()))
    with duplicate:
        duplicate.setblocking(True)
        duplicate.settimeout(5)
        return duplicate.recv(65_536)


@pytest.mark.parametrize("requires", [False, True])
@pytest.mark.parametrize(("header", "client"), HEADERS.values(), ids=HEADERS)
async def test_no_byte_behind_a_header_is_read(
    pairs: Pairs, header: bytes, client: Client | None, requires: bool
) -> None:
    theirs, ours = pairs.connect()
    theirs.sendall(header + REQUEST)
    assert await found(headers(requires=requires), ours) == client
    assert left_in(ours) == REQUEST


@pytest.mark.parametrize("requires", [False, True])
@pytest.mark.parametrize("header", [v1(), v2()], ids=["v1", "v2"])
async def test_a_header_may_arrive_byte_by_byte(pairs: Pairs, header: bytes, requires: bool) -> None:
    theirs, ours = pairs.connect()
    async with trio.open_nursery() as nursery:
        reading = Reading(nursery, headers(requires=requires), ours)
        for at in range(len(header)):
            assert reading.found == []
            theirs.sendall(header[at : at + 1])
            await wait_all_tasks_blocked(0.001)
    assert reading.found == [CLIENT]
    theirs.sendall(REQUEST)
    assert left_in(ours) == REQUEST


@pytest.mark.parametrize("header", [v1(), v2()], ids=["v1", "v2"])
@pytest.mark.parametrize("requires", [False, True])
async def test_a_header_that_ends_with_its_connection_is_refused_at_each_byte(
    pairs: Pairs, header: bytes, requires: bool
) -> None:
    for cut in range(len(header)):
        theirs, ours = pairs.connect()
        theirs.sendall(header[:cut])
        theirs.shutdown(socket.SHUT_WR)
        # A single byte may be of any protocol: where no header is required, its reader finds the end.
        expected: Found = HeaderRefusal.CUT if cut > 1 or requires else None
        assert await found(headers(requires=requires), ours) == (expected if cut else LEFT)
        theirs.close()


@pytest.mark.parametrize(("sent", "reason"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("requires", [False, True])
async def test_each_refusal_has_its_reason(
    pairs: Pairs, sent: bytes, reason: HeaderRefusal, requires: bool
) -> None:
    theirs, ours = pairs.connect()
    theirs.sendall(sent)
    result = await found(headers(requires=requires), ours)
    if reason is HeaderRefusal.MISSING and not requires:
        assert result is None and left_in(ours) == sent
    else:
        assert result is reason


async def test_a_reset_is_no_error_of_ours(pairs: Pairs) -> None:
    for sent, expected in ((b"", LEFT), (v2()[:20], HeaderRefusal.CUT)):
        theirs, ours = pairs.connect()
        async with trio.open_nursery() as nursery:
            reading = Reading(nursery, headers(requires=True), ours)
            theirs.sendall(sent)
            await wait_all_tasks_blocked(0.01)
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            theirs.close()
        assert reading.found == [expected]


# From elsewhere


@pytest.mark.parametrize("sent", [v1(), v2(), b"PR", b"\r\n"])
async def test_a_header_from_elsewhere_is_refused(pairs: Pairs, sent: bytes) -> None:
    theirs, ours = pairs.connect()
    theirs.sendall(sent)
    assert await found(headers(requires=False), ours, is_trusted=False) is HeaderRefusal.UNTRUSTED


@pytest.mark.parametrize("sent", [REQUEST, b"\x16\x03\x01", b"GET /", b"PUT /"])
async def test_what_comes_from_elsewhere_without_one_is_left_to_its_reader(pairs: Pairs, sent: bytes) -> None:
    theirs, ours = pairs.connect()
    theirs.sendall(sent)
    assert await found(headers(requires=False), ours, is_trusted=False) is None
    assert left_in(ours) == sent


async def test_one_byte_that_both_begin_with_is_waited_behind(pairs: Pairs) -> None:
    for second, expected in ((b"UT / HTTP/1.1", None), (v1()[1:], CLIENT)):
        theirs, ours = pairs.connect()
        async with trio.open_nursery() as nursery:
            reading = Reading(nursery, headers(requires=False), ours)
            theirs.sendall(b"P")
            await wait_all_tasks_blocked(0.01)
            assert reading.found == []
            theirs.sendall(second)
        assert reading.found == [expected]
        assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 1


# Time


@pytest.mark.parametrize("requires", [False, True])
@pytest.mark.parametrize("sent", [b"", b"P", v1()[:-1], v2()[:5], v2()[:-1]])
async def test_a_slow_header_closes_at_its_deadline_and_not_before(
    pairs: Pairs, mock_clock: MockClock, sent: bytes, requires: bool
) -> None:
    theirs, ours = pairs.connect()
    async with trio.open_nursery() as nursery:
        reader = headers(requires=requires)
        reading = Reading(nursery, reader, ours)
        theirs.sendall(sent)
        await wait_all_tasks_blocked(0.01)
        mock_clock.jump(TIMEOUT_S - 0.001)
        await wait_all_tasks_blocked(0.01)
        assert (reading.found, reader.outstanding) == ([], 1)
        mock_clock.jump(0.001)
    assert (reading.found, reader.outstanding) == ([HeaderRefusal.TIMEOUT], 0)


async def test_each_byte_does_not_extend_the_time(pairs: Pairs, mock_clock: MockClock) -> None:
    theirs, ours = pairs.connect()
    async with trio.open_nursery() as nursery:
        reading = Reading(nursery, headers(requires=True), ours)
        for byte in v2()[:10]:
            theirs.sendall(bytes((byte,)))
            await wait_all_tasks_blocked(0.01)
            assert reading.found == []
            mock_clock.jump(TIMEOUT_S / 10)
    assert reading.found == [HeaderRefusal.TIMEOUT]


async def test_a_header_in_the_last_millisecond_is_in_time(pairs: Pairs, mock_clock: MockClock) -> None:
    theirs, ours = pairs.connect()
    async with trio.open_nursery() as nursery:
        reading = Reading(nursery, headers(requires=True), ours)
        await wait_all_tasks_blocked(0.01)
        mock_clock.jump(TIMEOUT_S - 0.001)
        theirs.sendall(v2())
        await wait_all_tasks_blocked(0.01)
    assert reading.found == [CLIENT]


# How many


@pytest.mark.parametrize(("count", "given_up"), [(2, 0), (3, 0), (4, 1), (5, 2)])
async def test_beyond_so_many_the_one_that_is_outstanding_for_longest_is_given_up(
    pairs: Pairs, mock_clock: MockClock, count: int, given_up: int
) -> None:
    reader = headers(requires=True, most=3)
    async with trio.open_nursery() as nursery:
        readings = []
        for _ in range(count):
            readings.append(Reading(nursery, reader, pairs.connect()[1]))
            await wait_all_tasks_blocked()
        assert reader.outstanding == min(count, 3)
        for index, each in enumerate(readings):
            assert each.found == ([HeaderRefusal.TOO_MANY] if index < given_up else [])
        mock_clock.jump(TIMEOUT_S)
    assert [each.found[0] for each in readings[given_up:]] == [HeaderRefusal.TIMEOUT] * (count - given_up)


async def test_a_cancelled_one_is_not_outstanding(pairs: Pairs) -> None:
    reader = headers(requires=True)
    async with trio.open_nursery() as nursery:
        Reading(nursery, reader, pairs.connect()[1])
        await wait_all_tasks_blocked()
        assert reader.outstanding == 1
        nursery.cancel_scope.cancel()
    assert reader.outstanding == 0


@pytest.mark.parametrize("seed", range(10))
async def test_random_bytes_in_random_pieces_never_hang(pairs: Pairs, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(20):
        theirs, ours = pairs.connect()
        sent = chance.choice([b"", b"PROXY ", v1()[:20], v2()[:14], v2()]) + chance.randbytes(
            chance.randrange(80)
        )
        reader, is_trusted = headers(requires=chance.random() < 0.5), chance.random() < 0.5
        with trio.fail_after(WITHIN_S):
            async with trio.open_nursery() as nursery:
                reading = Reading(nursery, reader, ours, is_trusted)
                while sent:
                    size = chance.randrange(1, len(sent) + 1)
                    theirs.sendall(sent[:size])
                    sent = sent[size:]
                    await trio.lowlevel.checkpoint()
                theirs.shutdown(socket.SHUT_WR)
        assert len(reading.found) == 1 and reading.found != [HeaderRefusal.TIMEOUT]
        theirs.close()


@pytest.mark.parametrize(
    ("networks", "address", "expected"),
    [
        (["10.0.0.0/8"], "10.255.255.255", True),
        (["10.0.0.0/8"], "11.0.0.0", False),
        (["10.0.0.7"], "10.0.0.7", True),
        (["10.0.0.7"], "10.0.0.8", False),
        (["2001:db8::/32"], "2001:db8:ffff::1", True),
        (["2001:db8::/32"], "2001:db9::", False),
        (["0.0.0.0/0"], "2001:db8::1", False),
        (["10.0.0.0/8", "::1"], "::1", True),
        ([], "127.0.0.1", False),
    ],
)
def test_an_address_is_in_a_network(networks: list[str], address: str, expected: bool) -> None:
    assert is_in([ip_network(each) for each in networks], address) is expected

"""Receiving with bounded memory, socket by socket: the exact bound and the queue of waiting connections."""

import random
import socket
import struct
from collections.abc import Iterator

import pytest

from broker.common.errors import ProtocolViolation
from broker.network import leased_receive
from broker.network.connection.channel import Channel, MuteState
from broker.network.leased_receive import LeasedReceive
from broker.network.selector import READ
from tests.network.connection.test_receive import BODIES, feed, framed
from tests.support.rig import Rig

LIMIT = 300_000


@pytest.fixture
def rigs() -> Iterator[type[Rig]]:
    made: list[Rig] = []

    class Kept(Rig):
        def __init__(self, size: int, largest: int) -> None:
            super().__init__(size, largest)
            made.append(self)

    yield Kept
    for rig in made:
        rig.close()


def is_read(channel: Channel) -> bool:
    return bool(channel.interest & READ)


def test_a_frame_of_128_comes_in_three_pieces(rigs: type[Rig]) -> None:
    rig = rigs(1_000, 1_000)
    channel, theirs = rig.connect()
    theirs.sendall(struct.pack(">i", 128))
    assert channel.read(channel.sock) is None
    theirs.sendall(b"a" * 64)
    assert channel.read(channel.sock) is None
    assert rig.memory.used == 128
    theirs.sendall(b"b" * 64)
    frame = channel.read(channel.sock)
    assert bytes(frame) == b"a" * 64 + b"b" * 64
    rig.frames.release(frame)
    assert rig.memory.used == 0


def test_the_second_of_two_is_read_when_the_first_is_released(rigs: type[Rig]) -> None:
    rig = rigs(900, 900)
    first, first_peer = rig.connect()
    second, second_peer = rig.connect()
    for peer in (first_peer, second_peer):
        peer.sendall(framed(bytes(900)))
    frame = first.read(first.sock)
    assert rig.memory.available == 0
    assert second.read(second.sock) is None
    assert rig.reported() == set(), "it would be a tight loop"
    assert second.receive.waits_for_memory and second.mute_state is MuteState.NOT_MUTED
    rig.frames.release(frame)
    assert not second.receive.waits_for_memory
    assert rig.responder.buffered == [second], "its processor need not hear of it from the kernel"
    assert rig.reported() == {second.fd}
    assert len(second.receive.next_buffered()) == 900


@pytest.mark.parametrize(("used", "granted"), [(998, True), (999, True), (1_000, False), (1_001, False)])
def test_one_free_byte_is_enough_for_the_largest(rigs: type[Rig], used: int, granted: bool) -> None:
    rig = rigs(1_000, 600)
    holder = [rig.holder(500), rig.holder(used - 500)]
    channel, theirs = rig.connect()
    theirs.sendall(framed(bytes(600)))
    assert (channel.read(channel.sock) is not None) is granted
    assert rig.memory.used == used + 600 * granted
    for frame in holder:
        rig.frames.release(frame)


@pytest.mark.rotates
@pytest.mark.parametrize("seed", range(20))
def test_outstanding_never_exceeds_pool_and_largest_less_a_byte(rigs: type[Rig], seed: int) -> None:
    """Clients begin, continue and disconnect at random: each is served, and no memory stays leased."""
    rng = random.Random(seed)
    rig = rigs(1_000, 600)
    unsent: dict[Channel, tuple[socket.socket, bytearray]] = {}
    missing: dict[Channel, int] = {}
    for _ in range(12):
        channel, theirs = rig.connect()
        unsent[channel] = theirs, bytearray(b"".join(framed(bytes(rng.randint(1, 600))) for _ in range(4)))
        missing[channel] = 4
    buffers: list[memoryview] = []
    most = 0
    while missing or buffers:
        for channel in list(missing):
            theirs, rest = unsent[channel]
            size = rng.randint(0, 700)
            theirs.sendall(rest[:size])
            del rest[:size]
            if is_read(channel) and (frame := channel.read(channel.sock)) is not None:
                buffers.append(frame)
                missing[channel] -= 1
            if not missing[channel] or rng.random() < 0.005:
                rig.selector.close_channel(channel, "leaves")
                del missing[channel]
            most = max(most, rig.memory.used)
            assert rig.memory.used <= 1_000 + 600 - 1
        rng.shuffle(buffers)
        for _ in range(rng.randint(0, len(buffers))):
            rig.frames.release(buffers.pop())
    assert most > 1_000
    assert (rig.memory.used, rig.frames.waiting, rig.frames.outstanding) == (0, 0, 0)


def test_waiters_are_granted_in_order_as_far_as_memory_lasts(rigs: type[Rig]) -> None:
    rig = rigs(1_000, 1_000)
    holder = rig.holder(1_000)
    line = []
    for size in (300, 800, 10):
        channel, theirs = rig.connect()
        theirs.sendall(framed(bytes(size)))
        assert channel.read(channel.sock) is None
        line.append(channel)
    assert rig.frames.waiting == 3
    rig.frames.release(holder)
    # 300 leave 700, of which 800 may be overdrawn; the third must wait, however little it asks for.
    assert rig.responder.buffered == line[:2]
    assert (rig.memory.available, rig.frames.waiting) == (-100, 1)
    newcomer, theirs = rig.connect()
    theirs.sendall(framed(b"x"))
    assert newcomer.read(newcomer.sock) is None, "a later request does not overtake"
    rig.frames.release(line[0].receive.next_buffered())
    assert rig.responder.buffered == [*line, newcomer]


def test_a_frame_that_has_memory_is_received_while_there_is_none(rigs: type[Rig]) -> None:
    """Muted, it could not give its memory back."""
    rig = rigs(1_000, 1_000)
    channel, theirs = rig.connect()
    theirs.sendall(framed(bytes(1_000))[:500])
    assert channel.read(channel.sock) is None
    assert rig.memory.available <= 0 and is_read(channel)
    theirs.sendall(bytes(504))
    assert len(channel.read(channel.sock)) == 1_000


def test_an_announcement_holds_nothing_until_its_first_byte(rigs: type[Rig]) -> None:
    rig = rigs(1_000, 1_000)
    liars = [rig.connect() for _ in range(20)]
    for channel, theirs in liars:
        theirs.sendall(struct.pack(">i", 1_000))
        assert channel.read(channel.sock) is None
        assert is_read(channel)
    assert (rig.memory.used, rig.frames.outstanding) == (0, 0)
    holder = rig.holder(1_000)
    for channel, theirs in liars:
        theirs.sendall(b"x")
        assert channel.read(channel.sock) is None
    assert rig.frames.waiting == 20
    rig.frames.release(holder)
    assert (rig.memory.used, rig.frames.waiting) == (1_000, 19)


def test_one_in_line_that_has_nothing_to_show_lets_the_next_pass(rigs: type[Rig]) -> None:
    rig = rigs(1_000, 1_000)
    holder = rig.holder(1_000)
    liar, theirs = rig.connect()
    theirs.sendall(struct.pack(">i", 1_000))
    assert liar.read(liar.sock) is None
    honest, theirs = rig.connect()
    theirs.sendall(framed(bytes(1_000)))
    assert honest.read(honest.sock) is None
    rig.frames.release(holder)
    assert rig.responder.buffered == [liar]
    assert liar.receive.has_buffered
    assert liar.receive.next_buffered() is None
    assert not liar.receive.has_buffered and is_read(liar)
    assert rig.responder.buffered == [liar, honest]
    assert len(honest.receive.next_buffered()) == 1_000


@pytest.mark.parametrize("when", ["within the size", "announced", "begun", "in line", "granted"])
def test_a_connection_that_ends_leaves_no_memory_behind(rigs: type[Rig], when: str) -> None:
    rig = rigs(1_000, 1_000)
    holder = rig.holder(1_000) if when in ("in line", "granted") else None
    channel, theirs = rig.connect()
    sent = {"within the size": 3, "announced": 4, "begun": 700}
    theirs.sendall(framed(bytes(1_000))[: sent.get(when, 1_004)])
    assert channel.read(channel.sock) is None
    if when == "granted":
        rig.frames.release(holder)
        assert rig.memory.used == 1_000
    rig.selector.close_channel(channel, "the end")
    if when == "in line":
        assert rig.frames.waiting == 0
        rig.frames.release(holder)
    assert (rig.memory.used, rig.frames.waiting, rig.frames.outstanding) == (0, 0, 0)


@pytest.mark.parametrize("state", [state for state in MuteState if state is not MuteState.NOT_MUTED])
def test_memory_opens_no_channel_that_is_muted_for_its_order_or_by_a_throttle(
    rigs: type[Rig], state: MuteState
) -> None:
    rig = rigs(1_000, 1_000)
    holder = rig.holder(1_000)
    channel, theirs = rig.connect()
    theirs.sendall(framed(bytes(10)))
    assert channel.read(channel.sock) is None
    channel.mute_state = state
    rig.frames.release(holder)
    assert not is_read(channel) and rig.responder.buffered == []
    # Others may have the memory until its own mute ends.
    assert (rig.memory.used, rig.frames.waiting) == (0, 0)
    channel.mute_state = MuteState.NOT_MUTED
    rig.responder.resume_reading(channel)
    assert rig.reported() == {channel.fd}
    assert channel.read(channel.sock) == bytes(10)


def test_reading_again_while_in_line_keeps_the_place(rigs: type[Rig]) -> None:
    """As happens when a response is written meanwhile, where a connection may have several requests."""
    rig = rigs(1_000, 1_000)
    holder = rig.holder(1_000)
    line = []
    for _ in range(2):
        channel, theirs = rig.connect()
        theirs.sendall(framed(bytes(1_000)))
        assert channel.read(channel.sock) is None
        line.append(channel)
    rig.selector.set_interest(line[0], READ)
    assert line[0].read(line[0].sock) is None
    assert not is_read(line[0]) and rig.frames.waiting == 2
    rig.frames.release(holder)
    assert rig.responder.buffered == line[:1]


def test_a_client_that_has_not_logged_in_needs_no_memory_of_the_pool(rigs: type[Rig]) -> None:
    rig = rigs(1_000, 1_000)
    rig.holder(1_000)
    channel, theirs = rig.connect(authenticated=False)
    theirs.sendall(framed(bytes(10)))
    frame = channel.read(channel.sock)
    assert len(frame) == 10
    rig.frames.release(frame)
    assert rig.memory.used == 1_000


@pytest.mark.parametrize("size", [-1, 1_001, 2**31 - 1])
def test_a_wrong_size_is_refused_whether_there_is_memory_or_not(rigs: type[Rig], size: int) -> None:
    rig = rigs(1_000, 1_000)
    rig.holder(1_000)
    channel, theirs = rig.connect()
    theirs.sendall(struct.pack(">i", size))
    kafkas = r"\)" if size < 0 else r" larger than 1000\)"
    with pytest.raises(ProtocolViolation, match=f"size = {size}{kafkas}"):
        channel.read(channel.sock)


def test_whole_byte_by_byte_and_random_chunks_give_the_frames_of_the_plain_receive(rigs: type[Rig]) -> None:
    rig = rigs(10_000_000, LIMIT)
    stream = b"".join(map(framed, BODIES))
    small = b"".join(map(framed, BODIES[:4]))
    rng = random.Random(7)
    cuts = sorted(rng.sample(range(1, len(stream)), 40))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    for chunks, expected in (
        ([stream], BODIES),
        (pieces, BODIES),
        ([small[i : i + 1] for i in range(len(small))], BODIES[:4]),
    ):
        channel, theirs = rig.connect()
        assert isinstance(channel.receive, LeasedReceive)
        assert feed(channel.receive, channel.sock, theirs, chunks) == expected


@pytest.mark.parametrize(
    ("used", "shuffled"), [(899, False), (900, False), (901, True), (999, True), (1_000, False)]
)
def test_the_order_of_the_ready_is_left_to_chance_while_memory_is_low(
    rigs: type[Rig], used: int, shuffled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = rigs(1_000, 1_000)
    rig.holder(used)
    monkeypatch.setattr(leased_receive.random, "shuffle", list.reverse)
    ready = [(7, READ), (8, READ), (9, READ)]
    poll = rig.frames.shuffling(lambda timeout, most: list(ready))
    assert poll(0, 10) == (ready[::-1] if shuffled else ready)

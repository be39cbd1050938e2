"""RESPONSE_SENT and THROTTLE_ENDED in either order, for responses written at once, later, or never."""

import itertools
import socket
from collections.abc import Iterator

import pytest

from broker.common.errors import BrokerBug
from broker.network.connection.channel import Channel, MuteEvent, MuteState
from broker.network.requests.request_channel import Reply, Request
from broker.network.selector import READ
from tests.support.hostile import framed
from tests.support.rig import Rig, unused_route

S, E = MuteState, MuteEvent
ORDERS = list(itertools.permutations(("answer", "throttle", "memory")))
LARGE = bytes(8 * 1024 * 1024)
"""More than a socket pair takes at once."""


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig(1_000, 1_000)
    yield rig
    rig.close()


def throttled(rig: Rig) -> tuple[Channel, socket.socket]:
    """Return a channel whose request exceeds a quota: the throttle starts before the response."""
    channel, peer = rig.connect()
    channel.mute_state = S.MUTED_AND_RESPONSE_PENDING
    rig.selector.set_interest(channel, channel.interest & ~READ)
    assert channel.on(E.THROTTLE_STARTED) is S.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING
    return channel, peer


def answer(rig: Rig, channel: Channel, reply: Reply) -> None:
    request = Request(rig.responder, channel, unused_route(), b"", 0, rig.clock.ns())
    request.dequeued = request.completed = request.received
    request.reply = reply
    rig.responder.responses.append(request)
    rig.responder.flush(rig.clock.ns())


@pytest.mark.parametrize("reply", [b"answer", None], ids=["send", "no-op"])
def test_a_throttle_that_lasts_keeps_the_channel_muted_behind_its_answer(rig: Rig, reply: Reply) -> None:
    channel, peer = throttled(rig)
    answer(rig, channel, reply)
    assert channel.mute_state is S.MUTED_AND_THROTTLED and not channel.interest & READ
    if reply:
        assert peer.recv(100) == reply
    rig.responder.end_throttling(channel)
    assert channel.mute_state is S.NOT_MUTED and channel.interest & READ


@pytest.mark.parametrize("reply", [b"answer", None], ids=["send", "no-op"])
def test_a_throttle_that_is_over_already_lets_the_answer_open_the_channel(rig: Rig, reply: Reply) -> None:
    channel, peer = throttled(rig)
    rig.responder.end_throttling(channel)
    assert channel.mute_state is S.MUTED_AND_RESPONSE_PENDING and not channel.interest & READ
    answer(rig, channel, reply)
    assert channel.mute_state is S.NOT_MUTED and channel.interest & READ
    if reply:
        assert peer.recv(100) == reply


@pytest.mark.parametrize("throttle_first", [True, False])
def test_a_slow_reader_is_not_read_before_both_are_over(rig: Rig, throttle_first: bool) -> None:
    """The peer has only a part of the response."""
    channel, peer = throttled(rig)
    answer(rig, channel, LARGE)
    assert channel.send is not None
    assert channel.mute_state is S.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING
    received = 0
    if throttle_first:
        rig.responder.end_throttling(channel)
        assert channel.mute_state is S.MUTED_AND_RESPONSE_PENDING and not channel.interest & READ
    while channel.send is not None:
        received += len(peer.recv(1_000_000))
        rig.responder.continue_send(channel)
    if not throttle_first:
        assert channel.mute_state is S.MUTED_AND_THROTTLED and not channel.interest & READ
        rig.responder.end_throttling(channel)
    assert channel.mute_state is S.NOT_MUTED and channel.interest & READ
    while received < len(LARGE):
        received += len(peer.recv(1_000_000))


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_memory_and_the_table_each_hold_a_channel_by_themselves(rig: Rig, order: tuple[str, ...]) -> None:
    """As where a connection may have several requests: one is in hand and throttled, the next in line."""
    holder = rig.holder(1_000)
    channel, peer = rig.connect()
    peer.sendall(framed(bytes(10)))
    assert channel.read(channel.sock) is None and rig.frames.waiting == 1
    channel.mute_state = S.MUTED_AND_RESPONSE_PENDING
    channel.on(E.THROTTLE_STARTED)
    ends = {
        "answer": lambda: answer(rig, channel, b"x"),
        "throttle": lambda: rig.responder.end_throttling(channel),
        "memory": lambda: rig.frames.release(holder),
    }
    for what in order:
        assert channel.mute_state is not S.NOT_MUTED or channel.read(channel.sock) is None
        ends[what]()
    assert channel.mute_state is S.NOT_MUTED and channel.interest & READ
    if order[-1] == "memory":
        assert rig.responder.buffered == [channel], "its processor looks at it without the kernel"
        frame = channel.receive.next_buffered()
    else:  # while it is muted, others may have the memory
        assert rig.reported() == {channel.fd}
        frame = channel.read(channel.sock)
    assert frame is not None and len(frame) == 10


@pytest.mark.parametrize(
    ("state", "event"),
    [
        (S.NOT_MUTED, E.THROTTLE_STARTED),
        (S.MUTED_AND_THROTTLED, E.THROTTLE_STARTED),
        (S.NOT_MUTED, E.RESPONSE_SENT),
        (S.MUTED_AND_RESPONSE_PENDING, E.THROTTLE_ENDED),
    ],
)
def test_an_illegal_state_of_kafka_is_a_broker_bug(rig: Rig, state: MuteState, event: MuteEvent) -> None:
    """A throttle may only begin while a response is pending, so it is registered before it is enqueued."""
    channel, _ = rig.connect()
    channel.mute_state = state
    with pytest.raises(BrokerBug):
        channel.on(event)

"""Connections that have ended a moment ago."""

import contextlib
import os
import socket
from collections.abc import Iterator

import pytest

from broker.network.connection.channel import DISCARDED, Channel
from broker.network.lingering import LINGERS_MS
from tests.support.rig import Rig


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig(10_000, 1_000)
    yield made
    made.responder.lingering.close()
    made.close()


def used(rig: Rig, ms_ago: int) -> tuple[Channel, socket.socket]:
    """A connection with a request, that was used then."""
    channel, peer = rig.connect()
    peer.settimeout(5)
    channel.requests = 1
    channel.last_active_ms = rig.clock.ms() - ms_ago
    return channel, peer


def turn(rig: Rig) -> None:
    for fd, _ in rig.selector.poll(0, 100):
        rig.responder.lingering.on_event(fd)


@pytest.mark.parametrize("ms_ago", [0, LINGERS_MS - 1])
def test_the_peer_of_one_that_was_just_used_reads_its_end_and_may_still_send(rig: Rig, ms_ago: int) -> None:
    channel, peer = used(rig, ms_ago)
    rig.responder.lingering.end(channel)
    assert channel.closed
    assert not rig.selector.channels
    assert len(rig.responder.lingering) == 1
    for _ in range(3):
        peer.sendall(b"more")
        turn(rig)
    assert peer.recv(1) == b""
    peer.close()
    turn(rig)
    assert not rig.responder.lingering


@pytest.mark.parametrize("ms_ago", [LINGERS_MS, LINGERS_MS + 1])
def test_one_that_was_used_before_that_closes_at_once(rig: Rig, ms_ago: int) -> None:
    channel, peer = used(rig, ms_ago)
    rig.responder.lingering.end(channel)
    assert not rig.responder.lingering
    with pytest.raises(BrokenPipeError):
        peer.sendall(b"more")


def test_one_that_has_sent_no_request_closes_at_once(rig: Rig) -> None:
    channel, _ = used(rig, 0)
    channel.requests = 0
    rig.responder.lingering.end(channel)
    assert not rig.responder.lingering


def test_each_closes_when_its_time_is_over(rig: Rig) -> None:
    lingering = rig.responder.lingering
    first, _ = used(rig, 0)
    lingering.end(first)
    rig.clock.advance(1)
    second, peer = used(rig, 0)
    lingering.end(second)
    for now_ms, left in ((499, 2), (500, 1), (501, 0)):
        rig.clock.advance(now_ms - 1 - (rig.clock.ms() - first.last_active_ms - 1))
        lingering.reaper._fire(rig.clock.ms())
        assert len(lingering) == left
    with pytest.raises(BrokenPipeError):
        peer.sendall(b"more")


def test_a_peer_that_sends_without_end_is_read_up_to_a_bound(rig: Rig) -> None:
    lingering = rig.responder.lingering
    channel, peer = used(rig, 0)
    lingering.end(channel)
    peer.setblocking(False)
    sent = 0
    for _ in range(1_000):
        with contextlib.suppress(BlockingIOError):
            sent += peer.send(bytes(100_000))
        turn(rig)
    assert DISCARDED <= sent < 2 * DISCARDED
    assert len(lingering) == 1
    peer.close()
    for _ in range(100):
        turn(rig)
    assert not lingering


def test_a_drain_waits_for_them(rig: Rig) -> None:
    """The process that ends would reset them."""
    channel, peer = used(rig, 0)
    responder = rig.responder
    drained: list[bool] = []

    class Event:
        def set(self) -> None:
            drained.append(True)

    responder.drained = Event()  # type: ignore[assignment]
    responder.close_answered(channel)
    assert channel.closed
    responder.check_drained()
    assert not drained
    peer.close()
    turn(rig)
    assert drained == [True]


def test_without_a_descriptor_to_spare_it_closes_at_once(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    channel, peer = used(rig, 0)

    def fails(_fd: int) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "dup", fails)
    rig.responder.lingering.end(channel)
    assert channel.closed
    assert not rig.responder.lingering
    assert peer.recv(1) == b""


def test_one_whose_peer_has_gone_closes_at_once(rig: Rig) -> None:
    channel, peer = used(rig, 0)
    peer.close()
    rig.responder.lingering.end(channel)
    turn(rig)
    assert not rig.responder.lingering

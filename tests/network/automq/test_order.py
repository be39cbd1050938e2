"""Responses leave in request order, in whatever order handlers finish and however little a socket takes."""

from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.api.requests.outcome import Login
from broker.network.connection.channel import MuteEvent, MuteState
from broker.security.sasl import SaslSession
from tests.network.automq.wiring import numbered, numbers, parts, wired


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_answers_leave_in_order_however_their_handlers_finish(data: Any) -> None:
    """Requests come, are finished in any order, and the peer reads when it likes; some have no answer, some a
    large one, some one in several buffers.
    """

    async def conversation() -> None:
        with wired(high=16, low=4, send_buffer=4_096) as wiring:
            received, expected, open_, admitted = b"", [], [], 0
            for _ in range(data.draw(st.integers(1, 60), "steps")):
                step = data.draw(st.sampled_from(("admit", "admit", "finish", "finish", "read", "turn")))
                if step == "admit" and wiring.channel.mute_state is MuteState.NOT_MUTED:
                    kind = data.draw(st.sampled_from(("small", "large", "list", "silent")))
                    open_.append((wiring.admit(admitted), admitted, kind))
                    if kind != "silent":
                        expected.append(admitted)
                    admitted += 1
                elif step == "finish" and open_:
                    request, number, kind = open_.pop(data.draw(st.integers(0, len(open_) - 1)))
                    size = 30_000 if kind in ("large", "list") else 3
                    reply = parts(number, size) if kind == "list" else numbered(number, size)
                    wiring.finish(request, None if kind == "silent" else reply)
                elif step == "read":
                    received += wiring.read()
                elif step == "turn":
                    wiring.turn()
                assert len(wiring.channel.in_flight) <= 16
            for request, number, kind in reversed(open_):
                wiring.finish(request, None if kind == "silent" else numbered(number))
            while wiring.channel.in_flight:
                received += wiring.read()
                wiring.turn()
            received += wiring.read()
            assert numbers(received) == expected
            assert not wiring.channel.early and wiring.channel.mute_state is MuteState.NOT_MUTED

    trio.run(conversation)


async def test_an_early_answer_waits_for_its_turn() -> None:
    with wired() as wiring:
        first, second, third = (wiring.admit() for _ in range(3))
        wiring.finish(third, numbered(3))
        wiring.finish(second, numbered(2))
        assert wiring.read() == b""
        wiring.finish(first, numbered(1))
        assert numbers(wiring.read()) == [1, 2, 3]
        assert not wiring.channel.requests_in_flight


async def test_requests_with_the_same_correlation_id_are_distinguished() -> None:
    with wired() as wiring:
        first, second = wiring.admit(7), wiring.admit(7)
        wiring.finish(second, numbered(2))
        assert wiring.read() == b""
        wiring.finish(first, numbered(1))
        assert numbers(wiring.read()) == [1, 2]


async def test_a_request_without_an_answer_takes_its_turn() -> None:
    with wired() as wiring:
        silent, second = wiring.admit(), wiring.admit()
        wiring.finish(second, numbered(2))
        assert wiring.read() == b""
        wiring.finish(silent, None)
        assert numbers(wiring.read()) == [2]


async def test_a_close_waits_for_the_answers_before_it_and_forgets_those_behind() -> None:
    with wired() as wiring:
        first, closing, behind = wiring.admit(), wiring.admit(), wiring.admit()
        wiring.finish(behind, numbered(3))
        wiring.finish(closing, None, "enough")
        assert not wiring.channel.closed
        wiring.finish(first, numbered(1))
        assert wiring.channel.closed and not wiring.channel.requests_in_flight
        assert numbers(wiring.read()) == [1]


async def test_responses_of_a_closed_connection_are_dropped() -> None:
    with wired() as wiring:
        first, second = wiring.admit(), wiring.admit()
        wiring.finish(second, numbered(2))
        wiring.selector.close_channel(wiring.channel, "gone")
        wiring.finish(first, numbered(1))
        assert wiring.read() == b""
        assert not wiring.responder.responses and not wiring.channel.early


@pytest.mark.parametrize(("login", "failed", "renewed"), [(Login.FAILED, 1, 0), (Login.RENEWED, 0, 1)])
async def test_a_login_that_is_due_with_other_answers_has_its_consequences(
    login: Login, failed: int, renewed: int
) -> None:
    with wired() as wiring:
        wiring.channel.session = SaslSession("PLAIN", 1_000, 0)
        wiring.channel.receive.limit = 10
        first, second, last = (wiring.admit() for _ in range(3))
        last.login = login
        wiring.finish(last, numbered(3))
        wiring.finish(second, numbered(2))
        wiring.finish(first, numbered(1))
        assert numbers(wiring.read()) == [1, 2, 3]
        counts = wiring.selector.counts
        assert (counts.failed_renewals, counts.renewals) == (failed, renewed)
        assert wiring.channel.receive.limit == (1_000 if renewed else 10)


async def test_small_answers_that_are_due_together_go_in_one_write() -> None:
    class Counted:
        def __init__(self, sock: Any) -> None:
            self.sock, self.sends = sock, 0

        def send(self, data: bytes) -> int:
            self.sends += 1
            return int(self.sock.send(data))

    with wired() as wiring:
        requests = [wiring.admit() for _ in range(10)]
        counted = Counted(wiring.channel.sock)
        wiring.channel.sock = counted  # type: ignore[assignment]
        for number, request in enumerate(requests):
            request.reply = numbered(number)
            request.dequeued = request.completed = request.received
            wiring.responder.responses.append(request)
        wiring.responder.flush(wiring.clock.ns())
        wiring.channel.sock = counted.sock
        assert counted.sends == 2  # the first, and all behind it
        assert numbers(wiring.read()) == list(range(10))
        assert wiring.route.metrics.requests == 10
        assert wiring.channel.bytes_out == 80


# Watermarks


@pytest.mark.parametrize(("in_hand", "is_read"), [(63, True), (64, False)])
async def test_a_connection_is_muted_at_the_high_watermark(in_hand: int, is_read: bool) -> None:
    with wired() as wiring:
        for _ in range(in_hand):
            wiring.admit()
        assert (wiring.channel.mute_state is MuteState.NOT_MUTED) is is_read


@pytest.mark.parametrize(("left", "is_read"), [(9, False), (8, False), (7, True)])
async def test_a_muted_connection_is_read_again_below_the_low_watermark(left: int, is_read: bool) -> None:
    with wired() as wiring:
        requests = [wiring.admit() for _ in range(64)]
        for request in requests[: 64 - left]:
            wiring.finish(request, numbered(0))
        assert len(wiring.channel.in_flight) == left
        assert (wiring.channel.mute_state is MuteState.NOT_MUTED) is is_read


async def test_one_that_never_reached_the_high_watermark_is_read_at_any_depth() -> None:
    with wired() as wiring:
        requests = [wiring.admit() for _ in range(63)]
        for request in requests:
            assert wiring.channel.mute_state is MuteState.NOT_MUTED
            wiring.finish(request, numbered(0))


# Throttles


async def test_a_throttle_bypasses_the_order_and_answers_that_are_owed_leave_meanwhile() -> None:
    with wired() as wiring:
        first, second = wiring.admit(), wiring.admit()
        wiring.channel.on(MuteEvent.THROTTLE_STARTED)
        wiring.finish(second, numbered(2))
        assert wiring.channel.mute_state is MuteState.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING
        wiring.finish(first, numbered(1))
        assert numbers(wiring.read()) == [1, 2]
        assert wiring.channel.mute_state is MuteState.MUTED_AND_THROTTLED
        wiring.responder.end_throttling(wiring.channel)
        assert wiring.channel.mute_state is MuteState.NOT_MUTED


async def test_both_flags_must_be_clear_before_a_connection_is_read() -> None:
    with wired(high=2, low=1) as wiring:
        requests = [wiring.admit(), wiring.admit()]
        wiring.channel.on(MuteEvent.THROTTLE_STARTED)
        wiring.responder.end_throttling(wiring.channel)
        assert wiring.channel.mute_state is MuteState.MUTED
        wiring.channel.on(MuteEvent.THROTTLE_STARTED)
        for request in requests:
            wiring.finish(request, numbered(0))
        assert wiring.channel.mute_state is MuteState.MUTED_AND_THROTTLED
        wiring.responder.end_throttling(wiring.channel)
        assert wiring.channel.mute_state is MuteState.NOT_MUTED


async def test_a_connection_that_two_quotas_hold_is_freed_by_the_second() -> None:
    with wired() as wiring:
        wiring.channel.on(MuteEvent.THROTTLE_STARTED)
        wiring.channel.on(MuteEvent.THROTTLE_STARTED)
        wiring.responder.end_throttling(wiring.channel)
        assert wiring.channel.mute_state is MuteState.MUTED_AND_THROTTLED
        wiring.responder.end_throttling(wiring.channel)
        assert wiring.channel.mute_state is MuteState.NOT_MUTED

"""ReconnectBackoff and alarm, with exact times."""

import trio
from trio.testing import MockClock

from broker.config.sections import UpstreamConfig
from broker.gateway.upstream.cluster import Alarm
from broker.gateway.upstream.errors import Reason, ReconnectBackoff, UpstreamError


def failure(reason: Reason = Reason.REFUSED) -> UpstreamError:
    return UpstreamError(reason, "")


def test_the_backoff_doubles_up_to_its_limit_and_starts_again() -> None:
    backoff = ReconnectBackoff(UpstreamConfig(reconnect_backoff_ms=50, reconnect_backoff_max_ms=300))
    assert [backoff.after_s(failure()) for _ in range(5)] == [0.05, 0.1, 0.2, 0.3, 0.3]
    backoff.reset()
    assert backoff.after_s(failure()) == 0.05


def test_without_backoff_there_is_no_wait() -> None:
    backoff = ReconnectBackoff(UpstreamConfig(reconnect_backoff_ms=0, reconnect_backoff_max_ms=0))
    assert [backoff.after_s(failure()) for _ in range(3)] == [0, 0, 0]


def test_credentials_and_other_clusters_wait_for_a_period() -> None:
    backoff = ReconnectBackoff(UpstreamConfig(metadata_max_age_ms=5_000))
    assert backoff.after_s(failure(Reason.CREDENTIALS)) == 5
    assert backoff.after_s(failure(Reason.CLUSTER)) == 5
    assert backoff.after_s(failure(Reason.TLS)) == 0.2
    slow = ReconnectBackoff(
        UpstreamConfig(metadata_max_age_ms=100, reconnect_backoff_ms=700, reconnect_backoff_max_ms=700)
    )
    assert slow.after_s(failure(Reason.CREDENTIALS)) == 0.7


async def woken_at(alarm: Alarm, least_s: float, most_s: float) -> float:
    await alarm.sleep(least_s, most_s)
    return trio.current_time()


async def test_without_a_ring_the_sleep_ends_in_time(autojump_clock: MockClock) -> None:
    assert await woken_at(Alarm(), 1, 5) == 5


async def test_a_ring_ends_the_sleep_but_not_before_its_least_time(autojump_clock: MockClock) -> None:
    for rings_at, wakes_at in ((0.5, 1), (1, 1), (3, 3)):
        alarm, began = Alarm(), trio.current_time()
        async with trio.open_nursery() as nursery:

            async def ring(alarm: Alarm = alarm, at: float = rings_at) -> None:
                await trio.sleep(at)
                alarm.ring()

            nursery.start_soon(ring)
            assert await woken_at(alarm, 1, 5) - began == wakes_at


async def test_a_ring_since_the_last_reset_ends_the_next_sleep(autojump_clock: MockClock) -> None:
    alarm = Alarm()
    alarm.ring()
    assert await woken_at(alarm, 1, 5) == 1
    alarm.reset()
    assert await woken_at(alarm, 1, 5) == 6

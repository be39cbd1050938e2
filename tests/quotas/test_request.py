"""Request time against the numbers of Kafka's ClientRequestQuotaManagerTest."""

import pytest

from broker.quotas.request import RequestQuotaManager
from tests.support.clock import ManualClock

MS = 1_000_000
"""Nanoseconds."""


class Scene:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.manager = RequestQuotaManager()
        self.manager.set_bound("ANONYMOUS", "test-client", 1)

    def record(self, handled_ms: float) -> int:
        throttle = self.manager.record_handled(
            "ANONYMOUS", "test-client", int(handled_ms * MS), self.clock.ms()
        )
        return 0 if throttle is None else throttle.throttle_ms


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_spike_of_67_ms_over_one_percent_waits_210_ms(scene):
    for _ in range(10):
        assert scene.record(4) == 0
        scene.clock.advance(1_000)
    scene.clock.advance(500)
    assert scene.record(67.1) == 210


def test_a_large_spike_waits_one_window_at_a_time_until_it_has_rolled_out(scene):
    for _ in range(11):
        assert scene.record(4) == 0
        scene.clock.advance(1_000)
    assert scene.record(0) == 0
    assert scene.record(500) == 1_000
    for _ in range(10):
        scene.clock.advance(1_000)
        assert scene.record(0) == 1_000
    scene.clock.advance(1_000)
    assert scene.record(0) == 0


def test_network_time_is_known_afterwards_and_counts_for_the_next_request(scene):
    scene.manager.record_sent("ANONYMOUS", "test-client", 110 * MS, scene.clock.ms())
    assert scene.record(0) == 1_000


def test_a_percent_is_ten_milliseconds_of_a_second(scene):
    assert scene.record(100) == 0
    sensor = scene.manager.find("ANONYMOUS", "test-client")
    assert sensor is not None
    assert sensor.observed(scene.clock.ms()) == 1


def test_exempt_time_is_measured_and_not_limited(scene):
    scene.manager.record_exempt(500 * MS, scene.clock.ms())
    assert scene.manager.exempt.measure(scene.clock.ms()) == 5
    assert scene.record(4) == 0


def test_without_a_rule_not_even_exempt_time_is_measured():
    manager = RequestQuotaManager()
    now_ms = ManualClock().ms()
    manager.record_exempt(500 * MS, now_ms)
    assert manager.record_handled("u", "c", 10**12, now_ms) is None
    assert manager.exempt.measure(now_ms) == 0

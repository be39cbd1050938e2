"""Byte rates against the numbers of Kafka's ClientQuotaManagerTest.

They hold with and without pacing, which begins after a violation, with Kafka's throttle time for it.
"""

from sys import float_info

import pytest

from broker.common.slices import run_through
from broker.metrics.rate import INT_MAX, Window
from broker.quotas.bandwidth import RateQuotaManager
from broker.quotas.entity import DEFAULT, Entity
from broker.quotas.kinds import QuotaKind
from broker.quotas.table import UNLIMITED
from tests.quotas.scene import SAMPLES, Connection, Scene


@pytest.fixture(params=[False, True], ids=["kafka", "paced"])
def scene(request: pytest.FixtureRequest) -> Scene:
    return Scene(RateQuotaManager(QuotaKind.PRODUCE, paced=request.param))


def spend_ten_seconds_below_the_quota(scene: Scene) -> None:
    for _ in range(10):
        assert scene.record("ANONYMOUS", "unknown", 400) == 0
        scene.clock.advance(1_000)


def test_ten_records_of_400_bytes_in_ten_seconds_stay_below_500_per_second(scene):
    scene.limit(None, DEFAULT, 500)
    spend_ten_seconds_below_the_quota(scene)
    assert len(scene.manager.throttled) == 0


def test_a_spike_of_2300_bytes_waits_exactly_2100_ms(scene):
    scene.limit(None, DEFAULT, 500)
    spend_ten_seconds_below_the_quota(scene)
    scene.clock.advance(500)
    throttle = scene.manager.record("ANONYMOUS", "unknown", 2_300, scene.clock.ms())
    assert throttle is not None
    assert (throttle.throttle_ms, throttle.observed, throttle.bound) == (2_100, 600, 500)
    assert throttle.kind is QuotaKind.PRODUCE
    assert throttle.rule == Entity(client_id=DEFAULT)


def test_the_channel_is_freed_once_when_the_wait_is_over_and_not_before(scene):
    scene.limit(None, DEFAULT, 500)
    spend_ten_seconds_below_the_quota(scene)
    scene.clock.advance(500)
    throttle = scene.manager.record("ANONYMOUS", "unknown", 2_300, scene.clock.ms())
    channel = Connection()
    scene.manager.throttle(channel, "token", throttle, scene.clock.ms())
    throttled = scene.manager.throttled
    assert len(throttled) == 1
    assert throttled.expired(scene.clock.ms()) == []
    scene.clock.advance(2_099)
    assert throttled.expired(scene.clock.ms()) == []
    scene.clock.advance(1)
    assert throttled.expired(scene.clock.ms()) == ["token"]
    assert len(throttled) == 0


def test_a_burst_has_rolled_out_of_sight_after_ten_more_seconds(scene):
    scene.limit(None, DEFAULT, 500)
    spend_ten_seconds_below_the_quota(scene)
    scene.clock.advance(500)
    assert scene.record("ANONYMOUS", "unknown", 2_300) == 2_100
    scene.clock.advance(2_100)
    for _ in range(10):
        scene.record("ANONYMOUS", "unknown", 400)
        scene.clock.advance(1_000)
    assert scene.record("ANONYMOUS", "unknown", 0) == 0


@pytest.mark.parametrize(
    ("rule", "default", "client"),
    [
        pytest.param((None, "p1"), (None, DEFAULT), ("ANONYMOUS", "p1"), id="client-id"),
        pytest.param(("User1", None), (DEFAULT, None), ("User1", "p1"), id="user"),
        pytest.param(("User1", "p1"), (DEFAULT, DEFAULT), ("User1", "p1"), id="user and client-id"),
        pytest.param(("User1", None), (DEFAULT, DEFAULT), ("User1", "p1"), id="user, default for both"),
        pytest.param(("User1", "p1"), (DEFAULT, None), ("User1", "p1"), id="both, default user"),
    ],
)
def test_a_changed_limit_judges_the_usage_that_is_there(scene, rule, default, client):
    assert scene.manager.bound(*client) == UNLIMITED
    scene.limit(*rule, 2_000)
    assert scene.manager.bound(*client) == 2_000
    assert scene.manager.bound("RandomUser", "random-client-id") == UNLIMITED
    assert scene.record(*client, 2_500 * SAMPLES) > 0
    scene.limit(*rule, 3_000)
    assert scene.record(*client, 0) == 0
    scene.limit(*rule, 500)
    assert scene.record(*client, 0) > 0
    scene.limit(*rule, None)
    scene.limit(*default, 4_000)
    assert scene.manager.bound(*client) == 4_000
    assert scene.record(*client, 1_000 * SAMPLES) == 0


@pytest.mark.parametrize("name", [None, ""])
def test_a_client_without_a_name_follows_the_default(scene, name):
    scene.limit(None, DEFAULT, 4_000)
    assert scene.manager.bound("ANONYMOUS", name) == 4_000
    assert scene.record("ANONYMOUS", name, 4_001 * SAMPLES) > 0
    scene.limit("User1", None, 2_500)
    assert scene.manager.bound("User1", name) == 2_500


@pytest.mark.parametrize("rule", [(DEFAULT, None), ("userA", None), ("userA", "client1")])
def test_without_a_quota_everything_fits_and_nothing_is_recorded(scene, rule):
    manager = scene.manager
    now_ms = scene.clock.ms()

    def nothing_applies() -> bool:
        free = scene.record("userA", "client1", 1_000 * SAMPLES) == 0
        fits = manager.max_value_in_window("userA", "client1", now_ms)
        return free and not manager.active and fits == float_info.max

    assert nothing_applies()
    assert list(manager.sensors()) == []
    scene.limit(*rule, 10)
    assert manager.active
    assert manager.max_value_in_window("userA", "client1", now_ms) == 100
    scene.check("userA", "client1", 10, 1_000, throttled=True)
    scene.limit(*rule, None)
    assert manager.bound("userA", "client1") == UNLIMITED
    assert nothing_applies()


def test_a_client_under_no_rule_is_measured_and_never_throttled(scene):
    scene.limit("somebody else", None, 10)
    assert scene.record("userA", "client1", 10**12) == 0
    assert scene.manager.max_value_in_window("userA", "client1", scene.clock.ms()) == float_info.max
    sensor = scene.manager.find("userA", "client1")
    assert sensor is not None
    assert sensor.observed(scene.clock.ms()) == 10**11
    assert sensor.bound == UNLIMITED


def test_three_whole_windows_of_four_fit():
    scene = Scene(RateQuotaManager(QuotaKind.FETCH, Window(4, 1_000)))
    scene.limit(DEFAULT, None, 10)
    assert scene.manager.max_value_in_window("userA", "client1", scene.clock.ms()) == 30


def test_to_v11_the_most_particular_rule_governs_and_sensors_are_shared_by_what_it_distinguishes(scene):
    limit, check = scene.limit, scene.check
    limit(DEFAULT, None, 1_000)
    limit(None, DEFAULT, 2_000)
    limit(DEFAULT, DEFAULT, 3_000)
    limit("userA", None, 4_000)
    limit("userA", "client1", 5_000)
    limit("userB", None, 6_000)
    limit("userB", "client1", 7_000)
    limit("userB", DEFAULT, 8_000)
    limit("userC", None, 10_000)
    limit(None, "client1", 9_000)

    check("userA", "client1", 5_000, 4_500, throttled=False)
    check("userA", "client2", 4_000, 4_500, throttled=True)
    check("userA", "client3", 4_000, 0, throttled=True)
    check("userA", "client1", 5_000, 0, throttled=False)
    check("userB", "client1", 7_000, 8_000, throttled=True)
    check("userB", "client2", 8_000, 7_000, throttled=False)
    check("userB", "client3", 8_000, 7_000, throttled=False)
    check("userD", "client1", 3_000, 3_500, throttled=True)
    check("userD", "client2", 3_000, 2_500, throttled=False)
    check("userE", "client1", 3_000, 2_500, throttled=False)

    # Other clients share a sensor now, which starts empty.
    limit(DEFAULT, DEFAULT, None)
    check("userD", "client1", 1_000, 0, throttled=False)
    check("userE", "client4", 1_000, 1_500, throttled=True)
    check("userF", "client4", 1_000, 800, throttled=False)
    check("userF", "client5", 1_000, 800, throttled=True)

    # By client id across users.
    limit(DEFAULT, None, None)
    check("userF", "client4", 2_000, 0, throttled=False)
    check("userF", "client5", 2_000, 0, throttled=False)
    check("userF", "client5", 2_000, 2_500, throttled=True)
    check("userG", "client5", 2_000, 0, throttled=True)

    # New limits, former usage.
    limit("userA", None, 8_000)
    limit("userA", "client1", 10_000)
    check("userA", "client2", 8_000, 0, throttled=False)
    check("userA", "client2", 8_000, 4_500, throttled=True)
    check("userA", "client1", 10_000, 0, throttled=False)
    check("userA", "client1", 10_000, 6_000, throttled=True)
    limit("userA", "client1", None)
    check("userA", "client6", 8_000, 0, throttled=True)
    limit("userA", "client6", 11_000)
    check("userA", "client6", 11_000, 8_500, throttled=False)
    limit("userA", DEFAULT, 12_000)
    limit("userA", "client6", None)
    check("userA", "client6", 12_000, 4_000, throttled=True)


def test_a_sensor_that_has_expired_is_made_again_and_still_throttles(scene):
    scene.limit(None, DEFAULT, 500)
    scene.record("ANONYMOUS", "client1", 100)
    scene.clock.advance(3_600_000)
    assert run_through(scene.manager.expire(scene.clock.ms())) == 0
    scene.clock.advance(1)
    assert run_through(scene.manager.expire(scene.clock.ms())) == 1
    assert scene.manager.find("ANONYMOUS", "client1") is None
    assert scene.record("ANONYMOUS", "client1", 10_000) == 10_000
    assert scene.manager.find("ANONYMOUS", "client1") is not None


def test_a_client_id_is_kept_as_it_came(scene):
    scene.limit(None, DEFAULT, 500)
    scene.record("ANONYMOUS", "client@#$%", 100)
    assert [(sensor.user, sensor.client_id) for sensor in scene.manager.sensors()] == [(None, "client@#$%")]


@pytest.mark.parametrize(("value", "wait_ms"), [(4_999, 0), (5_000, 0), (5_000.2, 0), (5_001, 2)])
def test_the_bound_itself_is_allowed_and_a_wait_that_rounds_to_nothing_is_none(scene, value, wait_ms):
    scene.limit("userA", None, 500)
    assert scene.record("userA", "c", value) == wait_ms


def test_unrecorded_bytes_leave_the_usage_as_it_was(scene):
    scene.limit("userA", None, 500)
    assert scene.record("userA", "c", 4_000) == 0
    assert scene.record("userA", "c", 2_000) == 2_000
    scene.manager.unrecord("userA", "c", 2_000, scene.clock.ms())
    sensor = scene.manager.find("userA", "c")
    assert sensor is not None
    assert sensor.observed(scene.clock.ms()) == 400


def test_unchecked_records_count_for_the_next_check(scene):
    scene.limit("userA", None, 500)
    scene.manager.record_unchecked("userA", "c", 5_500, scene.clock.ms())
    assert scene.record("userA", "c", 0) == 1_000


@pytest.mark.parametrize(
    ("longest_ms", "wait_ms"), [(999, 999), (1_000, 1_000), (1_001, 1_000), (None, 1_000)]
)
def test_a_throttle_is_never_longer_than_the_longest_allowed(longest_ms, wait_ms):
    scene = Scene(RateQuotaManager(QuotaKind.PRODUCE, longest_ms=longest_ms))
    scene.limit("userA", None, 1_000)
    assert scene.record("userA", "c", 11_000) == wait_ms


def test_a_wait_that_no_reply_can_carry_is_the_longest_one_it_can(scene):
    scene.limit("userA", None, 1)
    assert scene.record("userA", "c", 10**15) == INT_MAX


@pytest.mark.parametrize(
    ("changed", "left_ms"),
    [
        *((None, 0), (6_000, 0), (5_999, 6_668), (2_000, 20_000), (1_001, 39_960)),
        *((1_000, 40_000), (999, 40_040), (500, 80_000)),
    ],
)
def test_the_rest_of_a_wait_is_repaid_under_the_changed_limit(scene, changed, left_ms):
    """60,000 bytes are 6,000 a second, 50 s too many for 1,000; 10 s later the debt is 40,000. A limit
    that allows the usage, or no limit, ends the throttle at once.
    """
    scene.limit("userA", None, 1_000)
    channel = Connection(principal="userA")
    throttle = scene.manager.record("userA", "client1", 60_000, scene.clock.ms())
    assert throttle is not None and throttle.throttle_ms == 50_000
    scene.manager.throttle(channel, channel, throttle, scene.clock.ms())
    scene.clock.advance(10_000)
    scene.limit("userA", None, changed)
    throttled = scene.manager.throttled
    for passed_ms in (left_ms - 1, 1) if left_ms else ():
        assert throttled.expired(scene.clock.ms()) == []
        scene.clock.advance(passed_ms)
    assert throttled.expired(scene.clock.ms()) == [channel]
    scene.clock.advance(200_000)
    assert throttled.expired(scene.clock.ms()) == []


@pytest.mark.parametrize(
    ("running", "throttle_ms"),
    [
        ([("ANONYMOUS", "unknown", 999.0)], 0),
        ([("ANONYMOUS", "unknown", 1_000.0)], 0),
        ([("ANONYMOUS", "unknown", 1_001.0)], 1_000),
        ([("ANONYMOUS", "unknown", 400_000.0)], 1_000),
        ([("ANONYMOUS", "unknown", 600.0), ("ANONYMOUS", "unknown", 600.0)], 1_000),
        ([("ANONYMOUS", "another", 400_000.0)], 0),
        ([], 0),
    ],
)
def test_a_client_that_is_over_a_new_rule_already_is_held_at_once(scene, running, throttle_ms):
    """As if ten windows had been recorded at the bound: (10,000 + 1,000) / 10 s is 100 too many."""
    scene.limit(None, DEFAULT, 1_000)
    run_through(scene.manager.adopt(running, scene.clock.ms()))
    assert scene.record("ANONYMOUS", "unknown", 1_000) == throttle_ms


def test_a_client_that_has_been_counted_is_not_counted_twice(scene):
    scene.limit(None, DEFAULT, 1_000)
    scene.record("ANONYMOUS", "unknown", 1)
    run_through(scene.manager.adopt([("ANONYMOUS", "unknown", 400_000.0)], scene.clock.ms()))
    assert scene.record("ANONYMOUS", "unknown", 9_999) == 0
    assert scene.record("ANONYMOUS", "unknown", 1_000) == 1_000


def test_without_rules_no_client_is_adopted(scene):
    run_through(scene.manager.adopt([("ANONYMOUS", "unknown", 400_000.0)], scene.clock.ms()))
    assert list(scene.manager.sensors()) == []

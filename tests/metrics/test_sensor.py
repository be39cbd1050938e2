"""Sensor and Sensors: strict enforcement, ownership of metrics, expiry. (Kafka: SensorTest)"""

import pytest

from broker.metrics.quota import Quota, Violation
from broker.metrics.rate import Rate
from broker.metrics.sensor import MetricName, Sensor, Sensors
from broker.metrics.token_bucket import TokenBucket
from broker.metrics.window import Avg, Window

START = 1_700_000_000_000
ELEVEN = Window(11, 1_000)


def sensor_with(stat, quota: Quota | None) -> Sensor:
    sensors = Sensors()
    sensor = sensors.sensor("sensor", START)
    assert sensors.add(sensor, MetricName("value", "test"), stat, START, quota)
    return sensor


def test_v26_strict_enforcement_on_a_rate_refuses_while_the_burst_is_in_sight():
    rate = Rate(ELEVEN)
    sensor = sensor_with(rate, Quota(2))
    assert sensor.record_strictly(30, START) is None
    assert rate.measure(START) == 3
    assert sensor.record_strictly(30, START + 5_000) == Violation(3, 2)
    assert rate.measure(START + 5_000) == 3


def test_v27_strict_enforcement_on_a_token_bucket_refuses_only_below_zero():
    for wait_ms, granted, tokens in ((4_999, False, -0.002), (5_000, True, -30)):
        bucket = TokenBucket.full(Window(10, 1_000), 2, START)
        sensor = sensor_with(bucket, Quota(2))
        assert sensor.record_strictly(30, START) is None
        assert bucket.measure(START) == -10
        assert (sensor.record_strictly(30, START + wait_ms) is None) is granted
        assert bucket.measure(START + wait_ms) == pytest.approx(tokens)


def test_recording_without_asking_breaks_the_quota_for_the_next_who_asks():
    sensor = sensor_with(Rate(ELEVEN), Quota(2))
    sensor.record(20, START)
    assert sensor.check(START) is None
    sensor.record(1, START)
    assert sensor.check(START) == Violation(2.1, 2)


def test_another_quota_changes_the_bound_and_leaves_the_usage():
    sensor = sensor_with(Rate(ELEVEN), Quota(2))
    sensor.record(30, START)
    sensor.metrics[0].quota = Quota(3)
    assert sensor.check(START) is None
    sensor.metrics[0].quota = None
    sensor.record(1_000, START)
    assert sensor.check(START) is None


def test_v29_an_expired_sensor_takes_no_more_metrics():
    for idle_ms, taken in ((59_999, True), (60_000, True), (60_001, False)):
        sensors = Sensors()
        sensor = sensors.sensor("sensor", START, expiry_ms=60_000)
        assert sensors.add(sensor, MetricName("avg", "test"), Avg(ELEVEN), START + idle_ms) is taken, idle_ms


def test_v29_a_metric_belongs_to_one_sensor():
    sensors = Sensors()
    first, second = sensors.sensor("first", START), sensors.sensor("second", START)
    name = MetricName("avg", "test", (("client-id", "a"),))
    assert sensors.add(first, name, Avg(ELEVEN), START)
    assert sensors.add(first, name, Avg(ELEVEN), START)
    assert len(first.metrics) == 1
    with pytest.raises(ValueError, match="belongs to the sensor first"):
        sensors.add(second, name, Avg(ELEVEN), START)
    sensors.remove("first")
    assert sensors.add(second, name, Avg(ELEVEN), START)


def test_v29_check_and_record_by_ten_interleaved_clients_charges_each_exactly_once():
    bucket = TokenBucket.full(Window(10, 1_000), 20, START)
    sensor = sensor_with(bucket, Quota(20))
    verdicts = [sensor.record_strictly(1, START) for _ in range(20) for _client in range(10)]
    assert verdicts == [None] * 200
    assert bucket.measure(START) == 0
    assert [sensor.record_strictly(1, START) for _ in range(2)] == [None, Violation(-1, 20)]


def test_an_idle_sensor_goes_and_a_lasting_one_stays():
    sensors = Sensors()
    lasting, passing = sensors.sensor("lasting", START), sensors.sensor("passing", START, expiry_ms=3_600_000)
    sensors.add(passing, MetricName("avg", "test"), Avg(ELEVEN), START)
    passing.record(1, START + 1_000)
    assert sensors.expire(START + 3_601_000) == []
    assert sensors.expire(START + 3_601_001) == ["passing"]
    assert list(sensors) == [lasting]
    assert sensors.sensor("passing", START + 3_601_001) is not passing

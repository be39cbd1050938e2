"""Sensors: how clients share them, their number, and their expiry."""

from functools import partial

from broker.common.clock import BASE_MS
from broker.common.slices import run_through
from broker.metrics.rate import Window
from broker.quotas.entity import DEFAULT
from broker.quotas.table import UNLIMITED, QuotaTable
from broker.quotas.usage import IDLE_MS, ClientSensor, Usage


def usage(table: QuotaTable, most: int = 16) -> Usage[ClientSensor]:
    return Usage(table, partial(ClientSensor, window=Window()), most)


def test_a_rule_for_a_user_has_one_sensor_for_all_client_ids():
    table = QuotaTable()
    table.set("alice", None, 10)
    sensors = usage(table)
    first = sensors.sensor("alice", "a", BASE_MS)
    assert sensors.sensor("alice", "b", BASE_MS) is first
    assert (first.user, first.client_id, first.bound) == ("alice", None, 10)
    assert sensors.sensor("bob", "a", BASE_MS) is not first


def test_a_default_rule_has_one_sensor_for_each_name_that_it_stands_for():
    table = QuotaTable()
    table.set(None, DEFAULT, 10)
    sensors = usage(table)
    assert sensors.sensor("alice", "a", BASE_MS) is sensors.sensor("bob", "a", BASE_MS)
    assert sensors.sensor("alice", "a", BASE_MS) is not sensors.sensor("alice", "b", BASE_MS)


def test_a_client_under_no_rule_is_distinguished_by_the_one_level_that_exists():
    for rule, apart in (
        (("x", None), ("alice", None)),
        ((None, "x"), (None, "app")),
        (("x", "x"), ("alice", "app")),
    ):
        table = QuotaTable()
        table.set(*rule, 10)
        sensor = usage(table).sensor("alice", "app", BASE_MS)
        assert (sensor.user, sensor.client_id) == apart
        assert (sensor.bound, sensor.rule) == (UNLIMITED, None)


def test_a_null_client_id_is_the_empty_one():
    table = QuotaTable()
    table.set(None, DEFAULT, 10)
    sensors = usage(table)
    assert sensors.sensor("alice", None, BASE_MS) is sensors.sensor("alice", "", BASE_MS)
    assert sensors.find("alice", None) is sensors.find("alice", "")


def test_a_user_rule_and_the_unnamed_client_of_that_user_are_kept_apart():
    table = QuotaTable()
    table.set("alice", DEFAULT, 10)
    sensors = usage(table)
    unnamed = sensors.sensor("alice", "", BASE_MS)
    assert (unnamed.user, unnamed.client_id) == ("alice", "")
    table.set("alice", DEFAULT, None)
    table.set("alice", None, 20)
    sensors.sweep()
    assert sensors.sensor("alice", "", BASE_MS) is not unnamed


def test_a_changed_rule_reaches_the_sensor_when_its_client_is_next_seen():
    table = QuotaTable()
    table.set(None, "app", 10)
    sensors = usage(table)
    sensor = sensors.sensor("alice", "app", BASE_MS)
    table.set(None, "app", 20)
    assert sensors.sensor("alice", "app", BASE_MS).bound == 10
    sensors.sweep()
    assert sensors.sensor("alice", "app", BASE_MS) is sensor
    assert sensor.bound == 20


def test_looking_at_all_sensors_brings_their_limits_up_to_date():
    table = QuotaTable()
    table.set(None, DEFAULT, 10)
    sensors = usage(table)
    sensors.sensor("alice", "app", BASE_MS)
    table.set(None, DEFAULT, 20)
    assert [sensor.bound for sensor in sensors] == [20]
    table.set(None, DEFAULT, None)
    assert [(sensor.bound, sensor.rule) for sensor in sensors] == [(UNLIMITED, None)]


def test_a_sensor_idle_for_an_hour_stays_and_a_millisecond_later_goes():
    table = QuotaTable()
    table.set(None, DEFAULT, 10)
    sensors = usage(table)
    old = sensors.sensor("alice", "old", BASE_MS)
    young = sensors.sensor("alice", "young", BASE_MS + 1)
    assert run_through(sensors.expire(BASE_MS + IDLE_MS)) == 0
    assert run_through(sensors.expire(BASE_MS + IDLE_MS + 1)) == 1
    assert list(sensors) == [young]
    assert sensors.sensor("alice", "old", BASE_MS + IDLE_MS + 1) is not old


def test_names_without_end_take_the_place_of_those_idle_for_longest():
    table = QuotaTable()
    table.set(None, DEFAULT, 10)
    sensors = usage(table, most=16)
    for number in range(16):
        sensors.sensor("alice", f"client{number}", BASE_MS + number)
    busy = sensors.sensor("alice", "client0", BASE_MS)
    busy.last_record_ms = BASE_MS + 100
    sensors.sensor("alice", "one more", BASE_MS + 101)
    assert len(sensors) == 15
    assert [sensor.client_id for sensor in sensors][:2] == ["client0", "client3"]
    assert sensors.sensor("alice", "client0", BASE_MS + 102) is busy


def test_many_clients_of_one_sensor_do_not_take_up_memory_without_end():
    table = QuotaTable()
    table.set("alice", None, 10)
    sensors = usage(table, most=16)
    first = sensors.sensor("alice", "client0", BASE_MS)
    for number in range(1_000):
        assert sensors.sensor("alice", f"client{number}", BASE_MS) is first
    assert len(sensors) == 1
    assert len(sensors._by_client) <= 16

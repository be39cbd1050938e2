"""Throttled channels: unmuted once, in order of their ends. (Kafka: ThrottledChannelExpirationTest)"""

import pytest

from broker.common.clock import BASE_MS
from broker.metrics.rate import Window
from broker.quotas.entity import DEFAULT, Entity
from broker.quotas.kinds import QuotaKind
from broker.quotas.throttled import Throttle, ThrottledChannels, longer
from broker.quotas.usage import ClientSensor
from tests.quotas.scene import Connection


def throttle(ms: int, kind: QuotaKind = QuotaKind.PRODUCE) -> Throttle:
    sensor = ClientSensor(None, "client1", BASE_MS, Window())
    return Throttle(kind, ms, Entity(client_id=DEFAULT), 600.0, 500.0, sensor)


@pytest.fixture
def throttled() -> ThrottledChannels:
    return ThrottledChannels()


def test_delays_of_10_30_30_20_ms_end_one_two_three_and_four(throttled):
    channels = [Connection() for _ in range(4)]
    for number, delay_ms in enumerate((10, 30, 30, 20)):
        throttled.add(channels[number], number, throttle(delay_ms), BASE_MS)
    assert len(throttled) == 4
    assert throttled.pop_expired(BASE_MS) is None
    ended = []
    for elapsed_ms, expected in (
        (10, [0]),
        (20, [0, 3]),
        (30, [0, 3, 1]),
        (30, [0, 3, 1, 2]),
        (30, [0, 3, 1, 2]),
    ):
        token = throttled.pop_expired(BASE_MS + elapsed_ms)
        if token is not None:
            ended.append(token)
        assert ended == expected
    assert len(throttled) == 0


@pytest.mark.parametrize(("elapsed_ms", "freed"), [(99, []), (100, ["t"]), (101, ["t"])])
def test_a_channel_is_due_exactly_when_its_time_is_over(throttled, elapsed_ms, freed):
    throttled.add(Connection(), "t", throttle(100), BASE_MS)
    assert throttled.expired(BASE_MS + elapsed_ms) == freed


def test_the_earliest_end_comes_first_whatever_the_order_in_which_they_were_throttled(throttled):
    throttled.add(Connection(), "late", throttle(500), BASE_MS)
    throttled.add(Connection(), "early", throttle(100), BASE_MS + 50)
    assert throttled.next_deadline() == BASE_MS + 150
    assert throttled.expired(BASE_MS + 1_000) == ["early", "late"]
    assert throttled.next_deadline() is None


def test_a_closed_channel_is_not_returned_and_its_deadline_is_gone(throttled):
    gone, stays = Connection(), Connection()
    throttled.add(gone, "gone", throttle(100), BASE_MS)
    throttled.add(stays, "stays", throttle(200), BASE_MS)
    throttled.forget(gone)
    throttled.forget(gone)
    assert len(throttled) == 1
    assert throttled.next_deadline() == BASE_MS + 200
    assert throttled.expired(BASE_MS + 200) == ["stays"]


def test_a_channel_that_is_held_again_ends_with_its_second_throttle(throttled):
    channel = Connection()
    throttled.add(channel, "first", throttle(100), BASE_MS)
    throttled.forget(channel)
    throttled.add(channel, "second", throttle(100), BASE_MS + 50)
    assert throttled.expired(BASE_MS + 100) == []
    assert throttled.expired(BASE_MS + 150) == ["second"]


@pytest.mark.parametrize(("second_ms", "end_ms"), [(49, 100), (50, 100), (51, 101)])
def test_a_hold_that_is_prolonged_ends_once_and_with_the_later_of_both(throttled, second_ms, end_ms):
    channel = Connection()
    throttled.add(channel, "t", throttle(100), BASE_MS)
    assert throttled.prolong(channel, throttle(second_ms), BASE_MS + 50)
    (row,) = throttled.rows(BASE_MS + 60)
    assert (row.since_ms, row.count, len(throttled)) == (60, 1, 1)
    assert throttled.expired(BASE_MS + end_ms - 1) == []
    assert throttled.expired(BASE_MS + end_ms) == ["t"]
    assert throttled.expired(BASE_MS + 1_000) == []


def test_a_channel_that_is_not_held_is_not_prolonged(throttled):
    assert not throttled.prolong(Connection(), throttle(100), BASE_MS)
    assert len(throttled) == 0 and throttled.next_deadline() is None


def test_an_extended_hold_is_one_hold_that_ends_later(throttled):
    channel = Connection()
    throttled.add(channel, "channel", throttle(100), BASE_MS)
    throttled.extend(channel, 25)
    throttled.extend(Connection("c-2"), 25)  # which is not throttled
    (row,) = throttled.rows(BASE_MS + 50)
    assert (row.remaining_ms, row.since_ms, row.count, row.throttle_ms) == (75, 50, 1, 100)
    assert throttled.expired(BASE_MS + 124) == []
    assert throttled.expired(BASE_MS + 125) == ["channel"]
    assert throttled.expired(BASE_MS + 1_000) == []


def test_an_early_end_is_due_at_once_and_only_once(throttled):
    channel, other = Connection(), Connection()
    throttled.add(channel, "channel", throttle(60_000), BASE_MS)
    throttled.add(other, "other", throttle(10), BASE_MS)
    throttled.end_early(throttled.all()[0])
    deadline = throttled.next_deadline()
    assert deadline is not None and deadline <= BASE_MS
    assert throttled.rows(BASE_MS)[-1].remaining_ms == 0
    assert throttled.expired(BASE_MS) == ["channel"]
    assert throttled.expired(BASE_MS + 60_000) == ["other"]


def test_rows_say_the_throttled_client_the_reason_and_the_time(throttled):
    first = Connection("c-1", None, "alice", "10.0.0.1")
    second = Connection("c-2", "loud", "bob", "10.0.0.2", throttles=4)
    throttled.add(first, first, throttle(1_000), BASE_MS)
    throttled.add(second, second, throttle(5_000, QuotaKind.FETCH), BASE_MS)
    rows = throttled.rows(BASE_MS + 250)
    assert [row.connection_id for row in rows] == ["c-2", "c-1"]
    row = rows[0]
    assert (row.client_id, row.principal, row.address) == ("loud", "bob", "10.0.0.2")
    assert (row.quota_type, row.entity) == (QuotaKind.FETCH, Entity(client_id=DEFAULT))
    assert (row.observed, row.bound) == (600, 500)
    assert (row.throttle_ms, row.remaining_ms, row.since_ms, row.count) == (5_000, 4_750, 250, 5)
    assert (rows[1].client_id, rows[1].remaining_ms, rows[1].count) == ("", 750, 1)
    # The remaining time is never negative, even if the reaper is late.
    assert throttled.rows(BASE_MS + 9_000)[0].remaining_ms == 0


def test_the_larger_throttle_counts_and_of_equals_the_request_quotas():
    produce, request = throttle(10), throttle(10, QuotaKind.REQUEST)
    assert longer(None, None) is None
    assert longer(None, produce) is produce
    assert longer(request, None) is request
    assert longer(request, produce) is request
    assert longer(request, throttle(11)) == throttle(11)
    assert longer(request, throttle(9)) is request

"""The effect of quotas on clients, on a simulated clock.

The numbers follow from the formula: 11,000 bytes at once under 1,000 B/s are 1,100 B/s over ten seconds,
and cost one second.
"""

import pytest
from msgspec.structs import replace

from broker.config.sections import QuotaConfig
from broker.quotas.entity import DEFAULT
from broker.quotas.kinds import QuotaKind
from broker.simulation.engine import TooManyEventsError, run_scenario
from broker.simulation.idle_periods import IdlePeriods
from broker.simulation.scenario import SECOND_US, Piece
from broker.simulation.summary import groups, rules
from tests.simulation.loads import MINUTE_US, accepted, group, limit, one, scenario, simulated

MS = 1_000


def test_no_client_is_held_without_a_limit_and_nothing_is_played():
    outcome = simulated(group(rate=50_000), group("h", request_bytes=10))
    assert outcome.events == 0
    steady, greedy = outcome.clients
    assert accepted(steady) == 3_000_000
    assert accepted(greedy) == 60 * 500 * 10  # a response every 2 ms


@pytest.mark.parametrize(("size", "throttle_ms"), [(9_999, 0), (10_000, 0), (11_000, 1_000)])
def test_one_request_waits_as_the_formula_says(size, throttle_ms):
    # One request only: the next one would be after the end.
    wants = group(rate=size / 60, request_bytes=size)
    totals = one(simulated(wants, limits=(limit(1_000),))).connection.throttles[QuotaKind.PRODUCE]
    assert (totals.total_ms, totals.count) == (throttle_ms, 1 if throttle_ms else 0)


@pytest.mark.parametrize("obeys", [True, False])
@pytest.mark.parametrize("kind", [QuotaKind.PRODUCE, QuotaKind.FETCH])
def test_a_greedy_client_gets_its_quota(kind, obeys):
    bound = limit(100_000, "producer_byte_rate" if kind is QuotaKind.PRODUCE else "consumer_byte_rate")
    outcome = simulated(group(kind=kind, obeys=obeys, request_bytes=10_000), limits=(bound,))
    assert accepted(one(outcome)) / 6_000_000 == pytest.approx(1, abs=0.01)


def test_two_hundred_clients_of_one_user_share_its_quota():
    outcome = simulated(group(count=200), limits=(limit(1_000_000),))
    shares = [accepted(client) for client in outcome.clients]
    assert sum(shares) / 60_000_000 == pytest.approx(1, abs=0.01)
    assert max(shares) / min(shares) < 1.1


def test_kafkas_own_rule_is_played_where_the_settings_say_so():
    rate = QuotaConfig(bandwidth_algorithm="rate")
    outcome = simulated(
        group(request_bytes=16_384), limits=(limit(1_000_000),), settings=rate, latency_us=100
    )
    assert accepted(one(outcome)) / 60_000_000 == pytest.approx(1.10, abs=0.01)


def test_the_longest_throttle_is_the_settings():
    short = QuotaConfig(max_throttle_ms=50)
    outcome = simulated(group(request_bytes=100_000), limits=(limit(1_000),), settings=short)
    assert one(outcome).connection.throttles[QuotaKind.PRODUCE].longest_ms == 50


def test_a_client_that_does_not_obey_has_its_request_at_the_broker_when_the_wait_is_over():
    """Both are throttled for 1 s at 0; the client that obeys sends after the response and the second."""
    times = []
    for obeys in (False, True):
        outcome = simulated(
            group(request_bytes=11_000, obeys=obeys),
            limits=(limit(1_000),),
            duration_us=1_000 * MS + 1,
            latency_us=5 * MS,
        )
        times.append(one(outcome).connection.sender.free_us)
    # At 1.000 s the second request of one finds 10,000 bytes still owed; the other's is not sent yet.
    assert times == [11_000 * MS, 1_005 * MS]


def test_a_throttled_producer_gives_up_late_requests():
    wants = group(rate=100_000, request_bytes=1_000, patience_us=5 * SECOND_US, batch_bytes=1_000)
    client = one(simulated(wants, limits=(limit(10_000),)))
    lost = client.connection.sender.expired.nbytes
    assert accepted(client) / 600_000 == pytest.approx(1, abs=0.02)
    assert lost == pytest.approx(6_000_000 - 600_000 - 5 * 100_000, rel=0.02)


def test_a_fetch_is_cut_to_what_the_windows_allow():
    wants = group(kind=QuotaKind.FETCH, rate=500_000, request_bytes=500_000, pieces=(Piece(0, SECOND_US, 1),))
    bound = limit(10_000, "consumer_byte_rate")
    client = one(simulated(wants, limits=(bound,), duration_us=45 * SECOND_US))
    # 100,000 bytes at 0, and again whenever ten seconds have paid for them.
    assert accepted(client) == 500_000


def test_time_of_the_thread_is_a_limit_too():
    """A request of 1 ms every 2 ms is half a thread; 10 % are allowed."""
    wants = group(request_bytes=1, handling_ns=1_000_000)
    client = one(simulated(wants, limits=(limit(10, "request_percentage"),)))
    assert client.connection.sent_requests == pytest.approx(60 * 100, rel=0.01)
    assert client.connection.throttles[QuotaKind.REQUEST].longest_ms <= 11_000
    assert client.connection.throttles[QuotaKind.PRODUCE].count == 0


def test_a_default_rule_is_one_allowance_for_each_name():
    outcome = simulated(group(count=3, request_bytes=10_000), limits=(limit(100_000, client_id=DEFAULT),))
    (row,) = rules(outcome)
    assert row.allowances == 3
    assert row.totals.accepted / 18_000_000 == pytest.approx(1, abs=0.02)


def test_idle_hours_are_not_played_and_that_changes_nothing(monkeypatch):
    """The burst is in the middle; requests that are counted and not simulated must not change the result."""
    pieces = (
        Piece(0, 10 * MINUTE_US, 0.2),
        Piece(10 * MINUTE_US, 11 * MINUTE_US, 1.0),
        Piece(11 * MINUTE_US, 30 * MINUTE_US, 0.2),
    )
    wants = group(rate=100_000, count=5, pieces=pieces)
    some = simulated(wants, limits=(limit(200_000),), duration_us=30 * MINUTE_US)
    monkeypatch.setattr(IdlePeriods, "until", lambda _, at_us: at_us)
    every = simulated(wants, limits=(limit(200_000),), duration_us=30 * MINUTE_US)
    assert some.events * 3 < every.events
    (totals,), (whole,) = ([row.totals for row in groups(each)] for each in (some, every))
    assert totals.accepted + totals.waiting + totals.expired == totals.offered
    assert totals.throttles > 0
    assert totals == whole


def test_the_same_seed_is_the_same_outcome_and_another_is_not():
    load = scenario(group(rate=30_000, count=50), limits=(limit(1_000_000),))
    first, second, other = run_scenario(load), run_scenario(load), run_scenario(replace(load, seed=2))
    assert groups(first) == groups(second)
    assert [p.connection.sender.free_us for p in first.clients] != [
        p.connection.sender.free_us for p in other.clients
    ]


def test_too_many_events_end_it_with_a_word_of_how_far_it_came():
    load = scenario(group(request_bytes=100), limits=(limit(10_000),))
    with pytest.raises(TooManyEventsError, match="1,000 requests were simulated"):
        run_scenario(load, max_events=1_000)


def test_a_token_bucket_is_played_where_the_settings_say_so():
    """A burst of a second's bytes, and no throttle longer than the request's worth."""
    bucket = QuotaConfig(bandwidth_algorithm="token_bucket")
    client = one(simulated(group(request_bytes=10_000), limits=(limit(100_000),), settings=bucket))
    assert accepted(client) == pytest.approx(61 * 100_000, rel=0.01)
    assert client.connection.throttles[QuotaKind.PRODUCE].longest_ms <= 100


def test_a_limit_in_shadow_throttles_no_client():
    shadow = replace(limit(1_000), is_shadow=True)
    client = one(simulated(group(request_bytes=10_000), limits=(shadow,)))
    assert accepted(client) == 60 * 500 * 10_000
    assert client.connection.throttles[QuotaKind.PRODUCE].count == 0

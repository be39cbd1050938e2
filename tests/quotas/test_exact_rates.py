"""Limits on new connections, request time and replication over minutes, of clients that always want more:
what is admitted beyond the first burst is the limit times the time, to the connection.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

import pytest

from broker.common.clock import BASE_MS
from broker.metrics.rate import INT_MAX, Window
from broker.quotas.bandwidth import RateQuotaManager
from broker.quotas.connection_rates import PacedAcceptRate
from broker.quotas.connections import (
    ConnectionQuotas,
    Limits,
    Throttled,
    TooFastOfUser,
    UserConnections,
    UserLimit,
)
from broker.quotas.kinds import QuotaKind
from broker.quotas.replication import ReplicationQuotaManager
from broker.quotas.request import RequestQuotaManager

ADDRESS = "10.0.0.1"
MANY = 10**9


def steady(per_second: float) -> Callable[[int], int]:
    """Return when connection number n arrives, in ms from the start."""
    return lambda number: round(number * 1_000 / per_second)


def in_bursts(size: int, every_s: int) -> Callable[[int], int]:
    return lambda number: number // size * every_s * 1_000


def accepted(
    quotas: ConnectionQuotas, names: tuple[str, ...], arrives: Callable[[int], int], seconds: int
) -> int:
    """Return how many connections the acceptors of these listeners serve; each has the same arrivals."""
    served = 0
    turns = [(0, order, name, 0) for order, name in enumerate(names)]
    while turns:
        now_ms, order, name, number = heappop(turns)
        now_ms = max(now_ms, arrives(number))
        wait_ms = quotas.record(quotas.listeners[name], BASE_MS + now_ms)
        if now_ms + wait_ms < seconds * 1_000:
            served += 1
            heappush(turns, (now_ms + wait_ms, order, name, number + 1))
    return served


@pytest.mark.parametrize("listeners", [1, 2, 7])
@pytest.mark.parametrize(("limit", "seconds"), [(1, 900), (5, 300), (20, 120), (300, 30), (1_000, 20)])
@pytest.mark.parametrize(
    "arrives", [steady(MANY), steady(2_000), in_bursts(20_000, 5)], ids=["always", "steady", "bursts"]
)
def test_acceptors_serve_ten_seconds_worth_and_then_the_limit(arrives, limit, seconds, listeners):
    names = tuple(f"L{number}" for number in range(listeners))
    quotas = ConnectionQuotas(paced=True)
    for name in names:
        quotas.add_listener(name)
    quotas.set_broker_limits(Limits(creation_rate=limit))
    assert accepted(quotas, names, arrives, seconds) == pytest.approx((seconds + 10) * limit, abs=1)


def test_each_listener_has_its_own_rate_beside_the_brokers():
    quotas = ConnectionQuotas(paced=True)
    for name, limit in (("A", 3), ("B", 500)):
        quotas.add_listener(name)
        quotas.set_listener_limits(name, Limits(creation_rate=limit))
    quotas.set_broker_limits(Limits(creation_rate=7))
    assert accepted(quotas, ("A",), steady(MANY), 600) == pytest.approx(3 * 610, abs=1)
    assert accepted(quotas, ("A", "B"), steady(MANY), 600) <= 7 * 610


class Visitors:
    """Clients of one address or user. Each connects, closes, and connects again after a pause. A throttled
    one is checked again after its wait (ip.throttle.mode=kip), or closed then.
    """

    def __init__(self, enter: Callable[[int], int | None], again: Callable[[int], int | None] | None) -> None:
        self._enter, self._again = enter, again
        self.served: list[int] = []
        self.waits: list[int] = []

    def play(self, clients: int, pause_ms: int, seconds: int, starts: Callable[[int], int]) -> int:
        serial = count()
        turns = [(starts(number), next(serial), False) for number in range(clients)]
        turns.sort()
        while turns:
            now_ms, _, waited = heappop(turns)
            if now_ms >= seconds * 1_000:
                break
            check = self._again if waited and self._again is not None else self._enter
            wait_ms = check(BASE_MS + now_ms)
            if wait_ms is None:
                self.served.append(now_ms)
            elif not waited:
                self.waits.append(wait_ms)
                if self._again is not None:
                    heappush(turns, (now_ms + wait_ms, next(serial), True))
                    continue
                now_ms += wait_ms
            heappush(turns, (now_ms + pause_ms, next(serial), False))
        return len(self.served)


def visitors_of_an_address(quotas: ConnectionQuotas, *, mode: str) -> Visitors:
    listener = quotas.add_listener("L")

    def enter(now_ms: int) -> int | None:
        refusal = quotas.check_address(listener, ADDRESS, now_ms)
        if refusal is not None:
            assert isinstance(refusal, Throttled)
            return refusal.throttle_ms
        assert quotas.record(listener, now_ms) == 0
        assert quotas.enter(listener, ADDRESS, now_ms) is None
        quotas.release("L", ADDRESS)
        return None

    return Visitors(enter, enter if mode == "kip" else None)


LOADS = {
    # clients, pause between two connections of one in ms, when each begins
    "one client that comes back at once": (1, 1, lambda number: 0),
    "many steady clients": (30, 700, lambda number: number * 13),
    "a storm that comes together": (60, 997, lambda number: 0),
}


@pytest.mark.parametrize("mode", ["kip", "kafka"])
@pytest.mark.parametrize(("limit", "seconds"), [(1, 600), (5, 300), (20, 120)])
@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS)
def test_an_address_gets_ten_seconds_worth_and_then_its_limit(load, limit, seconds, mode):
    quotas = ConnectionQuotas(paced=True)
    quotas.set_ip_rate(ADDRESS, limit)
    clients, pause_ms, starts = load
    visitors = visitors_of_an_address(quotas, mode=mode)
    served = visitors.play(clients, pause_ms, seconds, starts)
    assert served == pytest.approx((seconds + 10) * limit, rel=0.002, abs=1)
    assert max(visitors.waits) <= 1_000 / limit
    assert quotas.ips.sensors[ADDRESS].observed(BASE_MS + seconds * 1_000) == pytest.approx(limit, rel=0.1)


def test_a_thousand_a_second_of_one_address():
    quotas = ConnectionQuotas(paced=True)
    quotas.set_ip_rate(ADDRESS, 1_000)
    visitors = visitors_of_an_address(quotas, mode="kip")
    assert visitors.play(2_000, 1_000, 15, lambda number: number % 1_000) == pytest.approx(25_000, abs=2)


def visitors_of_a_user(users: UserConnections) -> Visitors:
    def enter(now_ms: int) -> int | None:
        refusal = users.enter("alice", now_ms)
        assert refusal is None or isinstance(refusal, TooFastOfUser)
        if refusal is None:
            users.release("alice")
            return None
        return refusal.throttle_ms

    return Visitors(enter, enter)


@pytest.mark.parametrize(
    ("limit", "seconds", "burst"),
    [(0.01, 9_000, 1), (0.1, 3_000, 1), (0.15, 2_000, 1.5), (0.5, 600, 5), (1, 600, 10), (20, 60, 200)],
)
@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS)
def test_a_user_gets_six_a_minute_as_exactly_as_twenty_a_second(load, limit, seconds, burst):
    users = UserConnections(Window(11, 1_000), build=PacedAcceptRate)
    users.set_limits(UserLimit(), UserLimit(limit))
    clients, pause_ms, starts = load
    visitors = visitors_of_a_user(users)
    served = visitors.play(clients, pause_ms, seconds, starts)
    assert served == pytest.approx(seconds * limit + burst, rel=0.002, abs=1)
    assert max(visitors.waits) <= round(1_000 / limit), "a turn at most"


def test_a_load_just_above_the_limit_is_not_held_below_it():
    users = UserConnections(Window(11, 1_000), build=PacedAcceptRate)
    users.set_limits(UserLimit(), UserLimit(0.1))
    served = sum(users.enter("alice", BASE_MS + number * 9_091) is None for number in range(660))
    assert served == 600, "6,000 s at 0.11 a second"


@pytest.mark.parametrize(("idle_s", "at_once"), [(0, 0), (1, 5), (9, 45), (10, 50), (3_000, 50)])
def test_who_was_idle_has_as_much_of_ten_seconds_worth_as_of_the_time(idle_s, at_once):
    quotas = ConnectionQuotas(paced=True)
    listener = quotas.add_listener("L")
    quotas.set_listener_limits("L", Limits(creation_rate=5))
    assert [quotas.record(listener, BASE_MS) for _ in range(52)] == [0] * 50 + [200, 400]
    # The debt of the two that waited is repaid first.
    now_ms = BASE_MS + 400 + idle_s * 1_000
    assert [quotas.record(listener, now_ms) for _ in range(at_once + 1)] == [0] * at_once + [200]


@pytest.mark.parametrize(("samples", "burst"), [(1, 20), (2, 20), (3, 40), (11, 200)])
def test_the_burst_is_that_of_the_windows(samples, burst):
    quotas = ConnectionQuotas(Window(samples, 1_000), paced=True)
    listener = quotas.add_listener("L")
    quotas.set_listener_limits("L", Limits(creation_rate=20))
    assert [quotas.record(listener, BASE_MS) for _ in range(burst + 1)] == [0] * burst + [50]


def test_a_limit_that_is_new_counts_what_came_before_it_and_makes_no_debt_of_it():
    quotas = ConnectionQuotas(paced=True)
    listener = quotas.add_listener("L")
    for number in range(1_000):
        assert quotas.record(listener, BASE_MS + number * 10) == 0
    now_ms = BASE_MS + 10_000
    quotas.set_listener_limits("L", Limits(creation_rate=5))
    assert [quotas.record(listener, now_ms) for _ in range(2)] == [200, 400]
    quotas.set_listener_limits("L", Limits(creation_rate=INT_MAX))
    assert quotas.record(listener, now_ms) == 0
    quotas.set_listener_limits("L", Limits(creation_rate=2_000))
    assert quotas.record(listener, now_ms + 11_000) == 0, "what has left the windows is forgotten"


def test_an_acceptor_waits_for_ten_connections_or_one_window_at_most():
    """Many ports of a listener, and connections whose address has made them wait, are recorded at once."""
    quotas = ConnectionQuotas(paced=True)
    listener = quotas.add_listener("L")
    quotas.set_listener_limits("L", Limits(creation_rate=5))
    assert max(quotas.record(listener, BASE_MS) for _ in range(1_000)) == 2_000, "ten connections' turns"
    quotas.set_listener_limits("L", Limits(creation_rate=50))
    assert max(quotas.record(listener, BASE_MS) for _ in range(1_000)) == 1_000, "one window"


def test_a_bound_of_zero_lets_nothing_through():
    quotas = ConnectionQuotas(paced=True)
    listener = quotas.add_listener("L")
    quotas.set_ip_rate(ADDRESS, 0)
    assert quotas.check_address(listener, ADDRESS, BASE_MS) == Throttled(1_000, 0.1, 0)
    assert quotas.ips.sensors[ADDRESS].observed(BASE_MS) == 0


@pytest.mark.parametrize(
    ("observed", "bound", "wait_ms"),
    [(5, 5, 0), (5.05, 5, 100), (5.1, 5, 200), (40, 5, 200), (40, 0.1, 10_000)],
)
def test_the_wait_that_is_shown_for_an_address_is_one_turn_at_most(observed, bound, wait_ms):
    assert ConnectionQuotas(paced=True).ips.wait_at(observed, bound) == wait_ms


# Request time


def percent_used(limit: float, cost_ms: float, connections: int, *, pause_ms: int, seconds: int) -> float:
    """Return the share of the limit that connections of one client use, which send as soon as they may."""
    manager = RequestQuotaManager(paced=True)
    manager.set_bound("alice", None, limit)
    ns = round(cost_ms * 1e6)
    used = 0.0
    turns = [(number, number) for number in range(connections)]
    while turns:
        now_ms, number = heappop(turns)
        if now_ms >= seconds * 1_000:
            break
        throttle = manager.record_handled("alice", "app", ns * 3 // 4, BASE_MS + now_ms)
        manager.record_sent("alice", "app", ns // 4, BASE_MS + now_ms)
        used += cost_ms
        wait_ms = 0 if throttle is None else throttle.throttle_ms
        assert wait_ms <= 11_000, "sessions outlive it"
        heappush(turns, (now_ms + max(wait_ms, pause_ms), number))
    return used / 10 / (limit * seconds)


@pytest.mark.parametrize(
    ("limit", "cost_ms", "connections", "pause_ms"),
    [
        (0.1, 1, 1, 1),  # a request a second
        (0.1, 10, 1, 1),  # six a minute
        (1, 0.5, 1, 1),
        (1, 4, 20, 1),
        (1, 100, 1, 1),  # six a minute, each a hundred milliseconds
        (5, 1, 100, 3),
        (5, 300, 1, 700),
        (25, 20, 3, 1),
        (50, 20, 60, 50),
    ],
)
def test_request_time_is_the_limit_after_ten_seconds_worth(limit, cost_ms, connections, pause_ms):
    minutes = 60
    share = percent_used(limit, cost_ms, connections, pause_ms=pause_ms, seconds=60 * minutes)
    slack = 10 / 3_600 + (connections + 1) * cost_ms / 10 / (limit * 3_600)
    assert 1 - 0.002 <= share <= 1 + slack + 0.0005
    assert share == pytest.approx(1, abs=0.02)


def test_by_kafkas_rule_the_same_client_gets_much_more():
    manager = RequestQuotaManager()
    manager.set_bound("alice", None, 1)
    waits = [
        manager.record_handled("alice", "app", 100_000_000, BASE_MS + number * 1_000) for number in range(20)
    ]
    assert [each.throttle_ms for each in waits if each is not None] == [1_000] * 19, "ten percent, not one"


@pytest.mark.parametrize("cached_ms", [1, 10])
def test_cached_responses_pay_as_the_others_do(cached_ms):
    manager = RequestQuotaManager(paced=True)
    manager.set_bound("alice", None, 1)
    used = now_ms = 0
    while now_ms < 1_000_000:
        within = manager.record_cached("alice", "app", cached_ms * 1_000_000, BASE_MS + now_ms)
        used += cached_ms
        throttle = None if within else manager.record_handled("alice", "app", 0, BASE_MS + now_ms)
        now_ms += 1 if throttle is None else throttle.throttle_ms
    assert used == pytest.approx(10_000, rel=0.015)


# Byte rates


def test_who_waits_after_a_large_request_still_owes_it():
    """40 s' worth at once, and every time until the pacing could be over: it was 190 % of the limit."""
    manager = RateQuotaManager(QuotaKind.PRODUCE, paced=True)
    manager.set_bound("alice", None, 1_000)
    sent = now_ms = 0
    while now_ms < 3_600_000:
        throttle = manager.record("alice", "app", 40_000, BASE_MS + now_ms)
        sent += 40_000
        now_ms += max(0 if throttle is None else throttle.throttle_ms, 11_001)
    assert sent == pytest.approx(3_600_000, rel=0.02, abs=80_000)


# Replication


@pytest.mark.parametrize(("limit", "step"), [(1, 10), (100, 10), (100, 5_000), (10_000_000, 1_048_576)])
@pytest.mark.parametrize("attempt_ms", [7, 500])
def test_replicas_get_a_second_and_then_the_limit(limit, step, attempt_ms):
    quota = ReplicationQuotaManager(QuotaKind.LEADER_REPLICATION, paced=True)
    quota.bound = limit
    copied = 0
    for now_ms in range(BASE_MS, BASE_MS + 600_000, attempt_ms):
        while not quota.is_exceeded(now_ms):
            quota.record(step, now_ms)
            copied += step
    assert copied == pytest.approx(limit * 601, rel=0.001, abs=step)


def test_a_copy_that_waits_as_it_is_told_gets_the_limit_to_the_byte():
    quota = ReplicationQuotaManager(QuotaKind.ALTER_LOG_DIRS_REPLICATION, paced=True)
    quota.bound = 100
    copied, now_ms = 0, BASE_MS
    while now_ms < BASE_MS + 600_000:
        if wait_ms := quota.wait_ms(now_ms):
            assert quota.is_exceeded(now_ms + wait_ms - 1)
            now_ms += wait_ms
            assert not quota.is_exceeded(now_ms)
        else:
            quota.record(4_096, now_ms)
            copied += 4_096
    assert copied == pytest.approx(60_100, abs=4_096), "a slice of 4 KiB takes 41 s, longer than all windows"


def test_what_replicas_may_take_follows_the_bound():
    quota = ReplicationQuotaManager(QuotaKind.LEADER_REPLICATION, paced=True)
    quota.record(10**15, BASE_MS)
    assert not quota.is_exceeded(BASE_MS) and quota.wait_ms(BASE_MS) == 0
    quota.bound = 100
    assert quota.allowance(BASE_MS) == 100
    quota.record(100, BASE_MS)
    assert (quota.allowance(BASE_MS), quota.is_exceeded(BASE_MS), quota.wait_ms(BASE_MS)) == (0, False, 0)
    quota.record(1, BASE_MS)
    assert (quota.is_exceeded(BASE_MS), quota.wait_ms(BASE_MS)) == (True, 10)
    quota.bound = 10
    assert quota.wait_ms(BASE_MS) == 100
    quota.bound = 0
    assert quota.is_exceeded(BASE_MS + 3_600_000)
    assert quota.wait_ms(BASE_MS) == 11_000

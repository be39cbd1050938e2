"""Limits on number and rate of connections, against Kafka's ConnectionQuotasTest, with the exact results of
its formula on a manual clock.
"""

from dataclasses import dataclass, field
from heapq import heappop, heappush

import pytest

from broker.common.clock import BASE_MS
from broker.common.slices import run_through
from broker.metrics.rate import INT_MAX, Window
from broker.quotas.connection_rates import ANY_ADDRESS
from broker.quotas.connections import (
    BURST_MS,
    MAX_BURSTS,
    OTHERS,
    Burst,
    ConnectionQuotas,
    Limits,
    PerIp,
    Rejections,
    Throttled,
    TooMany,
)
from broker.quotas.entity import DEFAULT

EXTERNAL, ADMIN, REPLICATION = "EXTERNAL", "ADMIN", "REPLICATION"
ADDRESSES = {EXTERNAL: "192.168.1.1", ADMIN: "192.168.1.2", REPLICATION: "192.168.1.3"}
ELSEWHERE = "192.168.10.0"
HOUR_MS = 3_600_000


def quotas_of(*listeners: str, broker_wide_ip: bool = False, **limits: int) -> ConnectionQuotas:
    """Two samples of a second, as in Kafka's test; REPLICATION is the brokers' own listener."""
    quotas = ConnectionQuotas(Window(2, 1_000), protected=REPLICATION, broker_wide_ip=broker_wide_ip)
    for name in listeners or ADDRESSES:
        quotas.add_listener(name)
    quotas.set_broker_limits(Limits(**limits))
    return quotas


def admit(
    quotas: ConnectionQuotas, name: str = EXTERNAL, address: str | None = None, now_ms: int = BASE_MS
) -> object:
    """Return the result for a connection: a refusal, the wait in ms, "no slot", or None if accepted."""
    listener, address = quotas.listeners[name], address or ADDRESSES[name]
    refusal = quotas.check_address(listener, address, now_ms)
    if refusal is not None:
        return refusal
    wait_ms = quotas.record(listener, now_ms)
    if wait_ms:
        return wait_ms
    if not quotas.has_slot(listener):
        return "no slot"
    return quotas.enter(listener, address, now_ms)


@dataclass
class Offered:
    """The results of an acceptor with connections at a constant rate."""

    waits: list[int] = field(default_factory=list)
    refused: int = 0
    accepted: int = 0
    end_ms: int = BASE_MS

    @property
    def rate(self) -> float:
        return self.accepted / ((self.end_ms - BASE_MS) / 1_000)


def offer(quotas: ConnectionQuotas, names: tuple[str, ...], count: int, interval_ms: int) -> list[Offered]:
    """Accept `count` connections on each listener, one every `interval_ms` or as soon as the limits allow."""
    seen = {name: Offered() for name in names}
    sent = dict.fromkeys(names, 0)
    turns = [(BASE_MS, at, name, False) for at, name in enumerate(names)]
    while turns:
        now_ms, order, name, waited = heappop(turns)
        listener, mine, address = quotas.listeners[name], seen[name], ADDRESSES[name]
        if not waited:
            if quotas.check_address(listener, address, now_ms) is not None:
                mine.refused += 1
                sent[name] += 1
                mine.end_ms = max(BASE_MS + sent[name] * interval_ms, now_ms)
                if sent[name] < count:
                    heappush(turns, (mine.end_ms, order, name, False))
                continue
            if wait_ms := quotas.record(listener, now_ms):
                mine.waits.append(wait_ms)
                heappush(turns, (now_ms + wait_ms, order, name, True))
                continue
        assert quotas.has_slot(listener)
        assert quotas.enter(listener, address, now_ms) is None
        mine.accepted += 1
        sent[name] += 1
        mine.end_ms = max(BASE_MS + sent[name] * interval_ms, now_ms)
        if sent[name] < count:
            heappush(turns, (mine.end_ms, order, name, False))
    return list(seen.values())


# Counts


def test_an_address_has_its_maximum_and_those_above_it_are_counted_nowhere() -> None:
    quotas = quotas_of()
    quotas.per_ip = PerIp(17)
    assert [admit(quotas) for _ in range(17)] == [None] * 17
    assert [admit(quotas) for _ in range(2)] == [TooMany(17)] * 2
    assert quotas.counts[ADDRESSES[EXTERNAL]] == quotas.total == 17
    assert quotas.listeners[EXTERNAL].rate.observed(BASE_MS) == quotas.rate.observed(BASE_MS) == 17
    assert [admit(quotas, address=ELSEWHERE) for _ in range(17)] == [None] * 17
    for _ in range(2):
        quotas.release(EXTERNAL, ADDRESSES[EXTERNAL])
    assert quotas.counts[ADDRESSES[EXTERNAL]] == 15
    assert [admit(quotas) for _ in range(3)] == [None, None, TooMany(17)]


def test_an_address_that_reaches_its_maximum_while_a_connection_waits_is_refused_it_after_the_wait() -> None:
    quotas = quotas_of()
    quotas.per_ip = PerIp(1)
    external, admin = quotas.listeners[EXTERNAL], quotas.listeners[ADMIN]
    for listener in (external, admin):
        assert quotas.check_address(listener, ELSEWHERE, BASE_MS) is None
        quotas.record(listener, BASE_MS)
    assert quotas.enter(admin, ELSEWHERE, BASE_MS) is None
    assert quotas.enter(external, ELSEWHERE, BASE_MS) == TooMany(1)
    rates = [each.rate.observed(BASE_MS) for each in (external, admin, quotas)]
    assert (quotas.total, external.count, rates) == (1, 0, [0, 1, 1])


def test_the_brokers_maximum_binds_all_but_the_protected_listener() -> None:
    quotas = quotas_of(connections=800)
    assert [admit(quotas) for _ in range(800)] == [None] * 800
    assert quotas.excess == 0, "exactly the maximum is not too many"
    assert admit(quotas) == "no slot"
    quotas.release(EXTERNAL, ADDRESSES[EXTERNAL])
    assert admit(quotas) is None

    assert admit(quotas, REPLICATION) is None
    assert quotas.excess == 1
    assert admit(quotas, ADMIN) == "no slot"
    assert admit(quotas, REPLICATION) is None
    assert (quotas.total, quotas.excess) == (802, 2)
    for _ in range(2):
        quotas.release(EXTERNAL, ADDRESSES[EXTERNAL])
    assert admit(quotas, ADMIN) == "no slot", "two that leave are not enough"
    quotas.release(EXTERNAL, ADDRESSES[EXTERNAL])
    assert admit(quotas, ADMIN) is None


def test_a_listeners_maximum_binds_the_protected_one_too() -> None:
    quotas = quotas_of(connections=800)
    for name in ADDRESSES:
        quotas.set_listener_limits(name, Limits(connections=200))
        assert [admit(quotas, name) for _ in range(200)] == [None] * 200
    assert quotas.excess == 0
    for name in ADDRESSES:
        assert admit(quotas, name) == "no slot"
        quotas.release(name, ADDRESSES[name])
        assert admit(quotas, name) is None
        assert admit(quotas, name) == "no slot"


def test_an_only_listener_is_not_protected() -> None:
    quotas = quotas_of(REPLICATION, connections=1, creation_rate=1)
    assert admit(quotas, REPLICATION) is None
    assert admit(quotas, REPLICATION, now_ms=BASE_MS + 5_000) == "no slot"
    quotas.add_listener(EXTERNAL)
    assert admit(quotas, REPLICATION, now_ms=BASE_MS + 5_000) is None
    quotas.remove_listener(EXTERNAL)
    assert admit(quotas, REPLICATION, now_ms=BASE_MS + 9_000) == "no slot"


def test_protected_connections_are_never_too_many() -> None:
    quotas = quotas_of(connections=3)
    assert [admit(quotas, REPLICATION) for _ in range(5)] == [None] * 5
    assert quotas.excess == 0, "there is no other connection to close"
    quotas.set_broker_limits(Limits(connections=8))
    assert [admit(quotas) for _ in range(3)] == [None] * 3
    for limit, excess in ((8, 0), (7, 1), (6, 2), (5, 3), (1, 3)):
        quotas.set_broker_limits(Limits(connections=limit))
        assert quotas.excess == excess


def test_an_override_holds_for_its_address_alone_and_0_lets_no_other_client_in() -> None:
    quotas = quotas_of()
    quotas.per_ip = PerIp(0, {"127.0.0.1": 5})
    assert [admit(quotas, address="127.0.0.1") for _ in range(6)] == [None] * 5 + [TooMany(5)]
    assert admit(quotas, address=ELSEWHERE) == TooMany(0)


def test_only_an_entered_connection_can_be_released() -> None:
    quotas = quotas_of()
    assert admit(quotas) is None
    with pytest.raises(ValueError, match=ELSEWHERE):
        quotas.release(EXTERNAL, ELSEWHERE)
    quotas.release(EXTERNAL, ADDRESSES[EXTERNAL])
    assert (quotas.total, quotas.counts, quotas.listeners[EXTERNAL].count) == (0, {}, 0)
    with pytest.raises(ValueError):
        quotas.release(EXTERNAL, ADDRESSES[EXTERNAL])


@pytest.mark.parametrize(("others", "is_named"), [(1, True), (2, True), (3, False)])
def test_an_address_that_is_named_later_has_its_maximum(others: int, is_named: bool) -> None:
    quotas = quotas_of(EXTERNAL)
    quotas.per_ip = PerIp(3)
    listener = quotas.listeners[EXTERNAL]
    for _ in range(others):
        assert admit(quotas, address=ELSEWHERE) is None
    assert quotas.enter(listener, None, BASE_MS) is None
    assert (quotas.total, listener.count, quotas.counts) == (others + 1, others + 1, {ELSEWHERE: others})
    refusal = quotas.name(listener, ELSEWHERE, BASE_MS)
    assert refusal == (None if is_named else TooMany(3))
    counted = others + is_named
    assert (quotas.total, listener.count, quotas.counts) == (counted, counted, {ELSEWHERE: counted})


def test_an_address_that_is_named_later_has_its_rate_and_its_refusal_counts_for_no_other() -> None:
    quotas = quotas_of(EXTERNAL)
    quotas.set_ip_rate(ELSEWHERE, 1)
    listener = quotas.listeners[EXTERNAL]
    found = []
    for _ in range(4):
        quotas.record(listener, BASE_MS)
        quotas.enter(listener, None, BASE_MS)
        found.append(quotas.name(listener, ELSEWHERE, BASE_MS))
    assert found[0] is None and isinstance(found[3], Throttled)
    kept = found.count(None)
    assert (quotas.total, listener.count, quotas.counts) == (kept, kept, {ELSEWHERE: kept})
    assert listener.rate.observed(BASE_MS) == quotas.rate.observed(BASE_MS) == kept


def test_a_balancers_own_connection_counts_for_no_address() -> None:
    quotas = quotas_of(EXTERNAL)
    quotas.per_ip = PerIp(1)
    listener = quotas.listeners[EXTERNAL]
    for _ in range(3):
        assert quotas.enter(listener, None, BASE_MS) is None
    assert (quotas.total, quotas.counts) == (3, {})
    quotas.release(EXTERNAL, None)
    assert (quotas.total, listener.count) == (2, 2)


def test_a_listener_that_comes_back_begins_anew_and_its_old_connections_still_count() -> None:
    quotas = quotas_of(connections=2)
    assert admit(quotas) is None
    quotas.remove_listener(EXTERNAL)
    quotas.add_listener(EXTERNAL)
    assert (quotas.total, quotas.listeners[EXTERNAL].count) == (1, 0)
    quotas.release(EXTERNAL, ADDRESSES[EXTERNAL])
    assert (quotas.total, quotas.listeners[EXTERNAL].count) == (0, 0)


# Rates of broker and listener


def test_without_limits_ten_thousand_at_once_do_not_wait() -> None:
    quotas = quotas_of()
    for name in ADDRESSES:
        assert all(admit(quotas, name) is None for _ in range(10_000))
    assert quotas.counts == dict.fromkeys(ADDRESSES.values(), 10_000)
    assert quotas.rate.observed(BASE_MS) == 20_000, "the protected listener's are not the broker's"
    assert quotas.listeners[ADMIN].rate.observed(BASE_MS) == 10_000


def test_a_broker_rate_above_what_is_offered_never_waits() -> None:
    for offered in offer(quotas_of(creation_rate=125), tuple(ADDRESSES), 200, 25):
        assert (offered.waits, offered.accepted, offered.end_ms) == ([], 200, BASE_MS + 5_000)


def test_a_broker_rate_below_it_holds_all_but_the_protected_listener() -> None:
    quotas = quotas_of(creation_rate=90)
    external, admin, replication = offer(quotas, tuple(ADDRESSES), 400, 10)
    assert replication.waits == []
    assert external.waits and admin.waits
    assert [each.accepted for each in (external, admin, replication)] == [400] * 3
    assert 90 <= 800 / ((max(external.end_ms, admin.end_ms) - BASE_MS) / 1_000) <= 100


def test_a_listener_rate_is_kept_by_each_listener() -> None:
    quotas = quotas_of(creation_rate=125)
    for name in ADDRESSES:
        quotas.set_listener_limits(name, Limits(creation_rate=30))
    for offered in offer(quotas, tuple(ADDRESSES), 600, 25):
        assert (offered.accepted, offered.rate) == (600, pytest.approx(30, abs=0.9))
    for name in ADDRESSES:
        assert quotas.listeners[name].throttle_time.measure(BASE_MS + 19_000) > 0


@pytest.mark.parametrize(("made", "wait_ms"), [(4, 0), (5, 0), (6, 200), (9, 800), (10, 1_000), (50, 1_000)])
def test_the_wait_brings_the_rate_down_and_is_one_window_at_most(made: int, wait_ms: int) -> None:
    """6 in a second against 5: (6 - 5) / 5 of the second that they were measured over."""
    quotas = quotas_of(creation_rate=5)
    listener = quotas.listeners[EXTERNAL]
    assert [quotas.record(listener, BASE_MS) for _ in range(made)][-1] == wait_ms


def test_the_longer_wait_of_broker_and_listener_holds() -> None:
    quotas = quotas_of(creation_rate=5)
    listener = quotas.listeners[EXTERNAL]
    quotas.set_listener_limits(EXTERNAL, Limits(creation_rate=4))
    assert [quotas.record(listener, BASE_MS) for _ in range(6)] == [0, 0, 0, 0, 250, 500]
    quotas.set_listener_limits(EXTERNAL, Limits(creation_rate=100))
    assert quotas.record(listener, BASE_MS) == 400


def test_a_listener_rate_can_be_taken_away_and_set_again() -> None:
    quotas = quotas_of()
    quotas.set_listener_limits(EXTERNAL, Limits(creation_rate=20))
    quotas.set_listener_limits(EXTERNAL, Limits())
    (free,) = offer(quotas, (EXTERNAL,), 1_000, 0)
    assert (free.waits, free.end_ms) == ([], BASE_MS)

    quotas = quotas_of()
    quotas.set_listener_limits(EXTERNAL, Limits(creation_rate=10))
    (delayed,) = offer(quotas, (EXTERNAL,), 200, 5)
    assert (delayed.accepted, delayed.end_ms) == (200, BASE_MS + 19_000)
    quotas = quotas_of(creation_rate=50)
    (delayed,) = offer(quotas, (EXTERNAL,), 400, 5)
    assert (delayed.accepted, delayed.end_ms) == (400, BASE_MS + 7_000)


def test_rate_and_count_hold_together() -> None:
    quotas = quotas_of()
    quotas.set_listener_limits(EXTERNAL, Limits(connections=350, creation_rate=25))
    (offered,) = offer(quotas, (EXTERNAL,), 350, 25)
    assert offered.accepted == 350
    assert offered.rate == pytest.approx(25, abs=0.5)
    assert admit(quotas, now_ms=offered.end_ms + 5_000) == "no slot"


# Rates of addresses


def test_an_address_within_its_rate_is_never_throttled() -> None:
    quotas = quotas_of()
    quotas.set_ip_rate(ADDRESSES[EXTERNAL], 30)
    (limited,) = offer(quotas, (EXTERNAL,), 200, 40)
    (free,) = offer(quotas, (ADMIN,), 200, 20)
    assert (limited.rate, limited.waits, limited.refused) == (25, [], 0)
    assert (free.rate, free.waits, free.refused) == (50, [], 0)
    assert list(quotas.ips.sensors) == [ADDRESSES[EXTERNAL]], "an unlimited address has no sensor"


def test_an_address_over_its_rate_is_held_and_accepting_does_not_wait() -> None:
    quotas = quotas_of()
    quotas.set_ip_rate(ADDRESSES[EXTERNAL], 20)
    quotas.set_ip_rate(DEFAULT, 20)
    for name in (EXTERNAL, ADMIN):
        (offered,) = offer(quotas, (name,), 80, 25)
        assert (offered.waits, offered.accepted, offered.refused, offered.rate) == ([], 39, 41, 19.5)
        assert quotas.listeners[name].ip_throttle_time.measure(BASE_MS + 2_000) > 0
        assert quotas.listeners[name].throttle_time.events == 0
    assert quotas.listeners[REPLICATION].ip_throttle_time.events == 0


def test_as_many_at_once_as_the_rate_and_more_when_it_rises() -> None:
    quotas = quotas_of()

    def kept(count: int, name: str = EXTERNAL) -> int:
        for _ in range(count):
            admit(quotas, name)
        return quotas.counts[ADDRESSES[name]]

    quotas.set_ip_rate(ADDRESSES[EXTERNAL], 20)
    assert kept(40) == 20
    assert admit(quotas) == Throttled(50, 21, 20)
    quotas.set_ip_rate(ADDRESSES[EXTERNAL], 30)
    assert kept(40) == 30
    quotas.set_ip_rate(ADDRESSES[EXTERNAL], None)
    assert kept(40) == 70
    quotas.set_ip_rate(DEFAULT, 20)
    assert kept(40, ADMIN) == 20


@pytest.mark.parametrize("name", [EXTERNAL, REPLICATION])
def test_a_refused_connection_is_counted_nowhere(name: str) -> None:
    quotas = quotas_of()
    quotas.set_ip_rate(ADDRESSES[name], 0)
    assert admit(quotas, name) == Throttled(1_000, 1, 0)
    assert quotas.ips.sensors[ADDRESSES[name]].observed(BASE_MS) == 0
    assert quotas.listeners[name].rate.observed(BASE_MS) == 0
    assert quotas.rate.observed(BASE_MS) == 0
    assert (quotas.total, quotas.counts, quotas.listeners[name].count) == (0, {}, 0)


def test_an_override_wins_over_the_default_and_what_is_removed_is_no_limit() -> None:
    quotas = quotas_of()
    external, admin = ADDRESSES[EXTERNAL], ADDRESSES[ADMIN]
    quotas.set_ip_rate(DEFAULT, 50)
    admit(quotas, EXTERNAL)
    admit(quotas, ADMIN)

    def bounds() -> tuple[float, float]:
        found = [quotas.ips.sensor(each, BASE_MS) for each in (external, admin)]
        rates = [float(INT_MAX) if each is None else each.bound for each in found]
        assert rates == [quotas.ips.rate_for(external), quotas.ips.rate_for(admin)]
        return rates[0], rates[1]

    assert bounds() == (50, 50)
    quotas.set_ip_rate(external, 30)
    assert bounds() == (30, 50)
    quotas.set_ip_rate(DEFAULT, 20)
    assert bounds() == (30, 20)
    quotas.set_ip_rate(DEFAULT, None)
    assert bounds() == (30, INT_MAX)
    quotas.set_ip_rate(external, None)
    assert bounds() == (INT_MAX, INT_MAX)
    assert not quotas.ips.active


def test_z19_the_default_is_not_the_rate_of_the_whole_broker_and_0_0_0_0_is_where_it_is_asked_for() -> None:
    quotas = quotas_of(broker_wide_ip=True)
    quotas.set_ip_rate(DEFAULT, 2)
    addresses = [f"10.0.0.{number}" for number in range(10)]
    assert [admit(quotas, address=address) for address in addresses] == [None] * 10
    quotas.set_ip_rate(ANY_ADDRESS, 3)
    later = BASE_MS + 10_000
    assert [admit(quotas, address=address, now_ms=later) for address in addresses[:3]] == [None] * 3
    assert admit(quotas, address=addresses[3], now_ms=later) == Throttled(333, 4, 3)
    assert quotas.ips.sensors[addresses[3]].observed(later) == 0, "taken back from the address as well"
    assert quotas.rate.observed(later) == 3

    kafka = quotas_of()
    kafka.set_ip_rate(ANY_ADDRESS, 1)
    assert [admit(kafka, address=address) for address in addresses] == [None] * 10


def test_a_throttled_connection_is_checked_again_when_its_wait_is_over() -> None:
    """KIP-612's re-check: accepted within the rate, throttled over it."""
    quotas = quotas_of(creation_rate=2)
    listener, address = quotas.listeners[EXTERNAL], ADDRESSES[EXTERNAL]
    quotas.set_ip_rate(DEFAULT, 1)
    assert admit(quotas) is None
    assert admit(quotas) == Throttled(1_000, 2, 1)
    # The first one expires after two windows: one second later it still counts.
    assert admit(quotas, now_ms=BASE_MS + 1_000) == Throttled(1_000, 2, 1)
    assert admit(quotas, now_ms=BASE_MS + 2_000) is None
    assert listener.rate.observed(BASE_MS + 2_000) == 1
    assert quotas.counts[address] == 2


def test_an_address_that_was_idle_for_an_hour_is_forgotten_broker_and_listeners_are_not() -> None:
    quotas = quotas_of()
    quotas.set_ip_rate(DEFAULT, 5)
    admit(quotas)
    assert run_through(quotas.expire(BASE_MS + HOUR_MS)) == 0
    assert run_through(quotas.expire(BASE_MS + HOUR_MS + 1)) == 1
    assert quotas.ips.sensors == {}
    assert list(quotas.listeners) == list(ADDRESSES)
    assert quotas.total == 1


def test_a_burst_is_reported_once_with_address_rule_and_count() -> None:
    rejections = Rejections()
    for at in range(57):
        rejections.note("EXTERNAL", "10.0.0.7", "max.connections.per.ip", 5, BASE_MS + at)
    assert rejections.next_deadline() == BASE_MS + BURST_MS
    assert rejections.due(BASE_MS + BURST_MS - 1) == []
    burst = Burst("EXTERNAL", "10.0.0.7", "max.connections.per.ip", 5, BASE_MS + BURST_MS, 57)
    assert rejections.due(BASE_MS + BURST_MS) == [burst]
    assert (rejections.due(BASE_MS + 9_000), rejections.next_deadline()) == ([], None)


def test_listener_address_and_rule_distinguish_bursts_the_oldest_is_due_first() -> None:
    rejections = Rejections()
    for at, (listener, address, rule) in enumerate(
        [("A", "10.0.0.1", "r"), ("A", "10.0.0.2", "r"), ("B", "10.0.0.1", "r"), ("A", "10.0.0.1", "s")]
    ):
        rejections.note(listener, address, rule, 1, BASE_MS + at)
    assert rejections.next_deadline() == BASE_MS + BURST_MS
    assert [each.count for each in rejections.due(BASE_MS + BURST_MS + 2)] == [1, 1, 1]
    assert rejections.next_deadline() == BASE_MS + BURST_MS + 3


def test_more_addresses_than_a_number_are_counted_together() -> None:
    rejections = Rejections()
    for number in range(MAX_BURSTS + 20):
        rejections.note("A", f"10.0.0.{number}", "r", 1, BASE_MS)
    bursts = rejections.due(BASE_MS + BURST_MS)
    assert len(bursts) == MAX_BURSTS + 1
    assert (bursts[-1].address, bursts[-1].count) == (OTHERS, 20)

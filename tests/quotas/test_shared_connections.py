"""A gateway's part of limits on connections: what a changed share does to a rate, and what is asked and noted
at each connection.
"""

from collections import Counter
from dataclasses import dataclass, field

import pytest

from broker.common.clock import BASE_MS
from broker.common.slices import run_through
from broker.metrics.rate import INT_MAX, Window
from broker.quotas.connections import (
    CREATION_RATE,
    IP_RATE,
    PER_IP,
    PER_USER,
    USER_RATE,
    ConnectionQuotas,
    Limits,
    Throttled,
    TooFastOfUser,
    TooMany,
    TooManyOfUser,
    UserLimit,
)
from broker.quotas.shared_connections import ConnectionKey, SharedAcceptRate
from tests.support.connecting import connect_from

WINDOW = Window(11, 1_000)
ADDRESS = "10.0.0.7"


@dataclass
class Shares:
    """A `ConnectionShares` that says what the test says."""

    parts: dict[str, float] = field(default_factory=dict)
    slots: dict[str, int] = field(default_factory=dict)
    waiting: Counter[ConnectionKey] = field(default_factory=Counter)

    def most(self, key: ConnectionKey, maximum: int) -> int:
        return min(self.slots.get(key.limit, maximum), maximum)

    def part(self, key: ConnectionKey) -> float:
        return self.parts.get(key.limit, 1.0)

    def refused(self, key: ConnectionKey) -> None:
        self.waiting[key] += 1


@pytest.fixture
def shares() -> Shares:
    return Shares()


@pytest.fixture
def quotas(shares: Shares) -> ConnectionQuotas:
    made = ConnectionQuotas(WINDOW, shared=True)
    made.add_listener("PLAINTEXT")
    made.share(shares)
    return made


def taken(rate: SharedAcceptRate, now_ms: int) -> int:
    """Return how many connections pass at once."""
    count = 0
    while not rate.record(now_ms):
        count += 1
    rate.unrecord(now_ms)
    return count


@pytest.mark.parametrize("bound", [2.0, 10.0, 0.5])
def test_a_second_of_a_share_may_come_at_once(bound: float) -> None:
    rate = SharedAcceptRate(WINDOW, bound, BASE_MS)
    assert taken(rate, BASE_MS) == max(int(bound), 1)
    assert taken(rate, BASE_MS + 60_000) == max(int(bound), 2)


def test_a_share_that_grows_brings_no_past_of_its_own() -> None:
    rate = SharedAcceptRate(WINDOW, 2.0, BASE_MS)
    taken(rate, BASE_MS)
    rate.change_bound(20.0, BASE_MS + 500)
    assert taken(rate, BASE_MS + 500) == 1
    assert taken(rate, BASE_MS + 1_000) == 10


def test_a_share_that_shrinks_leaves_a_second_of_the_rest() -> None:
    rate = SharedAcceptRate(WINDOW, 20.0, BASE_MS)
    rate.record(BASE_MS)
    rate.change_bound(4.0, BASE_MS)
    assert taken(rate, BASE_MS) == 4


def test_a_wait_is_shorter_once_the_share_has_grown() -> None:
    rate = SharedAcceptRate(WINDOW, 1.0, BASE_MS)
    taken(rate, BASE_MS)
    assert (rate.record(BASE_MS), rate.left_ms(BASE_MS), rate.left_ms(BASE_MS + 400)) == (1_000, 1_000, 600)
    rate.change_bound(10.0, BASE_MS + 400)
    assert rate.left_ms(BASE_MS + 400) == 60
    assert rate.left_ms(BASE_MS + 460) == 0


def test_a_limit_that_comes_or_goes_has_no_wait_of_before() -> None:
    rate = SharedAcceptRate(WINDOW, 1.0, BASE_MS)
    taken(rate, BASE_MS)
    rate.change_bound(INT_MAX, BASE_MS)
    assert (rate.record(BASE_MS), rate.left_ms(BASE_MS)) == (0, 0)


@pytest.mark.parametrize(("slots", "passed"), [(0, 0), (1, 1), (2, 2), (3, 3), (9, 3)])
def test_the_number_of_an_address_is_at_most_this_gateways(
    quotas: ConnectionQuotas, shares: Shares, slots: int, passed: int
) -> None:
    quotas.per_ip.maximum = 3
    shares.slots[PER_IP] = slots
    listener = quotas.listeners["PLAINTEXT"]
    verdicts = [connect_from(quotas, listener, ADDRESS, BASE_MS) for _ in range(4)]
    assert verdicts == [None] * passed + [TooMany(3)] * (4 - passed)
    assert shares.waiting == {ConnectionKey(PER_IP, ADDRESS): 4 - passed}


def test_an_address_or_user_without_a_limit_is_not_asked_for(
    quotas: ConnectionQuotas, shares: Shares
) -> None:
    shares.slots = {PER_IP: 0, PER_USER: 0}
    assert connect_from(quotas, quotas.listeners["PLAINTEXT"], ADDRESS, BASE_MS) is None
    assert quotas.users.enter("alice", BASE_MS) is None


def test_the_number_of_a_user_is_at_most_this_gateways(quotas: ConnectionQuotas, shares: Shares) -> None:
    quotas.users.set_limits(UserLimit(3), UserLimit())
    shares.slots[PER_USER] = 2
    verdicts = [quotas.users.enter("alice", BASE_MS) for _ in range(3)]
    assert verdicts == [None, None, TooManyOfUser(3)]
    assert shares.waiting == {ConnectionKey(PER_USER, "alice"): 1}


def test_rates_have_their_part_and_name_the_whole_limit(quotas: ConnectionQuotas, shares: Shares) -> None:
    shares.parts = {IP_RATE: 0.25, USER_RATE: 0.5, CREATION_RATE: 0.1}
    quotas.set_ip_rate(ADDRESS, 16)
    quotas.users.set_limits(UserLimit(), UserLimit(4))
    quotas.set_broker_limits(Limits(creation_rate=30))
    listener = quotas.listeners["PLAINTEXT"]
    verdicts = [quotas.check_address(listener, ADDRESS, BASE_MS) for _ in range(5)]
    assert verdicts[:4] == [None] * 4 and isinstance(verdicts[4], Throttled)
    assert (verdicts[4].throttle_ms, verdicts[4].bound) == (250, 16)
    assert [quotas.users.enter("alice", BASE_MS) for _ in range(3)] == [None, None, TooFastOfUser(500, 4)]
    assert [quotas.record(listener, BASE_MS) for _ in range(4)] == [0, 0, 0, 333]
    assert shares.waiting == {
        ConnectionKey(IP_RATE, ADDRESS): 1,
        ConnectionKey(USER_RATE, "alice"): 1,
        ConnectionKey(CREATION_RATE, ""): 1,
    }
    assert quotas.creation_rate == 30


def test_changed_parts_are_in_force_at_once(quotas: ConnectionQuotas, shares: Shares) -> None:
    quotas.set_ip_rate(ADDRESS, 16)
    quotas.users.set_limits(UserLimit(), UserLimit(4))
    quotas.set_broker_limits(Limits(creation_rate=30))
    quotas.check_address(quotas.listeners["PLAINTEXT"], ADDRESS, BASE_MS)
    quotas.users.enter("alice", BASE_MS)
    bounds = (quotas.ips.sensors[ADDRESS].bound, quotas.users.rates["alice"].bound, quotas.rate.bound)
    assert bounds == (16, 4, 30)
    shares.parts = {IP_RATE: 0.25, USER_RATE: 0.5, CREATION_RATE: 0.1}
    run_through(quotas.rebound([ConnectionKey(IP_RATE, ADDRESS), ConnectionKey(IP_RATE, "gone")], BASE_MS))
    assert (quotas.ips.sensors[ADDRESS].bound, quotas.users.rates["alice"].bound) == (4, 4)
    run_through(quotas.rebound(None, BASE_MS))
    assert (quotas.users.rates["alice"].bound, quotas.rate.bound) == (2, 3)


def test_a_listeners_rate_is_this_gateways_alone(quotas: ConnectionQuotas, shares: Shares) -> None:
    shares.parts = {CREATION_RATE: 0.1}
    quotas.set_listener_limits("PLAINTEXT", Limits(creation_rate=1))
    listener = quotas.listeners["PLAINTEXT"]
    assert [quotas.record(listener, BASE_MS) for _ in range(11)] == [0] * 10 + [1_000]
    assert shares.waiting == {}
    assert quotas.left_ms(listener, BASE_MS) is None, "a wait by Kafka's rule keeps its length"


def test_without_other_gateways_no_wait_changes() -> None:
    quotas = ConnectionQuotas(WINDOW, paced=True)
    listener = quotas.add_listener("PLAINTEXT")
    quotas.set_broker_limits(Limits(creation_rate=1))
    assert [quotas.record(listener, BASE_MS) for _ in range(11)] == [0] * 10 + [1_000]
    assert quotas.left_ms(listener, BASE_MS) is None

"""Proof by simulation: gateways that share limits hold them together, whatever happens to them.

The gateways' quotas are the real ones, on a simulated clock. The large cluster has 50 gateways and 10,000
clients.
"""

import random

import pytest

from broker.gateway.sharing.report import WHOLE
from tests.gateway.sharing.simulated import (
    POLL_MS,
    SimulatedClient,
    SimulatedCluster,
    SimulatedGateway,
    produce,
)

USERS = ("u0", "u1", "u2", "u3")
REQUEST_BYTES = 50_000
BYTES_PER_CLIENT = 10_000
"""Of each user's limit, a second: every client waits for five seconds between two requests."""

STEADY_S = 5
TOLERANCE = 0.05
EXCESS = WHOLE + WHOLE // 50


class Story:
    """A cluster to which one thing after the other happens, and what was observed meanwhile."""

    def __init__(self, gateways: int, clients: int) -> None:
        self.dice = random.Random(3)
        self.cluster = SimulatedCluster(dict.fromkeys(USERS, BYTES_PER_CLIENT * clients / len(USERS)))
        self.gateways = [self.cluster.add_gateway() for _ in range(gateways)]
        self.clients: list[SimulatedClient] = []
        for number in range(clients):
            client = SimulatedClient(USERS[number % len(USERS)], REQUEST_BYTES)
            # The first gateways have most of the clients.
            gateway = self.gateways[int(self.dice.random() ** 2 * gateways)]
            self.cluster.connect(client, gateway, self.dice.random() * 1_000)
            self.clients.append(client)

    @property
    def second(self) -> int:
        return self.cluster.now_ms // 1_000

    def run(self, seconds: int) -> None:
        self.cluster.run(seconds)

    def move(self, user: str, where: list[SimulatedGateway], share: float = 1.0) -> None:
        """Move a part of a user's clients to some gateways."""
        for client in self.clients:
            if client.user == user and client.gateway is not None and self.dice.random() < share:
                self.cluster.connect(client, self.dice.choice(where), self.dice.random() * 100)

    def highest(self) -> int:
        """Return the largest sum of the shares in force of any limit since the last call."""
        found = max(self.cluster.highest.values(), default=0)
        self.cluster.highest.clear()
        return found

    def check_steady(self, users: tuple[str, ...] = USERS, seconds: int = STEADY_S) -> None:
        """Check that each limit is used to 5 % in all of the next seconds together."""
        begin = self.second
        self.run(seconds)
        for user in users:
            assert abs(self.cluster.rate(user, begin, begin + seconds) - 1) <= TOLERANCE, user
            assert abs(sum(self.cluster.shares(user)) / WHOLE - 1) <= TOLERANCE, user


@pytest.fixture(
    params=[(10, 600), pytest.param((50, 10_000), marks=pytest.mark.slow)],
    ids=["10 gateways, 600 clients", "50 gateways, 10,000 clients"],
)
def story(request: pytest.FixtureRequest) -> Story:
    """A cluster that has just started with all its clients."""
    return Story(*request.param)


def test_five_seconds_after_the_start_each_limit_is_used_and_never_exceeded(story):
    story.run(STEADY_S)
    assert story.highest() <= EXCESS
    story.check_steady()
    assert story.highest() <= EXCESS


def test_shares_follow_the_numbers_of_clients(story):
    """Each gateway keeps a quarter of an equal part; three quarters are divided by the number of clients."""
    story.run(20)
    clients = [client for client in story.clients if client.user == "u0"]
    floor = WHOLE // (4 * len(story.gateways))
    for gateway in story.gateways:
        count = sum(client.gateway is gateway for client in clients)
        fair = floor + 0.75 * WHOLE * count / len(clients)
        assert story.cluster.share(gateway, "u0") == pytest.approx(fair, rel=0.4)


def test_clients_that_move_take_their_limit_with_them(story):
    story.run(10)
    story.highest()
    middle = len(story.gateways) // 2
    left, right = story.gateways[:middle], story.gateways[middle:]
    story.move("u0", right)
    story.run(STEADY_S)
    # An idle gateway holds nothing back.
    assert [story.cluster.share(gateway, "u0") for gateway in left] == [None] * middle
    story.check_steady()
    assert story.highest() <= EXCESS


def test_a_dead_gateways_shares_are_back_within_five_seconds(story):
    story.run(10)
    story.highest()
    busiest = story.gateways[0]
    shares = {user: story.cluster.share(busiest, user) for user in USERS}
    assert min(share or 0 for share in shares.values()) >= WHOLE // 20
    story.cluster.die(busiest)
    for user in USERS:
        assert sum(story.cluster.shares(user)) <= WHOLE - shares[user]
    story.run(STEADY_S)
    for user in USERS:
        assert sum(story.cluster.shares(user)) >= WHOLE * (1 - TOLERANCE)
    story.check_steady()
    assert story.highest() <= EXCESS


@pytest.mark.parametrize("phase_ms", range(0, 1_000, 250))
@pytest.mark.parametrize("died_ms", [10, 500, 990])
def test_the_other_of_two_gateways_has_the_whole_limit_within_five_seconds(phase_ms, died_ms):
    """Wherever in the second it dies, between two reports of either."""
    cluster = SimulatedCluster({"u0": 1_000_000})
    left, dying = cluster.add_gateway(0), cluster.add_gateway(phase_ms)
    for gateway in (left, dying):
        cluster.connect(SimulatedClient("u0", 10_000), gateway)
    cluster.run(12 + died_ms / 1_000)
    assert (cluster.share(left, "u0") or 0) < WHOLE * 0.6
    cluster.die(dying)
    cluster.run(5 + POLL_MS / 1_000)
    sensor = left.quotas.produce.find("u0", "app")
    assert sensor is not None and sensor.bound >= 1_000_000 * (1 - TOLERANCE)


def test_the_shares_of_a_gateway_that_leaves_are_back_within_three_seconds(story):
    story.run(10)
    story.highest()
    story.cluster.leave(story.gateways[0])
    story.run(3)
    for user in USERS:
        assert sum(story.cluster.shares(user)) >= WHOLE * (1 - TOLERANCE)
    assert story.highest() <= EXCESS


def test_gateways_that_join_get_shares_for_the_clients_that_come_to_them(story):
    story.run(10)
    story.highest()
    new = [story.cluster.add_gateway() for _ in range(len(story.gateways) // 5)]
    story.run(1)
    story.move("u1", new, share=0.3)
    story.run(STEADY_S)
    # The first requests of those that moved exceeded the limit, which is still being made up for.
    story.check_steady(seconds=10)
    assert min(story.cluster.share(gateway, "u1") or 0 for gateway in new) > 0
    assert story.highest() <= EXCESS


def test_gateways_without_the_others_keep_their_shares_for_the_lease_and_come_back_with_little(story):
    story.run(10)
    story.highest()
    lost = story.gateways[1:4]
    before = [story.cluster.share(gateway, "u2") for gateway in lost]
    for gateway in lost:
        story.cluster.cut_off(gateway)
    story.run(3)
    assert [story.cluster.share(gateway, "u2") for gateway in lost] == before
    story.run(7)
    floor = WHOLE // (4 * len(story.gateways))
    assert [story.cluster.share(gateway, "u2") for gateway in lost] == [floor] * len(lost)
    # The others have divided the whole limit among themselves.
    others = sum(story.cluster.shares("u2")) - floor * len(lost)
    assert WHOLE * (1 - TOLERANCE) <= others <= EXCESS
    for gateway in lost:
        story.cluster.restore(gateway)
    # From the first report of each on, every gateway has read every other.
    story.run(2)
    story.highest()
    story.run(STEADY_S - 2)
    story.check_steady()
    assert story.highest() <= EXCESS


def test_a_gateway_that_is_cut_off_adds_an_eighth_to_the_limit_of_two_and_not_a_half():
    cluster = SimulatedCluster({"u0": 1_000_000})
    gateways = [cluster.add_gateway() for _ in range(2)]
    for gateway in gateways:
        for _ in range(20):
            cluster.connect(SimulatedClient("u0", 25_000), gateway)
    cluster.run(20)
    assert cluster.rate("u0", 10, 20) == pytest.approx(1, abs=0.02)
    cluster.cut_off(gateways[0])
    cluster.run(6)
    cluster.highest.clear()
    cluster.run(40)
    assert cluster.highest[produce("u0")] <= WHOLE + WHOLE // 8
    assert cluster.rate("u0", 36, 66) == pytest.approx(1.125, abs=0.02)


def test_reports_that_come_late_or_never_cost_little_and_never_exceed_a_limit(story):
    """One in five is lost, and each is read up to 900 ms late."""
    story.run(10)
    story.highest()
    for gateway in story.gateways:
        gateway.delay_ms = lambda: int(story.dice.random() * 900)
        gateway.loses = lambda: story.dice.random() < 0.2
    story.check_steady(seconds=10)
    assert story.highest() <= EXCESS


def test_all_gateways_have_a_quarter_of_a_limit_while_none_reaches_the_log_for_long(story):
    story.run(10)
    for gateway in story.gateways:
        gateway.loses = lambda: True
    story.run(1)
    before = {user: story.cluster.shares(user) for user in USERS}
    story.run(2)
    assert {user: story.cluster.shares(user) for user in USERS} == before
    story.run(27)
    floor = WHOLE // (4 * len(story.gateways))
    for user in USERS:
        assert max(story.cluster.shares(user)) <= floor
    for gateway in story.gateways:
        gateway.loses = lambda: False
    story.highest()
    story.run(STEADY_S)
    story.check_steady()
    assert story.highest() <= EXCESS


LOADS = {
    "greedy, unevenly": [(20, 100_000, 1, None), (8, 100_000, 1, None), (2, 100_000, 1, None)],
    "a greedy one and small ones": [(20, 100_000, 1, None), (1, 1_000, 1, 10), (5, 25_000, 1, 8)],
    "a little more than the limit, with pauses": [(11, 33_300, 100, None)] * 3,
    "the same, unevenly": [(20, 33_300, 100, None), (10, 33_300, 100, None), (3, 33_300, 100, None)],
    "at a fixed rate, a fifth too much": [(10, 50_000, 1, 16), (10, 50_000, 1, 7), (5, 50_000, 1, 2)],
    "at a fixed rate, and greedy": [(10, 50_000, 1, 10), (10, 50_000, 1, None), (5, 50_000, 1, 4)],
}


@pytest.mark.parametrize("name", LOADS)
def test_three_gateways_hold_a_limit_for_clients_of_any_kind(name):
    """Each load is the number of a gateway's clients, the bytes of a request, the milliseconds between a
    response and the next request, and requests a second.
    """
    dice = random.Random(1)
    cluster = SimulatedCluster({"u0": 10_000_000})
    for count, size, think_ms, rate in LOADS[name]:
        gateway = cluster.add_gateway()
        for _ in range(count):
            cluster.connect(SimulatedClient("u0", size, think_ms, rate), gateway, dice.random() * 1_000)
    cluster.run(46)
    assert cluster.highest[produce("u0")] <= EXCESS
    for begin in range(6, 36, 10):
        assert abs(cluster.rate("u0", begin, begin + 10) - 1) <= TOLERANCE


def test_a_limit_that_is_not_reached_throttles_no_client():
    dice = random.Random(1)
    cluster = SimulatedCluster({"u0": 10_000_000})
    clients = []
    for count in (5, 3, 1):
        gateway = cluster.add_gateway()
        for _ in range(count):
            clients.append(SimulatedClient("u0", 10_000, 1, 80))
            cluster.connect(clients[-1], gateway, dice.random() * 1_000)
    cluster.run(10)
    throttles = [client.connection.throttles for client in clients]
    cluster.run(20)
    assert cluster.rate("u0", 10, 30) == pytest.approx(0.72, abs=0.001)
    assert [client.connection.throttles for client in clients] == throttles


def test_thirty_clients_that_move_between_three_gateways_get_their_limit():
    dice = random.Random(5)
    cluster = SimulatedCluster({"u0": 10_000_000})
    gateways = [cluster.add_gateway() for _ in range(3)]
    clients = [SimulatedClient("u0", 16_000) for _ in range(30)]
    for client in clients:
        cluster.connect(client, gateways[0], dice.random() * 1_000)
    cluster.run(10)
    for _ in range(60):
        client = dice.choice(clients)
        cluster.connect(client, dice.choice(gateways), 5)
        cluster.run(1)
    assert cluster.rate("u0", 10, 70) == pytest.approx(1, abs=TOLERANCE)
    # The starting share of a gateway to which the first client comes.
    assert cluster.highest[produce("u0")] == WHOLE + WHOLE // 12

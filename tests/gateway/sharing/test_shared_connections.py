"""Gateways hold limits on the number of connections together."""

import pytest
import trio

from broker.metrics.rate import INT_MAX
from broker.quotas.connections import PER_IP, PER_USER, UserLimit
from tests.gateway.sharing.connecting_gateways import ADDRESS, SETTLED_S, Gateway, Gateways

OTHER = "10.0.0.8"


@pytest.fixture
def cluster(autojump_clock: trio.testing.MockClock, nursery: trio.Nursery) -> Gateways:
    return Gateways(nursery)


def all_open(gateways: list[Gateway], address: str = ADDRESS) -> int:
    return sum(each.opened(address) for each in gateways)


async def test_each_gateway_opens_an_equal_part_at_once_and_together_the_limit(
    autojump_clock: trio.testing.MockClock, cluster: Gateways
) -> None:
    cluster.per_ip = 100
    gateways = await cluster.started(3)
    assert sorted(each.connect(100) for each in gateways) == [33, 33, 34]
    assert all_open(gateways) == 100
    assert gateways[0].connect() == 0


@pytest.mark.parametrize("maximum", [1, 2, 3, 4, 5, 7, 100])
async def test_connections_at_one_gateway_reach_the_limit_and_stay_there(
    autojump_clock: trio.testing.MockClock, cluster: Gateways, maximum: int
) -> None:
    cluster.per_ip = maximum
    gateways = await cluster.started(3)
    busy = gateways[1]
    for _ in range(30):
        busy.connect(max(maximum - 1 - busy.opened(), 0))
        await trio.sleep(0.1)
    assert busy.opened() == maximum - 1
    for _ in range(30):
        busy.connect()
        await trio.sleep(0.1)
    assert busy.opened() == maximum
    assert [each.connect() for each in gateways] == [0, 0, 0]
    await trio.sleep(5)
    assert [each.connect() for each in gateways] == [0, 0, 0]


async def test_what_one_closes_another_one_opens(
    autojump_clock: trio.testing.MockClock, cluster: Gateways
) -> None:
    cluster.per_ip = 10
    gateways = await cluster.started(3)
    busy, *idle = gateways
    for _ in range(30):
        busy.connect(10)
        await trio.sleep(0.1)
    assert busy.opened() == 10
    busy.close(3)
    for _ in range(30):
        for each in idle:
            each.connect(10)
        assert all_open(gateways) <= 10
        await trio.sleep(0.1)
    assert busy.opened() == 7
    assert all_open(gateways) == 10


async def test_clients_that_come_and_go_everywhere_never_exceed_the_limit(
    autojump_clock: trio.testing.MockClock, cluster: Gateways
) -> None:
    cluster.per_ip = 20
    gateways = await cluster.started(3)
    most = 0
    for turn in range(300):
        gateway = gateways[turn * turn % 3]
        gateway.close(min(gateway.opened(), turn % 5))
        gateways[(turn * turn + turn) % 3].connect(turn % 7)
        most = max(most, all_open(gateways))
        await trio.sleep(0.07)
    assert most <= 20
    for _ in range(30):
        for each in gateways:
            each.connect(20)
        await trio.sleep(0.1)
    assert all_open(gateways) == 20


async def test_a_dead_gateways_connections_are_free_within_six_seconds(
    autojump_clock: trio.testing.MockClock, cluster: Gateways
) -> None:
    cluster.per_ip = 30
    gateways = await cluster.started(3)
    for _ in range(40):
        for each in gateways:
            each.connect(30)
        await trio.sleep(0.1)
    assert all_open(gateways) == 30
    dead = gateways.pop(0)
    assert dead.opened() >= 10
    dead.die()
    died = trio.current_time()
    while all_open(gateways) < 30:
        for each in gateways:
            each.connect(30)
        assert all_open(gateways) <= 30
        await trio.sleep(0.05)
    assert trio.current_time() - died < 5.5


async def test_one_that_leaves_frees_its_connections_in_two_seconds(
    autojump_clock: trio.testing.MockClock, cluster: Gateways
) -> None:
    cluster.per_ip = 30
    gateways = await cluster.started(3)
    for _ in range(40):
        for each in gateways:
            each.connect(30)
        await trio.sleep(0.1)
    left = gateways.pop()
    left.close(left.opened())
    left.scope.cancel()
    since = trio.current_time()
    while all_open(gateways) < 30:
        for each in gateways:
            each.connect(30)
        assert all_open(gateways) <= 30
        await trio.sleep(0.05)
    assert trio.current_time() - since < 2.1


async def test_one_that_joins_opens_nothing_of_a_full_limit_and_then_what_others_close(
    autojump_clock: trio.testing.MockClock,
    cluster: Gateways,
) -> None:
    cluster.per_ip = 30
    gateways = await cluster.started(2)
    for _ in range(40):
        for each in gateways:
            each.connect(30)
        await trio.sleep(0.1)
    assert all_open(gateways) == 30
    joined = cluster.start("g2")
    gateways.append(joined)
    await trio.sleep(0.1)
    for _ in range(50):
        assert joined.connect() == 0
        await trio.sleep(0.1)
    gateways[0].close(6)
    for _ in range(30):
        joined.connect(30)
        await trio.sleep(0.1)
    assert joined.opened() == 6
    assert all_open(gateways) == 30


async def test_one_that_joins_an_idle_cluster_has_a_quarter_of_an_equal_part_for_two_seconds(
    autojump_clock: trio.testing.MockClock,
    cluster: Gateways,
) -> None:
    cluster.per_ip = 120
    gateways = await cluster.started(2)
    joined = cluster.start("g2")
    await trio.sleep(0.1)
    assert joined.connect(120) == 10
    await trio.sleep(1.9)
    # Refused connections are wanted ones: it gets what no other gateway uses.
    for _ in range(20):
        joined.connect(120)
        await trio.sleep(0.1)
    assert joined.opened() == 120
    assert [each.connect() for each in gateways] == [0, 0]


async def test_one_that_is_cut_off_opens_a_quarter_of_an_equal_part_and_the_others_all(
    autojump_clock: trio.testing.MockClock,
    cluster: Gateways,
) -> None:
    cluster.per_ip = 36
    gateways = await cluster.started(3)
    lost, *others = gateways
    lost.log.is_away = True
    await trio.sleep(7)
    assert lost.connect(36) == 3
    for _ in range(30):
        for each in others:
            each.connect(36)
        await trio.sleep(0.1)
    assert all_open(others) == 36
    # Back again, it knows that the limit is exceeded, and so do the others.
    lost.log.is_away = False
    await trio.sleep(5)
    others[0].close(3)
    await trio.sleep(3)
    assert [each.connect() for each in gateways] == [0, 0, 0]
    others[0].close(1)
    for _ in range(30):
        for each in gateways:
            each.connect()
        await trio.sleep(0.1)
    assert all_open(gateways) == 36


async def test_a_small_limit_leaves_one_connection_to_a_gateway_that_is_cut_off(
    autojump_clock: trio.testing.MockClock, cluster: Gateways
) -> None:
    cluster.per_ip = 4
    gateways = await cluster.started(3)
    gateways[0].log.is_away = True
    await trio.sleep(7)
    assert gateways[0].connect(4) == 1


async def test_a_gateway_alone_has_the_whole_limit_once_its_first_report_is_read(
    autojump_clock: trio.testing.MockClock, cluster: Gateways
) -> None:
    """It reads the end of the topic and the topic, 5 ms each, and writes and reads its report, 15 ms."""
    cluster.per_ip = 8
    alone = cluster.start("g0")
    await trio.sleep(0.01)
    assert alone.connect(9) == 2
    await alone.announced.wait()
    assert trio.current_time() <= 0.03
    assert alone.connect(9) == 6
    assert alone.connect() == 0


async def test_a_gateway_alone_that_cannot_write_its_report_has_a_quarter(
    autojump_clock: trio.testing.MockClock, cluster: Gateways
) -> None:
    cluster.per_ip = 8
    alone = cluster.start("g0")
    alone.log.lost = 1_000_000
    await trio.sleep(10)
    assert not alone.announced.is_set()
    assert alone.connect(9) == 2


@pytest.mark.parametrize("maximum", [1, 3, 100])
@pytest.mark.parametrize("after_s", [0.0, 0.004, 0.012, 0.3, 1.0, 1.9])
@pytest.mark.parametrize("count", [2, 5])
async def test_gateways_that_begin_together_never_exceed_the_limit(
    autojump_clock: trio.testing.MockClock, cluster: Gateways, maximum: int, after_s: float, count: int
) -> None:
    """Their clients connect as soon as a gateway accepts connections, and all the time."""
    cluster.per_ip = maximum
    gateways: list[Gateway] = []
    most = 0
    end = (count - 1) * after_s + SETTLED_S + 0.9

    async def connects(number: int) -> None:
        nonlocal most
        await trio.sleep(number * after_s)
        gateway = cluster.start(f"g{number}")
        await gateway.announced.wait()
        gateways.append(gateway)
        while trio.current_time() < end:
            while gateway.connect():
                most = max(most, all_open(gateways))
            await trio.sleep(0.005)

    async with trio.open_nursery() as nursery:
        for number in range(count):
            nursery.start_soon(connects, number)
    assert most == all_open(gateways) == maximum


async def test_the_second_of_two_that_begin_together_has_its_part_once_they_know_each_other(
    autojump_clock: trio.testing.MockClock,
    cluster: Gateways,
) -> None:
    cluster.per_ip = 100
    both = cluster.start("g0"), cluster.start("g1")
    for each in both:
        await each.announced.wait()
    opened = [each.connect() for each in both]
    assert sorted(opened) == [0, 1]  # either can be the first in the log
    await trio.sleep(SETTLED_S)
    assert [each.connect(100) + had for each, had in zip(both, opened, strict=True)] == [50, 50]


async def test_a_lowered_limit_closes_nothing_and_opens_nothing_until_there_are_fewer(
    autojump_clock: trio.testing.MockClock,
    cluster: Gateways,
) -> None:
    cluster.per_ip = 30
    gateways = await cluster.started(3)
    assert sum(each.connect(30) for each in gateways) == 30
    for each in gateways:
        each.quotas.per_ip.maximum = 15
    await trio.sleep(3)
    for turn in range(15):
        gateways[turn % 3].close()
        assert [each.connect() for each in gateways] == [0, 0, 0]
        await trio.sleep(0.4)
    await trio.sleep(2)
    gateways[0].close()
    for _ in range(20):
        gateways[0].connect()
        await trio.sleep(0.1)
    assert all_open(gateways) == 15


async def test_overrides_are_shared_and_others_have_their_own_limit(
    autojump_clock: trio.testing.MockClock, cluster: Gateways
) -> None:
    cluster.per_ip, cluster.overrides = 6, {ADDRESS: 30, "10.0.0.9": 0}
    gateways = await cluster.started(3)
    assert [each.connect(40) for each in gateways] == [10, 10, 10]
    assert [each.connect(40, OTHER) for each in gateways] == [2, 2, 2]
    assert [each.connect(1, "10.0.0.9") for each in gateways] == [0, 0, 0]


async def test_only_overrides_are_shared_without_a_limit_for_all(
    autojump_clock: trio.testing.MockClock, cluster: Gateways
) -> None:
    cluster.overrides = {ADDRESS: 3}
    gateways = await cluster.started(3)
    assert [each.connect(4) for each in gateways] == [1, 1, 1]
    assert gateways[0].connect(1_000, OTHER) == 1_000


async def test_users_have_a_limit_of_their_own(
    autojump_clock: trio.testing.MockClock, cluster: Gateways
) -> None:
    cluster.users = UserLimit(INT_MAX, {"alice": 9})
    gateways = await cluster.started(3)
    busy = gateways[2]
    for _ in range(30):
        busy.log_in(10)
        await trio.sleep(0.1)
    assert busy.quotas.users.counts == {"alice": 9}
    assert [each.log_in() for each in gateways] == [0, 0, 0]
    assert busy.log_in(50, "bob") == 50


async def test_connections_without_a_login_count_for_their_address_and_no_user(
    autojump_clock: trio.testing.MockClock, cluster: Gateways
) -> None:
    cluster.per_ip, cluster.users = 9, UserLimit(9)
    gateways = await cluster.started(3)
    assert [each.connect(9) for each in gateways] == [3, 3, 3]
    assert [each.quotas.users.counts for each in gateways] == [{}, {}, {}]
    assert [each.log_in(9) for each in gateways] == [3, 3, 3]


async def test_a_balancers_own_connections_count_for_no_address(
    autojump_clock: trio.testing.MockClock, cluster: Gateways
) -> None:
    """They enter without an address, which a PROXY header may name later."""
    cluster.per_ip = 3
    gateways = await cluster.started(3)
    for each in gateways:
        for _ in range(10):
            assert each.quotas.enter(each.listener, None, each.clock.ms()) is None
        assert each.quotas.name(each.listener, ADDRESS, each.clock.ms()) is None
        assert each.quotas.name(each.listener, ADDRESS, each.clock.ms()) is not None
        assert each.quotas.total == 9
    await trio.sleep(3)
    assert [each.opened() for each in gateways] == [1, 1, 1]


async def test_little_use_is_not_reported_and_much_of_it_is(
    autojump_clock: trio.testing.MockClock, cluster: Gateways
) -> None:
    cluster.per_ip = 60
    gateways = await cluster.started(3)
    gateways[0].connect(9)
    await trio.sleep(2)
    assert [each.line(PER_IP, ADDRESS) for each in gateways] == [None, None, None]
    gateways[0].connect(1)
    await trio.sleep(2.5)
    lines = [each.line(PER_IP, ADDRESS) for each in gateways]
    assert [None if each is None else each.passed for each in lines] == [166_667, 0, 0]
    gateways[0].close(1)
    await trio.sleep(3)
    assert [each.line(PER_IP, ADDRESS) for each in gateways] == [None, None, None]


async def test_limits_that_no_longer_exist_are_not_reported(
    autojump_clock: trio.testing.MockClock, cluster: Gateways
) -> None:
    cluster.users = UserLimit(3)
    gateways = await cluster.started(3)
    assert sum(each.log_in(3) for each in gateways) == 3
    await trio.sleep(2)
    assert gateways[0].line(PER_USER, "alice") is not None
    for each in gateways:
        each.quotas.users.set_limits(UserLimit(), UserLimit())
    await trio.sleep(2)
    assert gateways[0].line(PER_USER, "alice") is None
    assert gateways[0].log_in(100) == 100


async def test_gateways_that_are_all_full_leave_no_part_of_a_connection(
    autojump_clock: trio.testing.MockClock, cluster: Gateways
) -> None:
    """Shares of 12.67 and 13.33 connections would leave one of forty closed for ever."""
    cluster.per_ip = 40
    gateways = [cluster.start(f"g{number}") for number in range(3)]
    for _ in range(80):
        for each in gateways:
            each.connect(4)
        await trio.sleep(0.1)
        assert all_open(gateways) <= 40
    assert all_open(gateways) == 40
    for turn in range(40):
        gateways[turn % 3].close(turn % 3)
        for each in gateways:
            each.connect(2)
        await trio.sleep(0.13)
        assert all_open(gateways) <= 40
    for _ in range(40):
        for each in gateways:
            each.connect(4)
        await trio.sleep(0.1)
    assert all_open(gateways) == 40

"""Gateways hold limits on the rate of new connections, and on request time, together."""

import pytest
import trio

from broker.metrics.rate import INT_MAX
from broker.quotas.connections import Limits, UserLimit
from tests.gateway.sharing.connecting_gateways import Gateway, Gateways

STEADY_S = 5
MEASURED_S = 20
TOLERANCE = 0.05


@pytest.fixture
def cluster(autojump_clock: trio.testing.MockClock, nursery: trio.Nursery) -> Gateways:
    return Gateways(nursery)


async def passed(gateways: list[Gateway], seconds: int = MEASURED_S) -> list[float]:
    """Return the connections or requests per second of each gateway, measured from the next second on."""
    begin = int(trio.current_time()) + 1
    await trio.sleep_until(begin + seconds)
    return [each.rate(begin, begin + seconds) for each in gateways]


LOADS = {"even": (10, 10, 10), "skewed": (28, 1, 1), "at one": (30, 0, 0)}
"""Clients at each gateway."""


@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS)
async def test_the_rate_of_an_address_holds_for_all_gateways(
    autojump_clock: trio.testing.MockClock, cluster: Gateways, nursery: trio.Nursery, load: tuple[int, ...]
) -> None:
    cluster.ip_rate = 20.0
    gateways = await cluster.started(3)
    for gateway, clients in zip(gateways, load, strict=True):
        for _ in range(clients):
            nursery.start_soon(gateway.keep_connecting, 0.2)
    await trio.sleep(STEADY_S)
    assert sum(await passed(gateways)) == pytest.approx(20, rel=TOLERANCE)


@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS)
async def test_the_rate_of_a_user_holds_for_all_gateways(
    autojump_clock: trio.testing.MockClock, cluster: Gateways, nursery: trio.Nursery, load: tuple[int, ...]
) -> None:
    cluster.user_rate = UserLimit(INT_MAX, {"alice": 12.0})
    gateways = await cluster.started(3)
    for gateway, clients in zip(gateways, load, strict=True):
        for number in range(clients):
            nursery.start_soon(gateway.keep_logging_in, 0.2 + number / 1_000)
    await trio.sleep(STEADY_S)
    assert sum(await passed(gateways)) == pytest.approx(12, rel=TOLERANCE)


async def test_the_rate_of_a_gateway_that_dies_is_the_others_within_six_seconds(
    autojump_clock: trio.testing.MockClock, cluster: Gateways, nursery: trio.Nursery
) -> None:
    cluster.ip_rate = 20.0
    gateways = await cluster.started(3)
    scopes = [trio.CancelScope() for _ in gateways]

    async def load(gateway: Gateway, scope: trio.CancelScope) -> None:
        with scope:
            await gateway.keep_connecting(0.05)

    for gateway, scope in zip(gateways, scopes, strict=True):
        nursery.start_soon(load, gateway, scope)
    await trio.sleep(STEADY_S)
    assert sum(await passed(gateways)) == pytest.approx(20, rel=TOLERANCE)
    gateways[0].die()
    scopes[0].cancel()
    await trio.sleep(STEADY_S)
    assert sum(await passed(gateways[1:])) == pytest.approx(20, rel=TOLERANCE)
    joined = cluster.start("g3")
    nursery.start_soon(joined.keep_connecting, 0.05)
    await trio.sleep(STEADY_S)
    assert sum(await passed([*gateways[1:], joined])) == pytest.approx(20, rel=TOLERANCE)


@pytest.mark.parametrize("saturated", [1, 2, 3])
async def test_the_rate_of_the_broker_is_that_of_all_gateways(
    autojump_clock: trio.testing.MockClock, cluster: Gateways, nursery: trio.Nursery, saturated: int
) -> None:
    cluster.limits = Limits(creation_rate=30)
    gateways = await cluster.started(3)
    for gateway in gateways[:saturated]:
        nursery.start_soon(gateway.keep_accepting)
    await trio.sleep(STEADY_S)
    rates = await passed(gateways)
    assert sum(rates) == pytest.approx(30, rel=TOLERANCE)
    assert rates[:saturated] == pytest.approx([30 / saturated] * saturated, rel=0.1)
    assert min(each.pokes for each in gateways) > 0


async def test_an_acceptor_that_waits_at_a_small_share_goes_on_when_the_share_grows(
    autojump_clock: trio.testing.MockClock, cluster: Gateways, nursery: trio.Nursery
) -> None:
    """At a twelfth of a connection per second its turn would come after 12 s."""
    cluster.limits = Limits(creation_rate=1)
    gateways = await cluster.started(3)
    nursery.start_soon(gateways[0].keep_accepting)
    await trio.sleep(STEADY_S)
    assert sum(await passed(gateways, 40)) == pytest.approx(1, rel=TOLERANCE)


async def test_a_listeners_own_rate_and_number_hold_at_each_gateway(
    autojump_clock: trio.testing.MockClock, cluster: Gateways
) -> None:
    gateways = await cluster.started(2)
    for each in gateways:
        each.quotas.set_listener_limits("PLAINTEXT", Limits(connections=5, creation_rate=10))
        waits = [each.quotas.record(each.listener, each.clock.ms()) for _ in range(101)]
        # A gateway's time begins within a millisecond.
        assert waits[:100] == [0] * 100 and waits[100] in (99, 100)
        assert each.connect(5) == 5
        assert not each.quotas.has_slot(each.listener)


async def test_a_gateway_that_is_cut_off_has_the_starting_share(
    autojump_clock: trio.testing.MockClock, cluster: Gateways, nursery: trio.Nursery
) -> None:
    cluster.ip_rate = 24.0
    gateways = await cluster.started(3)
    gateways[0].log.is_away = True
    for gateway in gateways:
        for _ in range(5):
            nursery.start_soon(gateway.keep_connecting, 0.1)
    await trio.sleep(10)
    rates = await passed(gateways)
    assert rates[0] == pytest.approx(2, rel=TOLERANCE)
    assert sum(rates[1:]) == pytest.approx(24, rel=TOLERANCE)


@pytest.mark.parametrize("load", [(4, 4, 4), (10, 1, 1), (12, 0, 0)], ids=LOADS)
async def test_request_time_is_percent_of_a_thread_at_all_gateways(
    autojump_clock: trio.testing.MockClock, cluster: Gateways, nursery: trio.Nursery, load: tuple[int, ...]
) -> None:
    cluster.percent = 20.0
    gateways = await cluster.started(3)
    for gateway, clients in zip(gateways, load, strict=True):
        for _ in range(clients):
            nursery.start_soon(gateway.keep_asking, 2_000_000)
    await trio.sleep(STEADY_S)
    assert sum(await passed(gateways)) == pytest.approx(100, rel=TOLERANCE)

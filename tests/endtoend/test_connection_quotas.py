"""Connection quotas of a broker of its own, in real seconds: Kafka's DynamicConnectionQuotaTest and
SocketServerTest.testConnectionRatePerIp, and storms that leave nothing behind.
"""

import socket
import struct
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import trio

from broker.protocol.messages.metadata import MetadataRequest
from tests.endtoend.test_storms import QUIET, descriptors, descriptors_at_rest, port_of, storm_of
from tests.support.broker_process import PATIENCE, BrokerProcess
from tests.support.hostile import is_closed_soon, is_served, request
from tests.support.live import alter_through
from tests.support.wire import WireClient, connect

pytestmark = pytest.mark.endtoend

LOOP_SECONDS: Final = 13
"""As in Kafka: long enough that two windows' worth at the start are less than a fifth of it all."""

METADATA: Final = request(3, 1, struct.pack(">i", 0))
TWO_LISTENERS: Final = (
    "listeners=PLAINTEXT://127.0.0.1:0,EXTERNAL://127.0.0.1:0",
    "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT",
    "inter.broker.listener.name=PLAINTEXT",
    "quota.window.num=2",
)


def set_ip_rate(broker: BrokerProcess, address: str | None, rate: int | None) -> None:
    op = {"key": "connection_creation_rate", **({"remove": True} if rate is None else {"value": rate})}
    broker.ask("PATCH", "/api/v1/client-quotas", {"entries": [{"entity": {"ip": address}, "ops": [op]}]})


def one_connection(port: int) -> bool:
    """Connects, asks, closes; False where the broker closed it without an answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
        try:
            sock.sendall(METADATA)
            return bool(sock.recv(65_536))
        except ConnectionError:
            return False


def rate_of(port: int, seconds: float = LOOP_SECONDS) -> float:
    """Connections per second that a client is served on which always wants the next one.

    Kafka's test also counts the refused ones. There they are closed up to half a second late, when the
    acceptor looks; here on time, so that such a client is refused as often as it is served.
    """
    made, started = 0, time.monotonic()
    while time.monotonic() < started + seconds:
        made += one_connection(port)
    return made / (time.monotonic() - started)


async def measured(*ports: int, seconds: float = LOOP_SECONDS) -> list[float]:
    """The rates of one client each, all at the same time."""
    rates = dict.fromkeys(ports, 0.0)

    async def one(port: int) -> None:
        rates[port] = await trio.to_thread.run_sync(rate_of, port, seconds)

    async with trio.open_nursery() as nursery:
        for port in ports:
            nursery.start_soon(one, port)
    return list(rates.values())


@asynccontextmanager
async def two_listeners(
    directory: Path, *overrides: str
) -> AsyncIterator[tuple[BrokerProcess, WireClient, int, int]]:
    """The broker, an operator who is connected already, and the ports of PLAINTEXT and EXTERNAL."""
    with BrokerProcess(directory, QUIET, *TWO_LISTENERS, *overrides) as broker:
        inner, outer = (int(each.rpartition(":")[2]) for each in (broker.plain, broker.sasl))
        operator = await connect(inner)
        assert await is_served(operator)
        yield broker, operator, inner, outer
        await operator.stream.aclose()


async def becomes(is_so: Callable[[], bool]) -> None:
    """Within two seconds; others go on meanwhile."""
    with trio.fail_after(2 * PATIENCE):
        while not is_so():  # noqa: ASYNC110 - it looks at another process
            await trio.sleep(0.05)


@pytest.mark.timed
@pytest.mark.slow
async def test_rates_of_broker_and_listeners_hold_as_soon_as_they_are_set(tmp_path: Path) -> None:
    key = "max.connection.creation.rate"
    async with two_listeners(tmp_path) as (_, operator, inner, outer):
        (free,) = await measured(inner, seconds=2)
        assert free >= 2 * 9

        assert await alter_through(operator, {key: "9"}) == (0, None)
        (rate,) = await measured(outer)
        assert 8 <= rate <= 1.2 * 9

        own = {f"listener.name.{name}.{key}": "4" for name in ("plaintext", "external")}
        assert await alter_through(operator, own) == (0, None)
        for rate in await measured(inner, outer):
            assert 3 <= rate <= 1.2 * 4

        assert await alter_through(operator, {f"listener.name.plaintext.{key}": "12"}) == (0, None)
        protected, bound = await measured(inner, outer)
        assert 10 <= protected <= 1.2 * 12, "above the broker's 9"
        assert 3 <= bound <= 1.2 * 4


@pytest.mark.timed
@pytest.mark.slow
async def test_rates_of_addresses_hold_as_soon_as_they_are_set(tmp_path: Path) -> None:
    async with two_listeners(tmp_path) as (broker, _, inner, _):
        set_ip_rate(broker, None, 10)
        (rate,) = await measured(inner)
        assert 8 <= rate <= 1.2 * 10
        set_ip_rate(broker, "127.0.0.1", 18)
        (rate,) = await measured(inner)
        assert 14 <= rate <= 1.2 * 18


async def test_over_its_rate_an_address_is_held_closed_and_served_again(tmp_path: Path) -> None:
    async with two_listeners(tmp_path, "ip.throttle.mode=kafka") as (broker, _, _, outer):
        set_ip_rate(broker, None, 5)
        clients = [await connect(outer) for _ in range(7)]
        assert [await is_served(client) for client in clients[:5]] == [True] * 5
        assert [await is_closed_soon(client) for client in clients[5:]] == [True, True]
        await trio.sleep(2)
        assert await is_served(await connect(outer))


@pytest.mark.timed
@pytest.mark.parametrize(
    ("override", "ip_rate"),
    [
        ("ip.throttle.mode=kafka", None),
        ("max.connections.per.ip=100", None),
        ("ip.throttle.mode=kafka", 50),
        ("ip.throttle.mode=kip", 50),
    ],
    ids=["no limit", "count", "rate, kafka", "rate, kip"],
)
async def test_a_storm_of_a_thousand_leaves_no_descriptor_behind(
    tmp_path: Path, override: str, ip_rate: int | None
) -> None:
    """And the polite client beside it waits for no answer as long as a second."""
    with BrokerProcess(tmp_path, QUIET, override, "quota.window.num=2") as broker:
        polite = await connect(port_of(broker))
        assert await is_served(polite)
        base = await descriptors_at_rest(broker)
        if ip_rate is not None:
            set_ip_rate(broker, None, ip_rate)
        over, worst = trio.Event(), 0.0

        async def ask_on() -> None:
            nonlocal worst
            while not over.is_set():
                started = trio.current_time()
                await polite.ask(MetadataRequest([]), 9)
                worst = max(worst, trio.current_time() - started)
                await trio.sleep(0.01)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_on)
            with ExitStack() as stack:
                await trio.to_thread.run_sync(storm_of, port_of(broker), 1_000, stack)
                await trio.sleep(1)
                if override.startswith("max"):
                    await becomes(lambda: descriptors(broker) == base + 99)
                elif ip_rate is not None:
                    await becomes(lambda: descriptors(broker) <= base + 3 * ip_rate)
            await becomes(lambda: descriptors(broker) == base)
            over.set()
        assert worst < 1 * PATIENCE

        def warnings() -> list[str]:
            return [line for line in broker.log_lines if "Rejected connection from 127.0.0.1" in line]

        if ip_rate is not None or override.startswith("max"):
            await becomes(lambda: bool(warnings()))
            assert len(warnings()) <= 10, "a burst is a line, not a thousand"
        else:
            assert not warnings()
        await polite.stream.aclose()

"""The simulation agrees with the broker: the same clients on Trio's mock clock, over sockets and in process,
and in `broker.simulation`, get the same throttles at the same times, to the millisecond.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from broker.common.clock import BASE_MS
from broker.config.sections import QuotaConfig
from broker.network.clock import TrioClock
from broker.network.reaper import Reaper
from broker.quotas.entity import DEFAULT, Entity
from broker.quotas.kinds import QuotaKind
from broker.simulation.connection import SimulatedConnection
from broker.simulation.engine import make_clients, quotas_of
from broker.simulation.scenario import SECOND_US, ClientGroup, Limit, Piece, Scenario
from tests.support.produce import PRODUCE_VERSION, create_topic, produce_request_of
from tests.support.running import RunningBroker, running_broker

Throttles = list[tuple[int, int]]
"""When a client was answered, in ms from the beginning, and for how long it was to wait."""

BOUND = 1_000


def greedy_clients(sizes: Sequence[int], per_size: int, seconds: int) -> Scenario:
    """Each has the default limit for itself, and sends again as soon as the broker reads from it."""
    end_us = seconds * SECOND_US
    limits = (Limit(Entity(client_id=DEFAULT), {"producer_byte_rate": BOUND}),)
    pieces = (Piece(0, end_us, 1.0),)
    groups = tuple(
        ClientGroup(
            str(size),
            QuotaKind.PRODUCE,
            per_size,
            "ANONYMOUS",
            f"{size}-{{n}}",
            size,
            None,
            pieces,
            obeys=False,
        )
        for size in sizes
    )
    return Scenario(end_us, limits, QuotaConfig(), groups, latency_us=1)


def simulated(scenario: Scenario) -> dict[str, Throttles]:
    return {
        client.connection.client_id: _told(client.connection, scenario.duration_us)
        for client in make_clients(scenario)
    }


def _told(connection: SimulatedConnection, end_us: int) -> Throttles:
    reported: Throttles = []
    totals = connection.throttles[QuotaKind.PRODUCE]
    while (at_us := connection.next_at()) is not None and at_us < end_us:
        before = totals.total_ms
        connection.send(at_us)
        reported.append((at_us // 1000, totals.total_ms - before))
    return reported


async def test_fifty_clients_over_sockets_are_told_what_the_simulation_says(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    seconds = 120
    scenario = greedy_clients((5_000, 12_000, 16_000, 25_000, 40_000), per_size=10, seconds=seconds)
    expected = simulated(scenario)
    throttles: dict[str, Throttles] = {name: [] for name in expected}

    async def insist(broker: RunningBroker, client_id: str) -> None:
        client = await broker.connect(client_id)
        request = produce_request_of(int(client_id.split("-")[0]), client_id)
        while True:
            answer = await client.ask(request, PRODUCE_VERSION)
            throttles[client_id].append((round(trio.current_time() * 1000), answer.throttle_time_ms))

    async with running_broker(tmp_path) as broker:
        assert (await (await broker.connect("maker")).ask(create_topic(), 5)).topics[0].error_code == 0
        broker.server.quotas.apply(Entity(client_id=DEFAULT), "producer_byte_rate", BOUND)
        throttled = broker.server.quotas.produce.throttled
        async with trio.open_nursery() as clients:
            for client_id in throttles:
                clients.start_soon(insist, broker, client_id)
            while True:
                while len(throttled) < len(throttles):
                    await trio.testing.wait_all_tasks_blocked(0.005)
                next_ms = throttled.next_deadline()
                assert next_ms is not None
                if next_ms - BASE_MS >= seconds * 1000:
                    break
                mock_clock.jump((next_ms - broker.server.clock.ms()) / 1000)
                await trio.testing.wait_all_tasks_blocked(0.005)
            clients.cancel_scope.cancel()
    assert throttles == expected
    assert sum(len(each) for each in throttles.values()) > 500


@dataclass
class Caller:
    """What the quotas want to know of a channel."""

    client_id: str | None
    id: str = ""
    principal: str = "ANONYMOUS"
    address: str = ""
    throttles: int = 0


@pytest.mark.slow
async def test_a_day_of_a_thousand_clients_on_the_mock_clock_is_the_simulations(
    autojump_clock: MockClock,
) -> None:
    """The broker's quotas and the reaper that ends its throttles, without sockets: a task for each client."""
    seconds = 86_400
    sizes = [3_000_000 + 70_001 * number for number in range(250)]
    scenario = greedy_clients(sizes, per_size=4, seconds=seconds)
    expected = simulated(scenario)
    throttles: dict[str, Throttles] = {name: [] for name in expected}
    quotas, clock = quotas_of(scenario), TrioClock()
    throttled = quotas.produce.throttled

    def free(now_ms: int) -> None:
        for token in throttled.expired(now_ms):
            assert isinstance(token, trio.Event)
            token.set()

    reaper = Reaper("throttled", throttled.next_deadline, free, clock)
    throttled.on_deadline = reaper.wake_by

    async def insist(client_id: str) -> None:
        caller, size = Caller(client_id), int(client_id.split("-")[0])
        while True:
            now_ms = clock.ms()
            throttle = quotas.record_produce("ANONYMOUS", client_id, size, now_ms)
            throttles[client_id].append((now_ms - BASE_MS, throttle.throttle_ms if throttle else 0))
            if throttle is None:
                await trio.lowlevel.checkpoint()
                continue
            unmuted = trio.Event()
            quotas.throttle(caller, unmuted, throttle, now_ms)
            await unmuted.wait()

    with trio.move_on_after(seconds - 0.0005):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reaper.run)
            for client_id in throttles:
                nursery.start_soon(insist, client_id)
    assert throttles == expected
    assert sum(len(each) for each in throttles.values()) > 10_000

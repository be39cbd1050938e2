"""A bounded memory under pressure, over real sockets (KIP-72): every client finishes, none starves, and a
well-behaved one beside them has its answers soon.
"""

import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import trio

from broker.protocol.messages.metadata import MetadataRequest
from tests.endtoend.test_storms import cpu_seconds, port_of, resident_bytes
from tests.network.test_pipelining import encoded
from tests.support.broker_process import BrokerProcess
from tests.support.hostile import until
from tests.support.machine_speed import WITHIN_S
from tests.support.produce import PRODUCE_VERSION, create_topic, produce_request_of
from tests.support.wire import WireClient, connect

pytestmark = pytest.mark.endtoend

MIB: Final = 1024 * 1024
BOUNDED: Final = (f"queued.max.request.bytes={MIB}", f"socket.request.max.bytes={MIB}")
PATIENT: Final = "queued.request.stall.timeout.ms=60000"
CLIENTS: Final = 50
REQUESTS: Final = 8

WORST_S: Final = 10.0
"""Of the waits of the well-behaved one: less than a request may stall, and far more than it takes."""


class Probe:
    """The waits of a polite client, in seconds."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def run(self, port: int) -> None:
        polite = await connect(port, "polite")
        while True:
            started = time.monotonic()
            answer = await polite.ask(MetadataRequest([]), 9)
            self.waits.append(time.monotonic() - started)
            assert len(answer.brokers) == 1
            await trio.sleep(0.01)


@asynccontextmanager
async def beside_a_polite_client(broker: BrokerProcess) -> AsyncIterator[Probe]:
    probe = Probe()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(probe.run, port_of(broker))
        yield probe
        nursery.cancel_scope.cancel()


async def with_topic(broker: BrokerProcess) -> WireClient:
    maker = await connect(port_of(broker))
    assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
    return maker


def states(broker: BrokerProcess) -> list[str]:
    return [row["mute_state"] for row in broker.ask("GET", "/api/v1/connections?limit=1000")["items"]]


def used(broker: BrokerProcess) -> int:
    return int(broker.ask("GET", "/api/v1/overview")["metrics"]["memory_pool_used"])


@pytest.mark.timed
async def test_fifty_clients_of_512_kib_share_a_pool_of_one_mib(tmp_path: Path) -> None:
    answered = [0] * CLIENTS
    spread = 0
    request = encoded(produce_request_of(512 * 1024, "tester"), PRODUCE_VERSION, 1)

    async def produce(port: int, number: int) -> None:
        nonlocal spread
        client = await connect(port, f"client-{number}")
        for _ in range(REQUESTS):
            await client.stream.send_all(request)
            _, answer = await client.receive(0, PRODUCE_VERSION)
            assert answer.responses[0].partition_responses[0].error_code == 0
            answered[number] += 1
            spread = max(spread, max(answered) - min(answered))

    with BrokerProcess(tmp_path, *BOUNDED, PATIENT) as broker:
        await with_topic(broker)
        resident = resident_bytes(broker)
        async with beside_a_polite_client(broker) as probe:
            with trio.fail_after(60):
                async with trio.open_nursery() as nursery:
                    for number in range(CLIENTS):
                        nursery.start_soon(produce, port_of(broker), number)
        assert answered == [REQUESTS] * CLIENTS
        assert max(probe.waits) < WORST_S
        assert spread <= REQUESTS / 2, "none is far behind the first"
        assert resident_bytes(broker) - resident < 150 * MIB, "mapped segments included"
        await until(lambda: used(broker) == 0)
        print(f"polite: {len(probe.waits)} answers, worst {max(probe.waits):.3f} s; spread {spread}")


@pytest.mark.timed
async def test_twenty_that_announce_one_mib_and_send_nothing_delay_no_other(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, *BOUNDED, PATIENT) as broker:
        await with_topic(broker)
        for _ in range(20):
            await (await connect(port_of(broker))).stream.send_all(struct.pack(">i", MIB))
        async with beside_a_polite_client(broker) as probe:
            await until(lambda: len(probe.waits) > 20)
        assert max(probe.waits) < WORST_S
        assert used(broker) == 0


async def test_twenty_that_send_half_are_given_up_one_after_the_other(tmp_path: Path) -> None:
    """The pool holds one of them: the last polite answer comes when the twentieth has had its time."""

    def given_up() -> int:
        return sum("made no progress" in line for line in broker.log_lines)

    with BrokerProcess(tmp_path, *BOUNDED, "queued.request.stall.timeout.ms=100") as broker:
        await with_topic(broker)
        # Before the first of them: on a busy machine some are given up while the others still connect.
        started = time.monotonic()
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                liar = await connect(port_of(broker))
                nursery.start_soon(liar.stream.send_all, struct.pack(">i", MIB) + bytes(MIB // 8))
        polite = await connect(port_of(broker), "polite")
        with trio.fail_after(WITHIN_S):
            await polite.ask(MetadataRequest([]), 9)
        assert time.monotonic() - started > 1.8
        await until(lambda: used(broker) == 0)
        await until(lambda: given_up() == 20)


@pytest.mark.timed
async def test_a_hundred_that_wait_for_memory_cost_under_two_percent_of_a_core(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, *BOUNDED, PATIENT) as broker:
        maker = await with_topic(broker)
        taker = await connect(port_of(broker))
        await taker.stream.send_all(struct.pack(">i", MIB) + b"\0")
        await until(lambda: used(broker) == MIB)
        clients = [await connect(port_of(broker)) for _ in range(100)]
        for client in clients:
            await client.send(MetadataRequest([]), 9)
        await until(lambda: states(broker).count("muted_for_memory") == 100)
        spent, since = cpu_seconds(broker), time.monotonic()
        await trio.sleep(3)
        assert (cpu_seconds(broker) - spent) / (time.monotonic() - since) < 0.02
        await taker.stream.aclose()
        with trio.fail_after(WITHIN_S):
            for client in clients:
                await client.receive(3, 9)
        await maker.ask(MetadataRequest([]), 9)

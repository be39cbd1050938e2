"""A broker under storms: descriptors, memory and time stay bounded, and afterwards it is as before."""

import os
import resource
import socket
import struct
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
import trio

from broker.protocol.messages.metadata import MetadataRequest
from tests.support.broker_process import BrokerProcess
from tests.support.hostile import is_served, until
from tests.support.machine_speed import WITHIN_S
from tests.support.produce import PRODUCE_VERSION, create_topic, produce_request_of
from tests.support.quota_interfaces import set_by_rest
from tests.support.wire import WireClient, connect

pytestmark = pytest.mark.endtoend

MIB: Final = 1024 * 1024
QUIET: Final = "events.topics="
"""No topics come to be while descriptors are counted."""
TICKS: Final = os.sysconf("SC_CLK_TCK")


def port_of(broker: BrokerProcess) -> int:
    return int(broker.plain.rpartition(":")[2])


def descriptors(broker: BrokerProcess) -> int:
    return len(os.listdir(f"/proc/{broker.running.pid}/fd"))


async def descriptors_at_rest(broker: BrokerProcess) -> int:
    """Once the console, which is imported behind the first answers and opens files for that, has answered."""
    broker.ask("GET", "/healthz")
    while True:
        seen = descriptors(broker)
        await trio.sleep(0.2)
        if descriptors(broker) == seen:
            return seen


def resident_bytes(broker: BrokerProcess) -> int:
    return int(Path(f"/proc/{broker.running.pid}/statm").read_text().split()[1]) * 4_096


def cpu_seconds(broker: BrokerProcess) -> float:
    fields = Path(f"/proc/{broker.running.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def storm_of(port: int, count: int, stack: ExitStack) -> list[socket.socket]:
    return [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(count)]


async def test_without_descriptors_it_goes_on_with_events_to_write(tmp_path: Path) -> None:
    """Without descriptors, topics and codecs cannot be opened: events are dropped until some are free."""
    with BrokerProcess(tmp_path) as broker:
        polite = await connect(port_of(broker))
        assert await is_served(polite)
        pid, before = broker.running.pid, resource.prlimit(broker.running.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (descriptors(broker) + 20, before[1]))
        with ExitStack() as stack:
            storm_of(port_of(broker), 40, stack)
            for _ in range(25):
                assert await is_served(polite)
                await trio.sleep(0.1)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        await until(lambda: any(tmp_path.rglob("__weir_connections-*/*.log")))
        assert await is_served(polite) and broker.running.poll() is None
        await polite.stream.aclose()


@pytest.mark.timed
async def test_without_descriptors_it_rests_and_recovers(tmp_path: Path) -> None:
    """400 connections with a limit of 200: the first are always served, the others as slots become free."""
    with BrokerProcess(tmp_path, QUIET) as broker:
        polite = await connect(port_of(broker))
        assert await is_served(polite)
        base = await descriptors_at_rest(broker)
        pid = broker.running.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (base + 200, before[1]))
        with ExitStack() as stack:
            storm_of(port_of(broker), 400, stack)
            await until(lambda: descriptors(broker) == base + 200)
            spent = cpu_seconds(broker)
            for _ in range(10):
                assert await is_served(polite)
                await trio.sleep(0.1)
            assert cpu_seconds(broker) - spent < 0.5, "it does not spin"
            lines = broker.lines_with("cannot accept")
            assert len(lines) == 1
        await until(lambda: descriptors(broker) == base)
        late = await connect(port_of(broker))
        assert await is_served(late)
        await late.stream.aclose()
        await polite.stream.aclose()


async def test_storms_of_connections_leave_nothing_behind(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, QUIET) as broker:
        polite = await connect(port_of(broker))
        assert await is_served(polite)
        base, resident = await descriptors_at_rest(broker), resident_bytes(broker)
        for turn in range(5):
            with ExitStack() as stack:
                for peer in storm_of(port_of(broker), 200, stack):
                    peer.sendall(
                        (b"", b"GET / HTTP/1.1\r\n\r\n", struct.pack(">i", 90_000_000) + bytes(9_000))[
                            turn % 3
                        ]
                    )
                    if turn % 2:
                        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                assert await is_served(polite)
        await until(lambda: descriptors(broker) == base)
        assert resident_bytes(broker) - resident < 60 * MIB
        assert not [line for line in broker.log_lines if "Traceback" in line]
        await polite.stream.aclose()


async def test_twenty_announcements_of_90_mb_are_not_believed(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, QUIET) as broker, ExitStack() as stack:
        polite = await connect(port_of(broker))
        assert await is_served(polite)
        resident = resident_bytes(broker)
        for peer in storm_of(port_of(broker), 20, stack):
            peer.sendall(struct.pack(">i", 90_000_000) + bytes(2 * MIB))
        assert await is_served(polite)
        assert resident_bytes(broker) - resident < 200 * MIB
        await polite.stream.aclose()


@pytest.mark.timed
async def test_two_hundred_held_clients_cost_nothing(tmp_path: Path) -> None:
    """All of them broke a quota; while they are throttled, the broker has nothing to do."""
    with BrokerProcess(tmp_path, QUIET) as broker:
        polite = await connect(port_of(broker))
        await polite.ask(create_topic(), 5)
        set_by_rest(broker, {"client-id": "greedy"}, 1_000)
        clients: list[WireClient] = []
        for acks in (0, 1) * 100:
            clients.append(await connect(port_of(broker), "greedy"))
            await clients[-1].send(produce_request_of(12_000, "greedy", acks=acks), PRODUCE_VERSION)
        for client in clients:
            await client.send(MetadataRequest([]), 9)
        await until(lambda: len(broker.ask("GET", "/api/v1/throttled-channels?limit=1000")["items"]) >= 199)
        spent, since = cpu_seconds(broker), time.monotonic()
        await trio.sleep(1.5)
        assert (cpu_seconds(broker) - spent) / (time.monotonic() - since) < 0.2
        assert await is_served(polite)
        set_by_rest(broker, {"client-id": "greedy"}, None)
        with trio.fail_after(WITHIN_S):
            for number, client in enumerate(clients):
                if number % 2:
                    await client.receive(0, PRODUCE_VERSION)
                await client.receive(3, 9)
                await client.stream.aclose()
        assert broker.ask("GET", "/api/v1/throttled-channels")["items"] == []
        await polite.stream.aclose()

"""A minute of ordinary life with clients that come and go: memory and descriptors do not grow."""

import os
import time
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import trio

from benchmarks.soak.broker_life import slope
from benchmarks.soak.visitors import follow
from broker.protocol.messages.heartbeat import HeartbeatRequest
from tests.support.broker_process import BrokerProcess
from tests.support.history import PARTITIONS, TOPIC, History, make_topic
from tests.support.produce import create_topic
from tests.support.quota_interfaces import set_by_rest
from tests.support.wire import connect

pytestmark = [pytest.mark.endtoend, pytest.mark.slow]

MIB: Final = 1024 * 1024
WARM_UP_S: Final = 20
MEASURED_S: Final = 40
MAX_GROWTH_A_MINUTE: Final = 1 * MIB
"""Of resident memory. What history keeps, indexes and the allocator's rounding stay below it."""


async def producing(port: int, history: History) -> None:
    """A client of one second, four times over; ten batches a second each."""
    number = 0
    while True:
        number += 1
        client = await connect(port, f"producer-{number}")
        async with client.stream:
            for turn in range(10):
                assert await history.produce_once(client, turn % PARTITIONS, records_each=10) == 0
                await trio.sleep(0.1)


async def consuming(port: int) -> None:
    """A client of five seconds that follows one partition in a session, with heartbeats to no group."""
    while True:
        client = await connect(port, "consumer")
        async with client.stream:
            heartbeat = HeartbeatRequest("nobody", 1, "me")
            await follow(client.ask, TOPIC, 5, partial(client.ask, heartbeat, 4))


async def changing(broker: BrokerProcess) -> None:
    limit = 1_000_000
    while True:
        limit += 1
        await trio.to_thread.run_sync(set_by_rest, broker, {"client-id": "somebody"}, limit)
        await trio.sleep(2)


async def test_a_minute_of_clients_that_come_and_go_leaves_nothing_behind(tmp_path: Path) -> None:
    history = History()
    with BrokerProcess(tmp_path, "log.segment.bytes=1048576") as broker:
        port = int(broker.plain.rpartition(":")[2])
        await make_topic(port)
        client = await connect(port)
        await client.ask(create_topic("__consumer_offsets"), 5)
        await client.stream.aclose()
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(producing, port, history)
            for _ in range(4):
                nursery.start_soon(consuming, port)
            nursery.start_soon(changing, broker)
            await trio.sleep(WARM_UP_S)
            samples = []
            started = time.monotonic()
            while time.monotonic() - started < MEASURED_S:
                await trio.sleep(0.5)
                samples.append((time.monotonic() - started, *_sizes(broker)))
            nursery.cancel_scope.cancel()
        assert await history.check(port) >= history.count
        grown = slope([(at, resident) for at, resident, _ in samples]) * 60
        assert grown < MAX_GROWTH_A_MINUTE, f"{grown / MIB:.2f} MiB a minute"
        assert max(fds for *_, fds in samples) - min(fds for *_, fds in samples) < 40
        assert not [line for line in broker.log_lines if "Traceback" in line or "ERROR" in line]


def _sizes(broker: BrokerProcess) -> tuple[int, int]:
    """Resident bytes that are not of files, and descriptors."""
    pid = broker.running.pid
    _, resident, shared, *_ = map(int, Path(f"/proc/{pid}/statm").read_text().split())
    return (resident - shared) * 4_096, len(os.listdir(f"/proc/{pid}/fd"))

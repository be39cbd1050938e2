"""500 clients in a connection storm on one socket server of a broker of its own, while the other server's
clients come and go.

No limit of the stormed server holds up the other one, whichever is stormed: not `max.connections`, which the
storm has reached, nor the creation rate, nor the request memory. What the limits do to the millisecond is
tests/network/acceptor/test_controller_isolation.py's.
"""

import re
import socket
import struct
from pathlib import Path
from typing import Final

import pytest
import trio

from broker.protocol.messages.api_versions import ApiVersionsRequest
from tests.endtoend.test_storms import QUIET
from tests.support.broker_process import BrokerProcess
from tests.support.hostile import request
from tests.support.live import alter_through
from tests.support.machine_speed import WITHIN_S
from tests.support.wire import WireClient, connect

pytestmark = pytest.mark.endtoend

STORM: Final = 500
MOST: Final = 50
ROUNDS: Final = 10
POOL: Final = 1_048_576
API_VERSIONS: Final = request(ApiVersionsRequest.API_KEY, 0)
TAKES_ALL_MEMORY: Final = struct.pack(">i", POOL) + b"\0"

SETTINGS: Final = (
    QUIET,
    "listeners=PLAINTEXT://127.0.0.1:0,EXTERNAL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "process.roles=broker,controller",
    "controller.listener.names=CONTROLLER",
    "inter.broker.listener.name=PLAINTEXT",
    f"max.connections={MOST}",
    "max.connection.creation.rate=1000",
    f"queued.max.request.bytes={POOL}",
    f"socket.request.max.bytes={POOL}",
    "queued.request.stall.timeout.ms=600000",
)


def controllers_port(broker: BrokerProcess) -> int:
    """As its acceptor's task is called after it."""
    tasks = str(broker.ask("GET", "/api/v1/tasks"))
    (port,) = set(re.findall(r"controller-kafka-socket-acceptor-CONTROLLER-PLAINTEXT-(\d+)'", tasks))
    return int(port)


async def is_answered(client: WireClient) -> bool:
    return (await client.ask(ApiVersionsRequest(), 0)).error_code == 0


async def rage(port: int) -> None:
    """Connects, asks, resets, and does so again until it is cancelled."""
    while True:
        try:
            stream = await trio.open_tcp_stream("127.0.0.1", port)
        except OSError:
            continue
        try:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await stream.send_all(API_VERSIONS)
        except trio.BrokenResourceError:
            await trio.lowlevel.checkpoint()
        finally:
            await trio.aclose_forcefully(stream)


async def opened(port: int, count: int) -> list[WireClient]:
    """So many that are served."""
    with trio.fail_after(WITHIN_S):
        clients = [await connect(port) for _ in range(count)]
        assert [await is_answered(client) for client in clients] == [True] * count
    return clients


@pytest.mark.parametrize("stormed", ["broker", "controller"])
async def test_a_storm_of_500_on_one_server_delays_and_evicts_no_client_of_the_other(
    tmp_path: Path, stormed: str
) -> None:
    with BrokerProcess(tmp_path, *SETTINGS) as broker:
        external, controller = int(broker.sasl.rpartition(":")[2]), controllers_port(broker)
        full, free = (external, controller) if stormed == "broker" else (controller, external)
        (first,) = await opened(free, 1)  # the least recently used of all, from here on
        holders = await opened(full, MOST)
        await holders[0].stream.send_all(TAKES_ALL_MEMORY)
        async with trio.open_nursery() as nursery:
            for _ in range(STORM - MOST):
                nursery.start_soon(rage, full)
            for turn in range(ROUNDS):
                with trio.fail_after(WITHIN_S):
                    client = await connect(free)
                    assert await is_answered(client)
                if stormed == "broker" and not turn:
                    assert await alter_through(client, {"max.connections": str(MOST - 1)}) == (0, None)
                await client.stream.aclose()
            assert await is_answered(first), "and was not closed for the others"
            limits = broker.ask("GET", "/api/v1/ip-quotas")["limits"]
            counts = {each["server"]: each["connections"] for each in limits if not each["listener"]}
            nursery.cancel_scope.cancel()
        other = "controller" if stormed == "broker" else "broker"
        assert counts[stormed] >= MOST - 1
        assert 1 <= counts[other] <= 2, "the last of the rounds may not be closed yet"
        for client in (first, *holders):
            await trio.aclose_forcefully(client.stream)
        assert not [line for line in broker.log_lines if "ERROR" in line or "Traceback" in line]

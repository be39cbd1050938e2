"""The controller's socket server has its own memory pool; the control plane shares the broker's. (KIP-72)"""

from pathlib import Path

import pytest
from trio.testing import MockClock

from broker.config.listeners import Server
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.connections import (
    CONTROLLER,
    PLAINTEXT,
    PLANE,
    TWO_SERVERS,
    WITH_CONTROL_PLANE,
    open_to,
    opened,
    settle,
)
from tests.support.hostile import is_served
from tests.support.live import alter_through
from tests.support.memory import BEGUN, BOUNDED, POOL
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient


async def take_all_memory(broker: RunningBroker, listener: str) -> WireClient:
    taker = await open_to(broker, listener)
    await taker.stream.send_all(BEGUN)
    await settle()
    return taker


@pytest.mark.parametrize("emptied", [PLAINTEXT, CONTROLLER])
async def test_memory_that_one_server_has_used_up_is_not_missing_in_the_other(
    tmp_path: Path, mock_clock: MockClock, emptied: str
) -> None:
    async with running_broker(tmp_path, *TWO_SERVERS, *BOUNDED) as broker:
        taker = await take_all_memory(broker, emptied)
        waiting = await open_to(broker, emptied)
        await waiting.send(ApiVersionsRequest(), 0)
        await settle()
        pools = {name: each.memory for name, each in broker.server.socket_server.resources.items()}
        of = {PLAINTEXT: Server.BROKER, CONTROLLER: Server.CONTROLLER}
        free_one = CONTROLLER if emptied == PLAINTEXT else PLAINTEXT
        emptied_pool, other_pool = pools[of[emptied]], pools[of[free_one]]
        assert emptied_pool is not None and other_pool is not None
        assert (emptied_pool.memory.used, emptied_pool.waiting) == (POOL, 1)
        free = await open_to(broker, free_one)
        assert (await free.ask(ApiVersionsRequest(), 0)).error_code == 0
        assert (other_pool.memory.size, other_pool.memory.used, other_pool.waiting) == (POOL, 0, 0)
        await taker.stream.aclose()
        await waiting.receive(ApiKey.API_VERSIONS, 0)
        assert (emptied_pool.memory.used, emptied_pool.waiting) == (0, 0)


async def test_the_control_plane_shares_the_brokers_memory(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path, *WITH_CONTROL_PLANE, *BOUNDED) as broker:
        taker = await take_all_memory(broker, PLANE)
        waiting = await open_to(broker, PLAINTEXT)
        await waiting.send(ApiVersionsRequest(), 0)
        await settle()
        pool = broker.server.socket_server.memory
        assert pool is not None and (pool.memory.used, pool.waiting) == (POOL, 1)
        await taker.stream.aclose()
        await waiting.receive(ApiKey.API_VERSIONS, 0)


@pytest.mark.parametrize("mode", ["kafka", "automq"])
async def test_memory_comes_back_to_the_pool_that_it_was_taken_from(tmp_path: Path, mode: str) -> None:
    async with running_broker(tmp_path, *TWO_SERVERS, *BOUNDED, f"socket.server.mode={mode}") as broker:
        (administrator,) = await opened(broker, 1, CONTROLLER)
        (client,) = await opened(broker, 1, PLAINTEXT)
        for _ in range(20):
            assert await alter_through(administrator, {"max.connections": "1000"}) == (0, None)
            assert await is_served(client)
        for each in broker.server.socket_server.resources.values():
            assert each.memory is not None
            assert (each.memory.memory.used, each.frames.outstanding) == (0, 0)

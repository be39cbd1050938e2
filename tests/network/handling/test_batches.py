"""A batch of requests ends after BATCH requests or BATCH_NS, on the mock clock."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from broker.network.handling.handler_pool import BATCH, BATCH_NS
from broker.network.requests.request_channel import Request
from broker.network.requests.request_time import RequestTime
from broker.protocol import codec
from broker.protocol.messages.list_offsets import ListOffsetsRequest
from broker.protocol.schema import Message
from broker.quotas.entity import Entity
from broker.server.compiled import COMPILED
from tests.support.produce import PRODUCE_VERSION, batch_of, create_topic, produce_request
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import CLIENT_ID

CLIENTS = 40


@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, "queued.max.requests=500") as running:
        maker = await running.connect("maker")
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        yield running


async def batches(
    broker: RunningBroker, mock_clock: MockClock, ms: float, message: Message, version: int
) -> list[int]:
    """Return the requests of each batch, of many clients that ask at once for what takes `ms`."""
    pool: Any = broker.server.socket_server.handlers
    clients = [await broker.connect() for _ in range(CLIENTS)]
    for client in clients:
        await client.ask(message, version)
    sizes = [0]
    if COMPILED:
        pytest.skip("a method of a compiled class cannot be replaced")
    serve, deliver = pool._serve, pool._deliver

    def slowly(request: Request) -> Any:
        sizes[-1] += 1
        mock_clock.jump(ms / 1_000)
        return serve(request)

    def turn() -> None:
        sizes.append(0)
        deliver()

    pool._serve, pool._deliver = slowly, turn
    frame = b"".join(map(bytes, codec.encode_request(int(message.API_KEY or 0), version)(message, 1, None)))
    for client in clients:
        os.write(client.stream.socket.fileno(), frame)  # all of them before the broker looks
    for client in clients:
        await client.receive(int(message.API_KEY or 0), version)
    return [size for size in sizes if size]


@pytest.mark.parametrize(("ms", "most"), [(0.0, CLIENTS), (0.1, 21), (1.0, 3), (2.0, 2), (2.1, 1)])
async def test_a_batch_of_requests_that_take_long_ends_early(
    broker: RunningBroker, mock_clock: MockClock, ms: float, most: int
) -> None:
    assert BATCH_NS == 2_000_000 and CLIENTS < BATCH
    found = await batches(broker, mock_clock, ms, ListOffsetsRequest(-1, 0, []), 7)
    assert sum(found) == CLIENTS and max(found) == most


@pytest.mark.parametrize(("ms", "most"), [(0.0, CLIENTS), (0.4, 8), (0.6, 4), (1.0, 4)])
async def test_a_batch_of_appends_that_take_long_ends_early_too(
    broker: RunningBroker, mock_clock: MockClock, ms: float, most: int
) -> None:
    """The time of an append is taken after its commit, so the clock is read with every fourth request."""
    found = await batches(broker, mock_clock, ms, produce_request(batch_of(b"x")), PRODUCE_VERSION)
    assert sum(found) == CLIENTS and max(found) == most


async def test_a_request_quota_leaves_a_batch_whole(broker: RunningBroker, mock_clock: MockClock) -> None:
    """One commit for all appends of a poll, whoever is charged for it."""
    server = broker.server
    server.quotas.apply(Entity(client_id=CLIENT_ID), "request_percentage", 10_000.0)
    server.socket_server.measure(RequestTime(server.quotas.request, server.clock, set()))
    found = await batches(broker, mock_clock, 0.0, produce_request(batch_of(b"x")), PRODUCE_VERSION)
    assert found == [CLIENTS]

"""Slow handlers: requests of a connection start in order and are answered in order, and a slow one delays no
other handler's connections.
"""

import random
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.api.requests.outcome import DELAYED, Outcome, Response
from broker.network.automq.handler_queues import RequestQueues
from broker.protocol.messages.list_groups import ListGroupsResponse
from tests.network.automq.frames import AUTOMQ, channel_of, correlation_ids, numbered
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

LIST_GROUPS = 16


def request(correlation_id: int) -> bytes:
    return numbered(LIST_GROUPS, 0, correlation_id, b"")


class Delays:
    """Answers ListGroups at once, after a wait of the handler, or long after the handler went on. `begun` are
    (connection, correlation id) in the order in which handlers had them.
    """

    def __init__(self, broker: RunningBroker, nursery: trio.Nursery, rng: random.Random) -> None:
        self.begun: list[tuple[str, int]] = []
        self._broker = broker
        self._nursery = nursery
        self._rng = rng
        (listener,) = broker.server.socket_server.listeners
        route = listener.routes.build(LIST_GROUPS << 16)
        assert route is not None
        route.handle = self._handle

    def _handle(self, _message: Any, context: Any, _broker: Any) -> Outcome | Awaitable[Outcome]:
        self.begun.append((context.connection.id, context.correlation_id))
        match self._rng.randrange(3):
            case 0:
                return Response(ListGroupsResponse())
            case 1:
                return self._wait()
            case _:
                self._nursery.start_soon(self._call_back, context)
                return DELAYED

    async def _wait(self) -> Outcome:
        await trio.sleep(self._rng.random() / 100)
        return Response(ListGroupsResponse())

    async def _call_back(self, context: Any) -> None:
        await trio.sleep(self._rng.random())
        self._broker.server.callbacks.post(context, lambda: Response(ListGroupsResponse()))
        self._broker.server.socket_server.handlers.deliver()


@pytest.mark.parametrize("seed", range(5))
async def test_requests_begin_and_end_in_their_order_whatever_handlers_do(
    tmp_path: Path, autojump_clock: MockClock, seed: int
) -> None:
    rng = random.Random(seed)
    count = 150
    async with running_broker(tmp_path, AUTOMQ, "num.io.threads=3") as broker:
        clients = [await broker.connect() for _ in range(5)]
        async with trio.open_nursery() as nursery:
            delays = Delays(broker, nursery, rng)

            async def converse(client: WireClient) -> None:
                stream = b"".join(map(request, range(count)))
                async with trio.open_nursery() as both:
                    both.start_soon(client.stream.send_all, stream)
                    with trio.fail_after(100_000):
                        for number in range(count):
                            assert (await client.receive(LIST_GROUPS, 0))[0] == number

            async with trio.open_nursery() as conversations:
                for client in clients:
                    conversations.start_soon(converse, client)
        for client in clients:
            own = channel_of(broker, client).id
            assert [number for connection, number in delays.begun if connection == own] == list(range(count))
        requests = broker.server.socket_server.requests
        assert isinstance(requests, RequestQueues)
        assert requests.sizes.available == requests.sizes.limit


async def test_a_slow_request_holds_up_its_own_queue_and_no_other(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """There is no work stealing; see docs/concurrency.md."""
    async with running_broker(tmp_path, AUTOMQ, "num.io.threads=2") as broker:
        clients = [await broker.connect() for _ in range(20)]
        await wait_all_tasks_blocked(0.02)
        by_queue: dict[int, list[WireClient]] = {0: [], 1: []}
        for client in clients:
            by_queue[channel_of(broker, client).hash % 2].append(client)
        slow, beside, other = by_queue[0][0], by_queue[0][1], by_queue[1][0]
        (listener,) = broker.server.socket_server.listeners
        route = listener.routes.build(LIST_GROUPS << 16)
        assert route is not None

        async def wait(_message: Any, context: Any, _broker: Any) -> Outcome:
            await trio.sleep(5 if context.correlation_id == 1 else 0)
            return Response(ListGroupsResponse())

        route.handle = wait
        await slow.stream.send_all(request(1))
        await wait_all_tasks_blocked(0.02)
        await beside.stream.send_all(request(2))
        await other.stream.send_all(request(3))
        assert await correlation_ids(other, 1) == [3]
        await wait_all_tasks_blocked(0.02)
        assert channel_of(broker, beside).requests_in_flight
        mock_clock.jump(5)
        assert await correlation_ids(slow, 1) == [1]
        assert await correlation_ids(beside, 1) == [2]

"""A stop while every queue is full. Kafka puts marks into its queues (ShutdownRequest, WakeupRequest, a no-op
for each reaper); here a closed channel, an event and a cancellation end a task, and none needs a place.
"""

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.api.requests.outcome import Outcome, Response
from broker.network.automq.channel import PipelinedChannel
from broker.network.lingering import LINGERS_MS
from broker.network.requests.request_channel import RequestChannel
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.support.connections import channel_of
from tests.support.hostile import until
from tests.support.produce import create_topic
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

MODES = ("kafka", "automq")
HANDLERS = 3
QUEUED = 3
"""One for each handler in AutoMQ's mode."""

DRAIN_S = 3

IN_HAND = HANDLERS + QUEUED + 1
"""With the one that its processor cannot queue."""


class Stuck:
    """A broker whose handlers all wait within a request, with full queues behind them."""

    def __init__(self, broker: RunningBroker) -> None:
        self.broker = broker
        self.going_on = trio.Event()
        self.begun = 0
        self.clients: list[WireClient] = []
        self.fetching: list[WireClient] = []

    async def fill(self) -> None:
        broker = self.broker
        server = broker.server.socket_server
        maker = await broker.connect()
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=1_000)
        topics = [FetchTopic("events", partitions=[partition])]
        for _ in range(4 * QUEUED):
            client = await broker.connect()
            await client.send(FetchRequest(max_wait_ms=600_000, min_bytes=1, topics=topics), 11)
            self.fetching.append(client)
        await until(lambda: broker.server.fetches.delayed == len(self.fetching))
        await maker.ask(ListGroupsRequest(), 0)
        (listener,) = server.listeners
        (route,) = [each for each in listener.routes.all() if each.metrics.name == "ListGroups"]
        route.handle = self._handle
        for number in range(IN_HAND):  # the last one its processor cannot queue; it then reads no more
            client = await self._client_of(number % HANDLERS)
            await client.send(ListGroupsRequest(), 0)
            self.clients.append(client)
            await wait_all_tasks_blocked()

    async def _client_of(self, handler: int) -> WireClient:
        """Connect a client whose requests this handler takes; in Kafka's mode any does."""
        while True:
            client = await self.broker.connect()
            await wait_all_tasks_blocked(0.02)
            channel = channel_of(self.broker, client)
            if not isinstance(channel, PipelinedChannel) or channel.hash % HANDLERS == handler:
                return client

    async def _handle(self, _message: Any, _context: Any, _services: Any) -> Outcome:
        self.begun += 1
        await self.going_on.wait()
        return Response(ListGroupsResponse())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("in_time", [True, False])
async def test_a_stop_with_full_queues_ends_every_handler_and_answers_all_that_it_had_in_hand(
    tmp_path: Path, mock_clock: MockClock, mode: str, in_time: bool
) -> None:
    """Within the drain, and after it has timed out, when the processors are gone."""
    settings = (
        f"socket.server.mode={mode}",
        f"num.io.threads={HANDLERS}",
        f"queued.max.requests={QUEUED}",
        f"shutdown.drain.timeout.ms={DRAIN_S * 1_000}",
    )
    async with running_broker(tmp_path, *settings) as broker:
        stuck = Stuck(broker)
        await stuck.fill()
        server = broker.server.socket_server
        assert (stuck.begun, server.requests.depth()) == (HANDLERS, QUEUED)
        broker.stop.set()
        await wait_all_tasks_blocked(0.02)
        for client in stuck.fetching:
            _, answer = await client.receive(ApiKey.FETCH, 11)
            assert answer.error_code == 0
        if not in_time:
            mock_clock.jump(DRAIN_S)
            await wait_all_tasks_blocked(0.02)
        stuck.going_on.set()
        await wait_all_tasks_blocked(0.02)
        mock_clock.jump(LINGERS_MS / 1_000)
        with trio.fail_after(60):
            await broker.started.stopped.wait()
        assert server.requests.depth() == 0
        if in_time:
            for client in stuck.clients:
                await client.receive(ApiKey.LIST_GROUPS, 0)


@pytest.mark.parametrize("mode", MODES)
async def test_a_callback_is_run_although_all_queues_are_full(
    tmp_path: Path, mock_clock: MockClock, mode: str
) -> None:
    """Kafka offers a WakeupRequest to the queue of requests, which a full one does not take."""
    settings = (
        f"socket.server.mode={mode}",
        f"num.io.threads={HANDLERS}",
        f"queued.max.requests={QUEUED}",
    )
    async with running_broker(tmp_path, *settings) as broker:
        stuck = Stuck(broker)
        await stuck.fill()
        mock_clock.jump(600)
        for client in stuck.fetching:
            await client.receive(ApiKey.FETCH, 11)
        assert len(broker.server.callbacks.queue) == 0
        assert broker.server.socket_server.requests.depth() == QUEUED
        stuck.going_on.set()
        for client in stuck.clients:
            await client.receive(ApiKey.LIST_GROUPS, 0)


async def test_a_full_request_channel_closes_and_every_handler_takes_what_is_left_and_ends() -> None:
    channel = RequestChannel(2)
    ended: list[int] = []
    taken: list[Any] = []

    async def handler(number: int) -> None:
        queue = channel.queue_of(number)
        try:
            while True:
                taken.append(await queue.receive())
        except trio.EndOfChannel:
            ended.append(number)

    requests: list[Any] = [1, 2]
    for each in requests:
        channel.put_nowait(each)
    with pytest.raises(trio.WouldBlock):
        channel.put_nowait(requests[0])
    await channel.aclose()
    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(handler, number)
    assert (sorted(taken), sorted(ended)) == (requests, [0, 1, 2])

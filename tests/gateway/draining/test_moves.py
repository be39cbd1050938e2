"""Clients of a gateway that is drained learn the new addresses when no Produce of theirs is in flight, before
Weir's own broker, on Trio's mock clock.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import trio
from trio.testing import MockClock

from broker.gateway.draining import moves
from broker.gateway.draining.moves import ANSWERED_WITHIN_S, LEAVES_S, SETTLES_S
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.gateway.draining.test_drain import begin, jump, two_gateways
from tests.gateway.test_drain import end_of, ends, in_flight, log_end, polling
from tests.gateway.test_forwarding import FETCH_VERSION
from tests.support.produce import PRODUCE_VERSION, batch_of, produce_request
from tests.support.running import RunningBroker
from tests.support.running_gateway import RunningGateway
from tests.support.wire import WireClient

METADATA: Final = MetadataRequest([MetadataRequestTopic(name="events")], False)
METADATA_VERSION: Final = 9
ANSWERED_AFTER_S: Final = 0.4
APP: Final = "app"


class Trial:
    """Clients of the draining gateway. `here` and `there` are the ports of the node."""

    def __init__(
        self, broker: RunningBroker, gateway: RunningGateway, other: RunningGateway, clock: MockClock
    ) -> None:
        self.broker = broker
        self.gateway = gateway
        self.clock = clock
        (node,) = gateway.server.cluster.nodes
        self.here, self.there = gateway.first_port + node, other.first_port + node

    async def connect(self, client_id: str = APP) -> WireClient:
        return await self.gateway.connect(client_id, self.here)

    async def producer(self, client_id: str = APP, acks: int = 1) -> WireClient:
        client = await self.connect(client_id)
        await client.send(produce_request(batch_of(b"first"), acks=acks), PRODUCE_VERSION)
        if acks:
            await client.receive(0, PRODUCE_VERSION)
        await jump(self.clock, 0.001)
        return client

    async def begin(self) -> None:
        """Begin to drain: a connection that was idle before all others has the first turn, and they stay."""
        await begin(self.gateway)

    async def in_hand(self, client: WireClient, acks: int = 1) -> None:
        """Send a Produce that is answered after ANSWERED_AFTER_S, behind a Fetch that waits."""
        await client.send(polling(round(ANSWERED_AFTER_S * 1_000), end_of(self.broker)), FETCH_VERSION)
        await in_flight(self.gateway, 1)
        await client.send(produce_request(batch_of(b"second"), acks=acks), PRODUCE_VERSION)
        await jump(self.clock, 0)

    async def send_produce(self, client: WireClient) -> None:
        await client.send(produce_request(batch_of(b"third")), PRODUCE_VERSION)
        await jump(self.clock, 0)


class Asking:
    """Asks for Metadata. `ports` are those of the answer, once it is there."""

    def __init__(self, client: WireClient, nursery: trio.Nursery) -> None:
        self.ports: list[int] = []
        nursery.start_soon(self._ask, client)

    async def _ask(self, client: WireClient) -> None:
        answer = await client.ask(METADATA, METADATA_VERSION)
        self.ports = [each.port for each in answer.brokers]


@asynccontextmanager
async def trial(tmp_path: Path, clock: MockClock) -> AsyncIterator[Trial]:
    async with two_gateways(tmp_path) as (broker, gateway, other):
        await gateway.connect("idle")
        await jump(clock, 0.001)
        yield Trial(broker, gateway, other, clock)


async def test_metadata_waits_for_a_produce_of_another_connection(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """And a moment longer: the client reads its connections one after the other."""
    async with trial(tmp_path, mock_clock) as tried, trio.open_nursery() as nursery:
        busy, asker = await tried.producer(), await tried.connect()
        await tried.in_hand(busy)
        await tried.begin()
        asking = Asking(asker, nursery)
        await jump(mock_clock, ANSWERED_AFTER_S - 0.001)
        await jump(mock_clock, 0.001)
        await busy.receive(1, FETCH_VERSION)
        await busy.receive(0, PRODUCE_VERSION)
        await jump(mock_clock, SETTLES_S - 0.001)
        assert not asking.ports
        await jump(mock_clock, 0.001)
        assert asking.ports == [tried.there]
        nursery.cancel_scope.cancel()


async def test_it_waits_for_a_produce_before_it_on_the_same_connection(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with trial(tmp_path, mock_clock) as tried:
        client = await tried.producer()
        await tried.begin()
        await client.send(produce_request(batch_of(b"second")), PRODUCE_VERSION)
        await client.send(METADATA, METADATA_VERSION)
        await client.receive(0, PRODUCE_VERSION)
        await jump(mock_clock, SETTLES_S - 0.001)
        with trio.move_on_after(0) as scope:
            await client.stream.receive_some(1)
        assert scope.cancelled_caught
        await jump(mock_clock, 0.001)
        _, answer = await client.receive(3, METADATA_VERSION)
        assert [each.port for each in answer.brokers] == [tried.there]


async def test_what_a_client_sends_before_it_leaves_is_not_forwarded(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """It sends that again at the new address, and the log has it once."""
    async with trial(tmp_path, mock_clock) as tried, trio.open_nursery() as nursery:
        client, asker = await tried.producer(), await tried.producer()
        before = end_of(tried.broker)
        await tried.begin()
        asking = Asking(asker, nursery)
        await jump(mock_clock, 0)
        await tried.send_produce(client)
        await tried.send_produce(asker)
        await jump(mock_clock, SETTLES_S)
        assert asking.ports == [tried.there]
        for each in (client, asker):
            await tried.send_produce(each)
            await each.stream.aclose()
        await jump(mock_clock, LEAVES_S)
        assert not tried.gateway.channels()
        assert end_of(tried.broker) == before


async def test_a_client_that_comes_back_and_produces_behind_its_question_does_not_either(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with trial(tmp_path, mock_clock) as tried:
        gone, _ = await tried.producer(), await tried.producer("other")
        before = end_of(tried.broker)
        await tried.begin()
        await gone.stream.aclose()
        await jump(mock_clock, 0)
        client = await tried.connect()
        await client.send(METADATA, METADATA_VERSION)
        await client.send(produce_request(batch_of(b"third")), PRODUCE_VERSION)
        await jump(mock_clock, 0)
        _, answer = await client.receive(3, METADATA_VERSION)
        assert [each.port for each in answer.brokers] == [tried.there]
        await client.stream.aclose()
        await jump(mock_clock, LEAVES_S)
        assert end_of(tried.broker) == before


async def test_neither_does_one_that_comes_back_while_another_connection_asks(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """librdkafka asks once, and produces on its new connection without asking there."""
    async with trial(tmp_path, mock_clock) as tried, trio.open_nursery() as nursery:
        asker = await tried.producer()
        before = end_of(tried.broker)
        await tried.begin()
        asking = Asking(asker, nursery)
        await jump(mock_clock, SETTLES_S / 2)
        early = await tried.connect()
        await tried.send_produce(early)
        await jump(mock_clock, SETTLES_S / 2)
        assert asking.ports == [tried.there]
        late = await tried.connect()
        await tried.send_produce(late)
        for each in (early, late, asker):
            await each.stream.aclose()
        await jump(mock_clock, LEAVES_S)
        assert not tried.gateway.channels()
        assert end_of(tried.broker) == before


async def test_a_client_that_keeps_its_connections_is_read_on_and_waits_once(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with trial(tmp_path, mock_clock) as tried, trio.open_nursery() as nursery:
        client, asker = await tried.producer(), await tried.producer()
        before = end_of(tried.broker)
        await tried.begin()
        Asking(asker, nursery)
        await jump(mock_clock, SETTLES_S)
        await tried.send_produce(client)
        await jump(mock_clock, LEAVES_S - 0.001)
        assert end_of(tried.broker) == before
        await jump(mock_clock, 0.001)
        await client.receive(0, PRODUCE_VERSION)
        assert end_of(tried.broker) == before + 1
        again = Asking(asker, nursery)
        await jump(mock_clock, 0)
        assert again.ports == [tried.there]


async def test_other_clients_do_not_wait(tmp_path: Path, mock_clock: MockClock) -> None:
    async with trial(tmp_path, mock_clock) as tried:
        busy, client = await tried.producer(), await tried.connect("other")
        await tried.in_hand(busy)
        await tried.begin()
        assert [each.port for each in (await client.ask(METADATA, METADATA_VERSION)).brokers] == [tried.there]


async def test_a_producer_without_acks_does_not_wait(tmp_path: Path, mock_clock: MockClock) -> None:
    """It repeats nothing, and what it has sent must reach the log."""
    async with trial(tmp_path, mock_clock) as tried:
        client = await tried.producer(acks=0)
        before = end_of(tried.broker)
        await tried.begin()
        await client.send(METADATA, METADATA_VERSION)
        await client.send(produce_request(batch_of(b"second"), acks=0), PRODUCE_VERSION)
        await client.stream.aclose()
        await log_end(tried.broker, before + 1)


async def test_metadata_waits_no_longer_than_two_seconds(tmp_path: Path, mock_clock: MockClock) -> None:
    async with trial(tmp_path, mock_clock) as tried, trio.open_nursery() as nursery:
        busy, asker = await tried.producer(), await tried.producer()
        await busy.send(polling(60_000, end_of(tried.broker)), FETCH_VERSION)
        await in_flight(tried.gateway, 1)
        await tried.send_produce(busy)
        await tried.begin()
        asking = Asking(asker, nursery)
        await jump(mock_clock, ANSWERED_WITHIN_S)
        await jump(mock_clock, SETTLES_S - 0.001)
        assert not asking.ports
        await jump(mock_clock, 0.001)
        assert asking.ports == [tried.there]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("most", [1, 2, 3])
async def test_so_many_clients_with_one_name_do_not_wait_for_each_other(
    tmp_path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(moves, "MOST_HELD", most)
    async with trial(tmp_path, mock_clock) as tried, trio.open_nursery() as nursery:
        asker, _ = await tried.producer(), await tried.producer()
        await tried.begin()
        asking = Asking(asker, nursery)
        await jump(mock_clock, 0)
        assert bool(asking.ports) == (most < 2)
        await jump(mock_clock, SETTLES_S)
        assert asking.ports == [tried.there]


async def test_the_end_of_the_drain_ends_the_wait(tmp_path: Path, mock_clock: MockClock) -> None:
    async with trial(tmp_path, mock_clock) as tried:
        busy, asker = await tried.producer(), await tried.producer()
        await busy.send(polling(60_000, end_of(tried.broker)), FETCH_VERSION)
        await in_flight(tried.gateway, 1)
        await tried.send_produce(busy)
        await tried.begin()
        await jump(mock_clock, 7.9)
        await asker.send(METADATA, METADATA_VERSION)
        await jump(mock_clock, 0.1)
        await ends(asker)

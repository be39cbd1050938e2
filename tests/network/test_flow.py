"""The doctor's flow control metrics, over real connections and a mock clock."""

import struct
from pathlib import Path

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.api.requests.callbacks import Callbacks
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import NO_RESPONSE
from broker.controller.rows.connections import Flow
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.quotas.entity import Entity
from tests.support.produce import PRODUCE_VERSION, create_topic, produce_request_of
from tests.support.prometheus import parse
from tests.support.running import RunningBroker, running_broker


def flow(broker: RunningBroker) -> Flow:
    return broker.server.views.live.flow()


def exposed(broker: RunningBroker, name: str) -> float:
    return sum(parse(broker.server.prometheus.page())[name].samples.values())


async def test_a_throttle_mutes_once_and_unmutes_once(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as broker:
        client = await broker.connect("greedy")
        await client.ask(create_topic(), 5)
        assert (flow(broker).mutes, flow(broker).unmutes) == (0, 0)
        broker.server.quotas.apply(Entity(client_id="greedy"), "producer_byte_rate", 1_000)
        await client.ask(produce_request_of(11_000, "greedy"), PRODUCE_VERSION)
        mock_clock.jump(0.5)
        await wait_all_tasks_blocked(0.01)
        assert exposed(broker, "weir_flow_control_mutes_total") == 1
        assert exposed(broker, "weir_flow_control_unmutes_total") == 0
        mock_clock.jump(0.5)
        await wait_all_tasks_blocked(0.01)
        assert exposed(broker, "weir_flow_control_unmutes_total") == 1
        seen = flow(broker)
        assert (seen.mutes, seen.unmutes) == (1.0, 1.0)  # in one second
        mock_clock.jump(2)
        assert (flow(broker).mutes, flow(broker).unmutes) == (0, 0)


async def test_the_requests_in_hand_of_the_deepest_connection_and_its_watermarks(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    settings = ("socket.server.mode=automq", "pipeline.high.watermark=3", "pipeline.low.watermark=2")
    async with running_broker(tmp_path, *settings) as broker:
        client, other = await broker.connect(), await broker.connect()
        await client.ask(create_topic(), 5)
        topics = [FetchTopic("events", partitions=[FetchPartition(0, partition_max_bytes=1_000)])]
        wait = FetchRequest(max_wait_ms=1_000, min_bytes=1, max_bytes=1_000, session_epoch=-1, topics=topics)
        for _ in range(5):
            await client.send(wait, 11)
        await other.send(wait, 11)
        await wait_all_tasks_blocked(0.02)
        seen = flow(broker)
        assert (seen.in_flight, seen.deepest, seen.deepest_limit) == (4, 3, 3)
        assert exposed(broker, "weir_flow_control_mutes_total") == 1
        assert seen.available_request_size == seen.request_size_limit == 104_857_600
        mock_clock.jump(1)
        for _ in range(3):
            await client.receive(1, 11)
        await wait_all_tasks_blocked(0.02)
        assert exposed(broker, "weir_flow_control_unmutes_total") == 1
        assert flow(broker).deepest == 2


async def test_without_pipelining_a_connection_has_one_request_in_hand(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.connect()
        seen = flow(broker)
        assert (seen.deepest_limit, seen.available_request_size, seen.request_size_limit) == (1, None, None)


async def test_a_request_that_is_too_large_is_counted_and_one_that_just_fits_is_not(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    for mode in ("kafka", "automq"):
        settings = ("socket.request.max.bytes=1000", f"socket.server.mode={mode}")
        async with running_broker(tmp_path / mode, *settings) as broker:
            for size, count in ((1_000, 0), (1_001, 1), (2**31 - 1, 2)):
                client = await broker.connect()
                await client.stream.send_all(struct.pack(">i", size) + bytes(20))
                await wait_all_tasks_blocked(0.02)
                assert flow(broker).oversized == count
            assert exposed(broker, "weir_oversized_requests_total") == 2


async def test_a_connection_counts_as_idle_after_a_minute(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path, "num.network.threads=1") as broker:
        used, _ = await broker.connect(), await broker.connect()
        await wait_all_tasks_blocked(0.02)
        mock_clock.jump(59.999)
        await used.ask(create_topic(), 5)
        (selector,) = flow(broker).selectors
        assert (selector.connections, selector.idle) == (2, 0)
        mock_clock.jump(0.001)
        (selector,) = flow(broker).selectors
        assert (selector.connections, selector.idle) == (2, 1)
        assert exposed(broker, "weir_idle_connections") == 1
        await trio.lowlevel.checkpoint()


def test_an_answer_that_finds_no_place_in_the_callback_queue_is_counted() -> None:
    callbacks = Callbacks(2)
    concluded: list[object] = []
    callbacks.serve(lambda _context, outcome: concluded.append(outcome), lambda: None)
    for _ in range(2):
        callbacks.post(RequestContext(), lambda: NO_RESPONSE)
    assert callbacks.blocked == 0
    callbacks.post(RequestContext(), lambda: NO_RESPONSE)
    assert (callbacks.blocked, len(concluded), len(callbacks.queue)) == (1, 1, 2)

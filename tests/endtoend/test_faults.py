"""A broker that is killed, stopped or damaged: what it acknowledged is there, once, in its place."""

import random
import signal
import time
from pathlib import Path
from typing import Final

import pytest
import trio

from broker.protocol.messages.init_producer_id import InitProducerIdRequest
from broker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from broker.records.build import NewRecord, build_batch
from tests.support.broker_process import BrokerProcess, within
from tests.support.history import ENDS, PARTITIONS, TOPIC, History, make_topic, read_all
from tests.support.produce import PRODUCE_VERSION, create_topic, produce_request, produce_request_of
from tests.support.quota_interfaces import set_by_rest
from tests.support.wire import connect

pytestmark = pytest.mark.endtoend

ROUNDS: Final = 3
SMALL_SEGMENTS: Final = "log.segment.bytes=1048576"


def port_of(broker: BrokerProcess) -> int:
    return int(broker.plain.rpartition(":")[2])


async def commit_offset(port: int, offset: int) -> None:
    client = await connect(port)
    async with client.stream:
        place = OffsetCommitRequestPartition(0, offset)
        request = OffsetCommitRequest("group", topics=[OffsetCommitRequestTopic(TOPIC, partitions=[place])])
        answer = await client.ask(request, 7)
        assert answer.topics[0].partitions[0].error_code == 0


async def committed_offset(port: int) -> int:
    client = await connect(port)
    async with client.stream:
        request = OffsetFetchRequest("group", [OffsetFetchRequestTopic(TOPIC, [0])])
        answer = await client.ask(request, 5)
        return int(answer.topics[0].partitions[0].committed_offset)


async def test_rounds_of_kill_9_under_load_lose_nothing(tmp_path: Path) -> None:
    history = History()
    rng = random.Random(9)
    with BrokerProcess(tmp_path, SMALL_SEGMENTS) as broker:
        await make_topic(port_of(broker))
        await (client := await connect(port_of(broker))).ask(create_topic("__consumer_offsets"), 5)
        await client.stream.aclose()
        for turn in range(ROUNDS):
            await commit_offset(port_of(broker), turn)
            set_by_rest(broker, {"client-id": "round"}, 50_000_000 + turn)
            async with trio.open_nursery() as nursery:
                for number in range(6):
                    nursery.start_soon(history.produce, port_of(broker), f"round-{turn}-{number}")
                await trio.sleep(rng.uniform(0.3, 1.0))
                broker.kill()
            broker.start()
            assert await history.check(port_of(broker)) >= history.count
            assert await committed_offset(port_of(broker)) == turn
            (rule,) = broker.ask("GET", "/api/v1/client-quotas")["items"]
            assert rule["limits"]["producer_byte_rate"]["value"] == 50_000_000 + turn
    assert history.count > 100


async def test_a_stop_under_load_is_clean(tmp_path: Path) -> None:
    history = History()
    with BrokerProcess(tmp_path, SMALL_SEGMENTS) as broker:
        await make_topic(port_of(broker))
        async with trio.open_nursery() as nursery:
            for number in range(6):
                nursery.start_soon(history.produce, port_of(broker), f"producer-{number}")
            await trio.sleep(0.5)
            assert await trio.to_thread.run_sync(broker.stop) == 0
        broker.start()
        assert await history.check(port_of(broker)) >= history.count > 0
        assert not [line for line in broker.log_lines if "WARNING" in line or "ERROR" in line]


async def test_a_batch_that_an_idempotent_producer_repeats_after_a_crash_is_taken_once(
    tmp_path: Path,
) -> None:
    """It cannot know whether its last batch was stored; its sequence numbers survive the crash and tell."""
    rng = random.Random(4)
    sent = 0
    with BrokerProcess(tmp_path, SMALL_SEGMENTS) as broker:
        await make_topic(port_of(broker))
        client = await connect(port_of(broker))
        producer_id = (await client.ask(InitProducerIdRequest(None, 0), 4)).producer_id

        async def send(number: int) -> int:
            """The offset of the batch, whose sequence number is its own number."""
            record = NewRecord(None, b"%d" % number, time.time_ns() // 1_000_000)
            batch = build_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=number)
            request = produce_request(bytearray(batch), TOPIC, acks=-1)
            answer = await client.ask(request, PRODUCE_VERSION)
            result = answer.responses[0].partition_responses[0]
            assert result.error_code == 0
            return int(result.base_offset)

        async def until_the_crash() -> None:
            nonlocal sent
            try:
                while True:
                    assert await send(sent) == sent
                    sent += 1
            except ENDS:
                await client.stream.aclose()

        for _ in range(2):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(until_the_crash)
                await trio.sleep(rng.uniform(0.2, 0.6))
                broker.kill()
            broker.start()
            client = await connect(port_of(broker))
            assert await send(sent) == sent
            assert await send(sent - 1) == sent - 1
            sent += 1
        found = [value async for _, value in read_all(client, 0)]
        assert found == [b"%d" % number for number in range(sent)]
        await client.stream.aclose()
    assert sent > 20


def newest_segment(directory: Path, partition: int) -> Path:
    return max((directory / f"{TOPIC}-{partition}").glob("*.log"), key=lambda path: path.name)


async def loaded(broker: BrokerProcess, history: History) -> None:
    """The topic with forty batches in each partition, and then a kill."""
    await make_topic(port_of(broker))
    client = await connect(port_of(broker))
    for number in range(40 * PARTITIONS):
        assert await history.produce_once(client, number % PARTITIONS) == 0
    broker.kill()
    await client.stream.aclose()


async def test_torn_tails_are_cut_and_damage_is_reported_and_never_served(tmp_path: Path) -> None:
    """Three partitions lose a random piece of their end, the fourth gets a flipped bit in its middle."""
    history, rng = History(), random.Random(2)
    with BrokerProcess(tmp_path) as broker:
        await loaded(broker, history)
        for partition in (0, 1, 3):
            path = newest_segment(tmp_path, partition)
            content = path.read_bytes()
            path.write_bytes(content[: rng.randrange(1, len(content))])
        path = newest_segment(tmp_path, 2)
        flipped = bytearray(path.read_bytes())
        flipped[rng.randrange(len(flipped) // 4, len(flipped) // 2)] ^= 1 << rng.randrange(8)
        path.write_bytes(flipped)

        broker.start()
        within(
            2,
            lambda: count(broker, "truncated an incomplete batch at the end of a log") == 3,
            "a line for each torn end",
        )
        within(2, lambda: count(broker, "damaged records are not served") == 1, "a line for the damage")
        client = await connect(port_of(broker))
        for partition, acknowledged in enumerate(history.acknowledged):
            found = dict([pair async for pair in read_all(client, partition)])
            assert all(acknowledged[offset] == value for offset, value in found.items())
            lost = sorted(acknowledged.keys() - found.keys())
            if partition == 2:
                assert len(lost) == 3 and lost[2] - lost[0] == 2, "the three records of one batch"
            else:
                assert lost == list(range(len(found), len(acknowledged)))
                history.acknowledged[partition] = found
            assert await history.produce_once(client, partition) == 0
        await client.stream.aclose()


def count(broker: BrokerProcess, words: str) -> int:
    return sum(words in line for line in broker.log_lines)


@pytest.mark.timed
async def test_a_broker_that_is_stopped_for_a_while_goes_on_where_it_was(tmp_path: Path) -> None:
    """SIGSTOP for longer than connections.max.idle.ms closes no connection with a request in flight."""
    history = History()
    with BrokerProcess(tmp_path, "connections.max.idle.ms=1000") as broker:
        port = port_of(broker)
        await make_topic(port)
        set_by_rest(broker, {"client-id": "greedy"}, 1_000)
        greedy = await connect(port, "greedy")
        answer = await greedy.ask(produce_request_of(11_500, "greedy", TOPIC), PRODUCE_VERSION)
        assert 1_000 < answer.throttle_time_ms < 3_000
        clients = [await connect(port, f"client-{number}") for number in range(20)]
        for client in clients:
            assert await history.produce_once(client, 0) == 0
        broker.running.send_signal(signal.SIGSTOP)
        async with trio.open_nursery() as nursery:
            for client in (*clients, greedy):
                nursery.start_soon(history.produce_once, client, 1)
            await trio.sleep(1.5)
            stopped_at = history.count
            broker.running.send_signal(signal.SIGCONT)
            resumed = time.monotonic()
        assert time.monotonic() - resumed < 2
        assert history.count == stopped_at + 21 * 3
        for client in clients:
            assert await history.produce_once(client, 2) == 0
            await client.stream.aclose()
        await greedy.stream.aclose()
        assert await history.check(port) == history.count + 1

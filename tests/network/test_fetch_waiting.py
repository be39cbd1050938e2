"""A consumer of two topics, one of which is deleted, over a real connection and on the mock clock: it learns
of the deletion at once, and then once per fetch wait.
"""

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.common.errors import ErrorCode
from broker.protocol.messages.delete_topics import DeleteTopicsRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.hostile import until
from tests.support.produce import PRODUCE_VERSION, batch_of, create_topic, produce_request
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

FETCH = 1
WAIT_MS = 100
NAMES = ("gone", "stays")


def fetch(broker: RunningBroker, ids: dict[str, bytes], version: int) -> FetchRequest:
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=1_000)
    topics = [
        FetchTopic(topic_id=ids[name], partitions=[partition])
        if version >= 13
        else FetchTopic(name, partitions=[partition])
        for name in NAMES
    ]
    return FetchRequest(max_wait_ms=WAIT_MS, min_bytes=1, max_bytes=1_000, session_epoch=-1, topics=topics)


async def is_silent(client: WireClient) -> bool:
    await wait_all_tasks_blocked(0.002)
    with trio.move_on_after(0) as scope:
        await client.stream.receive_some(1)
    return scope.cancelled_caught


async def errors(client: WireClient, version: int) -> list[int]:
    _, answer = await client.receive(FETCH, version)
    topics: list[Any] = answer.responses
    return [each.error_code for topic in topics for each in topic.partitions]


@pytest.mark.parametrize(
    ("version", "unknown"),
    [
        (4, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (13, ErrorCode.UNKNOWN_TOPIC_ID),
        (18, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
async def test_a_consumer_whose_topic_was_deleted_waits(
    tmp_path: Path, mock_clock: MockClock, version: int, unknown: ErrorCode
) -> None:
    async with running_broker(tmp_path) as broker:
        maker, client = await broker.connect(), await broker.connect()
        for name in NAMES:
            await maker.ask(create_topic(name), 5)
        ids = {name: broker.server.partitions.by_name[name].topic_id for name in NAMES}
        request = fetch(broker, ids, version)

        async def wait() -> None:
            await client.send(request, version)
            await until(lambda: broker.server.fetches.delayed == 1)

        await wait()
        mock_clock.jump(0.03)
        await maker.ask(DeleteTopicsRequest(topic_names=["gone"], timeout_ms=1_000), 5)
        assert await errors(client, version) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
        for _ in range(10):
            await wait()
            mock_clock.jump(0.099)
            assert await is_silent(client)
            mock_clock.jump(0.001 + 1e-9)  # the sum of the jumps can lack the last bit of a float
            assert await errors(client, version) == [unknown, 0]
        await wait()
        await maker.ask(produce_request(batch_of(b"x"), "stays"), PRODUCE_VERSION)
        assert await errors(client, version) == [unknown, 0]

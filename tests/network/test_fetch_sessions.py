"""A fetch session survives changes of its topics: it finds deleted, re-created and new topics."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.common.errors import ErrorCode
from broker.protocol.messages.delete_topics import DeleteTopicsRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.produce import batch_of, create_topic, produce_request
from tests.support.running import running_broker
from tests.support.wire import WireClient

BY_NAME = 11


class Session:
    """What a consumer does: names its partition once, and asks again and again."""

    def __init__(self, client: WireClient) -> None:
        self._client = client
        self._id = self._epoch = 0

    async def ask(self, *topics: FetchTopic) -> list[Any]:
        """Return the partitions in the response."""
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=100_000,
            session_id=self._id,
            session_epoch=self._epoch,
            topics=list(topics),
        )
        answer = await self._client.ask(request, BY_NAME)
        assert answer.error_code == 0
        self._id, self._epoch = answer.session_id, self._epoch + 1
        return [partition for topic in answer.responses for partition in topic.partitions]


def events() -> FetchTopic:
    return FetchTopic("events", partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=100_000)])


async def test_after_a_restart_no_client_gets_into_the_session_of_another(tmp_path: Path) -> None:
    """The first client of either run has read as far as the other: only the ids of their sessions differ."""
    async with running_broker(tmp_path) as running:
        client = await running.connect()
        await client.ask(create_topic(), 5)
        before = await client.ask(first_fetch(), BY_NAME)
    async with running_broker(tmp_path) as running:
        client = await running.connect()
        after = await client.ask(first_fetch(), BY_NAME)
        goes_on = FetchRequest(max_wait_ms=0, min_bytes=1, session_id=before.session_id, session_epoch=1)
        refused = await client.ask(goes_on, BY_NAME)
    assert before.session_id and after.session_id and before.session_id != after.session_id
    assert refused.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def first_fetch() -> FetchRequest:
    return FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=100_000, session_epoch=0, topics=[events()])


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[WireClient]:
    async with running_broker(tmp_path) as running:
        yield await running.connect()


async def test_a_topic_that_was_deleted_and_made_again_is_read_again(client: WireClient) -> None:
    await client.ask(create_topic(), 5)
    session = Session(client)
    assert [each.error_code for each in await session.ask(events())] == [0]
    assert await session.ask() == []
    await client.ask(DeleteTopicsRequest(topic_names=["events"], timeout_ms=1_000), 5)
    assert [each.error_code for each in await session.ask()] == [3]
    await client.ask(create_topic(), 5)
    await client.ask(produce_request(batch_of(b"new")), 9)
    (topic,) = await session.ask()
    assert topic.error_code == 0 and len(topic.records) == len(batch_of(b"new"))


async def test_a_topic_that_comes_later_is_read_when_it_is_there(client: WireClient) -> None:
    session = Session(client)
    assert [each.error_code for each in await session.ask(events())] == [3]
    assert [each.error_code for each in await session.ask()] == [3]
    await client.ask(create_topic(), 5)
    assert [each.error_code for each in await session.ask()] == [0]
    assert await session.ask() == []

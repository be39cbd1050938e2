"""How many system calls and clock readings the broker makes for requests that arrive together.

Counts the calls that the broker's own modules make into C; Trio's wait for the next event is not among them.
"""

import os
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from broker.protocol import codec
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.produce import batch_of, create_topic
from tests.support.running import RunningBroker, running_broker
from tests.support.system_calls import counted, needs_interpreted, undelivered

pytestmark = needs_interpreted

CONNECTIONS = 20
PARTITIONS = 8


def frame_of(message: Any, version: int) -> bytes:
    parts = codec.encode_request(message.API_KEY, version)(message, 1, "tester")
    return b"".join(bytes(part) for part in parts)


def produce(partitions: int) -> bytes:
    data = [PartitionProduceData(index, bytes(batch_of(b"x" * 100))) for index in range(partitions)]
    topics = [TopicProduceData("events", partition_data=data)]
    return frame_of(ProduceRequest(None, -1, 30_000, topics), 9)


def fetch(partitions: int, offset: int = 0) -> bytes:
    asked = [
        FetchPartition(index, fetch_offset=offset, partition_max_bytes=4_096, current_leader_epoch=-1)
        for index in range(partitions)
    ]
    topics = [FetchTopic("events", partitions=asked)]
    return frame_of(
        FetchRequest(
            replica_id=-1,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=50 << 20,
            session_id=0,
            session_epoch=-1,
            topics=topics,
        ),
        12,
    )


@asynccontextmanager
async def connected(tmp_path: Path) -> AsyncIterator[tuple[RunningBroker, list[socket.socket]]]:
    async with running_broker(tmp_path) as broker:
        admin = await broker.connect()
        await admin.ask(create_topic(partitions=PARTITIONS), 5)
        streams = [(await broker.connect()).stream for _ in range(CONNECTIONS)]
        yield broker, [stream.socket for stream in streams]


def send(sockets: list[Any], frame: bytes) -> None:
    """Sends the frame on every connection before the broker runs. A busy kernel delivers some of them later,
    and epoll would report them in two turns.
    """
    for each in sockets:
        assert os.write(each.fileno(), frame) == len(frame)
    while any(undelivered(each.fileno()) for each in sockets):
        time.sleep(0.001)


async def receive(sockets: list[Any]) -> None:
    for each in sockets:
        received = b""
        while len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4]):
            received += await each.recv(1 << 20)


async def exchange(sockets: list[Any], frame: bytes) -> None:
    send(sockets, frame)
    await receive(sockets)


SHARED = {"poll": 2, "recv_into": 20}


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (lambda: frame_of(ApiVersionsRequest("a", "1"), 3), {"send": 20, "clock": 4}),
        (lambda: produce(1), {"send": 20, "pwritev": 1, "clock": 35}),
        (lambda: produce(8), {"send": 20, "pwritev": 8, "clock": 35}),
        (lambda: fetch(1), {"sendmsg": 20, "preadv": 20, "clock": 35}),
        (lambda: fetch(8), {"sendmsg": 20, "preadv": 160, "clock": 35}),
    ],
    ids=["ApiVersions", "Produce", "Produce of 8 partitions", "Fetch", "Fetch of 8 partitions"],
)
async def test_requests_of_one_poll_share_what_can_be_shared(
    tmp_path: Path,
    mock_clock: trio.testing.MockClock,
    frame: Callable[[], bytes],
    expected: dict[str, int],
) -> None:
    """A receive and a send for each request, a read for each slice, a write for each partition. No change of
    epoll's interest. The clock is read once for each request that a handler serves, for its local time.
    """
    async with connected(tmp_path) as (_, sockets):
        request = frame()
        for warm in (produce(8), request, request):
            await exchange(sockets, warm)
        with counted() as calls:
            await exchange(sockets, request)
        assert calls == SHARED | expected


async def test_a_fetch_that_waits_costs_a_receive_a_read_and_a_send(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with connected(tmp_path) as (_, (consumer, producer, *_)):
        await exchange([producer], produce(1))
        with counted() as calls:
            send([consumer], fetch(1, offset=1))
            await trio.testing.wait_all_tasks_blocked()
            await exchange([producer], produce(1))
            await receive([consumer])
        readings = calls.pop("clock")
        assert calls == {"poll": 4, "recv_into": 2, "pwritev": 1, "preadv": 1, "send": 1, "sendmsg": 1}
        assert readings <= 20

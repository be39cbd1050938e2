"""Clients that come and go under new client ids, over sockets of their own, at fixed rates.

Producers and consumers, a group whose members change, metadata of known and unknown topics, the live streams
of the console's pages, REST, Prometheus, pushed telemetry, and quota changes. Nothing of theirs is checked:
they make the broker remember and forget.
"""

import time
import urllib.request
from collections.abc import Awaitable, Callable
from functools import partial
from http.client import HTTPException
from struct import Struct
from typing import Any, Final

import trio
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from benchmarks.pages import PAGES, PageLoad, Tally, browse
from benchmarks.soak import topics as checked
from benchmarks.soak.stage import AGAIN_S, Stage
from broker.protocol import codec
from broker.protocol.api_key import response_header_version
from broker.protocol.codec import parse_response_header
from broker.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from broker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from broker.protocol.messages.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest
from broker.records.build import NewRecord, build_batch

TOPIC: Final = "visited"
PARTITIONS: Final = 4
GROUP: Final = "visitors"
SIZE: Final = Struct(">i")
ENDED: Final = (OSError, EOFError, HTTPException, trio.BrokenResourceError)
CLIENT_METRICS: Final = 16
"""The resource type of client metrics subscriptions."""

SEEN: Final = (
    "/metrics",
    "/api/v1/overview?history_s=900",
    *(f"/api/v1/{name}" for name in ("usage", "connections", "topics", "groups", "doctor", "audit")),
    *(f"/api/v1/{name}" for name in ("client-quotas", "client-instances", "throttled-channels:recent")),
)

Load = Callable[[Stage], Awaitable[None]]
Ask = Callable[[Any, int], Awaitable[Any]]
"""Sends a request in a version, and returns the answer."""


class Client:
    """One connection to the broker, one request after the other."""

    def __init__(self, stream: trio.SocketStream, client_id: str) -> None:
        self.stream = stream
        self._client_id = client_id
        self._rest = b""

    async def ask(self, message: Any, version: int) -> Any:
        parts = codec.encode_request(message.API_KEY, version)(message, 1, self._client_id)
        await self.stream.send_all(b"".join(parts))  # type: ignore[arg-type]
        (size,) = SIZE.unpack(await self._exactly(4))
        frame = await self._exactly(size)
        _, at = parse_response_header(frame, response_header_version(message.API_KEY, version))
        return codec.decode_response(message.API_KEY, version)(frame, at)

    async def _exactly(self, length: int) -> bytes:
        while len(self._rest) < length:
            some = await self.stream.receive_some(65_536)
            if not some:
                raise EOFError
            self._rest += some
        taken, self._rest = self._rest[:length], self._rest[length:]
        return taken


async def connect(stage: Stage, kind: str) -> Client:
    stream = await trio.open_tcp_stream("127.0.0.1", stage.port)
    return Client(stream, stage.client_id(kind))


async def repeat(stage: Stage, name: str, load: Load) -> None:
    """Repeat a round of `load`; begin anew after the broker disconnects."""
    while True:
        try:
            await load(stage)
        except* ENDED as errors:
            for error in leaves(errors):
                stage.report(name, f"{type(error).__name__}: {error}")
            await trio.sleep(AGAIN_S)
        stage.rounds[name] = stage.rounds.get(name, 0) + 1


def leaves(errors: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """Return the exceptions of a group and of the groups in it."""
    return [
        leaf
        for error in errors.exceptions
        for leaf in (leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    ]


def ask_rest(stage: Stage, path: str) -> None:
    address = f"http://127.0.0.1:{stage.port + 1}{path}"
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {stage.token}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        answer.read()


async def produce(stage: Stage) -> None:
    """Run a producer for two seconds, with ten batches a second."""
    client = await connect(stage, "producer")
    async with client.stream:
        for number in range(20):
            now_ms = time.time_ns() // 1_000_000
            batch = bytearray(build_batch([NewRecord(None, bytes(100), now_ms) for _ in range(5)]))
            data = PartitionProduceData(number % PARTITIONS, batch)
            request = ProduceRequest(None, 1, 30_000, [TopicProduceData(TOPIC, partition_data=[data])])
            await client.ask(request, 9)
            await trio.sleep(0.1)


async def fetch(stage: Stage) -> None:
    """Run a consumer for five seconds in a fetch session."""
    client = await connect(stage, "consumer")
    async with client.stream:
        await follow(client.ask, TOPIC, 5, partial(trio.sleep, 0.05))


async def follow(ask: Ask, topic: str, seconds: float, after_each: Callable[[], Awaitable[Any]]) -> None:
    """Reads the first partition of `topic` in a fetch session, and does something after each answer."""
    offset = session = epoch = 0
    until = trio.current_time() + seconds
    while trio.current_time() < until:
        asked = FetchPartition(0, fetch_offset=offset, partition_max_bytes=100_000)
        request = FetchRequest(
            max_wait_ms=200,
            min_bytes=1,
            max_bytes=100_000,
            session_id=session,
            session_epoch=epoch,
            topics=[FetchTopic(topic, partitions=[asked])],
        )
        answer = await ask(request, 11)
        session, epoch = answer.session_id, epoch + 1
        for each in answer.responses:
            offset = each.partitions[0].high_watermark
        await after_each()


async def look_up(stage: Stage) -> None:
    """Send ten Metadata requests on a new connection; the last is for an unknown topic."""
    client = await connect(stage, "metadata")
    async with client.stream:
        for number in range(10):
            name = TOPIC if number < 9 else f"unknown-{next(stage.numbers)}"
            await client.ask(MetadataRequest([MetadataRequestTopic(name=name)], False), 9)
            await trio.sleep(0.1)


async def join(stage: Stage) -> None:
    """Run a member that joins a group, commits, and leaves."""
    client = await connect(stage, "member")
    async with client.stream:
        protocols = [JoinGroupRequestProtocol("range", b"subscription")]
        member = ""
        for _ in range(2):
            request = JoinGroupRequest(GROUP, 10_000, 10_000, member, None, "consumer", protocols)
            joined = await client.ask(request, 5)
            member = joined.member_id
        all_of_it = [SyncGroupRequestAssignment(member, b"all")]
        generation = joined.generation_id
        await client.ask(SyncGroupRequest(GROUP, generation, member, None, None, None, all_of_it), 3)
        for offset in range(10):
            where = OffsetCommitRequestPartition(0, offset)
            commit = OffsetCommitRequest(
                GROUP, generation, member, topics=[OffsetCommitRequestTopic(TOPIC, partitions=[where])]
            )
            await client.ask(commit, 7)
            await trio.sleep(0.2)
        await client.ask(LeaveGroupRequest(GROUP, members=[MemberIdentity(member)]), 4)


async def push(stage: Stage) -> None:
    """Run a client that pushes its metrics once, with the terminating flag."""
    client = await connect(stage, "pusher")
    async with client.stream:
        asked = await client.ask(GetTelemetrySubscriptionsRequest(bytes(16)), 0)
        payload = _otlp("org.apache.kafka.producer.record.queue.count", 5.0)
        request = PushTelemetryRequest(asked.client_instance_id, asked.subscription_id, True, 0, payload)
        await client.ask(request, 0)
        await trio.sleep(2)


def _otlp(name: str, value: float) -> bytes:
    metrics = MetricsData()
    metric = metrics.resource_metrics.add().scope_metrics.add().metrics.add(name=name)
    metric.gauge.data_points.add(time_unix_nano=time.time_ns(), as_double=value)
    return bytes(metrics.SerializeToString())


async def change(stage: Stage) -> None:
    """Set each of twenty quotas every forty seconds, and add and remove one client's."""
    client = await connect(stage, "operator")
    async with client.stream:
        for turn in range(20):
            limit = 1e6 + next(stage.numbers)
            who = [EntityData("client-id", f"limited-{turn}")]
            op = OpData("producer_byte_rate", limit, turn == 19 and int(limit) % 2 == 0)
            await client.ask(AlterClientQuotasRequest([RequestEntryData(who, [op])], False), 1)
            await trio.sleep(2)


async def watch(stage: Stage) -> None:
    """Read the live stream of each page for ten seconds."""
    with trio.move_on_after(10):
        await keep_open(PAGES[next(stage.numbers) % len(PAGES)], stage)


async def keep_open(page: PageLoad, stage: Stage) -> None:
    """Run a browser with this page until the broker disconnects."""
    await browse(stage.port + 1, stage.token, page, Tally(1))


async def look(stage: Stage) -> None:
    """Read Prometheus and the pages of the console, one a second."""
    for path in SEEN:
        await trio.to_thread.run_sync(ask_rest, stage, path)
        await trio.sleep(1)


LOADS: Final[dict[str, tuple[Load, int]]] = {
    "produce": (produce, 4),
    "fetch": (fetch, 4),
    "metadata": (look_up, 2),
    "group": (join, 1),
    "telemetry": (push, 1),
    "quotas": (change, 1),
    "streams": (watch, 2),
    "pages": (look, 1),
}


async def prepare(stage: Stage) -> None:
    """Make the topics, and ask clients for metrics. Raises OSError if the broker refuses a topic."""
    client = await connect(stage, "operator")
    async with client.stream:
        topics = [CreatableTopic(TOPIC, PARTITIONS, 1), CreatableTopic("__consumer_offsets", 1, 1)]
        topics += [CreatableTopic(topic, checked.PARTITIONS, 1) for topic in checked.TOPICS]
        made = await client.ask(CreateTopicsRequest(topics, 5_000), 5)
        if refused := {each.name: each.error_code for each in made.topics if each.error_code}:
            raise OSError(f"topics were refused: {refused}")
        ops = [AlterableConfig("metrics", 0, "*"), AlterableConfig("interval.ms", 0, "1000")]
        resource = AlterConfigsResource(CLIENT_METRICS, "all", ops)
        await client.ask(IncrementalAlterConfigsRequest([resource]), 1)

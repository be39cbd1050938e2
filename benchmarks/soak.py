"""A long, mixed load on a broker, and its memory: `make soak`, or `python -m benchmarks.soak`.

This process sends the load over sockets: producers and consumers that reconnect under new client ids, a
group whose members change, metadata of known and unknown topics, the live streams of the console's pages,
REST, Prometheus, pushed telemetry, and quota changes. Its rates are fixed. Prints the broker's anonymous
memory every ten seconds; the last line is JSON with the slope by least squares after the warm-up. The goal
is less than 0.5 MB a minute after ten minutes.
"""

import json
import os
import secrets
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from struct import Struct
from typing import Any, Final

import click
import trio
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from benchmarks.pages import PAGES, Tally, browse
from benchmarks.peers import PEERS
from benchmarks.process import Broker, running
from broker.protocol import codec
from broker.protocol.api_key import response_header_version
from broker.protocol.codec import parse_response_header
from broker.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
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
from broker.protocol.messages.push_telemetry import PushTelemetryRequest
from broker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from broker.records.build import NewRecord, build_batch

TOPIC: Final = "soak"
PARTITIONS: Final = 4
GROUP: Final = "soakers"
SIZE: Final = Struct(">i")
ENDED: Final = (OSError, EOFError, trio.BrokenResourceError)
SAMPLE_S: Final = 10.0
MB: Final = 1_000_000
CLIENT_METRICS: Final = 16
"""The resource type of client metrics subscriptions."""

SEEN: Final = (
    "/metrics",
    "/api/v1/overview?history_s=900",
    *(f"/api/v1/{name}" for name in ("usage", "connections", "topics", "groups", "doctor", "audit")),
    *(f"/api/v1/{name}" for name in ("client-quotas", "client-instances", "throttled-channels:recent")),
)

Load = Callable[["Soak"], Awaitable[None]]
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


class Soak:
    """The state that all loads share: the broker's address, and unique numbers."""

    def __init__(self, broker: Broker, token: str) -> None:
        self.broker = broker
        self.token = token
        self.numbers = count()
        self.rounds: dict[str, int] = {}

    async def connect(self, kind: str) -> Client:
        stream = await trio.open_tcp_stream("127.0.0.1", self.broker.port)
        return Client(stream, f"{kind}-{next(self.numbers)}")

    async def repeat(self, name: str, load: Load) -> None:
        """Repeat a round of `load`; begin anew after the broker disconnects."""
        while True:
            with suppress(*ENDED):
                await load(self)
            self.rounds[name] = self.rounds.get(name, 0) + 1

    def http(self, path: str) -> None:
        address = f"http://127.0.0.1:{self.broker.port + 1}{path}"
        request = urllib.request.Request(address, headers={"Authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer.read()


async def produce(soak: Soak) -> None:
    """Run a producer for two seconds, with ten batches a second."""
    client = await soak.connect("producer")
    async with client.stream:
        for number in range(20):
            now_ms = time.time_ns() // 1_000_000
            batch = bytearray(build_batch([NewRecord(None, bytes(100), now_ms) for _ in range(5)]))
            data = PartitionProduceData(number % PARTITIONS, batch)
            request = ProduceRequest(None, 1, 30_000, [TopicProduceData(TOPIC, partition_data=[data])])
            await client.ask(request, 9)
            await trio.sleep(0.1)


async def fetch(soak: Soak) -> None:
    """Run a consumer for five seconds in a fetch session."""
    client = await soak.connect("consumer")
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


async def look_up(soak: Soak) -> None:
    """Send ten Metadata requests on a new connection; the last is for an unknown topic."""
    client = await soak.connect("metadata")
    async with client.stream:
        for number in range(10):
            name = TOPIC if number < 9 else f"unknown-{next(soak.numbers)}"
            await client.ask(MetadataRequest([MetadataRequestTopic(name=name)], False), 9)
            await trio.sleep(0.1)


async def join(soak: Soak) -> None:
    """Run a member that joins a group, commits, and leaves."""
    client = await soak.connect("member")
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


async def push(soak: Soak) -> None:
    """Run a client that pushes its metrics once, with the terminating flag."""
    client = await soak.connect("pusher")
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


async def change(soak: Soak) -> None:
    """Set each of twenty quotas every forty seconds, and add and remove one client's."""
    client = await soak.connect("operator")
    async with client.stream:
        for turn in range(20):
            limit = 1e6 + next(soak.numbers)
            who = [EntityData("client-id", f"limited-{turn}")]
            op = OpData("producer_byte_rate", limit, turn == 19 and int(limit) % 2 == 0)
            await client.ask(AlterClientQuotasRequest([RequestEntryData(who, [op])], False), 1)
            await trio.sleep(2)


async def watch(soak: Soak) -> None:
    """Read the live stream of each page for ten seconds."""
    page = PAGES[next(soak.numbers) % len(PAGES)]
    with trio.move_on_after(10):
        await browse(soak.broker.port + 1, soak.token, page, Tally(1))


async def look(soak: Soak) -> None:
    """Read Prometheus and the pages of the console, one a second."""
    for path in SEEN:
        await trio.to_thread.run_sync(soak.http, path)
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


async def prepare(soak: Soak) -> None:
    client = await soak.connect("operator")
    async with client.stream:
        topics = [CreatableTopic(TOPIC, PARTITIONS, 1), CreatableTopic("__consumer_offsets", 1, 1)]
        await client.ask(CreateTopicsRequest(topics, 5_000), 5)
        ops = [AlterableConfig("metrics", 0, "*"), AlterableConfig("interval.ms", 0, "1000")]
        resource = AlterConfigsResource(CLIENT_METRICS, "all", ops)
        await client.ask(IncrementalAlterConfigsRequest([resource]), 1)


def slope(points: list[tuple[float, float]]) -> float:
    """Return the slope by least squares."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


async def soaking(soak: Soak, minutes: float, warm_up: float, loads: list[str]) -> list[tuple[float, float]]:
    """Return (minute, MB of anonymous memory) of every sample after the warm-up."""
    points = []
    await prepare(soak)
    async with trio.open_nursery() as nursery:
        for name in loads:
            load, copies = LOADS[name]
            for _ in range(copies):
                nursery.start_soon(soak.repeat, name, load)
        began = trio.current_time()
        while (minute := (trio.current_time() - began) / 60) < minutes:
            await trio.sleep(SAMPLE_S)
            soak.broker.check_alive()
            memory = soak.broker.memory().anonymous / MB
            if minute >= warm_up:
                points.append((minute, memory))
            grown = f"{slope(points):7.3f} MB a minute" if len(points) > 2 else ""
            print(
                f"{minute:6.1f} min {memory:8.2f} MB  cpu {soak.broker.cpu_s():6.1f} s  {grown}", flush=True
            )
        nursery.cancel_scope.cancel()
    return points


@click.command()
@click.option("--minutes", default=20.0, show_default=True, help="In all.")
@click.option("--warm-up", default=10.0, show_default=True, help="Uncounted minutes at the start.")
@click.option("--loads", default=",".join(LOADS), show_default=True, help="Comma-separated.")
def main(minutes: float, warm_up: float, loads: str) -> None:
    token = secrets.token_urlsafe()
    os.environ["WEIR_ADMIN_TOKEN"] = token
    with tempfile.TemporaryDirectory() as scratch, running(PEERS["weir"], Path(scratch)) as broker:
        soak = Soak(broker, token)
        points = trio.run(partial(soaking, soak, minutes, warm_up, loads.split(",")))
        print(json.dumps({"slope_mb_per_minute": round(slope(points), 3), "rounds": soak.rounds}))


if __name__ == "__main__":
    main()

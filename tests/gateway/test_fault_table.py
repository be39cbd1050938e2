"""Each fault beside clients whose upstream broker is healthy: nothing acknowledged is lost, those clients are
answered, and the operator finds a line, a count or the reason of a closed connection.

The gateway, its clients and two upstream brokers share a thread here, so these are the tests of what happens.
tests/endtoend/gateway has the faults that need processes: brokers and gateways that are killed, and stopped.
"""

import logging
import random
import struct
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from broker.common.proxy_protocol import HeaderRefusal
from broker.gateway.upstream_receive import CLOSED, CLOSED_WITHIN, UNEXPECTED
from broker.network.connection.channel import Channel
from broker.protocol import codec
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from broker.quotas.connections import PROXY_HEADER
from broker.quotas.throttled import Throttle
from tests.gateway.test_upstream_faults import opened
from tests.support.fake_upstream import FakeNode, RawAnswer, fake_cluster
from tests.support.machine_speed import WITHIN_S, crowding
from tests.support.produce import PRODUCE_VERSION, batch_of, produce_request, produce_request_of
from tests.support.proxy_protocol import v1, v2
from tests.support.running_gateway import RunningGateway, running_gateway
from tests.support.wire import OPENED, WireClient

P99_MS: Final = 50.0
"""Of clients whose upstream broker is healthy. (the goal)"""

ASKED: Final = 200
"""Requests of each such client during a fault, at least."""

HEALTHY, FAULTY = 0, 1
STORAGE_ERROR: Final = 56

UNREACHABLE: Final = "cannot reach an upstream node"

QUICK: Final = ("upstream.metadata.max.age.ms=100", "upstream.socket.connection.setup.timeout.ms=200")


class Signs:
    """What an operator finds: the reasons of closed connections, which `__weir_connections` has."""

    def __init__(self) -> None:
        self.reasons: set[str] = set()

    def opened(self, channel: Channel) -> None:
        pass

    def closed(self, channel: Channel, reason: str) -> None:
        self.reasons.add(reason)

    def refused(self, listener: str, address: str, rule: str, bound: float) -> None:
        self.reasons.add(rule)

    def delayed(self, listener: str, address: str, throttle_ms: int, bound: float) -> None:
        pass

    def throttled(self, channel: Channel, throttle: Throttle) -> None:
        pass


class Journal:
    """What a node has stored, by offset."""

    def __init__(self) -> None:
        self.stored: list[bytes] = []

    def append(self, request: Any) -> ProduceResponse:
        (topic,) = request.topic_data
        (partition,) = topic.partition_data
        self.stored.append(bytes(partition.records))
        stored = PartitionProduceResponse(base_offset=len(self.stored) - 1)
        return ProduceResponse([TopicProduceResponse(topic.name, partition_responses=[stored])])


@dataclass
class Scene:
    """A gateway before a healthy node and one that is to fail. `acknowledged` has the node, the offset and
    the records of each acknowledgement, `waits_ms` the waits of the healthy node's clients.
    """

    gateway: RunningGateway
    nodes: list[FakeNode]
    journals: list[Journal]
    header: bytes
    signs: Signs
    numbers: "count[int]" = field(default_factory=count)
    acknowledged: list[tuple[int, int, bytes]] = field(default_factory=list)
    waits_ms: list[float] = field(default_factory=list)

    @property
    def faulty(self) -> FakeNode:
        return self.nodes[FAULTY]

    async def connect(self, node_id: int, header: bytes | None = None) -> WireClient:
        """A connection to the port of a node, without a balancer's header only if that is given."""
        stream = await trio.open_tcp_stream("127.0.0.1", self.gateway.first_port + node_id)
        OPENED.append(stream)
        if sent := self.header if header is None else header:
            await stream.send_all(sent)
        return WireClient(stream, "tester")

    async def produce(self, client: WireClient, node_id: int, requests: int = 1) -> None:
        """Send requests at once, and note what is acknowledged."""
        sent = {}
        for _ in range(requests):
            records = bytes(batch_of(b"%d" % next(self.numbers)))
            sent[await client.send(produce_request(records), PRODUCE_VERSION)] = records
        for expected, records in sent.items():
            correlation_id, answer = await client.receive(ApiKey.PRODUCE, PRODUCE_VERSION)
            assert correlation_id == expected
            (partition,) = answer.responses[0].partition_responses
            if partition.error_code == 0:
                self.acknowledged.append((node_id, partition.base_offset, records))

    async def ask_for_ever(self, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
        """Ask the healthy node all the time: on one connection, and on a new one for each request."""
        steady = await self.connect(HEALTHY)
        await self.produce(steady, HEALTHY)
        task_status.started()
        while True:
            for is_new in (False, True):
                began = time.perf_counter()
                client = await self.connect(HEALTHY) if is_new else steady
                await self.produce(client, HEALTHY)
                self.waits_ms.append((time.perf_counter() - began) * 1_000)
                if is_new:
                    await trio.aclose_forcefully(client.stream)

    async def suffer(self, requests: int = 3) -> None:
        """A client of the faulty node, which gives up soon."""
        with trio.move_on_after(0.05), suppress(EOFError, OSError, trio.BrokenResourceError):
            client = await self.connect(FAULTY)
            try:
                await self.produce(client, FAULTY, requests)
            finally:
                await trio.aclose_forcefully(client.stream)

    async def until_acknowledged(self) -> None:
        """Return when the faulty node has acknowledged something more."""
        before = self.count_of(FAULTY)
        with trio.fail_after(WITHIN_S):
            while self.count_of(FAULTY) == before:
                await self.suffer()

    def count_of(self, node_id: int) -> int:
        return sum(each == node_id for each, _, _ in self.acknowledged)

    def check_nothing_is_lost(self) -> None:
        for node_id, offset, records in self.acknowledged:
            assert self.journals[node_id].stored[offset] == records

    @property
    def p99_ms(self) -> float:
        return sorted(self.waits_ms)[len(self.waits_ms) * 99 // 100]


Step = Callable[[Scene], Any]


@dataclass(frozen=True)
class Fault:
    """`begin` and `end` are of the faulty node, `act` is what happens again and again meanwhile: an attack,
    or a client of that node. `sign` is in the log, or is the reason of a closed or refused connection.
    """

    sign: str
    begin: Step = lambda scene: None
    end: Step = lambda scene: None
    act: Step = Scene.suffer
    settings: tuple[str, ...] = ()
    header: bytes = b""


def flag(name: str, sign: str) -> Fault:
    """A fault that the node has itself, on every connection from now on."""

    def begin(scene: Scene) -> None:
        setattr(scene.faulty, name, True)
        scene.faulty.drop_connections()

    return Fault(sign, begin, lambda scene: setattr(scene.faulty, name, False), settings=QUICK)


def sends(answer: RawAnswer, sign: str, *, ends: bool = False) -> Fault:
    """A node that answers every Produce with these bytes, and then perhaps ends the connection, on which
    nothing more has arrived.
    """

    def begin(scene: Scene) -> None:
        scene.faulty.raw[ApiKey.PRODUCE] = answer
        scene.faulty.ends_after_raw = ends

    def end(scene: Scene) -> None:
        del scene.faulty.raw[ApiKey.PRODUCE]
        scene.faulty.ends_after_raw = False

    return Fault(sign, begin, end, lambda scene: scene.suffer(1 if ends else 3))


def acceptance(correlation_id: int, error_code: int = 0) -> bytes:
    """A whole and valid response to a Produce; without an error, it acknowledges what is not stored."""
    partition = PartitionProduceResponse(error_code=error_code, base_offset=10**6)
    response = ProduceResponse([TopicProduceResponse("events", partition_responses=[partition])])
    parts = codec.encode_response(ApiKey.PRODUCE, PRODUCE_VERSION)(response, correlation_id)
    return b"".join(bytes(part) for part in parts)


def head(size: int, correlation_id: int) -> bytes:
    return struct.pack(">ii", size, correlation_id)


RANDOM: Final = random.Random(40)


async def half_a_request(scene: Scene) -> None:
    """Clients that end, or wait, within a request: in its head, its body, and within a spliced one."""
    small = codec.encode_request(ApiKey.PRODUCE, PRODUCE_VERSION)(
        produce_request(batch_of(b"x")), 1, "tester"
    )
    large = codec.encode_request(ApiKey.PRODUCE, PRODUCE_VERSION)(
        produce_request_of(500_000, "tester"), 1, "tester"
    )
    whole, spliced = (b"".join(bytes(part) for part in parts) for parts in (small, large))
    for sent in (whole[:2], whole[:11], whole[:-1], spliced[:70_000], spliced[:-1]):
        for ends in (True, False):
            client = await scene.connect(FAULTY)
            with suppress(trio.BrokenResourceError):
                await client.stream.send_all(sent)
                if ends:
                    await client.stream.send_eof()
            await trio.aclose_forcefully(client.stream)


async def half_a_header(scene: Scene) -> None:
    """A balancer that ends, or that says no more, within either kind of header."""
    for whole in (v1(), v2()):
        for cut in (1, 5, len(whole) - 1):
            for ends in (True, False):
                client = await scene.connect(FAULTY, whole[:cut])
                if ends:
                    await client.stream.send_eof()
    await trio.sleep(0.05)


REQUIRED: Final = ("proxy.protocol=require", "proxy.protocol.trusted.addresses=127.0.0.1")

FAULTS: Final = {
    "a node is killed": Fault(
        UNREACHABLE,
        lambda scene: scene.faulty.stop(),
        lambda scene: scene.faulty.start(),
        settings=QUICK,
    ),
    "a node is frozen": Fault(
        UNREACHABLE, lambda scene: scene.faulty.freeze(), lambda scene: scene.faulty.thaw(), settings=QUICK
    ),
    "a node closes each connection at its first byte": flag("hangs_up", CLOSED),
    "a node sends half of each response and closes": flag("cuts_frames", UNREACHABLE),
    "a node answers everything with text": flag("answers_garbage", UNREACHABLE),
    "a node answers everything with other correlation ids": flag("shifts_ids", UNREACHABLE),
    "half a response": sends(lambda _, number: acceptance(number)[:20], CLOSED, ends=True),
    "half a large response": sends(
        lambda _, number: head(500_000, number) + bytes(200_000), CLOSED_WITHIN, ends=True
    ),
    "responses in another order": sends(lambda _, number: acceptance(4 - number), UNEXPECTED),
    "a response twice": sends(lambda _, number: acceptance(number, STORAGE_ERROR) * 2, UNEXPECTED),
    "a response of an earlier request": sends(lambda _, number: acceptance(number - 1), UNEXPECTED),
    "random bytes": sends(lambda _, __: RANDOM.randbytes(RANDOM.randrange(8, 400)), UNEXPECTED),
    "a length of zero": sends(lambda _, __: bytes(4), UNEXPECTED),
    "a length of zero before an acceptance": sends(
        lambda _, number: bytes(4) + acceptance(number), UNEXPECTED
    ),
    "a length of 3": sends(lambda _, __: struct.pack(">i", 3), UNEXPECTED),
    "a length below zero": sends(lambda _, number: head(-1, number), UNEXPECTED),
    "the least length": sends(lambda _, number: head(-(2**31), number), UNEXPECTED),
    "the greatest length, of another response": sends(
        lambda _, number: head(2**31 - 1, number + 7), UNEXPECTED
    ),
    "the greatest length, then garbage": sends(
        lambda _, number: head(2**31 - 1, number) + RANDOM.randbytes(300_000), CLOSED_WITHIN, ends=True
    ),
    "half a request": Fault("closed by the peer", act=half_a_request),
    "half a balancer's header": Fault(
        f"{PROXY_HEADER}.{HeaderRefusal.CUT}", act=half_a_header, settings=REQUIRED, header=v2()
    ),
    "a balancer's header without an end": Fault(
        f"{PROXY_HEADER}.{HeaderRefusal.TIMEOUT}",
        act=half_a_header,
        settings=(*REQUIRED, "connection.authentication.timeout.ms=2000"),
        header=v1(),
    ),
}


@asynccontextmanager
async def before(tmp_path: Path, fault: Fault) -> AsyncIterator[Scene]:
    async with fake_cluster(2) as cluster:
        journals = [Journal() for _ in cluster.live]
        for node, journal in zip(cluster.live, journals, strict=True):
            node.answers[ApiKey.PRODUCE] = journal.append
        async with running_gateway(tmp_path, cluster.live[0].port, *fault.settings) as gateway:
            for node in cluster.live:
                await opened(gateway, node.node_id)
            signs = Signs()
            gateway.server.socket_server.observers.append(signs)
            yield Scene(gateway, list(cluster.live), journals, fault.header, signs)


async def play(tmp_path: Path, fault: Fault, caplog: pytest.LogCaptureFixture) -> Scene:
    """Let the fault happen until its sign is there and the healthy node's clients have asked enough."""
    caplog.set_level(logging.WARNING)

    def is_shown() -> bool:
        return fault.sign in scene.signs.reasons or fault.sign in {
            value for each in caplog.records for value in (each.getMessage(), getattr(each, "reason", ""))
        }

    async with before(tmp_path, fault) as scene, trio.open_nursery() as nursery:
        await nursery.start(scene.ask_for_ever)
        await scene.until_acknowledged()
        fault.begin(scene)
        scene.waits_ms.clear()
        with trio.move_on_after(WITHIN_S) as scope:
            while not is_shown() or len(scene.waits_ms) < ASKED:
                await fault.act(scene)
        assert not scope.cancelled_caught, (scene.signs.reasons, caplog.messages)
        healthy = scene.count_of(HEALTHY)
        ended = fault.end(scene)
        if ended is not None:
            await ended
        await scene.until_acknowledged()
        assert scene.count_of(HEALTHY) > healthy
        nursery.cancel_scope.cancel()
    scene.check_nothing_is_lost()
    return scene


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_loses_nothing_and_stops_no_other_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    scene = await play(tmp_path, FAULTS[name], caplog)
    assert not [each for each in caplog.records if each.exc_info]
    assert len(scene.waits_ms) >= ASKED


@pytest.mark.timed
@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_keeps_no_other_client_waiting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    scene = await play(tmp_path, FAULTS[name], caplog)
    print(f"{name}: p99 {scene.p99_ms:.1f} ms, longest {max(scene.waits_ms):.1f} ms of {len(scene.waits_ms)}")
    assert scene.p99_ms < P99_MS * crowding()

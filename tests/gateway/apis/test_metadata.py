"""Topics that Metadata and CreateTopics create through the gateway."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome
from broker.common.errors import ErrorCode
from broker.controller.topics import ONLY_BY_WEIR
from broker.gateway.apis import metadata
from broker.gateway.apis.asking import Addresses, forward_readdressed
from broker.gateway.channel import GatewayChannel
from broker.gateway.client_receive import NOTED_BYTES
from broker.gateway.forwarder import SMALL_BYTES
from broker.metadata.actor import Role
from broker.protocol import codec
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.running import RunningBroker, running_broker
from tests.support.running_gateway import RunningGateway, running_gateway
from tests.support.wire import WireClient

UNKNOWN, DENIED = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED
VERSIONS = range(14)
OURS = "__weir_x"

Running = tuple[RunningBroker, RunningGateway, WireClient]


@asynccontextmanager
async def both(tmp_path: Path, role: str, authentication: str = "gateway") -> AsyncIterator[Running]:
    """A broker that creates topics for everybody, and a gateway."""
    settings = f"gateway.authentication={authentication}", f"wire.role={role}"
    async with (
        running_broker(tmp_path / "broker", "max.connections=1000") as broker,
        running_gateway(tmp_path / "gateway", broker.port, *settings) as gateway,
    ):
        yield broker, gateway, await gateway.connect()


def ask_for(*names: str, create: bool = True) -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(name=name) for name in names], create)


def encoded(message: MetadataRequest) -> Any:
    return codec.encode_request(ApiKey.METADATA, 9)(message, 1, "")


def topics_of(broker: RunningBroker) -> set[str]:
    return set(broker.server.control.image.topics)


@pytest.mark.parametrize("role", Role)
async def test_topics_are_created_for_clients_that_may_create_them(tmp_path: Path, role: Role) -> None:
    async with both(tmp_path, role.name.lower()) as (broker, gateway, client):
        for version in VERSIONS:
            name = f"events-{version}"
            reply = await client.ask(ask_for(name), version)
            may = role >= Role.EDITOR
            assert [(each.name, each.error_code) for each in reply.topics] == [(name, 0 if may else UNKNOWN)]
            assert (name in topics_of(broker)) is may
            # The addresses are the gateway's, whoever answers.
            (node,) = reply.brokers
            assert node.port == gateway.first_port + node.node_id


@pytest.mark.parametrize("authentication", ["gateway", "upstream"])
async def test_nobody_creates_topics_of_weir(tmp_path: Path, authentication: str) -> None:
    async with both(tmp_path, "admin", authentication) as (broker, gateway, client):
        for version in VERSIONS:
            for ours in (OURS, "__weir.x", "_.weir_x"):
                reply = await client.ask(ask_for(ours), version)
                assert [(each.name, each.error_code) for each in reply.topics] == [(ours, UNKNOWN)]
            theirs = f"events-{version}"
            reply = await client.ask(ask_for(OURS, theirs), version)
            assert {each.name: each.error_code for each in reply.topics} == {OURS: UNKNOWN, theirs: 0}
            (node,) = reply.brokers
            assert node.port == gateway.first_port + node.node_id
        assert topics_of(broker) == {f"events-{version}" for version in VERSIONS}


async def test_topics_that_exist_are_described_to_a_viewer(tmp_path: Path) -> None:
    async with both(tmp_path, "viewer") as (broker, _, client):
        await (await broker.connect()).ask(ask_for("events"), 9)
        for version in VERSIONS:
            for wanted in (["events"], ["events", "missing"]):
                reply = await client.ask(ask_for(*wanted), version)
                codes = {each.name: each.error_code for each in reply.topics}
                assert codes == dict.fromkeys(wanted, UNKNOWN) | {"events": 0}
                (found,) = [each for each in reply.topics if each.name == "events"]
                assert len(found.partitions) == 1
            every = MetadataRequest(None if version else [], True)
            reply = await client.ask(every, version)
            assert [each.name for each in reply.topics] == ["events"]
            assert topics_of(broker) == {"events"}


@pytest.mark.parametrize("size", [SMALL_BYTES - 1, SMALL_BYTES, SMALL_BYTES + 1, 8 * SMALL_BYTES])
@pytest.mark.parametrize("authentication", ["gateway", "upstream"])
async def test_no_size_of_a_request_gets_past_the_gateway(
    tmp_path: Path, authentication: str, size: int
) -> None:
    async with both(tmp_path, "admin", authentication) as (broker, _, client):
        head = 8 + 2 + len(client.client_id or "") + 1
        entry = 16 + 1 + 100 + 1
        count = (size - head - 10) // entry - 1
        names = [f"{at:05}".ljust(99, "x") for at in range(count)]
        last = OURS
        message = ask_for(*names, last.ljust(99, "y"), create=True)
        reply = await client.ask(message, 12)
        codes = {each.name: each.error_code for each in reply.topics}
        assert codes.pop(last.ljust(99, "y")) == UNKNOWN
        assert len(codes) == count and set(codes.values()) <= {0, UNKNOWN}
        assert topics_of(broker) <= set(names) and topics_of(broker)


async def test_a_request_that_creates_nothing_is_forwarded_as_it_is(tmp_path: Path) -> None:
    async with both(tmp_path, "viewer") as (broker, gateway, client):
        reply = await client.ask(ask_for("events", OURS, create=False), 9)
        assert [each.error_code for each in reply.topics] == [UNKNOWN, UNKNOWN]
        metrics = gateway.server.socket_server.metrics.of("Metadata", 9)
        assert sum(metrics.remote) == 1
        assert topics_of(broker) == set()


def remembered_of(gateway: RunningGateway) -> int | None:
    """The API key of the request that the only connection need not look into again."""
    (channel,) = gateway.server.socket_server.channels()
    assert isinstance(channel, GatewayChannel)
    route = channel.client._noted_route
    return None if route is None else route.api_key


async def test_an_equal_request_is_looked_into_once(tmp_path: Path) -> None:
    async with both(tmp_path, "viewer") as (broker, gateway, client):
        await (await broker.connect()).ask(ask_for("events"), 9)
        names = ["events", "events", "missing", "events"]
        for name in names:
            reply = await client.ask(ask_for(name, create=False), 9)
            assert [each.name for each in reply.topics] == [name]
            assert remembered_of(gateway) == ApiKey.METADATA
        # It differs in its last byte but one, and is the gateway's; the one before that is forwarded again.
        for create in (True, False, True):
            (topic,) = (await client.ask(ask_for("missing", create=create), 9)).topics
            assert topic.error_code == UNKNOWN
            reply = await client.ask(ask_for("events", create=False), 9)
            assert [(each.name, each.error_code) for each in reply.topics] == [("events", 0)]
        assert topics_of(broker) == {"events"}


@pytest.mark.parametrize(("size", "is_remembered"), [(255, True), (256, True), (257, False)])
async def test_only_a_small_request_is_remembered(tmp_path: Path, size: int, is_remembered: bool) -> None:
    assert NOTED_BYTES == 256
    async with both(tmp_path, "viewer") as (_, gateway, client):
        client.client_id = ""
        sizes = [len(b"".join(encoded(ask_for("x" * length, create=False)))) - 4 for length in (200, 201)]
        assert sizes[1] == sizes[0] + 1
        name = "x" * (200 + size - sizes[0])
        for _ in range(3):
            (topic,) = (await client.ask(ask_for(name, create=False), 9)).topics
            assert topic.error_code == UNKNOWN
        assert (remembered_of(gateway) == ApiKey.METADATA) is is_remembered


async def test_a_request_of_weir_is_never_remembered(tmp_path: Path) -> None:
    async with both(tmp_path, "admin") as (broker, gateway, client):
        for _ in range(3):
            (topic,) = (await client.ask(ask_for(OURS), 9)).topics
            assert topic.error_code == UNKNOWN
            assert remembered_of(gateway) != ApiKey.METADATA
        assert topics_of(broker) == set()


@pytest.mark.parametrize("authentication", ["gateway", "upstream"])
@pytest.mark.parametrize("version", range(2, 8))
async def test_create_topics_creates_none_of_weir(tmp_path: Path, authentication: str, version: int) -> None:
    async with both(tmp_path, "admin", authentication) as (broker, _, client):
        for names in ([OURS], [OURS, f"events-{version}", "__weir.y"], [f"more-{version}"]):
            reply = await client.ask(
                CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names]), version
            )
            results = {each.name: (each.error_code, each.error_message) for each in reply.topics}
            for name in names:
                is_ours = "weir" in name
                assert results[name] == ((DENIED, ONLY_BY_WEIR) if is_ours else (0, None))
        assert topics_of(broker) == {f"events-{version}", f"more-{version}"}


async def test_a_gateway_that_asks_twice_answers_once(tmp_path: Path) -> None:
    """The requests behind one that is split wait for it, and stay in order."""
    async with both(tmp_path, "admin") as (_, _, client):
        sent = [await client.send(ask_for(OURS, f"events-{at}"), 9) for at in range(5)]
        received = [await client.receive(ApiKey.METADATA, 9) for _ in sent]
        assert [number for number, _ in received] == sent
        for at, (_, reply) in enumerate(received):
            assert {each.name for each in reply.topics} == {OURS, f"events-{at}"}


async def test_of_large_requests_that_are_asked_for_a_client_few_are_held_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A response that the gateway collects has up to 32 MiB: of a hundred clients, it holds those of two."""
    asked: list[int] = []
    running: set[int] = set()
    most = 0
    full, release = trio.Event(), trio.Event()

    async def watched(context: RequestContext, message: MetadataRequest, addresses: Addresses) -> Outcome:
        nonlocal most
        asked.append(context.correlation_id)
        if context.size <= SMALL_BYTES:
            return await forward_readdressed(context, message, addresses)
        running.add(len(asked))
        most = max(most, len(running))
        if most == metadata.LARGE_AT_ONCE:
            full.set()
        try:
            await release.wait()
            return await forward_readdressed(context, message, addresses)
        finally:
            running.pop()

    monkeypatch.setattr(metadata, "forward_readdressed", watched)
    names = [f"{'n' * 200}{number}" for number in range(100)]
    async with both(tmp_path, "viewer") as (_, gateway, client):
        clients = [await gateway.connect() for _ in range(5)]
        for each in clients:
            await each.send(ask_for(*names), 12)
        await full.wait()
        reply = await client.ask(ask_for("small"), 12)
        assert [each.error_code for each in reply.topics] == [UNKNOWN]
        assert len(running) == metadata.LARGE_AT_ONCE
        await clients[0].stream.aclose()
        release.set()
        for each in clients[1:]:
            _, reply = await each.receive(ApiKey.METADATA, 12)
            assert len(reply.topics) == len(names)
    assert most == metadata.LARGE_AT_ONCE == 2

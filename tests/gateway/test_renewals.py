"""Upstream logins that end while clients are connected, with gateway.authentication=gateway. (KIP-368)"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.api.requests.outcome import Outcome, Response
from broker.common.clock import BASE_MS
from broker.common.errors import ConfigError
from broker.config.load import load
from broker.config.sections import UpstreamConfig
from broker.controller.commands import (
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    IncrementalAlterConfigs,
    OpType,
    ResourceType,
)
from broker.controller.rows.upstream import UpstreamCondition
from broker.gateway.apis.asking import ask
from broker.gateway.channel import GatewayChannel
from broker.gateway.own_topics import OwnTopics
from broker.gateway.renewals import SPARE, Renewals, kafkas_share
from broker.gateway.upstream.cluster import LEAST_S
from broker.gateway.upstream.security import MAX_FILE_BYTES, UpstreamSecurity
from broker.metadata.actor import BROKER_ITSELF
from broker.protocol import codec
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.create_topics import CreateTopicsResponse
from broker.security.plain import PLAIN_MODULE
from broker.server.gateway import GatewayServer
from tests.gateway.test_asking import Handlers, create, limit
from tests.gateway.test_upstream_faults import accepted
from tests.support.clock import ManualClock
from tests.support.fake_upstream import FakeCluster, FakeNode, fake_cluster
from tests.support.gateway_upstream import Upstream
from tests.support.live import takes_effect
from tests.support.produce import batch_of, produce_request, produce_request_of
from tests.support.running_gateway import RunningGateway, running_gateway
from tests.support.wire import WireClient

USER, PASSWORD = "weir", "secret"
LIFETIME_MS = 10_000
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def jaas(password: str = PASSWORD, user: str = USER, module: str = PLAIN_MODULE) -> str:
    return f'{module} required username="{user}" password="{password}";'


@pytest.fixture(autouse=True)
def _no_connection_for_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only clients' connections log in."""

    async def ask_nothing(_own: OwnTopics, _client: object) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(OwnTopics, "run", ask_nothing)


@asynccontextmanager
async def serving(
    tmp_path: Path, *overrides: str, mechanism: str = "PLAIN", lifetime_ms: int = LIFETIME_MS
) -> AsyncIterator[tuple[FakeCluster, FakeNode, RunningGateway]]:
    """A gateway that logs in at a node that ends logins."""
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    settings = (
        "gateway.authentication=gateway",
        "upstream.security.protocol=SASL_PLAINTEXT",
        f"upstream.sasl.mechanism={mechanism}",
        f"upstream.sasl.jaas.config={jaas(module=module)}",
        # The watch of the node logs in by itself: here only clients' connections matter.
        "upstream.metadata.max.age.ms=86400000",
        *overrides,
    )
    async with fake_cluster(1) as cluster:
        (node,) = cluster.live
        cluster.users, cluster.session_lifetime_ms = {USER: PASSWORD}, lifetime_ms
        node.answers[ApiKey.PRODUCE] = accepted
        async with running_gateway(tmp_path, node.port, *settings) as gateway:
            await wait_all_tasks_blocked(0.02)
            node.logins.clear()
            yield cluster, node, gateway


async def produce(client: WireClient) -> None:
    answer = await client.ask(produce_request(batch_of(b"x")), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0


async def send_produce(client: WireClient) -> int:
    """Send a Produce and return its correlation id; its response is not awaited."""
    return await client.send(produce_request(batch_of(b"x")), 9)


async def connected(gateway: RunningGateway) -> WireClient:
    """A client whose upstream connection is open and logged in."""
    client = await gateway.connect()
    await produce(client)
    return client


async def settle() -> None:
    await wait_all_tasks_blocked(0.02)


async def pass_time(clock: MockClock, seconds: float) -> None:
    """Let the time pass at once, and all tasks do what is due then."""
    clock.jump(seconds)
    await settle()


async def login_of(node: FakeNode) -> None:
    """Wait until the gateway waits for the response to its next login at `node`."""
    await node.wait_until(lambda: node.requests[-1].API_KEY == ApiKey.SASL_HANDSHAKE)
    await settle()


def after_first_produce(node: FakeNode) -> list[int]:
    """The API keys of the requests that `node` has received, from the first Produce on."""
    keys = [each.API_KEY for each in node.requests]
    return keys[keys.index(ApiKey.PRODUCE) :]


def channel_of(gateway: RunningGateway) -> GatewayChannel:
    (channel,) = gateway.server.socket_server.channels()
    assert isinstance(channel, GatewayChannel)
    return channel


def lines(caplog: pytest.LogCaptureFixture, text: str) -> int:
    return sum(text in each.getMessage() for each in caplog.records)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_login_is_renewed_between_two_requests_on_the_same_connection(
    tmp_path: Path, mock_clock: MockClock, mechanism: str
) -> None:
    async with serving(tmp_path, mechanism=mechanism) as (_, node, gateway):
        client = await connected(gateway)
        before = node.connections
        assert node.logins == [USER]
        await pass_time(mock_clock, 8.4)
        await produce(client)
        assert node.logins == [USER]
        await pass_time(mock_clock, 1.1)
        for _ in range(3):
            await produce(client)
        assert node.logins == [USER, USER]
        await pass_time(mock_clock, 9.5)
        await produce(client)
        assert node.logins == [USER] * 3
        assert (node.connections, node.expired, node.refused_logins) == (before, 0, 0)
        assert channel_of(gateway).flags == 0


async def test_an_idle_connection_logs_in_when_its_next_request_arrives(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with serving(tmp_path) as (_, node, gateway):
        client = await connected(gateway)
        await pass_time(mock_clock, 100)
        assert node.logins == [USER]
        for _ in range(2):
            await produce(client)
        assert node.logins == [USER, USER] and node.expired == 0


async def test_without_a_lifetime_nothing_is_renewed(tmp_path: Path, mock_clock: MockClock) -> None:
    async with serving(tmp_path, lifetime_ms=0) as (_, node, gateway):
        client = await gateway.connect()
        for _ in range(3):
            await produce(client)
            mock_clock.jump(100_000)
        assert node.logins == [USER]


async def test_requests_in_flight_are_answered_first_and_the_next_ones_wait(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with serving(tmp_path) as (_, node, gateway):
        client = await connected(gateway)
        await pass_time(mock_clock, 8.4)
        node.delay_s = 0.5
        sent = [await send_produce(client) for _ in range(3)]
        await settle()
        await pass_time(mock_clock, 0.5)
        await pass_time(mock_clock, 0.5)
        await pass_time(mock_clock, 0.1)  # 9.5 s: it is due, and the last response is missing
        sent += [await send_produce(client) for _ in range(3)]
        await settle()
        assert node.count(ApiKey.PRODUCE) == 4 and node.logins == [USER]
        node.delay_s = 0
        mock_clock.jump(0.4)
        for correlation_id in sent:
            assert (await client.receive(ApiKey.PRODUCE, 9))[0] == correlation_id
        assert node.logins == [USER, USER] and node.expired == 0
        assert after_first_produce(node) == [*[0] * 4, 17, 36, *[0] * 3]


@pytest.mark.parametrize("acks", [0, 1])
@pytest.mark.parametrize("splice_min_bytes", [0, 1])
async def test_a_large_request_is_sent_to_its_end_first(
    tmp_path: Path, mock_clock: MockClock, splice_min_bytes: int, acks: int
) -> None:
    setting = f"gateway.splice.min.bytes={splice_min_bytes}"
    async with serving(tmp_path, setting) as (_, node, gateway):
        client = await connected(gateway)
        request = produce_request_of(500_000, client.client_id or "", acks=acks)
        parts = codec.encode_request(0, 9)(request, 77, client.client_id)
        whole = b"".join(bytes(each) for each in parts)
        await client.stream.send_all(whole[:300_000])
        await settle()
        await pass_time(mock_clock, 9.5)
        await client.stream.send_all(whole[300_000:])
        await node.wait_until(lambda: node.count(ApiKey.PRODUCE) == 2)
        if acks:
            await client.receive_frame()
        await produce(client)
        assert after_first_produce(node) == [0, 0, 17, 36, 0]
        assert node.expired == 0


async def test_requests_that_were_read_already_wait_too(tmp_path: Path, mock_clock: MockClock) -> None:
    """At its limit of requests in flight, the gateway holds read requests back."""
    setting = "gateway.max.in.flight.requests.per.connection=2"
    async with serving(tmp_path, setting) as (_, node, gateway):
        client = await connected(gateway)
        node.delay_s = 9.5
        sent = [await send_produce(client) for _ in range(5)]
        await settle()
        await pass_time(mock_clock, 9.5)
        assert node.logins == [USER]
        node.delay_s = 0
        await pass_time(mock_clock, 9.5)
        for correlation_id in sent:
            assert (await client.receive(ApiKey.PRODUCE, 9))[0] == correlation_id
        assert after_first_produce(node) == [0, 0, 0, 17, 36, 0, 0, 0]


async def test_a_request_that_is_answered_here_and_asks_upstream_asks_after_the_login(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    may_ask = trio.Event()

    async def handle(message: Any, context: Any) -> Outcome:
        first = await ask(context, message)
        await may_ask.wait()
        second = await ask(context, message)
        return Response(CreateTopicsResponse(0, [*first.topics, *second.topics]))

    async with serving(tmp_path) as (_, node, gateway):
        Upstream(node)
        limit(gateway)
        gateway.server.socket_server.wrap_handlers(Handlers(handle))
        client = await gateway.connect()
        await client.send(create("a"), 6)
        await node.wait_until(lambda: node.count(ApiKey.CREATE_TOPICS) == 1)
        await settle()
        await pass_time(mock_clock, 9.5)
        assert node.logins == [USER]
        may_ask.set()
        _, reply = await client.receive(ApiKey.CREATE_TOPICS, 6)
        assert len(reply.topics) == 2
        assert node.logins == [USER, USER] and node.expired == 0
        await produce(client)
        assert channel_of(gateway).flags == 0


async def test_a_request_that_is_answered_here_delays_the_login_until_its_response(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    may_end = trio.Event()

    async def handle(_message: Any, _context: Any) -> Outcome:
        await may_end.wait()
        return Response(CreateTopicsResponse())

    async with serving(tmp_path) as (_, node, gateway):
        Upstream(node).node.answers[ApiKey.PRODUCE] = accepted
        limit(gateway)
        gateway.server.socket_server.wrap_handlers(Handlers(handle))
        client = await connected(gateway)
        await client.send(create("a"), 6)
        await settle()
        await pass_time(mock_clock, 9.5)
        assert node.logins == [USER]
        may_end.set()
        await client.receive(ApiKey.CREATE_TOPICS, 6)
        await produce(client)
        assert node.logins == [USER, USER] and node.expired == 0


async def test_a_client_that_leaves_does_not_log_in(tmp_path: Path, mock_clock: MockClock) -> None:
    async with serving(tmp_path) as (_, node, gateway):
        client = await connected(gateway)
        before = node.open_connections
        await pass_time(mock_clock, 9.5)
        await client.stream.aclose()
        await node.wait_until(lambda: node.open_connections == before - 1)
        assert node.logins == [USER]


@pytest.mark.parametrize("who", ["client", "node"])
async def test_a_connection_that_ends_during_the_login_leaves_nothing(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture, who: str
) -> None:
    async with serving(tmp_path) as (_, node, gateway):
        client = await connected(gateway)
        before = node.open_connections
        await pass_time(mock_clock, 9.5)
        node.answers_nothing = True
        await send_produce(client)
        await login_of(node)
        if who == "client":
            client.stream.setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")
            await trio.aclose_forcefully(client.stream)
            await settle()
            mock_clock.jump(10)  # a request that has arrived is served, after the login
        else:
            node.drop_connections()
            assert await client.is_closed()
        await settle()
        assert gateway.channels() == [] and node.open_connections < before
        assert not [each for each in caplog.records if each.levelname == "ERROR"]


@pytest.mark.parametrize("setup_ms", [1_000, 3_000])
async def test_a_node_that_does_not_answer_a_login_loses_the_connection(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture, setup_ms: int
) -> None:
    setting = f"upstream.socket.connection.setup.timeout.ms={setup_ms}"
    async with serving(tmp_path, setting) as (_, node, gateway):
        client = await connected(gateway)
        await pass_time(mock_clock, 9.5)
        node.answers_nothing = True
        await send_produce(client)
        await login_of(node)
        await pass_time(mock_clock, setup_ms / 1_000 - 0.001)
        assert not channel_of(gateway).closed
        mock_clock.jump(0.001)
        assert await client.is_closed()
        assert lines(caplog, "cannot renew the gateway's login") == 1


@takes_effect("upstream.sasl.jaas.config", "upstream.sasl.mechanism")
async def test_a_changed_password_and_mechanism_are_used(tmp_path: Path, mock_clock: MockClock) -> None:
    async with serving(tmp_path) as (cluster, node, gateway):
        client = await connected(gateway)
        cluster.users[USER] = "another"
        await alter(gateway.server, {"upstream.sasl.jaas.config": jaas("another")})
        await pass_time(mock_clock, 9.5)
        await produce(client)
        assert node.refused_logins == 0 and USER in node.logins
        node.logins.clear()
        scram = {
            "upstream.sasl.mechanism": "SCRAM-SHA-512",
            "upstream.sasl.jaas.config": jaas("another", module=SCRAM_MODULE),
        }
        await alter(gateway.server, scram)
        await connected(gateway)
        assert node.refused_logins == 0 and node.logins
        # A broker refuses another mechanism on the same connection: it closes without an attempt.
        await pass_time(mock_clock, 9.5)
        await send_produce(client)
        assert await client.is_closed()
        assert node.refused_logins == 0


async def test_credentials_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, _node, gateway):
        settings = {"upstream.sasl.jaas.config": jaas(module=SCRAM_MODULE)}
        outcome = await alter(gateway.server, settings)
        assert not outcome.ok and PASSWORD not in str(outcome.message)
        await connected(gateway)


@asynccontextmanager
async def from_file(
    tmp_path: Path, text: str | None = None
) -> AsyncIterator[tuple[Path, FakeCluster, FakeNode, RunningGateway]]:
    """A gateway whose credentials are in a file."""
    file = tmp_path / "upstream.jaas"
    file.write_text(jaas() + "\n" if text is None else text)
    own = ("upstream.sasl.jaas.config=", f"upstream.sasl.jaas.config.location={file}")
    async with serving(tmp_path, *own) as (cluster, node, gateway):
        yield file, cluster, node, gateway


async def test_a_file_with_a_new_password_is_read_again(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with from_file(tmp_path) as (file, cluster, node, gateway):
        client = await gateway.connect()
        await produce(client)
        cluster.users[USER] = "another"
        file.write_text(jaas("another"))
        mock_clock.jump(1)
        await settle()
        # A renewal and a new connection use it.
        mock_clock.jump(9.5)
        await settle()
        await produce(client)
        await produce(await gateway.connect())
        assert set(node.logins) == {USER} and node.refused_logins == 0
        assert lines(caplog, "upstream credentials read again") == 1
        assert "another" not in caplog.text.replace("another cluster", "")


@pytest.mark.parametrize("bad", ["", "nonsense", jaas(module=SCRAM_MODULE), "\udc80", None])
async def test_a_file_that_cannot_be_used_is_logged_once_and_changes_nothing(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture, bad: str | None
) -> None:
    async with from_file(tmp_path) as (file, _, node, gateway):
        if bad is None:
            file.unlink()
        else:
            file.write_bytes(bad.encode(errors="surrogateescape"))
        for _ in range(3):
            mock_clock.jump(1)
            await settle()
            await produce(await gateway.connect())
        assert node.refused_logins == 0
        assert lines(caplog, "cannot use the new upstream credentials") == 1
        assert PASSWORD not in caplog.text
        file.write_text(jaas())
        mock_clock.jump(1)
        await produce(await gateway.connect())
        assert node.refused_logins == 0


async def test_a_file_is_looked_at_once_a_second(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """From the start on; nobody needs to log in."""
    caplog.set_level("INFO")
    async with from_file(tmp_path) as (file, cluster, node, _):
        cluster.users["another"] = PASSWORD
        file.write_text(jaas(user="another"))
        mock_clock.jump(0.999)
        await settle()
        assert lines(caplog, "upstream credentials read again") == 0
        mock_clock.jump(0.001)
        await settle()
        assert lines(caplog, "upstream credentials read again") == 1
        # The gateway finds out at once whether the node accepts them.
        mock_clock.jump(LEAST_S)
        await settle()
        assert node.logins == ["another"]


@pytest.mark.parametrize("spare", [1, 0, -1])
def test_a_file_of_any_size_is_not_read(tmp_path: Path, spare: int) -> None:
    file = tmp_path / "upstream.jaas"
    file.write_text(jaas().ljust(MAX_FILE_BYTES - spare))
    if spare >= 0:
        assert UpstreamSecurity(upstream_config(file), ManualClock()).credentials is not None
        return
    with pytest.raises(ConfigError, match="more than 65536 bytes"):
        UpstreamSecurity(upstream_config(file), ManualClock())


def test_a_start_needs_the_file_or_the_setting(tmp_path: Path) -> None:
    file = tmp_path / "upstream.jaas"
    with pytest.raises(ConfigError, match=r"upstream\.sasl\.jaas\.config\.location.*No such file"):
        UpstreamSecurity(upstream_config(file), ManualClock())
    file.write_text(jaas())
    with pytest.raises(ConfigError, match="not together") as caught:
        UpstreamSecurity(upstream_config(file, f"upstream.sasl.jaas.config={jaas()}"), ManualClock())
    assert PASSWORD not in str(caught.value)


def upstream_config(file: Path, *more: str) -> UpstreamConfig:
    settings = (
        "upstream.security.protocol=SASL_PLAINTEXT",
        "upstream.sasl.mechanism=PLAIN",
        f"upstream.sasl.jaas.config.location={file}",
        *more,
    )
    return load(None, settings, {}).config.upstream


async def alter(server: GatewayServer, settings: dict[str, str]) -> Any:
    node_id = str(server.config.broker.node_id)
    ops = tuple(ConfigOp(key, OpType.SET, value) for key, value in settings.items())
    alteration = ConfigAlteration(ConfigResource(ResourceType.BROKER, node_id), ops)
    (outcome,) = await server.control.apply(IncrementalAlterConfigs((alteration,)), BROKER_ITSELF)
    return outcome


async def test_another_user_gets_new_connections(tmp_path: Path, mock_clock: MockClock) -> None:
    async with serving(tmp_path) as (cluster, node, gateway):
        client = await connected(gateway)
        cluster.users["other"] = "hers"
        await alter(gateway.server, {"upstream.sasl.jaas.config": jaas("hers", "other")})
        await produce(client)
        await pass_time(mock_clock, 9.5)
        await send_produce(client)
        assert await client.is_closed()
        await connected(gateway)
        assert node.logins[-1] == "other" and node.refused_logins == 0


async def test_refused_credentials_close_connections_and_are_reported_once(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with serving(tmp_path, "upstream.metadata.max.age.ms=5000") as (cluster, node, gateway):
        clients = [await connected(gateway) for _ in range(5)]
        cluster.users[USER] = "another"
        await pass_time(mock_clock, 9.5)
        for client in clients:
            await send_produce(client)
            assert await client.is_closed()
        await settle()
        assert lines(caplog, "cannot renew the gateway's login at an upstream node") == 1
        assert lines(caplog, "an upstream node refuses the gateway's credentials") == 1
        row = gateway.server.upstream_views.row()
        assert [each.condition.value for each in row.nodes] == [UpstreamCondition.CREDENTIALS.value]
        assert node.expired == 0
        cluster.users[USER] = PASSWORD
        await pass_time(mock_clock, 5)
        client = await connected(gateway)
        assert lines(caplog, "an upstream node is back") == 1
        await pass_time(mock_clock, 9.5)
        await produce(client)
        assert lines(caplog, "logins at an upstream node are renewed again") == 1


async def test_refused_credentials_of_a_new_connection_are_reported(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The watch of the node has logged in before, and would not notice it until its login ends."""
    async with serving(tmp_path, "upstream.metadata.max.age.ms=5000", lifetime_ms=0) as (cluster, _, gateway):
        await pass_time(mock_clock, 5)
        cluster.users[USER] = "another"
        client = await gateway.connect()
        await client.send(ApiVersionsRequest("suite", "1"), 4)
        await settle()
        await pass_time(mock_clock, LEAST_S)
        assert lines(caplog, "an upstream node refuses the gateway's credentials") == 1
        (state,) = gateway.server.cluster.node_states.values()
        assert state.condition is UpstreamCondition.CREDENTIALS


class Client:
    """A channel with what `Renewals` needs of it."""

    def __init__(self) -> None:
        self.fd = 1
        self.client = self
        self.renewed = 0

    def renew(self) -> None:
        self.renewed += 1


@pytest.mark.parametrize(("share", "due_ms"), [(0.85, 8_500), (0.9, 9_000), (0.95, 9_500)])
async def test_a_login_is_due_after_its_share_of_the_lifetime(
    mock_clock: MockClock, share: float, due_ms: int
) -> None:
    clock = ManualClock()
    renewals = Renewals("test", clock, lambda: share)
    early, late = Client(), Client()
    renewals.add(late, LIFETIME_MS + 1_000)  # type: ignore[arg-type]
    renewals.add(early, LIFETIME_MS)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(renewals.reaper.run)
        for step_ms, expected in ((due_ms - 1, 0), (1, 1)):
            clock.advance(step_ms)
            mock_clock.jump(step_ms / 1_000)
            await wait_all_tasks_blocked()
            assert (early.renewed, late.renewed) == (expected, 0)
        assert clock.ms() == BASE_MS + due_ms
        nursery.cancel_scope.cancel()


def test_shares_are_kafkas() -> None:
    shares = [kafkas_share() for _ in range(1_000)]
    assert 0.85 <= min(shares) < 0.86 and 0.94 < max(shares) <= 0.95


def test_closed_connections_are_forgotten() -> None:
    renewals = Renewals("test", ManualClock(), lambda: 0.9)
    for _ in range(100 * SPARE):
        closed = Client()
        renewals.add(closed, LIFETIME_MS)  # type: ignore[arg-type]
        closed.fd = -1
    assert 0 < len(renewals) <= SPARE + 1


async def test_many_clients_renew_their_logins_without_losing_a_request(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with serving(tmp_path, lifetime_ms=2_000) as (_, node, gateway):
        clients = [await gateway.connect() for _ in range(20)]
        before = 0
        for _ in range(40):
            async with trio.open_nursery() as nursery:
                for client in clients:
                    nursery.start_soon(partial(produce, client))
            before = before or node.connections
            await pass_time(mock_clock, 0.1)
        assert node.count(ApiKey.PRODUCE) == 40 * 20
        assert (node.connections, node.expired, node.refused_logins) == (before, 0, 0)
        assert len(node.logins) >= 40

"""Logins that the upstream broker decides: a client logs in again through the gateway. (KIP-368)"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.common.errors import ErrorCode
from broker.controller.commands import AlterClientQuotas, QuotaAlteration, QuotaOp
from broker.gateway.channel import GatewayChannel
from broker.metadata.actor import BROKER_ITSELF
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.metadata import MetadataRequest
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from broker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from broker.security.plain import PLAIN_MODULE
from tests.gateway.test_upstream_faults import accepted
from tests.support.certificates import certificates, tls_settings
from tests.support.fake_upstream import fake_cluster
from tests.support.gateway_upstream import Upstream
from tests.support.produce import batch_of, produce_request
from tests.support.running import RunningBroker, running_broker
from tests.support.running_gateway import RunningGateway, running_gateway
from tests.support.wire import OPENED, WireClient

LIFETIME_MS = 10_000
USERS = f'{PLAIN_MODULE} required user_alice="secret" user_bob="other" user_weir="own";'
ALICE, BOB = b"\0alice\0secret", b"\0bob\0other"


@asynccontextmanager
async def both(tmp_path: Path) -> AsyncIterator[tuple[RunningBroker, RunningGateway]]:
    """A broker that ends logins, behind a gateway that forwards them."""
    upstream = (
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
        f"listener.name.sasl_plaintext.plain.sasl.jaas.config={USERS}",
        f"connections.max.reauth.ms={LIFETIME_MS}",
    )
    own = (
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        "upstream.security.protocol=SASL_PLAINTEXT",
        "upstream.sasl.mechanism=PLAIN",
        f'upstream.sasl.jaas.config={PLAIN_MODULE} required username="weir" password="own";',
        "upstream.metadata.max.age.ms=86400000",
    )
    async with (
        running_broker(tmp_path / "broker", *upstream) as broker,
        running_gateway(tmp_path / "gateway", broker.port, *own) as gateway,
    ):
        yield broker, gateway


async def log_in(client: WireClient, token: bytes, mechanism: str = "PLAIN") -> tuple[int, int]:
    """How the login ends: its error code, and how long it lasts."""
    shaken = await client.ask(SaslHandshakeRequest(mechanism), 1)
    if shaken.error_code:
        return int(shaken.error_code), 0
    reply = await client.ask(SaslAuthenticateRequest(token), 2)
    return int(reply.error_code), int(reply.session_lifetime_ms)


async def is_served(client: WireClient) -> bool:
    return bool((await client.ask(MetadataRequest([]), 9)).brokers)


def channel_of(gateway: RunningGateway) -> GatewayChannel:
    (channel,) = gateway.server.socket_server.channels()
    assert isinstance(channel, GatewayChannel)
    return channel


def renewals(gateway: RunningGateway) -> tuple[int, int, int]:
    """Logins, renewed ones and failed ones."""
    counts = [each.selector.counts for each in gateway.server.socket_server.processors()]
    return (
        sum(each.logins for each in counts),
        sum(each.renewals for each in counts),
        sum(each.failed_logins for each in counts),
    )


async def test_a_client_logs_in_again_on_the_same_connection(tmp_path: Path, mock_clock: MockClock) -> None:
    async with both(tmp_path) as (_, gateway):
        client = await gateway.connect()
        assert await log_in(client, ALICE) == (0, LIFETIME_MS)
        channel = channel_of(gateway)
        for _ in range(3):
            assert await is_served(client)
            mock_clock.jump(9)
            assert await log_in(client, ALICE) == (0, LIFETIME_MS)
        assert await is_served(client)
        assert channel_of(gateway) is channel and channel.principal == "alice"
        assert renewals(gateway) == (1, 3, 0)


async def test_a_client_that_does_not_log_in_again_is_closed(tmp_path: Path, mock_clock: MockClock) -> None:
    async with both(tmp_path) as (_, gateway):
        client = await gateway.connect()
        assert await log_in(client, ALICE) == (0, LIFETIME_MS)
        mock_clock.jump(LIFETIME_MS / 1_000)
        assert await is_served(client)
        mock_clock.jump(0.001)
        await client.send(MetadataRequest([]), 9)
        assert await client.is_closed()
        assert gateway.channels() == []


@pytest.mark.parametrize("token", [BOB, b"\0alice\0wrong"])
async def test_another_principal_and_a_wrong_password_are_refused(
    tmp_path: Path, mock_clock: MockClock, token: bytes
) -> None:
    async with both(tmp_path) as (_, gateway):
        client = await gateway.connect()
        assert await log_in(client, ALICE) == (0, LIFETIME_MS)
        mock_clock.jump(9)
        assert (await log_in(client, token))[0] == ErrorCode.SASL_AUTHENTICATION_FAILED
        # Nothing of the connection is the other user's, until the broker closes it.
        assert channel_of(gateway).principal == "alice"
        assert renewals(gateway) == (1, 0, 1)
        mock_clock.jump(1)
        await wait_all_tasks_blocked(0.02)
        assert await client.is_closed()


async def test_another_mechanism_is_refused(tmp_path: Path, mock_clock: MockClock) -> None:
    async with both(tmp_path) as (_, gateway):
        client = await gateway.connect()
        assert await log_in(client, ALICE) == (0, LIFETIME_MS)
        mock_clock.jump(9)
        code, _ = await log_in(client, b"n,,n=alice,r=abc", "SCRAM-SHA-256")
        assert code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert channel_of(gateway).principal == "alice"
        mock_clock.jump(1)
        await wait_all_tasks_blocked(0.02)
        assert await client.is_closed()


async def test_a_client_certificate_names_the_principal_of_the_quotas(tmp_path: Path) -> None:
    alice = "CN=alice,OU=ops,O=Weir\\, Inc.,C=DE"
    async with (
        fake_cluster() as cluster,
        running_gateway(tmp_path, cluster.live[0].port, *tls_settings(client_auth="required")) as gateway,
    ):
        node = cluster.live[0]
        node.answers[ApiKey.PRODUCE] = accepted
        rule = QuotaAlteration((("user", alice),), (QuotaOp("producer_byte_rate", 10.0),))
        await gateway.server.control.apply(AlterClientQuotas((rule,)), BROKER_ITSELF)
        context = certificates().client_context(certificates().alice)
        stream = await trio.open_tcp_stream("127.0.0.1", gateway.port)
        OPENED.append(stream)
        tls = trio.SSLStream(stream, context, server_hostname="localhost", https_compatible=True)
        client = WireClient(tls, "suite")
        answer = await client.ask(produce_request(batch_of(b"x" * 1_000)), 9)
        assert answer.throttle_time_ms > 0
        (row,) = gateway.server.views.quotas.throttled()
        assert (row.principal, row.entity) == (alice, (("user", alice),))


@asynccontextmanager
async def judged(tmp_path: Path, *more: str) -> AsyncIterator[tuple[Upstream, RunningGateway]]:
    """A gateway that logs its clients in, for LIFETIME_MS, before a cluster without logins."""
    own = (
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        "gateway.authentication=gateway",
        "sasl.enabled.mechanisms=PLAIN",
        f"listener.name.sasl_plaintext.plain.sasl.jaas.config={USERS}",
        f"connections.max.reauth.ms={LIFETIME_MS}",
        "upstream.metadata.max.age.ms=86400000",
        *more,
    )
    async with fake_cluster(1) as cluster:
        (node,) = cluster.live
        upstream = Upstream(node)
        node.answers[ApiKey.PRODUCE] = accepted
        async with running_gateway(tmp_path, node.port, *own) as gateway:
            yield upstream, gateway


WITHOUT_ACKS = "Produce without acks"
REQUESTS: dict[str, tuple[Any, int]] = {
    "Produce": (produce_request(batch_of(b"x")), 9),
    WITHOUT_ACKS: (produce_request(batch_of(b"x"), acks=0), 9),
    "Metadata": (MetadataRequest([]), 9),
    "ApiVersions": (ApiVersionsRequest("suite", "1"), 3),
}


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("before", [0, 3])
async def test_a_session_of_the_gateway_ends_for_what_it_forwards_too(
    tmp_path: Path, mock_clock: MockClock, name: str, before: int
) -> None:
    """A client whose token has expired must not go on, whatever it asks."""
    message, version = REQUESTS[name]
    async with judged(tmp_path) as (upstream, gateway):
        client = await gateway.connect()
        assert await log_in(client, ALICE) == (0, LIFETIME_MS)
        for _ in range(before):
            await client.ask(*REQUESTS["Produce"])
        mock_clock.jump(LIFETIME_MS / 1_000)
        await client.send(message, version)
        if name != WITHOUT_ACKS:
            await client.receive(message.API_KEY, version)
        await client.ask(*REQUESTS["Produce"])
        forwarded = len(upstream.requests_of(message.API_KEY))
        mock_clock.jump(0.001)
        await client.send(message, version)
        assert await client.is_closed()
        assert len(upstream.requests_of(message.API_KEY)) == forwarded and gateway.channels() == []
        (counts,) = [each.selector.counts for each in gateway.server.socket_server.processors()]
        assert counts.expired == 1


@pytest.mark.parametrize("name", REQUESTS)
async def test_nothing_is_forwarded_within_a_renewal(
    tmp_path: Path, mock_clock: MockClock, name: str
) -> None:
    async with judged(tmp_path) as (upstream, gateway):
        client = await gateway.connect()
        assert await log_in(client, ALICE) == (0, LIFETIME_MS)
        for _ in range(3):
            await client.ask(*REQUESTS["Produce"])
        message, version = REQUESTS[name]
        forwarded = len(upstream.requests_of(message.API_KEY))
        await client.ask(SaslHandshakeRequest("PLAIN"), 1)
        await client.send(message, version)
        assert await client.is_closed()
        assert len(upstream.requests_of(message.API_KEY)) == forwarded


async def test_a_renewed_session_of_the_gateway_goes_on(tmp_path: Path, mock_clock: MockClock) -> None:
    async with judged(tmp_path) as (_, gateway):
        client = await gateway.connect()
        assert await log_in(client, ALICE) == (0, LIFETIME_MS)
        for _ in range(3):
            mock_clock.jump(LIFETIME_MS / 1_000)
            await client.ask(*REQUESTS["Produce"])
            assert await log_in(client, ALICE) == (0, LIFETIME_MS)
        assert channel_of(gateway).principal == "alice"

"""Expiring logins (KIP-368): requests, re-authentications, and closed connections, on a stopped clock."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.common.errors import ErrorCode
from broker.network.authentication import ENDED, SaslSessions
from broker.network.connection.channel import Channel
from broker.network.connection.receive import Frame
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from broker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.network.automq.frames import AUTOMQ, correlation_ids, encoded, numbered
from tests.support.hostile import is_served, log_texts
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient, connect

LIFETIME_MS = 1_500
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = (
    "listeners=SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
    f'listener.name.sasl_plaintext.plain.sasl.jaas.config={MODULE} user_alice="secret" user_bob="other";',
)


@pytest.fixture(params=[(), (AUTOMQ,)], ids=["kafka", "automq"])
async def broker(
    request: pytest.FixtureRequest, tmp_path: Path, mock_clock: MockClock
) -> AsyncIterator[RunningBroker]:
    limit = f"connections.max.reauth.ms={LIFETIME_MS}"
    async with running_broker(tmp_path, *SETTINGS, limit, *request.param) as running:
        yield running


async def shake(client: WireClient, mechanism: str = "PLAIN") -> int:
    return int((await client.ask(SaslHandshakeRequest(mechanism), 1)).error_code)


async def log_in(client: WireClient, token: bytes = b"\0alice\0secret", version: int = 2) -> tuple[int, int]:
    """Shakes hands; how the login ends: its error code, and how long it lasts."""
    assert await shake(client) == 0
    reply = await client.ask(SaslAuthenticateRequest(token), version)
    return int(reply.error_code), int(reply.session_lifetime_ms)


async def logged_in(broker: RunningBroker) -> WireClient:
    client = await broker.connect()
    assert await log_in(client) == (0, LIFETIME_MS)
    return client


def figures(broker: RunningBroker) -> dict[str, int]:
    counts = [processor.selector.counts for processor in broker.server.socket_server.processors()]
    names = ("logins", "failed_logins", "renewals", "failed_renewals", "expired")
    return {name: total for name in names if (total := sum(getattr(each, name) for each in counts))}


def latency(broker: RunningBroker) -> tuple[float, float]:
    all_counts = [processor.selector.counts for processor in broker.server.socket_server.processors()]
    looks = [
        (counts.renewal_ms_avg.measure_or_zero(0), counts.renewal_ms_max.measure_or_zero(0))
        for counts in all_counts
    ]
    return max(looks, key=lambda look: look[1])


async def is_closed_now(client: WireClient, broker: RunningBroker) -> bool:
    await wait_all_tasks_blocked(0.01)
    port = client.stream.socket.getsockname()[1]
    return port not in {channel.port for channel in broker.server.socket_server.channels()}


@pytest.mark.parametrize("since_ms", [LIFETIME_MS - 1, LIFETIME_MS])
async def test_a_login_lasts_to_its_last_millisecond(
    broker: RunningBroker, mock_clock: MockClock, since_ms: int
) -> None:
    client = await logged_in(broker)
    mock_clock.jump(since_ms / 1000)
    assert await is_served(client)


async def test_a_request_after_it_closes_the_connection(
    broker: RunningBroker, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    client, silent = await logged_in(broker), await logged_in(broker)
    mock_clock.jump((LIFETIME_MS + 1) / 1000)
    await client.send(ApiVersionsRequest("x", "1"), 3)
    assert await client.is_closed()
    assert log_texts(caplog) == [ENDED]
    assert figures(broker) == {"logins": 2, "expired": 1}
    # Who says nothing is not looked at. (Kafka's SaslAuthenticatorTest waits twice as long.)
    assert not await is_closed_now(silent, broker)
    mock_clock.jump(LIFETIME_MS / 1000)
    await silent.send(ApiVersionsRequest("x", "1"), 3)
    assert await silent.is_closed()


async def test_a_cached_answer_is_not_given_after_the_login_has_expired(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await logged_in(broker)
    for _ in range(3):
        assert await is_served(client)
    mock_clock.jump((LIFETIME_MS + 1) / 1000)
    await client.send(ApiVersionsRequest("x", "1"), 3)
    assert await client.is_closed()


async def test_a_client_that_is_told_nothing_of_it_is_bound_by_it_too(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    assert await log_in(client, version=0) == (0, 0)
    mock_clock.jump((LIFETIME_MS + 1) / 1000)
    await client.send(ApiVersionsRequest("x", "1"), 3)
    assert await client.is_closed()


@pytest.mark.parametrize("since_ms", [0, 1_000, LIFETIME_MS, LIFETIME_MS + 1, 60_000])
async def test_a_login_is_renewed_whenever_a_handshake_comes_first(
    broker: RunningBroker, mock_clock: MockClock, since_ms: int
) -> None:
    client = await logged_in(broker)
    mock_clock.jump(since_ms / 1000)
    assert await log_in(client) == (0, LIFETIME_MS)
    mock_clock.jump(LIFETIME_MS / 1000)
    assert await is_served(client)
    assert figures(broker) == {"logins": 1, "renewals": 1}
    mock_clock.jump(0.001)
    await client.send(ApiVersionsRequest("x", "1"), 3)
    assert await client.is_closed()


async def test_how_long_a_renewal_took_is_reported(broker: RunningBroker, mock_clock: MockClock) -> None:
    client = await logged_in(broker)
    assert await shake(client) == 0
    mock_clock.jump(0.25)
    assert (await client.ask(SaslAuthenticateRequest(b"\0alice\0secret"), 2)).error_code == 0
    assert latency(broker) == (250.0, 250)


async def test_another_handshake_within_a_second_is_out_of_place(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await logged_in(broker)
    assert await log_in(client) == (0, LIFETIME_MS)
    mock_clock.jump(0.999)
    assert await shake(client) == ErrorCode.ILLEGAL_SASL_STATE
    reply = await client.ask(SaslAuthenticateRequest(b"\0alice\0secret"), 2)
    assert reply.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert await is_served(client)
    mock_clock.jump(0.001)
    assert await log_in(client) == (0, LIFETIME_MS)


async def test_no_user_becomes_another_user(broker: RunningBroker, mock_clock: MockClock) -> None:
    client = await logged_in(broker)
    assert await shake(client) == 0
    reply = await client.ask(SaslAuthenticateRequest(b"\0bob\0other"), 2)
    assert reply.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    words = "Cannot change principals during re-authentication from User.alice: User.bob"
    assert reply.error_message == words
    assert {channel.principal for channel in broker.server.socket_server.channels()} == {"alice"}
    mock_clock.jump(0.099)
    assert not await is_closed_now(client, broker)
    mock_clock.jump(0.001)
    assert await is_closed_now(client, broker)
    assert figures(broker) == {"logins": 1, "failed_renewals": 1}


async def test_the_mechanism_stays(broker: RunningBroker, mock_clock: MockClock) -> None:
    client = await logged_in(broker)
    assert await shake(client, "SCRAM-SHA-256") == 0
    reply = await client.ask(SaslAuthenticateRequest(b"n,,n=alice,r=x"), 2)
    assert reply.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "'SCRAM-SHA-256' requested by client is not supported" in reply.error_message
    mock_clock.jump(0.1)
    assert await is_closed_now(client, broker)
    assert figures(broker) == {"logins": 1, "failed_renewals": 1}


async def test_a_wrong_password_ends_a_connection_that_was_served(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await logged_in(broker)
    assert (await log_in(client, b"\0alice\0wrong"))[0] == ErrorCode.SASL_AUTHENTICATION_FAILED
    mock_clock.jump(0.1)
    assert await is_closed_now(client, broker)


async def test_nothing_but_the_token_is_handled_during_a_renewal(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture, mock_clock: MockClock
) -> None:
    caplog.set_level(logging.INFO)
    client = await logged_in(broker)
    assert await shake(client) == 0
    await client.send(ApiVersionsRequest("x", "1"), 3)
    assert await client.is_closed()
    assert log_texts(caplog) == ["ApiVersions during re-authentication"]


async def test_requests_sent_behind_the_token_are_answered_after_it(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await logged_in(broker)
    renewal = encoded(SaslHandshakeRequest("PLAIN"), 1, 3)
    renewal += encoded(SaslAuthenticateRequest(b"\0alice\0secret"), 2, 4)
    await client.stream.send_all(renewal + b"".join(numbered(18, 0, each, b"") for each in range(5, 9)))
    assert await correlation_ids(client, 6) == [3, 4, 5, 6, 7, 8]
    assert figures(broker) == {"logins": 1, "renewals": 1}


async def test_a_frame_is_small_during_a_renewal(broker: RunningBroker, mock_clock: MockClock) -> None:
    client = await logged_in(broker)
    (channel,) = broker.server.socket_server.channels()
    large = channel.receive.limit
    assert await shake(client) == 0
    assert channel.receive.limit == 524_288 < large
    await client.ask(SaslAuthenticateRequest(b"\0alice\0secret"), 2)
    assert channel.receive.limit == large


@pytest.mark.parametrize(
    ("settings", "lifetime_ms"),
    [
        ((), 0),
        (("connections.max.reauth.ms=5000",), 5_000),
        (("connections.max.reauth.ms=5000", "listener.name.sasl_plaintext.connections.max.reauth.ms=1"), 1),
        (("listener.name.other.connections.max.reauth.ms=5000",), 0),
        (
            (
                "listener.name.sasl_plaintext.connections.max.reauth.ms=1",
                "listener.name.sasl_plaintext.plain.connections.max.reauth.ms=7000",
            ),
            7_000,
        ),
        (("listener.name.sasl_plaintext.scram-sha-256.connections.max.reauth.ms=9",), 0),
        (
            (
                "connections.max.reauth.ms=5000",
                "listener.name.sasl_plaintext.plain.connections.max.reauth.ms=0",
            ),
            0,
        ),
    ],
)
async def test_the_nearest_setting_holds(
    tmp_path: Path, mock_clock: MockClock, settings: tuple[str, ...], lifetime_ms: int
) -> None:
    async with running_broker(tmp_path, *SETTINGS, *settings) as broker:
        client = await broker.connect()
        assert await log_in(client) == (0, lifetime_ms)
        mock_clock.jump(100)
        if not lifetime_ms:
            assert await is_served(client)
            assert await shake(client) == ErrorCode.ILLEGAL_SASL_STATE


async def test_where_logins_do_not_end_requests_are_not_asked_about_it(
    tmp_path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    refusal = SaslSessions.refusal

    def counted(sessions: SaslSessions, channel: Channel, frame: Frame, now_ms: int) -> str | None:
        calls.append(channel.listener)
        return refusal(sessions, channel, frame, now_ms)

    monkeypatch.setattr(SaslSessions, "refusal", counted)
    limit = "listener.name.sasl_plaintext.connections.max.reauth.ms=1500"
    async with running_broker(tmp_path, *SETTINGS, limit) as broker:
        for listener in broker.server.socket_server.listeners:
            client = await connect(listener.acceptor.address[1])
            broker.clients.append(client)
            assert (await client.ask(ApiVersionsRequest(), 0)).error_code == 0
    assert calls
    assert set(calls) == {"SASL_PLAINTEXT"}

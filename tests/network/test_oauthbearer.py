"""OAUTHBEARER at a listener on a mock clock: sessions that end with the token, refusals with their lines."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from broker.common.errors import ErrorCode
from broker.network.authentication import ENDED
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from broker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.hostile import is_served, log_texts, until
from tests.support.running import RunningBroker, running_broker
from tests.support.token_issuer import AUDIENCE, ISSUER, message, rsa_key, token, write_key_set
from tests.support.wire import WireClient

STATUS = '{"status":"invalid_token"}'
FAILED = ErrorCode.SASL_AUTHENTICATION_FAILED
DELAY_S = 0.1
"""connection.failed.authentication.delay.ms"""


@asynccontextmanager
async def listening(directory: Path, *settings: str) -> AsyncIterator[RunningBroker]:
    oauth = (
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms=OAUTHBEARER,PLAIN",
        f"sasl.oauthbearer.jwks.endpoint.url={write_key_set(directory)}",
        f"sasl.oauthbearer.expected.audience={AUDIENCE}",
        f"sasl.oauthbearer.expected.issuer={ISSUER}",
    )
    async with running_broker(directory, *oauth, *settings) as broker:
        yield broker


@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with listening(tmp_path) as running:
        yield running


def now_s(broker: RunningBroker) -> int:
    """Return the broker's time; the rest of a second is cut, so a token of 5 s has 4 to 5 s left."""
    return broker.server.clock.wall_ms() // 1_000


async def shake(client: WireClient) -> int:
    return int((await client.ask(SaslHandshakeRequest("OAUTHBEARER"), 1)).error_code)


async def log_in(client: WireClient, text: str) -> tuple[int, int, bytes]:
    """Shake hands; return the error code of the login, its lifetime in ms and the response."""
    assert await shake(client) == 0
    reply = await client.ask(SaslAuthenticateRequest(message(text)), 2)
    return int(reply.error_code), int(reply.session_lifetime_ms), bytes(reply.auth_bytes)


async def test_a_login_lasts_as_long_as_its_token(
    broker: RunningBroker, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    client = await broker.connect()
    ends_s = now_s(broker) + 5
    left_ms = ends_s * 1_000 - broker.server.clock.wall_ms()
    assert await log_in(client, token(now_s(broker), exp=ends_s)) == (0, left_ms, b"")
    assert {channel.principal for channel in broker.server.socket_server.channels()} == {"ann"}
    mock_clock.jump(left_ms / 1_000)
    assert await is_served(client)
    mock_clock.jump(0.001)
    await client.send(ApiVersionsRequest("x", "1"), 3)
    assert await client.is_closed()
    assert log_texts(caplog) == [ENDED]


@pytest.mark.parametrize(
    ("most_ms", "lifetime_ms"), [(1_999, 1_999), (2_000, 2_000), (2_001, 2_000), (0, 2_000)]
)
async def test_the_smaller_of_the_tokens_life_and_the_limit_holds(
    tmp_path: Path, mock_clock: MockClock, most_ms: int, lifetime_ms: int
) -> None:
    async with listening(tmp_path, f"connections.max.reauth.ms={most_ms}") as broker:
        client = await broker.connect()
        ends_s = (broker.server.clock.wall_ms() + 2_000) / 1_000
        assert await log_in(client, token(now_s(broker), exp=ends_s)) == (0, lifetime_ms, b"")


async def test_a_mechanism_has_its_own_limit(tmp_path: Path, mock_clock: MockClock) -> None:
    limit = "listener.name.sasl_plaintext.oauthbearer.connections.max.reauth.ms=700"
    async with listening(tmp_path, "connections.max.reauth.ms=9000", limit) as broker:
        client = await broker.connect()
        assert await log_in(client, token(now_s(broker))) == (0, 700, b"")


async def test_a_fresh_token_of_the_same_user_renews_the_login(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    code, lifetime_ms, _ = await log_in(client, token(now_s(broker), exp=now_s(broker) + 5))
    assert code == 0
    mock_clock.jump(lifetime_ms / 1_000)
    ends_s = now_s(broker) + 7
    left_ms = ends_s * 1_000 - broker.server.clock.wall_ms()
    assert await log_in(client, token(now_s(broker), exp=ends_s)) == (0, left_ms, b"")
    mock_clock.jump(left_ms / 1_000)
    assert await is_served(client)


async def test_a_token_of_another_user_does_not(broker: RunningBroker, mock_clock: MockClock) -> None:
    client = await broker.connect()
    assert (await log_in(client, token(now_s(broker))))[0] == 0
    assert (await log_in(client, token(now_s(broker), sub="bob")))[0] == FAILED
    assert {channel.principal for channel in broker.server.socket_server.channels()} == {"ann"}
    mock_clock.jump(DELAY_S)
    assert await client.is_closed()


async def test_a_refused_token_does_not_renew_it_and_ends_the_connection(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    assert (await log_in(client, token(now_s(broker))))[0] == 0
    assert await log_in(client, token(now_s(broker), aud="other")) == (0, 0, STATUS.encode())
    assert (await client.ask(SaslAuthenticateRequest(b"\x01"), 2)).error_code == FAILED
    mock_clock.jump(DELAY_S)
    assert await client.is_closed()


async def test_a_token_that_expired_within_the_skew_is_over_at_once(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    now = now_s(broker)
    assert await log_in(client, token(now, iat=now - 60, exp=now - 5)) == (0, 0, b"")
    mock_clock.jump(0.001)
    await client.send(ApiVersionsRequest("x", "1"), 3)
    assert await client.is_closed()


async def test_a_refused_token_has_one_error_and_one_line_that_shows_nothing_of_it(
    broker: RunningBroker, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    now = now_s(broker)
    bad = {
        token(now, key=rsa_key("other")): "the token's signature is wrong",
        token(now, iat=now - 600, exp=now - 31): "the token expired 31 s ago",
        token(now, aud="hidden"): "the token is for another audience",
        token(now, iss="hidden"): "the token is of another issuer",
        token(now, key_id="hidden"): "the key of the token's signature is unknown",
        "hidden": "the token is not a signed JSON Web Token",
    }
    for text, why in bad.items():
        caplog.clear()
        client = await broker.connect()
        assert await log_in(client, text) == (0, 0, STATUS.encode())
        reply = await client.ask(SaslAuthenticateRequest(b"\x01"), 2)
        assert (reply.error_code, reply.error_message) == (FAILED, STATUS)
        mock_clock.jump(DELAY_S)
        assert await client.is_closed()
        assert log_texts(caplog) in ([f"the login failed: {why}"], [f"the login failed: {_later(why)}"])
        assert "hidden" not in caplog.text and text not in caplog.text


async def test_a_client_that_leaves_instead_of_confirming_leaves_the_line_too(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture, mock_clock: MockClock
) -> None:
    caplog.set_level(logging.INFO)
    client = await broker.connect()
    assert await log_in(client, "bad") == (0, 0, STATUS.encode())
    channels = broker.server.socket_server.channels
    await client.stream.aclose()
    await until(lambda: not list(channels()))
    assert log_texts(caplog) == ["the login failed: the token is not a signed JSON Web Token"]


async def test_nothing_else_is_answered_after_a_refused_token(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    assert await log_in(client, "bad") == (0, 0, STATUS.encode())
    reply = await client.ask(SaslAuthenticateRequest(message(token(now_s(broker)))), 2)
    assert (reply.error_code, reply.error_message) == (FAILED, STATUS)
    mock_clock.jump(DELAY_S)
    assert await client.is_closed()


async def test_a_frame_of_a_megabyte_is_not_read_before_the_login(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    assert await shake(client) == 0
    with suppress(trio.BrokenResourceError):
        await client.send(SaslAuthenticateRequest(message("x" * 1_000_000)), 2)
    assert await client.is_closed()


async def test_each_listener_may_have_its_own_rules(tmp_path: Path, mock_clock: MockClock) -> None:
    other = "listener.name.sasl_plaintext.sasl.oauthbearer"
    settings = (f"{other}.expected.audience=other", f"{other}.sub.claim.name=client_id")
    async with listening(tmp_path, *settings) as broker:
        client = await broker.connect()
        assert (await log_in(client, token(now_s(broker), aud="other", client_id="app")))[0] == 0
        assert {channel.principal for channel in broker.server.socket_server.channels()} == {"app"}


def _later(why: str) -> str:
    """The second may have passed between the token and the login."""
    return why.replace("31 s", "32 s")

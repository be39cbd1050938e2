"""The life of the delegation tokens that the gateway makes for its clients, to the millisecond."""

from base64 import b64encode
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.common.errors import ErrorCode
from broker.config.load import load
from broker.gateway.upstream import tokens as tokens_module
from broker.gateway.upstream.client import UpstreamClient
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.gateway.upstream.security import UpstreamSecurity
from broker.gateway.upstream.tokens import (
    BARRED_MS,
    IDLE_MS,
    MAX_PRINCIPALS,
    NAMELESS,
    OTHER_OWNER,
    RENEW_AT,
    RETRY_MS,
    REVOKED,
    SETTLED_MS,
    TIMEOUT_MS,
    TOO_MANY,
    WATCH_EVERY_MS,
    TokenPrincipals,
)
from broker.network.clock import TrioClock
from broker.security.client_login import SCRAM_MODULE, ClientCredentials
from broker.security.plain import PLAIN_MODULE
from tests.support.fake_tokens import FakeTokens

OUTAGE = UpstreamError(Reason.REFUSED, "the cluster is down")


class Gateway:
    """Tokens of one gateway. `connected` are the principals that have connections, `closed` those whose
    connections were closed.
    """

    def __init__(self, cluster: FakeTokens, mechanism: str, user: str) -> None:
        self.cluster = cluster
        self.connected: set[str] = {"alice"}
        self.closed: list[str] = []
        module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
        settings = (
            "upstream.security.protocol=SASL_PLAINTEXT",
            f"upstream.sasl.mechanism={mechanism}",
            f'upstream.sasl.jaas.config={module} required username="{user}" password="own";',
        )
        config = load(None, settings, {}).config.upstream
        clock = TrioClock()
        self.tokens = TokenPrincipals(
            config,
            cast(UpstreamClient, cluster),
            UpstreamSecurity(config, clock),
            clock,
            lambda: self.connected,
            self._close,
        )

    async def _close(self, principals: Collection[str], reason: str) -> None:
        assert reason == REVOKED
        self.closed += principals

    async def login(self, principal: str = "alice") -> ClientCredentials:
        found = await self.tokens.credentials(principal)
        assert found is not None
        return found

    async def refusal(self, principal: str = "alice") -> UpstreamError:
        with pytest.raises(UpstreamError) as caught:
            await self.tokens.credentials(principal)
        return caught.value

    def expire(self, token_id: str) -> None:
        """As an administrator does."""
        del self.cluster.tokens[token_id]


@asynccontextmanager
async def running(
    *, mechanism: str = "SCRAM-SHA-256", user: str = "weir", **times: int
) -> AsyncIterator[Gateway]:
    async with trio.open_nursery() as nursery:
        gateway = Gateway(FakeTokens(**times), mechanism, user)
        nursery.start_soon(gateway.tokens.run)
        await wait_all_tasks_blocked()
        yield gateway
        nursery.cancel_scope.cancel()


async def pass_ms(clock: MockClock, ms: int) -> None:
    clock.jump(ms / 1_000)
    await wait_all_tasks_blocked()


async def step_to(clock: MockClock, ms: int) -> None:
    """Let the time pass to `ms`, one second after the other."""
    while (left := ms - round(trio.current_time() * 1_000)) > 0:
        await pass_ms(clock, min(left, 1_000))


async def test_a_token_is_made_once_for_its_owner_with_the_gateway_as_renewer(mock_clock: MockClock) -> None:
    async with running() as gateway:
        credentials = await gateway.login()
        ((request, version),) = gateway.cluster.requests
        assert (request.owner_principal_type, request.owner_principal_name) == ("User", "alice")
        assert [(each.principal_type, each.principal_name) for each in request.renewers] == [("User", "weir")]
        assert (request.max_lifetime_ms, version) == (-1, 3)
        (token,) = gateway.cluster.tokens.values()
        expected = ClientCredentials("SCRAM-SHA-256", token.id, b64encode(token.hmac).decode(), "alice")
        assert credentials.equals(expected)
        assert await gateway.login() is credentials
        assert (await gateway.login("bob")).owner == "bob"
        assert gateway.cluster.made == 2


async def test_logins_at_once_share_one_token(mock_clock: MockClock) -> None:
    async with running() as gateway:
        gateway.cluster.takes_s = 1.0
        found: list[ClientCredentials] = []

        async def log_in() -> None:
            found.append(await gateway.login())

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(log_in)
            await wait_all_tasks_blocked()
            mock_clock.jump(1)
        assert len(found) == 5 and len(set(map(id, found))) == 1 and gateway.cluster.made == 1


@pytest.mark.parametrize(
    ("own", "of_tokens"),
    [("PLAIN", "SCRAM-SHA-512"), ("SCRAM-SHA-256", "SCRAM-SHA-256"), ("SCRAM-SHA-512", "SCRAM-SHA-512")],
)
async def test_tokens_log_in_with_scram(mock_clock: MockClock, own: str, of_tokens: str) -> None:
    async with running(mechanism=own) as gateway:
        assert (await gateway.login()).mechanism == of_tokens


@pytest.mark.parametrize(("at_ms", "renewals"), [(74_999, 0), (75_000, 1), (75_001, 1)])
async def test_a_token_is_renewed_after_three_quarters_of_its_time(
    mock_clock: MockClock, at_ms: int, renewals: int
) -> None:
    assert RENEW_AT == 0.75
    async with running(expiry_ms=100_000) as gateway:
        await gateway.login()
        before = gateway.cluster.renewed
        await pass_ms(mock_clock, at_ms)
        assert gateway.cluster.renewed - before == renewals
        assert gateway.cluster.made == 1


@pytest.mark.parametrize(("later_ms", "renewals"), [(74_999, 1), (75_000, 2)])
async def test_the_next_renewal_is_three_quarters_of_the_new_time_later(
    mock_clock: MockClock, later_ms: int, renewals: int
) -> None:
    async with running(expiry_ms=100_000) as gateway:
        credentials = await gateway.login()
        await pass_ms(mock_clock, 75_000)
        await pass_ms(mock_clock, later_ms)
        assert gateway.cluster.renewed == renewals
        assert await gateway.login() is credentials


@pytest.mark.parametrize(("max_ms", "made"), [(174_999, 2), (175_000, 1), (175_001, 1)])
async def test_a_token_that_has_no_whole_time_left_is_replaced(
    mock_clock: MockClock, max_ms: int, made: int
) -> None:
    async with running(expiry_ms=100_000, max_ms=max_ms) as gateway:
        first = await gateway.login()
        await pass_ms(mock_clock, 75_000)
        assert gateway.cluster.made == made
        assert await gateway.login() is first
        await pass_ms(mock_clock, 74_999)
        assert gateway.cluster.made == made
        await pass_ms(mock_clock, 1)
        assert gateway.cluster.made == made + 1


@pytest.mark.parametrize(
    ("expiry_ms", "due_ms"),
    [
        (100_000, 75_000),
        (50_000, 37_500),
        (49_000, 36_650),
        (20_000, 12_000),
        (10_000, 5_000),
        (1_500, 1_000),
    ],
)
async def test_a_short_token_is_renewed_before_connections_log_in_again(
    mock_clock: MockClock, expiry_ms: int, due_ms: int
) -> None:
    """All brokers know of it SETTLED_MS later: for those of 20 s at 17 s."""
    async with running(expiry_ms=expiry_ms) as gateway:
        await gateway.login()
        await pass_ms(mock_clock, due_ms - 1)
        assert gateway.cluster.renewed == 0
        await pass_ms(mock_clock, 1)
        assert gateway.cluster.renewed == 1


@pytest.mark.parametrize(("after_ms", "is_new"), [(SETTLED_MS - 1, False), (SETTLED_MS, True)])
async def test_a_token_that_brokers_may_not_know_yet_waits_for_its_turn(
    mock_clock: MockClock, after_ms: int, is_new: bool
) -> None:
    async with running(expiry_ms=100_000, max_ms=100_000) as gateway:
        first = await gateway.login()
        await pass_ms(mock_clock, 75_000)
        assert gateway.cluster.made == 2
        await pass_ms(mock_clock, after_ms)
        now = await gateway.login()
        assert (now is not first) == is_new
        assert now.is_same_user(first)


async def test_the_time_of_a_token_does_not_depend_on_equal_clocks_and_a_slow_answer(
    mock_clock: MockClock,
) -> None:
    async with running(expiry_ms=100_000) as gateway:
        gateway.cluster.takes_s = 2.0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(gateway.login)
            await wait_all_tasks_blocked()
            mock_clock.jump(2)
        # Made by the cluster 2 s after it was asked for: here it ends 2 s early, at 100 s.
        await pass_ms(mock_clock, 72_999)
        assert gateway.cluster.renewed == 0
        await pass_ms(mock_clock, 1)
        assert gateway.cluster.renewed == 1


async def test_a_renewal_that_fails_is_tried_again_each_second(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(expiry_ms=100_000) as gateway:
        credentials = await gateway.login()
        gateway.cluster.failures = [OUTAGE] * 4  # one is for the watch
        await pass_ms(mock_clock, 75_000)
        assert gateway.cluster.renewed == 1
        await pass_ms(mock_clock, RETRY_MS - 1)
        assert gateway.cluster.renewed == 1
        await pass_ms(mock_clock, 1)
        assert gateway.cluster.renewed == 2
        gateway.cluster.failures.clear()
        await pass_ms(mock_clock, RETRY_MS)
        assert gateway.cluster.renewed == 3 and gateway.cluster.made == 1
        assert await gateway.login() is credentials
        (line,) = caplog.records
        assert line.message == "cannot renew the delegation token of a client"


async def test_a_token_that_has_ended_during_an_outage_is_made_anew(mock_clock: MockClock) -> None:
    async with running(expiry_ms=10_000) as gateway:
        first = await gateway.login()
        gateway.cluster.failures = [OUTAGE] * 1_000
        await step_to(mock_clock, 9_999)
        assert await gateway.login() is first
        await step_to(mock_clock, 10_000)
        assert (await gateway.refusal()).reason is Reason.REFUSED
        gateway.cluster.failures.clear()
        await pass_ms(mock_clock, RETRY_MS - 1)
        assert (await gateway.refusal()).reason is Reason.REFUSED
        await pass_ms(mock_clock, 1)
        assert not (await gateway.login()).equals(first)
        assert gateway.closed == []


async def test_a_token_that_the_cluster_does_not_renew_is_replaced(mock_clock: MockClock) -> None:
    """The cluster knows the gateway by another name than its login has; the first answer says so."""
    async with running(expiry_ms=100_000) as gateway:
        gateway.cluster.gateway = "CN=weir"
        first = await gateway.login()
        await pass_ms(mock_clock, 75_000)
        await pass_ms(mock_clock, SETTLED_MS)
        second = await gateway.login()
        assert second is not first and second.is_same_user(first) and gateway.closed == []
        assert gateway.cluster.tokens[second.name].renewers == ["CN=weir"]
        made = gateway.cluster.made
        await pass_ms(mock_clock, 75_000)
        assert gateway.cluster.made == made


REFUSALS = {
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: (
        "kafka-acls.sh --add --allow-principal User:weir --operation CreateTokens --user-principal User:alice"
    ),
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "delegation.token.secret.key",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "logged in with SASL or a certificate",
    ErrorCode.UNSUPPORTED_VERSION: "metadata.version",
    ErrorCode.POLICY_VIOLATION: "POLICY_VIOLATION",
}


@pytest.mark.parametrize("code", REFUSALS)
async def test_a_refusal_names_what_the_cluster_must_allow(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture, code: ErrorCode
) -> None:
    async with running() as gateway:
        gateway.cluster.refusals = [code]
        refusal = await gateway.refusal()
        assert refusal.reason is Reason.PRINCIPAL
        assert REFUSALS[code] in str(refusal)
        (line,) = caplog.records
        assert line.message == "cannot log a client in upstream as its own principal"
        found = cast(Any, line)
        assert found.principal == "User:alice" and REFUSALS[code] in found.reason
        await gateway.login("bob")


async def test_a_cluster_without_tokens_for_others_is_named(mock_clock: MockClock) -> None:
    async with running() as gateway:
        gateway.cluster.failures = [UpstreamError(Reason.VERSION, "does not serve version 3")]
        assert "Kafka 3.3 or later" in str(await gateway.refusal())


@pytest.mark.parametrize(("after_ms", "made"), [(4_999, 1), (5_000, 2), (5_001, 2)])
async def test_a_refused_principal_asks_again_after_five_seconds(
    mock_clock: MockClock, after_ms: int, made: int
) -> None:
    """upstream.metadata.max.age.ms, as for refused credentials of the gateway."""
    async with running() as gateway:
        gateway.cluster.refusals = [ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED] * 2
        await gateway.refusal()
        await pass_ms(mock_clock, after_ms)
        await gateway.refusal()
        assert gateway.cluster.made == made


async def test_a_withdrawn_permission_leaves_the_token_its_time(mock_clock: MockClock) -> None:
    async with running(expiry_ms=100_000, max_ms=100_000) as gateway:
        first = await gateway.login()
        gateway.cluster.refusals = [ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED] * 1_000
        await step_to(mock_clock, 99_999)
        assert await gateway.login() is first
        await step_to(mock_clock, 100_000)
        assert "CreateTokens" in str(await gateway.refusal())


async def test_a_token_that_cannot_be_replaced_is_tried_once_in_five_seconds(mock_clock: MockClock) -> None:
    async with running(expiry_ms=100_000, max_ms=100_000) as gateway:
        await gateway.login()
        gateway.cluster.refusals = [ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED] * 1_000
        await step_to(mock_clock, 99_999)
        assert (gateway.cluster.renewed, gateway.cluster.made) == (5, 6)


async def test_a_token_that_ends_while_its_renewal_is_late_keeps_nobody_out(mock_clock: MockClock) -> None:
    """As after a stop of the gateway's machine: its end has come, and nobody has expired it."""
    async with running(expiry_ms=100_000) as gateway:
        first = await gateway.login()
        await pass_ms(mock_clock, 101_000)
        await step_to(mock_clock, 107_000)
        second = await gateway.login()
        assert not second.equals(first) and second.owner == "alice"
        assert gateway.closed == []


async def test_a_login_that_is_refused_as_its_token_ends_gets_the_next_one(mock_clock: MockClock) -> None:
    async with running(expiry_ms=100_000, max_ms=100_000) as gateway:
        first = await gateway.login()
        gateway.cluster.refusals = [ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED] * 5
        await step_to(mock_clock, 100_001)
        await gateway.tokens.refused("alice", first, UpstreamError(Reason.CREDENTIALS, "refused"))
        await step_to(mock_clock, 101_000)
        assert not (await gateway.login()).equals(first)
        assert gateway.closed == []


async def test_a_principal_without_a_name_does_not_get_a_token_of_the_gateway(mock_clock: MockClock) -> None:
    """To Kafka, a token without an owner is the requester's own."""
    async with running() as gateway:
        refusal = await gateway.refusal("")
        assert refusal.reason is Reason.PRINCIPAL and NAMELESS in str(refusal)
        assert gateway.cluster.requests == []


async def test_a_token_of_another_owner_is_not_used(mock_clock: MockClock) -> None:
    async with running() as gateway:
        gateway.cluster.owner = "weir"
        refusal = await gateway.refusal()
        assert refusal.reason is Reason.PRINCIPAL and OTHER_OWNER in str(refusal)
        await wait_all_tasks_blocked()
        assert gateway.cluster.made == 1 and not gateway.cluster.tokens


async def test_a_token_that_is_made_for_a_removed_user_is_expired(mock_clock: MockClock) -> None:
    async with running(expiry_ms=100_000, max_ms=100_000) as gateway:
        await gateway.login()
        gateway.cluster.takes_s = 1.0
        await pass_ms(mock_clock, 75_000)
        await pass_ms(mock_clock, 1_000)
        gateway.tokens.forget("alice")
        assert gateway.cluster.made == 2
        await step_to(mock_clock, 80_000)
        assert not gateway.cluster.tokens


# Tokens that somebody else ends


@pytest.mark.parametrize(("after_ms", "is_open"), [(WATCH_EVERY_MS - 1, True), (WATCH_EVERY_MS, False)])
async def test_the_owner_of_an_expired_token_is_out_at_the_next_watch(
    mock_clock: MockClock, after_ms: int, is_open: bool
) -> None:
    async with running() as gateway:
        first = await gateway.login()
        await gateway.login("bob")
        gateway.expire(first.name)
        await pass_ms(mock_clock, after_ms)
        assert gateway.closed == ([] if is_open else ["alice"])
        if not is_open:
            assert REVOKED in str(await gateway.refusal())
            await gateway.login("bob")
            assert gateway.cluster.made == 2


async def test_a_lost_request_of_the_watch_keeps_nobody_in_for_a_minute(mock_clock: MockClock) -> None:
    async with running() as gateway:
        gateway.expire((await gateway.login()).name)
        gateway.cluster.failures = [OUTAGE]
        await step_to(mock_clock, 2 * WATCH_EVERY_MS)
        assert gateway.closed == ["alice"] and 2 * WATCH_EVERY_MS + TIMEOUT_MS < 60_000


@pytest.mark.parametrize(("later_ms", "is_out"), [(BARRED_MS - 1, True), (BARRED_MS, False)])
async def test_no_token_is_made_for_a_user_that_is_out_for_ten_minutes(
    mock_clock: MockClock, later_ms: int, is_out: bool
) -> None:
    async with running() as gateway:
        gateway.expire((await gateway.login()).name)
        await pass_ms(mock_clock, WATCH_EVERY_MS)
        await pass_ms(mock_clock, later_ms)
        if is_out:
            assert (await gateway.refusal()).reason is Reason.PRINCIPAL
        else:
            await gateway.login()
        assert gateway.cluster.made == (1 if is_out else 2)


async def test_a_token_that_is_expired_when_its_renewal_is_due_is_not_replaced(mock_clock: MockClock) -> None:
    async with running(expiry_ms=20_000, max_ms=20_000) as gateway:
        gateway.expire((await gateway.login()).name)
        await pass_ms(mock_clock, 12_000)
        assert gateway.closed == ["alice"] and gateway.cluster.made == 1


@pytest.mark.parametrize(("made_at_ms", "is_judged"), [(15_001, False), (15_000, True)])
async def test_a_new_token_is_not_missed_yet(mock_clock: MockClock, made_at_ms: int, is_judged: bool) -> None:
    async with running() as gateway:
        await pass_ms(mock_clock, made_at_ms)
        gateway.expire((await gateway.login()).name)
        await pass_ms(mock_clock, WATCH_EVERY_MS - made_at_ms)
        assert gateway.closed == (["alice"] if is_judged else [])
        await pass_ms(mock_clock, WATCH_EVERY_MS)
        assert gateway.closed == ["alice"]


async def test_a_token_that_only_a_broker_does_not_know_stays(mock_clock: MockClock) -> None:
    async with running() as gateway:
        credentials = await gateway.login()
        gateway.cluster.hides = {credentials.name}
        for _ in range(3):
            await pass_ms(mock_clock, WATCH_EVERY_MS)
        assert gateway.closed == [] and gateway.cluster.renewed == 3 and gateway.cluster.made == 1
        assert await gateway.login() is credentials


async def test_an_end_that_somebody_brings_forward_is_kept(mock_clock: MockClock) -> None:
    """`kafka-delegation-tokens.sh --expire --expiry-time-period 30000`"""
    async with running(expiry_ms=100_000) as gateway:
        token = gateway.cluster.tokens[(await gateway.login()).name]
        token.expires_ms -= 70_000
        await pass_ms(mock_clock, WATCH_EVERY_MS)
        await pass_ms(mock_clock, 9_999)
        assert gateway.closed == []
        await pass_ms(mock_clock, 1)
        assert gateway.closed == ["alice"] and gateway.cluster.made == 1 and gateway.cluster.renewed == 0


async def test_a_broker_that_knows_a_former_end_brings_none_forward(mock_clock: MockClock) -> None:
    async with running(expiry_ms=100_000) as gateway:
        credentials = await gateway.login()
        token = gateway.cluster.tokens[credentials.name]
        former_ms = token.expires_ms
        await pass_ms(mock_clock, 75_000)
        token.expires_ms = former_ms
        await step_to(mock_clock, 120_000)
        assert gateway.closed == [] and await gateway.login() is credentials


async def test_a_refused_login_with_a_new_token_is_tried_again(mock_clock: MockClock) -> None:
    """Brokers learn of a token some time after it has been made."""
    refused = UpstreamError(Reason.CREDENTIALS, "node: authentication failed")
    async with running() as gateway:
        credentials = await gateway.login()
        attempts: list[float] = []

        async def try_on() -> None:
            while True:
                attempts.append(trio.current_time())
                await gateway.tokens.refused("alice", credentials, refused)

        mock_clock.autojump_threshold = 0
        with pytest.raises(UpstreamError) as caught:
            await try_on()
        assert attempts[:4] == pytest.approx([0, 0.02, 0.04, 0.08])
        assert 5 <= attempts[-1] < 10.1
        assert caught.value.reason is Reason.PRINCIPAL and "authentication failed" in str(caught.value)
        assert gateway.closed == []


async def test_a_refused_login_with_the_token_before_uses_the_next_one(mock_clock: MockClock) -> None:
    refused = UpstreamError(Reason.CREDENTIALS, "node: authentication failed")
    async with running(expiry_ms=100_000, max_ms=100_000) as gateway:
        first = await gateway.login()
        await pass_ms(mock_clock, 75_000)
        assert await gateway.login() is first
        mock_clock.autojump_threshold = 0
        await gateway.tokens.refused("alice", first, refused)
        assert await gateway.login() is not first


async def test_all_who_wait_for_a_token_learn_of_a_failure(mock_clock: MockClock) -> None:
    async with running() as gateway:
        gateway.cluster.takes_s = 30.0
        gateway.cluster.failures = [OUTAGE] * 5
        reasons: list[Reason] = []

        async def log_in() -> None:
            reasons.append((await gateway.refusal()).reason)

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(log_in)
            await wait_all_tasks_blocked()
            mock_clock.jump(30)
        assert reasons == [Reason.REFUSED] * 5 and gateway.cluster.made == 1


async def test_a_refused_login_with_an_expired_token_puts_its_owner_out(mock_clock: MockClock) -> None:
    refused = UpstreamError(Reason.CREDENTIALS, "node: authentication failed")
    async with running() as gateway:
        credentials = await gateway.login()
        await pass_ms(mock_clock, SETTLED_MS)
        gateway.expire(credentials.name)
        with pytest.raises(UpstreamError, match="expired at the cluster"):
            await gateway.tokens.refused("alice", credentials, refused)
        assert gateway.closed == ["alice"]


# Principals that nobody uses


@pytest.mark.parametrize(("connected", "is_kept"), [({"alice"}, True), (set(), False)])
async def test_a_token_without_connections_is_expired_after_ten_minutes(
    mock_clock: MockClock, connected: set[str], is_kept: bool
) -> None:
    async with running(expiry_ms=86_400_000, max_ms=86_400_000) as gateway:
        gateway.connected = connected
        await gateway.login()
        await step_to(mock_clock, IDLE_MS - 1)
        assert len(gateway.cluster.tokens) == 1
        await step_to(mock_clock, IDLE_MS)
        assert len(gateway.cluster.tokens) == len(gateway.tokens) == (1 if is_kept else 0)


async def test_the_token_of_a_removed_user_is_expired(mock_clock: MockClock) -> None:
    async with running() as gateway:
        await gateway.login()
        await gateway.login("bob")
        gateway.tokens.forget("alice")
        await wait_all_tasks_blocked()
        assert [each.owner for each in gateway.cluster.tokens.values()] == ["bob"]


@pytest.mark.parametrize(("connected", "leaves"), [(set(), 2), ({"user-2"}, 3)])
async def test_the_number_of_principals_is_bounded(
    mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch, connected: set[str], leaves: int
) -> None:
    assert MAX_PRINCIPALS == 10_000
    monkeypatch.setattr(tokens_module, "MAX_PRINCIPALS", 3)
    async with running() as gateway:
        gateway.connected = connected
        for number in range(1, 4):
            await gateway.login(f"user-{number}")
            assert len(gateway.tokens) == number
        await gateway.login("user-1")  # used last
        await gateway.login("user-4")
        await wait_all_tasks_blocked()
        kept = {f"user-{number}" for number in (1, 2, 3, 4) if number != leaves}
        assert {each.owner for each in gateway.cluster.tokens.values()} == kept
        assert len(gateway.tokens) == 3


async def test_principals_that_all_have_connections_leave_no_room(
    mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens_module, "MAX_PRINCIPALS", 2)
    async with running() as gateway:
        gateway.connected = {"alice", "bob", "carol"}
        await gateway.login("alice")
        await gateway.login("bob")
        assert TOO_MANY in str(await gateway.refusal("carol"))
        gateway.connected = {"alice", "carol"}
        await gateway.login("carol")
        assert len(gateway.tokens) == 2

"""The APIs of delegation tokens, and logins with a token."""

import base64
import hashlib
import hmac
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.api.requests.outcome import Login, Response
from broker.common.clock import BASE_MS
from broker.common.errors import ErrorCode
from broker.common.slices import run_through
from broker.controller import delegation_tokens
from broker.controller.delegation_tokens import RemoveExpiredDelegationTokens
from broker.metadata.actor import BROKER_ITSELF
from broker.protocol.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from broker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from broker.protocol.schema import Message
from broker.security.acl.acl import Operation, ResourceType
from tests.api.harness import WALL_MS, Connection, Harness
from tests.controller.world import AUTHORIZER
from tests.security.acl.acls import allow

SECRET = "a key of the tests"
SETTINGS = (
    "listeners=SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512",
    f"delegation.token.secret.key={SECRET}",
    "delegation.token.max.lifetime.ms=1000",
    "delegation.token.expiry.time.ms=400",
    "super.users=User:root",
)
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    made = Harness(tmp_path, *SETTINGS)
    yield made
    made.close()


def user(name: str = "ann") -> Connection:
    connection = Connection("SASL_PLAINTEXT")
    connection.principal = name
    return connection


def create(*renewers: str, owner: str | None = None, lifetime_ms: int = -1) -> CreateDelegationTokenRequest:
    return CreateDelegationTokenRequest(
        None if owner is None else "User",
        owner,
        [CreatableRenewers("User", each) for each in renewers],
        lifetime_ms,
    )


async def made(harness: Harness, *renewers: str, by: str = "ann", lifetime_ms: int = -1) -> Any:
    token = await harness.ask(create(*renewers, lifetime_ms=lifetime_ms), connection=user(by))
    assert token.error_code == ErrorCode.NONE
    return token


async def described(harness: Harness, by: str, *owners: str) -> list[Any]:
    named = [DescribeDelegationTokenOwner("User", each) for each in owners] if owners else None
    answer = await harness.ask(DescribeDelegationTokenRequest(named), connection=user(by))
    assert answer.error_code == ErrorCode.NONE
    found: list[Any] = answer.tokens
    return found


async def test_a_token_has_its_id_hmac_and_times(harness: Harness) -> None:
    token = await made(harness, "bob")
    assert bytes(token.hmac) == hmac.digest(SECRET.encode(), token.token_id.encode(), hashlib.sha512)
    assert len(token.token_id) == 22
    assert (token.principal_type, token.principal_name) == ("User", "ann")
    assert (token.token_requester_principal_type, token.token_requester_principal_name) == ("User", "ann")
    times = (token.issue_timestamp_ms, token.expiry_timestamp_ms, token.max_timestamp_ms)
    assert times == (WALL_MS, WALL_MS + 400, WALL_MS + 1_000)
    (seen,) = await described(harness, "ann")
    assert (seen.token_id, bytes(seen.hmac)) == (token.token_id, bytes(token.hmac))
    assert [(each.principal_type, each.principal_name) for each in seen.renewers] == [("User", "bob")]
    assert (seen.issue_timestamp, seen.expiry_timestamp, seen.max_timestamp) == times


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_every_version_creates_and_describes(harness: Harness, version: int) -> None:
    token = await harness.ask(create("bob"), version, connection=user())
    assert (token.error_code, token.principal_name) == (ErrorCode.NONE, "ann")
    answer = await harness.ask(DescribeDelegationTokenRequest(None), version, connection=user())
    (seen,) = answer.tokens
    assert seen.token_id == token.token_id
    assert seen.token_requester_principal_name == ("ann" if version >= 3 else "")


@pytest.mark.parametrize(
    ("asked_ms", "max_ms"), [(-1, 1_000), (0, 1_000), (1, 1), (999, 999), (1_000, 1_000), (1_001, 1_000)]
)
async def test_a_lifetime_is_at_most_the_configured_one(harness: Harness, asked_ms: int, max_ms: int) -> None:
    token = await made(harness, lifetime_ms=asked_ms)
    assert token.max_timestamp_ms == WALL_MS + max_ms
    assert token.expiry_timestamp_ms == WALL_MS + min(max_ms, 400)


@pytest.mark.parametrize(
    ("at_ms", "period_ms", "expires_ms"),
    [
        (0, -1, 400),
        (0, 100, 100),
        (0, 400, 400),
        (0, 401, 400),
        (400, -1, 800),
        (400, 350, 750),
        (399, 2**63 - 1, 799),
    ],
)
async def test_a_renewal_lasts_at_most_the_configured_time(
    harness: Harness, at_ms: int, period_ms: int, expires_ms: int
) -> None:
    token = await made(harness, "bob")
    harness.advance(at_ms)
    request = RenewDelegationTokenRequest(token.hmac, period_ms)
    for name in ("ann", "bob"):
        answer = await harness.ask(request, connection=user(name))
        assert (answer.error_code, answer.expiry_timestamp_ms) == (ErrorCode.NONE, WALL_MS + expires_ms)
    (seen,) = await described(harness, "ann")
    assert seen.expiry_timestamp == WALL_MS + expires_ms


async def test_a_renewal_ends_at_the_end_of_the_lifetime(harness: Harness) -> None:
    token = await made(harness)
    for at_ms, expires_ms in ((400, 800), (799, 1_000), (1_000, 1_000)):
        harness.clock.now_ms = BASE_MS + at_ms
        answer = await harness.ask(RenewDelegationTokenRequest(token.hmac, -1), connection=user())
        assert (answer.error_code, answer.expiry_timestamp_ms) == (ErrorCode.NONE, WALL_MS + expires_ms)
    harness.clock.now_ms = BASE_MS + 1_001
    answer = await harness.ask(RenewDelegationTokenRequest(token.hmac, -1), connection=user())
    assert (answer.error_code, answer.expiry_timestamp_ms) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, -1)


@pytest.mark.parametrize(("period_ms", "expires_ms"), [(0, 0), (1, 1), (999, 999), (1_001, 1_000)])
async def test_an_expiry_moves_within_the_lifetime(harness: Harness, period_ms: int, expires_ms: int) -> None:
    token = await made(harness)
    answer = await harness.ask(ExpireDelegationTokenRequest(token.hmac, period_ms), connection=user())
    assert (answer.error_code, answer.expiry_timestamp_ms) == (ErrorCode.NONE, WALL_MS + expires_ms)
    (seen,) = await described(harness, "ann")
    assert seen.expiry_timestamp == WALL_MS + expires_ms


async def test_a_negative_period_removes_a_token_even_an_expired_one(harness: Harness) -> None:
    token = await made(harness, "bob")
    harness.advance(401)
    for period_ms, error in ((0, ErrorCode.DELEGATION_TOKEN_EXPIRED), (-1, ErrorCode.NONE)):
        answer = await harness.ask(
            ExpireDelegationTokenRequest(token.hmac, period_ms), connection=user("bob")
        )
        assert answer.error_code == error
    assert answer.expiry_timestamp_ms == WALL_MS + 401
    assert await described(harness, "ann") == []
    again = await harness.ask(ExpireDelegationTokenRequest(token.hmac, -1), connection=user())
    assert again.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


@pytest.mark.parametrize("request_type", [RenewDelegationTokenRequest, ExpireDelegationTokenRequest])
async def test_only_owner_and_renewers_change_a_token(harness: Harness, request_type: Any) -> None:
    token = await made(harness, "bob")
    for name, token_hmac, error in (
        ("eve", token.hmac, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        ("root", token.hmac, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        ("ann", bytes(token.hmac)[:-1], ErrorCode.DELEGATION_TOKEN_NOT_FOUND),
        ("ann", b"", ErrorCode.DELEGATION_TOKEN_NOT_FOUND),
        ("bob", token.hmac, ErrorCode.NONE),
    ):
        answer = await harness.ask(request_type(token_hmac, 100), connection=user(name))
        assert answer.error_code == error, name


def every_request(token_hmac: bytes = b"h") -> list[Message]:
    return [
        create(),
        RenewDelegationTokenRequest(token_hmac, -1),
        ExpireDelegationTokenRequest(token_hmac, -1),
        DescribeDelegationTokenRequest(None),
    ]


async def test_without_a_login_or_with_one_by_token_no_request_is_allowed(harness: Harness) -> None:
    token = await made(harness)
    by_token = user()
    by_token.by_token = True
    for connection in (Connection(), by_token):
        for message in every_request(bytes(token.hmac)):
            assert (await harness.ask(message, connection=connection)).error_code == NOT_ALLOWED
    assert len(await described(harness, "ann")) == 1


async def test_without_a_secret_key_tokens_are_disabled(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    for message in every_request():
        answer = await harness.ask(message, connection=user())
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    harness.close()


@pytest.mark.parametrize(
    ("owner", "renewer"),
    [(("Group", "bob"), ("User", "c")), ((None, "bob"), ("User", "c")), ((None, None), ("Group", "c"))],
)
async def test_owners_and_renewers_are_users(
    harness: Harness, owner: tuple[str | None, str | None], renewer: tuple[str, str]
) -> None:
    request = CreateDelegationTokenRequest(*owner, [CreatableRenewers(*renewer)], -1)
    answer = await harness.ask(request, connection=user("root"))
    assert answer.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert harness.control.image.delegation_tokens == {}


@pytest.mark.parametrize(
    ("renewers", "length", "is_refused"),
    [(99, 9, False), (100, 9, False), (101, 9, True), (1, 1_024, False), (1, 1_025, True)],
)
async def test_renewers_are_limited(harness: Harness, renewers: int, length: int, is_refused: bool) -> None:
    name = "x" * (length - len("User:"))
    answer = await harness.ask(create(*[name] * renewers), connection=user())
    assert answer.error_code == (ErrorCode.INVALID_REQUEST if is_refused else ErrorCode.NONE)


async def test_the_tokens_of_a_requester_are_limited(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delegation_tokens, "MAX_TOKENS", 3)
    await made(harness, by="bob")
    for error in (ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NONE, ErrorCode.POLICY_VIOLATION):
        assert (await harness.ask(create(), connection=user())).error_code == error
    (first, *_) = await described(harness, "ann")
    await harness.ask(ExpireDelegationTokenRequest(first.hmac, -1), connection=user())
    assert (await harness.ask(create(), connection=user())).error_code == ErrorCode.NONE


async def test_without_an_authorizer_administrators_create_and_see_tokens_of_others(harness: Harness) -> None:
    refused = await harness.ask(create(owner="bob"), connection=user())
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert (refused.principal_name, refused.token_requester_principal_name) == ("bob", "ann")
    token = await harness.ask(create(owner="bob"), connection=user("root"))
    assert (token.principal_name, token.token_requester_principal_name) == ("bob", "root")
    await made(harness, "carl")
    seen = {name: len(await described(harness, name)) for name in ("ann", "bob", "carl", "eve", "root")}
    assert seen == {"ann": 1, "bob": 1, "carl": 1, "eve": 0, "root": 2}


async def test_owners_select_tokens(harness: Harness) -> None:
    await made(harness, "carl")
    await made(harness, by="bob")
    seen = [
        len(await described(harness, "root", *names))
        for names in (("ann",), ("bob", "ann"), ("carl",), ("eve",))
    ]
    assert seen == [1, 2, 1, 0]
    nothing = await harness.ask(DescribeDelegationTokenRequest([]), connection=user("root"))
    assert (nothing.error_code, nothing.tokens) == (ErrorCode.NONE, [])


async def test_with_an_authorizer_acls_of_users_and_tokens_decide(tmp_path: Path) -> None:
    harness = Harness(tmp_path, *SETTINGS, AUTHORIZER)
    assert harness.authorizer is not None
    denied = await harness.ask(create(owner="bob"), connection=user())
    assert denied.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    acl = allow(Operation.CREATE_TOKENS, "User:bob", kind=ResourceType.USER, principal="User:ann")
    run_through(harness.authorizer.update([acl], ()))
    token = await harness.ask(create(owner="bob"), connection=user())
    assert token.error_code == ErrorCode.NONE
    for granted in (
        allow(Operation.DESCRIBE_TOKENS, "User:bob", kind=ResourceType.USER, principal="User:eve"),
        allow(Operation.DESCRIBE, token.token_id, kind=ResourceType.DELEGATION_TOKEN, principal="User:eve"),
    ):
        assert await described(harness, "eve") == []
        run_through(harness.authorizer.update([granted], ()))
        assert len(await described(harness, "eve")) == 1
        run_through(harness.authorizer.update((), [granted]))
    assert len(await described(harness, "root")) == 1
    harness.close()


async def test_expired_tokens_are_removed_and_no_others(harness: Harness) -> None:
    short, long = await made(harness, lifetime_ms=99), await made(harness, lifetime_ms=100)
    kept = await made(harness)
    for now_ms, removed in ((99, []), (100, [short.token_id]), (101, [long.token_id])):
        gone = await harness.control.apply(RemoveExpiredDelegationTokens(WALL_MS + now_ms), BROKER_ITSELF)
        assert [(each.token_id, each.owner) for each in gone] == [(each, "User:ann") for each in removed]
    assert list(harness.control.image.delegation_tokens) == [kept.token_id]


async def test_tokens_outlive_a_restart_and_another_key_makes_them_useless(tmp_path: Path) -> None:
    harness = Harness(tmp_path, *SETTINGS)
    token = await made(harness, "bob")
    before = harness.control.image.delegation_tokens
    harness.close()
    harness = Harness(tmp_path, *SETTINGS)
    assert harness.control.image.delegation_tokens == before
    answer = await harness.ask(RenewDelegationTokenRequest(token.hmac, -1), connection=user("bob"))
    assert answer.error_code == ErrorCode.NONE
    assert await logged_in(harness, token.token_id, bytes(token.hmac)) == (Login.SUCCEEDED, "ann", 400)
    harness.close()
    harness = Harness(tmp_path, *SETTINGS, "delegation.token.secret.key=another")
    answer = await harness.ask(RenewDelegationTokenRequest(token.hmac, -1), connection=user("bob"))
    assert answer.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert (await logged_in(harness, token.token_id, bytes(token.hmac)))[0] is Login.FAILED
    harness.close()


async def step(harness: Harness, connection: Connection, message: str) -> tuple[Login | None, Any]:
    asking = await harness.put(SaslAuthenticateRequest(message.encode()), connection=connection)
    assert isinstance(asking.outcome, Response)
    return asking.outcome.login, harness.answer(asking)


async def logged_in(
    harness: Harness,
    token_id: str,
    token_hmac: bytes,
    extension: str = ",tokenauth=true",
    mechanism: str = "SCRAM-SHA-512",
    connection: Connection | None = None,
) -> tuple[Login | None, str, int]:
    """Return how a login ended, its principal, and how many milliseconds its session lasts."""
    connection = connection or Connection("SASL_PLAINTEXT", authenticated=False)
    hash_name = mechanism[len("SCRAM-") :].replace("-", "").lower()
    await harness.ask(SaslHandshakeRequest(mechanism), connection=connection)
    bare = f"n={token_id},r=abc{extension}"
    login, answer = await step(harness, connection, f"n,,{bare}")
    if login is not None:
        return login, connection.principal, answer.session_lifetime_ms
    challenge = bytes(answer.auth_bytes).decode()
    nonce, salt, iterations = (part[2:] for part in challenge.split(","))
    password = base64.b64encode(token_hmac)
    salted = hashlib.pbkdf2_hmac(hash_name, password, base64.b64decode(salt), int(iterations))
    key = hmac.digest(salted, b"Client Key", hash_name)
    unproven = f"c=biws,r={nonce}"
    signed = f"{bare},{challenge},{unproven}".encode()
    signature = hmac.digest(hashlib.new(hash_name, key).digest(), signed, hash_name)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    login, answer = await step(harness, connection, f"{unproven},p={proof}")
    return login, connection.principal, answer.session_lifetime_ms


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("extension", [",tokenauth=true", ",tokenauth=TRUE", ",a=b,tokenauth=true"])
async def test_a_token_logs_its_owner_in_until_it_expires(
    harness: Harness, mechanism: str, extension: str
) -> None:
    token = await harness.ask(create(owner="bob"), connection=user("root"))
    harness.advance(100)
    connection = Connection("SASL_PLAINTEXT", authenticated=False)
    found = await logged_in(harness, token.token_id, bytes(token.hmac), extension, mechanism, connection)
    assert found == (Login.SUCCEEDED, "bob", 300)
    assert connection.by_token and connection.session is not None
    assert not connection.session.is_over(BASE_MS + 400) and connection.session.is_over(BASE_MS + 401)
    answer = await harness.ask(create(), connection=connection)
    assert answer.error_code == NOT_ALLOWED


@pytest.mark.parametrize(
    "extension", ["", ",tokenauth=false", ",tokenauth=", ",tokenaut=true", ",tokenauth=true,tokenauth=no"]
)
async def test_without_the_extension_a_token_is_no_password(harness: Harness, extension: str) -> None:
    token = await made(harness)
    found = await logged_in(harness, token.token_id, bytes(token.hmac), extension)
    assert found == (Login.FAILED, "ANONYMOUS", 0)


@pytest.mark.parametrize(
    ("at_ms", "how"), [(399, Login.SUCCEEDED), (400, Login.SUCCEEDED), (401, Login.FAILED)]
)
async def test_an_expired_token_logs_nobody_in(harness: Harness, at_ms: int, how: Login) -> None:
    token = await made(harness)
    harness.advance(at_ms)
    assert (await logged_in(harness, token.token_id, bytes(token.hmac)))[0] is how


async def test_a_wrong_hmac_an_unknown_and_a_removed_token_log_nobody_in(harness: Harness) -> None:
    token = await made(harness)
    assert (await logged_in(harness, token.token_id, b"x" * 64))[0] is Login.FAILED
    assert (await logged_in(harness, "unknown", bytes(token.hmac)))[0] is Login.FAILED
    assert (await logged_in(harness, token.token_id, bytes(token.hmac)))[0] is Login.SUCCEEDED
    await harness.ask(ExpireDelegationTokenRequest(token.hmac, -1), connection=user())
    assert (await logged_in(harness, token.token_id, bytes(token.hmac)))[0] is Login.FAILED


async def test_a_renewed_token_renews_the_session(harness: Harness) -> None:
    token = await made(harness)
    connection = Connection("SASL_PLAINTEXT", authenticated=False)
    assert (await logged_in(harness, token.token_id, bytes(token.hmac), connection=connection))[2] == 400
    harness.advance(300)
    await harness.ask(RenewDelegationTokenRequest(token.hmac, -1), connection=user())
    assert connection.session is not None and connection.session.begin_renewal(BASE_MS + 300)
    found = await logged_in(harness, token.token_id, bytes(token.hmac), connection=connection)
    assert found == (Login.RENEWED, "ann", 400)
    assert not connection.session.is_over(BASE_MS + 700) and connection.session.is_over(BASE_MS + 701)

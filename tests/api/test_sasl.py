"""SaslHandshake and SaslAuthenticate, as one conversation."""

import base64
import hashlib
import hmac
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from broker.api.requests.outcome import Login, Response
from broker.common.errors import ErrorCode
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from broker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from broker.protocol.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from tests.api.harness import Asking, Connection, Harness

JAAS = (
    "listener.name.sasl_plaintext.plain.sasl.jaas.config="
    'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="secret";'
)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Harness]:
    harness = Harness(tmp_path, "listeners=SASL_PLAINTEXT://127.0.0.1:0", JAAS)
    yield harness
    harness.close()


@pytest.fixture
def stranger() -> Connection:
    return Connection("SASL_PLAINTEXT", authenticated=False)


def login_of(asking: Asking) -> Login | None:
    assert isinstance(asking.outcome, Response)
    return asking.outcome.login


async def test_a_good_login_names_the_connection(guarded: Harness, stranger: Connection) -> None:
    shaken = await guarded.put(SaslHandshakeRequest("PLAIN"), connection=stranger)
    assert guarded.answer(shaken).error_code == ErrorCode.NONE
    assert guarded.answer(shaken).mechanisms == ["PLAIN"]
    assert login_of(shaken) is None and not stranger.authenticated
    asking = await guarded.put(SaslAuthenticateRequest(b"\0ann\0secret"), connection=stranger)
    reply = guarded.answer(asking)
    assert (reply.error_code, reply.error_message, reply.session_lifetime_ms) == (ErrorCode.NONE, "", 0)
    assert (stranger.principal, stranger.authenticated) == ("ann", True)
    assert login_of(asking) is Login.SUCCEEDED


@pytest.mark.parametrize(
    "token", [b"\0ann\0wrong", b"\0bob\0secret", b"", b"\xff\0ann\0secret", b"ann\0secret"]
)
async def test_a_bad_login_is_refused_and_the_connection_is_to_end(
    guarded: Harness, stranger: Connection, token: bytes
) -> None:
    await guarded.ask(SaslHandshakeRequest("PLAIN"), connection=stranger)
    asking = await guarded.put(SaslAuthenticateRequest(token), connection=stranger)
    assert guarded.answer(asking).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert login_of(asking) is Login.FAILED
    assert (stranger.principal, stranger.authenticated) == ("ANONYMOUS", False)


async def test_an_unknown_user_and_a_wrong_password_get_the_same_words(guarded: Harness) -> None:
    words = set()
    for token in (b"\0ann\0wrong", b"\0bob\0secret"):
        connection = Connection("SASL_PLAINTEXT", authenticated=False)
        await guarded.ask(SaslHandshakeRequest("PLAIN"), connection=connection)
        reply = await guarded.ask(SaslAuthenticateRequest(token), connection=connection)
        words.add(reply.error_message)
    assert words == {"Authentication failed: Invalid username or password"}


async def test_an_unknown_mechanism_is_answered_with_those_there_are(
    guarded: Harness, stranger: Connection
) -> None:
    asking = await guarded.put(SaslHandshakeRequest("SCRAM-SHA-256"), connection=stranger)
    reply = guarded.answer(asking)
    assert (reply.error_code, reply.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["PLAIN"])
    assert login_of(asking) is Login.FAILED and stranger.sasl_mechanism is None


async def test_a_token_before_the_handshake_ends_the_connection(
    guarded: Harness, stranger: Connection
) -> None:
    asking = await guarded.put(SaslAuthenticateRequest(b"\0ann\0secret"), connection=stranger)
    assert guarded.answer(asking).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert login_of(asking) is Login.FAILED and not stranger.authenticated


async def test_after_a_login_there_is_no_other(guarded: Harness) -> None:
    friend = Connection("SASL_PLAINTEXT")
    for message in (SaslHandshakeRequest("PLAIN"), SaslAuthenticateRequest(b"\0bob\0secret")):
        asking = await guarded.put(message, connection=friend)
        assert guarded.answer(asking).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert login_of(asking) is None
    assert friend.principal == "ANONYMOUS"


async def scram_user(harness: Harness, name: str = "ann", password: bytes = b"secret") -> None:
    salted = hashlib.pbkdf2_hmac("sha256", password, b"salt", 4_096)
    wanted = ScramCredentialUpsertion(name, 1, 4_096, b"salt", salted)
    reply = await harness.ask(AlterUserScramCredentialsRequest(upsertions=[wanted]))
    assert reply.results[0].error_code == ErrorCode.NONE


@pytest.fixture
async def scrambled(tmp_path: Path) -> AsyncIterator[Harness]:
    harness = Harness(
        tmp_path,
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms=SCRAM-SHA-256,PLAIN",
        "wire.role=admin",
        JAAS,
    )
    await scram_user(harness)
    yield harness
    harness.close()


def final_message(first: bytes, challenge: bytes, password: bytes) -> bytes:
    nonce, salt, iterations = (part[2:] for part in challenge.split(b","))
    salted = hashlib.pbkdf2_hmac("sha256", password, base64.b64decode(salt), int(iterations))
    key = hmac.digest(salted, b"Client Key", "sha256")
    unproven = b"c=biws,r=" + nonce
    signature = hmac.digest(
        hashlib.sha256(key).digest(), b",".join((first[3:], challenge, unproven)), "sha256"
    )
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    return unproven + b",p=" + base64.b64encode(proof)


FIRST = b"n,,n=ann,r=abc"


@pytest.mark.parametrize(("password", "how"), [(b"secret", Login.SUCCEEDED), (b"wrong", Login.FAILED)])
async def test_scram_takes_two_steps(
    scrambled: Harness, stranger: Connection, password: bytes, how: Login
) -> None:
    shaken = await scrambled.ask(SaslHandshakeRequest("SCRAM-SHA-256"), connection=stranger)
    assert shaken.mechanisms == ["SCRAM-SHA-256", "PLAIN"]
    asking = await scrambled.put(SaslAuthenticateRequest(FIRST), connection=stranger)
    challenge = scrambled.answer(asking)
    assert (challenge.error_code, login_of(asking), stranger.authenticated) == (ErrorCode.NONE, None, False)
    final = final_message(FIRST, bytes(challenge.auth_bytes), password)
    asking = await scrambled.put(SaslAuthenticateRequest(final), connection=stranger)
    assert login_of(asking) is how
    assert stranger.authenticated is (how is Login.SUCCEEDED)
    assert stranger.principal == ("ann" if how is Login.SUCCEEDED else "ANONYMOUS")


async def test_a_mechanism_that_is_not_enabled_is_refused(scrambled: Harness, stranger: Connection) -> None:
    asking = await scrambled.put(SaslHandshakeRequest("SCRAM-SHA-512"), connection=stranger)
    assert scrambled.answer(asking).error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert login_of(asking) is Login.FAILED


async def test_another_handshake_begins_the_login_anew(scrambled: Harness, stranger: Connection) -> None:
    for _ in range(2):
        await scrambled.ask(SaslHandshakeRequest("SCRAM-SHA-256"), connection=stranger)
        reply = await scrambled.ask(SaslAuthenticateRequest(FIRST), connection=stranger)
        assert reply.error_code == ErrorCode.NONE


async def test_plain_beside_it_is_as_it_was(scrambled: Harness, stranger: Connection) -> None:
    await scrambled.ask(SaslHandshakeRequest("PLAIN"), connection=stranger)
    reply = await scrambled.ask(SaslAuthenticateRequest(b"\0ann\0secret"), connection=stranger)
    assert (reply.error_code, stranger.principal) == (ErrorCode.NONE, "ann")

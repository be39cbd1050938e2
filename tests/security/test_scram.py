"""SCRAM logins: the published example, and invalid logins."""

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.common.errors import ApiError, ErrorCode
from broker.security import scram
from broker.security.scram import MECHANISMS, MIN_ITERATIONS, ScramLogin, ScramMechanism, keys_of
from broker.security.unknown_users import UnknownUsers

SHA_256 = MECHANISMS["SCRAM-SHA-256"]


class Kept(NamedTuple):
    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


def kept(mechanism: ScramMechanism, password: bytes, salt: bytes = b"salt") -> Kept:
    salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password, salt, MIN_ITERATIONS)
    return Kept(salt, MIN_ITERATIONS, *keys_of(mechanism, salted))


def login_of(mechanism: ScramMechanism, users: Mapping[str, Kept] | None = None) -> ScramLogin:
    """Return a login at a broker with these users of the mechanism."""
    known = users or {}
    by_user = {name: {mechanism.name: credential} for name, credential in known.items()}
    unknown = UnknownUsers(b"a secret of the metadata", by_user)
    return ScramLogin(mechanism, known.get, lambda name: unknown.credential(mechanism, name))


def client(mechanism: ScramMechanism, name: str, password: bytes, step: Callable[[bytes], bytes]) -> bytes:
    """Run a client's side of the login and return the server's final message."""
    bare = f"n={name},r=client-nonce"
    challenge = step(f"n,,{bare}".encode()).decode()
    nonce, salt, iterations = (part[2:] for part in challenge.split(","))
    assert nonce.startswith("client-nonce") and len(nonce) > len("client-nonce") + 20
    salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password, base64.b64decode(salt), int(iterations))
    key = hmac.digest(salted, b"Client Key", mechanism.hash_name)
    unproven = f"c=biws,r={nonce}"
    signed = f"{bare},{challenge},{unproven}".encode()
    signature = hmac.digest(hashlib.new(mechanism.hash_name, key).digest(), signed, mechanism.hash_name)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    return step(f"{unproven},p={proof}".encode())


def test_the_example_of_rfc_7677(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scram.secrets, "token_urlsafe", lambda _: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    credential = kept(SHA_256, b"pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    login = login_of(SHA_256, {"user": credential})
    challenge = login.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", 0)
    nonce = b"rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert challenge == b"r=" + nonce + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    answer = login.step(b"c=biws,r=" + nonce + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", 0)
    assert answer == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert login.name == "user"


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
@pytest.mark.parametrize(("sent", "name"), [("ann", "ann"), ("a=2Cb=3Dc", "a,b=c"), ("zoë", "zoë")])
def test_a_user_that_knows_the_password_is_let_in(mechanism: ScramMechanism, sent: str, name: str) -> None:
    login = login_of(mechanism, {name: kept(mechanism, b"secret")})
    assert client(mechanism, sent, b"secret", lambda message: login.step(message, 0)).startswith(b"v=")
    assert login.name == name


@pytest.mark.parametrize(("name", "password"), [("ann", b"secret"), ("ann", b"wrong"), ("nobody", b"x")])
def test_the_server_derives_no_key_so_that_a_guess_holds_no_thread(
    monkeypatch: pytest.MonkeyPatch, name: str, password: bytes
) -> None:
    login = login_of(SHA_256, {"ann": kept(SHA_256, b"secret")})

    def derive(*_: object) -> bytes:
        raise AssertionError("the server has derived a key from a password")

    def step(message: bytes) -> bytes:
        with monkeypatch.context() as patch:
            patch.setattr(hashlib, "pbkdf2_hmac", derive)
            return login.step(message, 0)

    with suppress(ApiError):
        client(SHA_256, name, password, step)
    assert (login.name == "ann") is (password == b"secret")


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
@pytest.mark.parametrize(("name", "password"), [("ann", b"wrong"), ("nobody", b"secret"), ("ann", b"")])
def test_others_hear_the_same_words_at_the_same_step(
    mechanism: ScramMechanism, name: str, password: bytes
) -> None:
    login = login_of(mechanism, {"ann": kept(mechanism, b"secret")})
    steps: list[bytes] = []

    def step(message: bytes) -> bytes:
        steps.append(message)
        return login.step(message, 0)

    with pytest.raises(ApiError) as refused:
        client(mechanism, name, password, step)
    assert len(steps) == 2 and login.name is None
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert refused.value.message.endswith(f"invalid credentials with SASL mechanism {mechanism.name}")


def test_an_unknown_name_is_challenged_with_the_same_salt_each_time() -> None:
    challenges = [login_of(SHA_256).step(b"n,,n=nobody,r=x", 0) for _ in range(2)]
    first, second = (challenge.partition(b",")[2] for challenge in challenges)
    assert first == second and challenges[0] != challenges[1]
    assert first != login_of(SHA_256).step(b"n,,n=somebody,r=x", 0).partition(b",")[2]


@pytest.mark.parametrize(
    "message",
    [
        *(b"", b"n,,", b"n,,n=,r=x", b"n,,n=ann", b"n,,n=ann,r=", b"n=ann,r=x", b"\xff", b"n,,r=x,n=ann"),
        *(b"p=tls-unique,,n=ann,r=x", b"n,a=bob,n=ann,r=x", b"n,,m=must,n=ann,r=x", b"n,,n=a=b,r=x"),
        *(b"n,,n=ann,r=a b", b"n,,n=ann,r=x,", b"n,,n=ann,r=x\n"),
    ],
)
def test_a_first_message_that_is_none_ends_the_login(message: bytes) -> None:
    with pytest.raises(ApiError):
        login_of(SHA_256, {"ann": kept(SHA_256, b"secret")}).step(message, 0)


@pytest.mark.parametrize("first", [b"y,,n=ann,r=x", b"n,a=ann,n=ann,r=x", b"n,,n=ann,r=x,e=extension"])
def test_a_first_message_may_say_more(first: bytes) -> None:
    assert login_of(SHA_256).step(first, 0).startswith(b"r=x")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"c=biws", b"c=eSws"),
        (b"r=client-nonce", b"r=another-nonce"),
        (b"p=", b"p=AAAA"),
        (b",p=", b",q="),
        (b"p=", b"p=!"),
        (b"c=biws,", b""),
    ],
)
def test_a_final_message_that_was_changed_ends_the_login(old: bytes, new: bytes) -> None:
    login = login_of(SHA_256, {"ann": kept(SHA_256, b"secret")})

    def step(message: bytes) -> bytes:
        return login.step(message.replace(old, new, 1) if message.startswith(b"c=") else message, 0)

    with pytest.raises(ApiError):
        client(SHA_256, "ann", b"secret", step)
    assert login.name is None


@given(st.lists(st.binary(max_size=200) | st.just(b"n,,n=ann,r=x"), max_size=4))
def test_no_random_message_logs_in_or_raises_anything_but_a_refusal(messages: list[bytes]) -> None:
    login = login_of(SHA_256)
    with suppress(ApiError):
        for message in messages:
            login.step(message, 0)
    assert login.name is None

"""The client's side of SASL: the published example, our own broker's side, and servers that cheat."""

import base64
import hashlib

import pytest

from broker.common.errors import ApiError, ConfigError
from broker.security import client_login
from broker.security.client_login import MAX_SALTS, SCRAM_MODULE, ClientCredentials, ClientLogin
from broker.security.delegation_tokens import DelegationTokens
from broker.security.plain import PLAIN_MODULE, PlainAuthenticator
from broker.security.scram import (
    MAX_ITERATIONS,
    MECHANISMS,
    MIN_ITERATIONS,
    ScramLogin,
    ScramMechanism,
    TokenOwner,
)
from broker.security.sealed import Sealed
from tests.security.test_scram import kept, login_of

KEY = "upstream.sasl.jaas.config"
NONCE = "rOprNGfwEbeRWgbNEkqO"
CHALLENGE = f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


@pytest.fixture
def _fixed_nonce(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_login.secrets, "token_urlsafe", lambda _: NONCE)


@pytest.mark.usefixtures("_fixed_nonce")
def test_the_example_of_rfc_7677() -> None:
    login = ClientCredentials("SCRAM-SHA-256", "user", "pencil").login()
    assert login.first() == f"n,,n=user,r={NONCE}".encode()
    assert (
        login.answer(CHALLENGE.encode())
        == (
            f"c=biws,r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        ).encode()
    )
    assert login.answer(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
@pytest.mark.parametrize("name", ["ann", "a,b=c", "zoë", "=2C"])
def test_our_broker_lets_the_client_in(mechanism: ScramMechanism, name: str) -> None:
    server = login_of(mechanism, {name: kept(mechanism, "pässword".encode())})
    login = ClientCredentials(mechanism.name, name, "pässword").login()
    proof = login.answer(server.step(login.first(), 0))
    assert proof is not None
    assert login.answer(server.step(proof, 0)) is None
    assert server.name == name


def test_plain_is_one_message() -> None:
    login = ClientCredentials("PLAIN", "ann", "sec\\ret").login()
    assert PlainAuthenticator({"": {"ann": "sec\\ret"}}).authenticate("", login.first()) == "ann"
    assert login.answer(b"") is None


def refusal(*responses: str | bytes) -> str:
    """The error after the last of these responses."""
    login = ClientCredentials("SCRAM-SHA-256", "user", "pencil").login()
    *accepted, last = (each if isinstance(each, bytes) else each.encode() for each in responses)
    for response in accepted:
        login.answer(response)
    with pytest.raises(ApiError) as caught:
        login.answer(last)
    return caught.value.message or ""


@pytest.mark.usefixtures("_fixed_nonce")
@pytest.mark.parametrize(
    "challenge",
    [
        "",
        "s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        f"m=x,{CHALLENGE}",
        CHALLENGE.replace("i=4096", "i=4_096"),
        CHALLENGE.replace("i=4096", "i=-4096"),
        CHALLENGE.replace("i=4096", "i=4096000000"),
        CHALLENGE.replace("W22Z", "W2="),
        CHALLENGE.replace("W22ZaJ0SNY7soEsUEjb6gQ==", ""),
        CHALLENGE + "\n",
    ],
)
def test_a_challenge_that_cannot_be_read_is_refused(challenge: str) -> None:
    assert refusal(challenge) == "the broker's SCRAM challenge is invalid"


@pytest.mark.usefixtures("_fixed_nonce")
@pytest.mark.parametrize("nonce", ["other", NONCE, f"x{NONCE}"])
def test_a_challenge_must_extend_our_nonce(nonce: str) -> None:
    challenge = f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert refusal(challenge) == "the broker's SCRAM challenge has another nonce"


@pytest.mark.usefixtures("_fixed_nonce")
@pytest.mark.parametrize(
    ("iterations", "is_allowed"),
    [
        (MIN_ITERATIONS - 1, False),
        (MIN_ITERATIONS, True),
        (MIN_ITERATIONS + 1, True),
        (MAX_ITERATIONS - 1, True),
        (MAX_ITERATIONS, True),
        (MAX_ITERATIONS + 1, False),
    ],
)
def test_the_iterations_have_limits_on_both_sides(iterations: int, is_allowed: bool) -> None:
    challenge = CHALLENGE.replace("i=4096", f"i={iterations}")
    if is_allowed:
        assert ClientCredentials("SCRAM-SHA-256", "user", "pencil").login().answer(challenge.encode())
    else:
        assert f"{iterations} SCRAM iterations; 4096 to 16384 are allowed" in refusal(challenge)


@pytest.mark.usefixtures("_fixed_nonce")
@pytest.mark.parametrize(
    ("final", "text"),
    [
        ("v=AAAATRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "does not know the password"),
        ("v=6rri", "does not know the password"),
        ("", "does not know the password"),
        ("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=\n", "does not know the password"),
        ("e=invalid-proof", "refuses the login: invalid-proof"),
        (b"v=\xff", "not UTF-8"),
    ],
)
def test_a_server_without_the_password_is_refused(final: str | bytes, text: str) -> None:
    assert text in refusal(CHALLENGE, final)


def test_the_salted_password_is_derived_once_for_each_salt_and_count(monkeypatch: pytest.MonkeyPatch) -> None:
    derived = []

    def derive(hash_name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        derived.append((salt, iterations))
        return hashlib.sha256(password + salt).digest()

    monkeypatch.setattr(client_login.hashlib, "pbkdf2_hmac", derive)
    credentials = ClientCredentials("SCRAM-SHA-256", "user", "pencil")
    for salt, iterations in [(b"a", 4_096), (b"a", 4_096), (b"b", 4_096), (b"b", 4_097), (b"b", 4_097)]:
        login = credentials.login()
        nonce = login.first().decode().partition("r=")[2]
        login.answer(f"r={nonce}x,s={base64.b64encode(salt).decode()},i={iterations}".encode())
    assert derived == [(b"a", 4_096), (b"b", 4_096), (b"b", 4_097)]


@pytest.mark.parametrize(("mechanism", "module"), [("PLAIN", PLAIN_MODULE), ("SCRAM-SHA-256", SCRAM_MODULE)])
def test_credentials_are_read_from_a_jaas_text(mechanism: str, module: str) -> None:
    text = f'{module} required username="weir" password="a \\"b\\"; c=d" user_x="y";'
    credentials = ClientCredentials.from_jaas(KEY, text, mechanism)
    assert (credentials.mechanism, credentials.name) == (mechanism, "weir")
    if mechanism == "PLAIN":
        assert credentials.login().first() == b'\0weir\0a "b"; c=d'


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        f'{SCRAM_MODULE} required username="weir" password="secret"',
        f'{SCRAM_MODULE} required username="weir";',
        f'{SCRAM_MODULE} required password="secret";',
        f'{SCRAM_MODULE} required username="" password="secret";',
        f'{SCRAM_MODULE} required username="weir" password="";',
        f'{SCRAM_MODULE} required username="we\0ir" password="secret";',
    ],
)
def test_a_wrong_jaas_text_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ClientCredentials.from_jaas(KEY, text, "SCRAM-SHA-512")
    assert caught.value.key == KEY and caught.value.value == "(hidden)"
    assert "secret" not in str(caught.value) and 'username=\\"<name>\\"' in caught.value.allowed


def test_the_login_module_must_be_the_mechanisms() -> None:
    with pytest.raises(ConfigError, match=f"the login module of SCRAM-SHA-512: {SCRAM_MODULE}"):
        ClientCredentials.from_jaas(
            KEY, f'{PLAIN_MODULE} required username="a" password="b";', "SCRAM-SHA-512"
        )


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
@pytest.mark.parametrize("token_id", ["token-1", "to,ken=1"])
def test_a_delegation_token_logs_its_owner_in(mechanism: ScramMechanism, token_id: str) -> None:
    tokens = DelegationTokens("the cluster's secret", [token_id])
    owner = TokenOwner("alice", 1_000, tokens.credential(mechanism, token_id))
    server = ScramLogin(
        mechanism,
        lambda _name: None,
        lambda _name: kept(mechanism, b"nobody's"),
        lambda name: owner if name == token_id else None,
    )
    password = base64.b64encode(tokens.hmac(token_id)).decode()
    login = ClientCredentials(mechanism.name, token_id, password, "alice").login()
    assert login.first().endswith(b",tokenauth=true")
    proof = login.answer(server.step(login.first(), 0))
    assert proof is not None
    assert login.answer(server.step(proof, 0)) is None
    assert (server.name, server.by_token) == ("alice", True)


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        (ClientCredentials("SCRAM-SHA-256", "token-2", "y", "alice"), True),
        (ClientCredentials("SCRAM-SHA-256", "alice", "y"), True),
        (ClientCredentials("SCRAM-SHA-512", "token-1", "x", "alice"), False),
        (ClientCredentials("SCRAM-SHA-256", "token-1", "x", "bob"), False),
        (ClientCredentials("SCRAM-SHA-256", "token-1", "x"), False),
    ],
)
def test_a_login_is_renewed_for_the_same_owner(other: ClientCredentials, is_same: bool) -> None:
    token = ClientCredentials("SCRAM-SHA-256", "token-1", "x", "alice")
    assert token.is_same_user(other) == other.is_same_user(token) == is_same


def challenge(login: ClientLogin, salt: bytes) -> bytes:
    nonce = login.first().decode().partition(",r=")[2]
    return f"r={nonce}more,s={base64.b64encode(salt).decode()},i=4096".encode()


def test_a_key_is_derived_once_for_each_of_the_last_salts() -> None:
    credentials = ClientCredentials("SCRAM-SHA-256", "ann", "secret")

    def derives(salt: int) -> bool:
        login = credentials.login()
        asked = challenge(login, b"%d" % salt)
        derived = login.derives(asked)
        login.answer(asked)
        assert not login.derives(asked)  # the next message needs no key
        return derived

    assert [derives(salt) for salt in range(MAX_SALTS)] == [True] * MAX_SALTS
    assert [derives(salt) for salt in range(MAX_SALTS)] == [False] * MAX_SALTS
    assert derives(MAX_SALTS)
    assert [derives(salt) for salt in range(1, MAX_SALTS + 1)] == [False] * MAX_SALTS
    assert derives(0)


def test_a_challenge_that_is_none_needs_no_key() -> None:
    login = ClientCredentials("SCRAM-SHA-256", "ann", "secret").login()
    assert not login.derives(b"\xff") and not login.derives(b"r=x,s=!,i=4096")
    assert not ClientCredentials("PLAIN", "ann", "secret").login().derives(b"")


def test_a_password_is_sealed_in_memory() -> None:
    credentials = ClientCredentials("SCRAM-SHA-256", "ann", "a long secret")
    credentials.salted_password("sha256", b"salt", 4_096)
    objects, seen = [credentials.__dict__], b""
    while objects:
        found = objects.pop()
        match found:
            case dict():
                objects += [*found.keys(), *found.values()]
            case tuple():
                objects += found
            case Sealed():
                objects.append(found._sealed)
            case _:
                seen += repr(found).encode() + (found if isinstance(found, bytes) else b"")
    assert b"a long secret" not in seen and b"ann" in seen
    assert hashlib.pbkdf2_hmac("sha256", b"a long secret", b"salt", 4_096) not in seen
    assert Sealed(b"a long secret").open() == b"a long secret"
    assert repr(Sealed(b"a long secret")) == "Sealed(hidden)"
    assert Sealed(b"x")._sealed != Sealed(b"x")._sealed

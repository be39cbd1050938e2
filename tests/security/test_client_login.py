"""The client's side of SASL: the published example, our own broker's side, and servers that cheat."""

import base64
import hashlib

import pytest

from broker.common.errors import ApiError, ConfigError
from broker.security import client_login
from broker.security.client_login import SCRAM_MODULE, ClientCredentials
from broker.security.plain import PLAIN_MODULE, PlainAuthenticator
from broker.security.scram import MAX_ITERATIONS, MECHANISMS, MIN_ITERATIONS, ScramMechanism
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

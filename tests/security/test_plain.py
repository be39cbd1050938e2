"""SASL PLAIN responses match Kafka's PlainSaslServer."""

import pytest

from broker.errors import ApiError, ConfigError, ErrorCode
from broker.security.jaas import PLAIN_MODULE
from broker.security.plain import PlainAuthenticator

AUTHENTICATOR = PlainAuthenticator(
    {"CLIENTS": {"alice": "wonder land", "bób": "pässword"}, "OTHER": {"carol": "c"}}
)


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (b"\0alice\0wonder land", "alice"),
        (b"alice\0alice\0wonder land", "alice"),
        ("\0bób\0pässword".encode(), "bób"),
    ],
)
def test_the_right_password_gives_the_name(message: bytes, name: str) -> None:
    assert AUTHENTICATOR.authenticate("CLIENTS", message) == name
    assert AUTHENTICATOR.authenticate("CLIENTS", memoryview(message)) == name


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"alice\0wonder land", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0wonder land\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0wonder land", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0alice\0wonder lan", "Authentication failed: Invalid username or password"),
        (b"\0alice\0wonder land ", "Authentication failed: Invalid username or password"),
        (b"\0Alice\0wonder land", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0wonder land", "Authentication failed: Invalid username or password"),
        (b"\0carol\0c", "Authentication failed: Invalid username or password"),
        (b"\0\xff\0x", "Invalid SASL/PLAIN response: not UTF-8"),
        (
            b"root\0alice\0wonder land",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"root\0alice\0wrong", "Authentication failed: Invalid username or password"),
    ],
)
def test_anything_else_is_refused_in_kafkas_words(message: bytes, words: str) -> None:
    with pytest.raises(ApiError) as caught:
        AUTHENTICATOR.authenticate("CLIENTS", message)
    assert (caught.value.code, caught.value.message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, words)


def test_a_listener_without_users_lets_nobody_in() -> None:
    with pytest.raises(ApiError):
        AUTHENTICATOR.authenticate("UNKNOWN", b"\0alice\0wonder land")


def test_passwords_are_not_kept() -> None:
    kept = repr([getattr(AUTHENTICATOR, name) for name in PlainAuthenticator.__slots__])
    assert "wonder land" not in kept


def test_users_come_from_the_listeners_setting() -> None:
    authenticator = PlainAuthenticator.from_jaas((("CLIENTS", f'{PLAIN_MODULE} required user_dan="d";'),))
    assert authenticator.authenticate("CLIENTS", b"\0dan\0d") == "dan"
    with pytest.raises(ConfigError) as caught:
        PlainAuthenticator.from_jaas((("CLIENTS", "nonsense"),))
    assert caught.value.key == "listener.name.clients.plain.sasl.jaas.config"

"""SASL PLAIN responses match Kafka's PlainSaslServer."""

import pytest

from broker.common.errors import ApiError, ConfigError, ErrorCode
from broker.security.plain import PLAIN_MODULE, PlainAuthenticator, parse_jaas, plain_users

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


def test_a_listener_without_users_lets_no_client_in() -> None:
    with pytest.raises(ApiError):
        AUTHENTICATOR.authenticate("UNKNOWN", b"\0alice\0wonder land")


def test_passwords_are_not_kept() -> None:
    kept = repr(vars(AUTHENTICATOR))
    assert "wonder land" not in kept


def test_users_come_from_the_listeners_setting() -> None:
    authenticator = PlainAuthenticator.from_jaas((("CLIENTS", f'{PLAIN_MODULE} required user_dan="d";'),))
    assert authenticator.authenticate("CLIENTS", b"\0dan\0d") == "dan"
    with pytest.raises(ConfigError) as caught:
        PlainAuthenticator.from_jaas((("CLIENTS", "nonsense"),))
    assert caught.value.key == "listener.name.clients.plain.sasl.jaas.config"


KEY = "listener.name.sasl_plaintext.plain.sasl.jaas.config"


def test_options_are_read_with_and_without_quotes() -> None:
    module = parse_jaas(
        KEY, f'{PLAIN_MODULE} required username="admin" password=pw user_alice="a b" debug=true;'
    )
    assert module.name == PLAIN_MODULE
    assert module.options == {"username": "admin", "password": "pw", "user_alice": "a b", "debug": "true"}


def test_quotes_and_backslashes_are_escaped_by_a_backslash() -> None:
    assert plain_users(KEY, f'{PLAIN_MODULE} required user_a="x\\"y\\\\z=;";') == {"a": 'x"y\\z=;'}


def test_only_user_options_are_users() -> None:
    text = f'{PLAIN_MODULE} required\n username="broker"\n password="p"\n user_alice="1"\n user_bob-2="2" ;\n'
    assert plain_users(KEY, text) == {"alice": "1", "bob-2": "2"}


def test_spaces_around_the_equals_sign_do_not_matter() -> None:
    assert plain_users(KEY, f'{PLAIN_MODULE} required user_a = "1";') == {"a": "1"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        PLAIN_MODULE,
        f"{PLAIN_MODULE} required",
        f'{PLAIN_MODULE} required user_a="secret"',
        f'{PLAIN_MODULE} perhaps user_a="secret";',
        f'{PLAIN_MODULE} required user_a "secret";',
        f'{PLAIN_MODULE} required user_a="secret;',
        f"{PLAIN_MODULE} required user_a=;",
        f'{PLAIN_MODULE} required ="secret";',
        f'{PLAIN_MODULE} required user_a="secret" user_a="secret";',
        f'{PLAIN_MODULE} required user_a="secret"; Another required;',
        f'{PLAIN_MODULE} required user_a="secret" stray;',
    ],
)
def test_an_invalid_login_module_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_jaas(KEY, text)
    assert caught.value.key == KEY
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("text", ['user_="x"', 'user_a=""'])
def test_empty_names_and_passwords_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        plain_users(KEY, f"{PLAIN_MODULE} required {text};")


def test_another_login_module_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="ScramLoginModule"):
        plain_users(KEY, 'org.apache.kafka.common.security.scram.ScramLoginModule required user_a="x";')


def test_passwords_are_not_printed() -> None:
    assert "hush" not in repr(parse_jaas(KEY, f'{PLAIN_MODULE} required user_a="hush";'))

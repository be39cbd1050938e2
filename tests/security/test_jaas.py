"""JAAS strings as Kafka's JaasConfig reads them."""

import pytest

from broker.errors import ConfigError
from broker.security.jaas import PLAIN_MODULE, parse, plain_users

KEY = "listener.name.sasl_plaintext.plain.sasl.jaas.config"


def test_options_are_read_with_and_without_quotes() -> None:
    module = parse(KEY, f'{PLAIN_MODULE} required username="admin" password=pw user_alice="a b" debug=true;')
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
def test_what_is_not_one_login_module_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(KEY, text)
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
    assert "hush" not in repr(parse(KEY, f'{PLAIN_MODULE} required user_a="hush";'))

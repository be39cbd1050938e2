"""A JAAS configuration string: a login module, a control flag and options, ended by a semicolon.

(Kafka: JaasConfig)

    org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret" user_bob="it's
    \\"quoted\\"";

Parsed at startup from `listener.name.<name>.plain.sasl.jaas.config`. Its values are passwords: errors never
show them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from broker.errors import ConfigError

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"

_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_USER_PREFIX: Final = "user_"
_FORM: Final = f'"{PLAIN_MODULE} required user_<name>=\\"<password>\\" ...;"'
_TOKEN = re.compile(r'\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<mark>[=;])|(?P<word>[^\s=;"]+))', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LoginModule:
    name: str
    options: Mapping[str, str] = field(repr=False)


def parse(key: str, text: str) -> LoginModule:
    """Parse exactly one login module. Raises ConfigError, which names the setting `key`."""
    tokens = _tokens(key, text)
    if len(tokens) < 3 or tokens[1] not in [("word", flag) for flag in _FLAGS] or tokens[0][0] != "word":
        raise _refused(key)
    if tokens[-1] != ("mark", ";"):
        raise _refused(key)
    options: dict[str, str] = {}
    body = tokens[2:-1]
    for name, equals, value in zip(body[::3], body[1::3], body[2::3], strict=False):
        if name[0] != "word" or equals != ("mark", "=") or value[0] == "mark" or name[1] in options:
            raise _refused(key)
        options[name[1]] = value[1]
    if len(body) % 3:
        raise _refused(key)
    return LoginModule(tokens[0][1], options)


def plain_users(key: str, text: str) -> dict[str, str]:
    """Return user names and passwords.

    Raises ConfigError if the module is not PlainLoginModule, or a name or a password is empty.
    """
    module = parse(key, text)
    if module.name != PLAIN_MODULE:
        raise ConfigError(key, module.name, f"the login module {PLAIN_MODULE}")
    users = {
        option[len(_USER_PREFIX) :]: password
        for option, password in module.options.items()
        if option.startswith(_USER_PREFIX)
    }
    if not all(users) or not all(users.values()):
        raise ConfigError(key, "(hidden)", "no empty user names or passwords")
    return users


def _tokens(key: str, text: str) -> list[tuple[str, str]]:
    tokens = []
    position, text = 0, text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise _refused(key)
        value = match[match.lastgroup]
        # Values may be quoted or not; names and flags must be plain words.
        tokens.append((match.lastgroup, _ESCAPED.sub(r"\1", value) if match.lastgroup == "quoted" else value))
        position = match.end()
    return tokens


def _refused(key: str) -> ConfigError:
    return ConfigError(key, "(hidden)", _FORM)

"""SASL PLAIN: a user name and a password in one message. (RFC 4616; Kafka: PlainSaslServer)

The SaslAuthenticate handler calls `PlainLogin`. Pure; a change of users creates a new authenticator. The
users come from `listener.name.<name>.plain.sasl.jaas.config`, which `plain_users` reads. Passwords are kept
as keyed digests only; an unknown name takes the same time and gets the same message as a wrong password.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from broker.common.errors import ConfigError
from broker.security.sasl import SaslLogin, authentication_failed

MECHANISM: Final = "PLAIN"

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"

_JAAS_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_USER_PREFIX: Final = "user_"
_JAAS_FORM: Final = f'"{PLAIN_MODULE} required user_<name>=\\"<password>\\" ...;"'
_JAAS_TOKEN = re.compile(
    r'\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<mark>[=;])|(?P<word>[^\s=;"]+))', re.DOTALL
)
_JAAS_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class PlainAuthenticator:
    """`users` maps listener names in capitals to user names to passwords."""

    def __init__(self, users: Mapping[str, Mapping[str, str]]) -> None:
        self._key = secrets.token_bytes(32)
        self._unknown_user = secrets.token_bytes(32)
        self._digests = {
            listener: {name: self._digest(password.encode()) for name, password in known.items()}
            for listener, known in users.items()
        }

    @classmethod
    def from_jaas(cls, jaas: tuple[tuple[str, str], ...]) -> "PlainAuthenticator":
        """Create the authenticator from `SecurityConfig.plain_jaas`. Raises ConfigError."""
        return cls(
            {
                listener: plain_users(f"listener.name.{listener.lower()}.plain.sasl.jaas.config", text)
                for listener, text in jaas
            }
        )

    def has(self, listener: str, name: str) -> bool:
        """Whether the user exists."""
        return name in self._digests.get(listener, {})

    def authenticate(self, listener: str, message: bytes | bytearray | memoryview) -> str:
        """Return the user's name. Raises ApiError SASL_AUTHENTICATION_FAILED with Kafka's messages."""
        try:
            text = str(message, "utf-8")
        except UnicodeDecodeError as error:
            raise authentication_failed("Invalid SASL/PLAIN response: not UTF-8") from error
        separators = text.count("\0")  # before they are split: a message may have half a million
        if separators != 2:
            raise authentication_failed(
                f"Invalid SASL/PLAIN response: expected 3 tokens, got {separators + 1}"
            )
        authorize_as, name, password = text.split("\0")
        if not name:
            raise authentication_failed("Authentication failed: username not specified")
        if not password:
            raise authentication_failed("Authentication failed: password not specified")
        expected = self._digests.get(listener, {}).get(name)
        given = self._digest(password.encode())
        if not hmac.compare_digest(given, self._unknown_user if expected is None else expected):
            raise authentication_failed("Authentication failed: Invalid username or password")
        if authorize_as not in ("", name):
            raise authentication_failed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        return name

    def _digest(self, password: bytes) -> bytes:
        return hmac.digest(self._key, password, hashlib.sha256)


class PlainLogin(SaslLogin):
    """One login, of one message, on this listener."""

    def __init__(self, authenticator: PlainAuthenticator, listener: str) -> None:
        super().__init__(MECHANISM)
        self._authenticator = authenticator
        self._listener = listener

    def step(self, message: bytes | bytearray | memoryview, wall_ms: int) -> bytes:
        """Raises ApiError SASL_AUTHENTICATION_FAILED."""
        self.name = self._authenticator.authenticate(self._listener, message)
        return b""


@dataclass(frozen=True, slots=True)
class LoginModule:
    name: str
    options: Mapping[str, str] = field(repr=False)


def parse_jaas(key: str, text: str, form: str = _JAAS_FORM) -> LoginModule:
    """Parse a JAAS configuration string: one login module, a control flag and options, ended by a semicolon.
    (Kafka: JaasConfig)

        org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret" user_bob="it's
        \\"quoted\\"";

    Raises ConfigError, which names the setting `key` and the allowed `form`, and never shows the text: it
    contains passwords.
    """
    tokens = _jaas_tokens(key, text, form)
    if len(tokens) < 3 or tokens[1] not in [("word", flag) for flag in _JAAS_FLAGS] or tokens[0][0] != "word":
        raise ConfigError(key, "(hidden)", form)
    if tokens[-1] != ("mark", ";"):
        raise ConfigError(key, "(hidden)", form)
    options: dict[str, str] = {}
    body = tokens[2:-1]
    for name, equals, value in zip(body[::3], body[1::3], body[2::3], strict=False):
        if name[0] != "word" or equals != ("mark", "=") or value[0] == "mark" or name[1] in options:
            raise ConfigError(key, "(hidden)", form)
        options[name[1]] = value[1]
    if len(body) % 3:
        raise ConfigError(key, "(hidden)", form)
    return LoginModule(tokens[0][1], options)


def plain_users(key: str, text: str) -> dict[str, str]:
    """Return user names and passwords.

    Raises ConfigError if the module is not PlainLoginModule, or a name or a password is empty.
    """
    module = parse_jaas(key, text)
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


def _jaas_tokens(key: str, text: str, form: str) -> list[tuple[str, str]]:
    tokens = []
    position, text = 0, text.rstrip()
    while position < len(text):
        match = _JAAS_TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise ConfigError(key, "(hidden)", form)
        value = match[match.lastgroup]
        # Values may be quoted or not; names and flags must be plain words.
        tokens.append(
            (match.lastgroup, _JAAS_ESCAPED.sub(r"\1", value) if match.lastgroup == "quoted" else value)
        )
        position = match.end()
    return tokens

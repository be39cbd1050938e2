"""SASL PLAIN: a user name and a password in one message. (RFC 4616; Kafka: PlainSaslServer)

Called by the SaslAuthenticate handler. Pure; a change of users creates a new authenticator. Passwords are
kept as keyed digests only; an unknown name takes the same time and gets the same message as a wrong password.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Final

from broker.errors import ApiError, ErrorCode
from broker.security.jaas import plain_users

MECHANISM: Final = "PLAIN"


class PlainAuthenticator:
    """`users` maps listener names in capitals to user names to passwords."""

    __slots__ = ("_digests", "_key", "_unknown_user")

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

    def authenticate(self, listener: str, message: bytes | bytearray | memoryview) -> str:
        """Return the user's name. Raises ApiError SASL_AUTHENTICATION_FAILED with Kafka's messages."""
        try:
            text = str(message, "utf-8")
        except UnicodeDecodeError as error:
            raise _failed("Invalid SASL/PLAIN response: not UTF-8") from error
        separators = text.count("\0")  # before they are split: a message may have half a million
        if separators != 2:
            raise _failed(f"Invalid SASL/PLAIN response: expected 3 tokens, got {separators + 1}")
        authorize_as, name, password = text.split("\0")
        if not name:
            raise _failed("Authentication failed: username not specified")
        if not password:
            raise _failed("Authentication failed: password not specified")
        expected = self._digests.get(listener, {}).get(name)
        given = self._digest(password.encode())
        if not hmac.compare_digest(given, self._unknown_user if expected is None else expected):
            raise _failed("Authentication failed: Invalid username or password")
        if authorize_as not in ("", name):
            raise _failed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        return name

    def _digest(self, password: bytes) -> bytes:
        return hmac.digest(self._key, password, hashlib.sha256)


def _failed(words: str) -> ApiError:
    return ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, words)

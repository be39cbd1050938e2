"""SASL OAUTHBEARER: an access token in one message. (RFC 7628, KIP-255; Kafka: OAuthBearerSaslServer,
OAuthBearerClientInitialResponse)

The SaslAuthenticate handler calls it, with one `OAuthBearerLogin` per login. Pure. A token that is refused is
answered with a status as JSON; the client confirms it, and then the login fails. Extensions of the client are
read and ignored. Unlike Kafka, a client cannot send another token in place of the confirmation, and its
message has at most LONGEST_MESSAGE bytes and MOST_EXTENSIONS extensions.
"""

import re
from collections.abc import Callable
from typing import Final

from broker.common.errors import ApiError
from broker.security.access_tokens import LONGEST_TOKEN, AccessToken, InvalidToken
from broker.security.sasl import SaslLogin, authentication_failed, invalid_credentials
from broker.security.scram import unescaped

MECHANISM: Final = "OAUTHBEARER"

LONGEST_MESSAGE: Final = LONGEST_TOKEN + 8_192
"""Bytes: the longest token and some extensions."""

MOST_EXTENSIONS: Final = 100
"""Ours; 18,000 fit into a message and take 4 ms."""

_STATUS: Final = '{"status":"invalid_token"}'

_FIRST: Final = re.compile(
    r"n,(?:a=(?P<authorization_id>[^,\x00]+))?,\x01(?P<pairs>(?:[A-Za-z]++=[\x21-\x7E \t\r\n]++\x01)*+)\x01"
)
_AUTH: Final = re.compile(r"(?:^|\x01)auth=([^\x01]+)")
_BEARER: Final = re.compile(r"(?i:bearer) +(?P<token>[-_~+/.A-Za-z0-9]+=*)")

ReadToken = Callable[[str, int], AccessToken]
"""Returns who a token is for, at this time in ms since the epoch. Raises InvalidToken."""


class OAuthBearerLogin(SaslLogin):
    """One login: one message, and a second one if the token is refused."""

    def __init__(self, read: ReadToken) -> None:
        super().__init__(MECHANISM)
        self._read = read

    def step(self, message: bytes | bytearray | memoryview, wall_ms: int) -> bytes:
        if self.refusal:
            raise authentication_failed(_STATUS)
        authorization_id, token = self._parse(message)
        try:
            if len(token) > LONGEST_TOKEN:
                raise InvalidToken(f"the token has more than {LONGEST_TOKEN} characters")
            user = self._read(token, wall_ms)
        except InvalidToken as invalid:
            self.refusal = str(invalid)
            return _STATUS.encode()
        if authorization_id not in ("", user.name):
            self.refusal = "the client asks to act as another user than the token's"
            raise authentication_failed(
                "Authentication failed: Client requested an authorization id that is different from the "
                "token's principal name"
            )
        self.name, self.ends_wall_ms = user.name, user.ends_wall_ms
        return b""

    def _parse(self, message: bytes | bytearray | memoryview) -> tuple[str, str]:
        """Return the authorization id, "" if there is none, and the token."""
        if len(message) > LONGEST_MESSAGE:
            raise self._malformed(f"the client's message has more than {LONGEST_MESSAGE} bytes")
        try:
            text = str(message, "utf-8")
        except UnicodeDecodeError:
            text = ""
        if text.count("\x01") - 3 > MOST_EXTENSIONS:
            raise self._malformed(f"the client's message has more than {MOST_EXTENSIONS} extensions")
        found = _FIRST.fullmatch(text)
        if found is None:
            raise self._malformed("the client's message is not one of OAUTHBEARER")
        given = _AUTH.findall(found["pairs"])
        bearer = _BEARER.fullmatch(given[0]) if len(given) == 1 else None
        authorization_id = unescaped(found["authorization_id"] or "")
        if bearer is None or authorization_id is None:
            raise self._malformed("the client's message has no bearer token")
        return authorization_id, bearer["token"]

    def _malformed(self, why: str) -> ApiError:
        self.refusal = why
        return invalid_credentials(MECHANISM)

"""SASL SCRAM: the client proves its password without sending it.

Called by the SaslAuthenticate handler, with one `ScramLogin` per login, and by control, which derives a
user's keys from a salted password. Pure. An unknown name is challenged like any other, with a credential from
broker.security.unknown_users, and fails at the end with the same message. (RFC 5802, RFC 7677, KIP-84; Kafka:
ScramSaslServer)

With the extension `tokenauth=true`, the user name is the id of a delegation token and the password its HMAC;
the login is its owner's. An unknown token fails at once, as in Kafka. (KIP-48)

The library scramp is not used: it prepares user names (SASLprep) on the server, which Kafka does not, so it
confuses different users and blocks the event loop for a second for a long name. It also refuses an
authorization id and stored salts of under 12 bytes, and hides exceptions of the credential lookup.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

import msgspec

from broker.common.errors import ApiError
from broker.security.sasl import SaslLogin, invalid_credentials

MIN_ITERATIONS: Final = 4_096
MAX_ITERATIONS: Final = 16_384
"""Limits of the iteration count, which each login and each guess of an attacker costs.

(Kafka: ScramMechanism, ScramFormatter)
"""


class ScramMechanism(msgspec.Struct, frozen=True):
    """A SCRAM mechanism. `code` identifies it in the Kafka protocol."""

    name: str
    code: int
    hash_name: str

    def digest(self, data: bytes) -> bytes:
        return hashlib.new(self.hash_name, data).digest()

    def mac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self.hash_name)


MECHANISMS: Final[Mapping[str, ScramMechanism]] = {
    each.name: each
    for each in (ScramMechanism("SCRAM-SHA-256", 1, "sha256"), ScramMechanism("SCRAM-SHA-512", 2, "sha512"))
}
BY_CODE: Final[Mapping[int, ScramMechanism]] = {each.code: each for each in MECHANISMS.values()}


class Credential(Protocol):
    """The stored form of a user's password: it verifies a proof, but does not allow a login."""

    @property
    def salt(self) -> bytes: ...
    @property
    def iterations(self) -> int: ...
    @property
    def stored_key(self) -> bytes: ...
    @property
    def server_key(self) -> bytes: ...


class ComputedCredential(msgspec.Struct, frozen=True):
    """A credential that is computed for a login, and not stored."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


class TokenOwner(NamedTuple):
    """The user whom a delegation token logs in, until `ends_wall_ms`."""

    name: str
    ends_wall_ms: int
    credential: Credential


def keys_of(mechanism: ScramMechanism, salted_password: bytes) -> tuple[bytes, bytes]:
    """Return the stored key and the server key."""
    client_key = mechanism.mac(salted_password, b"Client Key")
    return mechanism.digest(client_key), mechanism.mac(salted_password, b"Server Key")


_FIRST: Final = re.compile(
    r"(?P<header>[ny],(?:a=(?P<authorization_id>[^,]*))?,)"
    r"(?P<bare>n=(?P<name>[^,]+),r=(?P<nonce>[\x21-\x2B\x2D-\x7E]+)(?P<extensions>(?:,[A-Za-z]+=[^,]*)*))"
)
_FINAL: Final = re.compile(
    r"(?P<unproven>c=(?P<header>[A-Za-z0-9+/=]+),r=(?P<nonce>[^,]+)(?:,[A-Za-z]=[^,]*)*),p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_TOKEN: Final = re.compile(r",tokenauth=([^,]*)")
_ESCAPED: Final = re.compile(r"=(2C|3D)?")


class ScramLogin(SaslLogin):
    """One login with two messages and two responses.

    `find` returns a user's credential for this mechanism, `unknown` the fake credential of a name without
    one; both are called for every name, so that the response time does not reveal whether a user exists.
    `find_token` returns the owner of a delegation token by its id.
    """

    def __init__(
        self,
        mechanism: ScramMechanism,
        find: Callable[[str], Credential | None],
        unknown: Callable[[str], Credential],
        find_token: Callable[[str], TokenOwner | None] = lambda _token_id: None,
    ) -> None:
        super().__init__(mechanism.name)
        self._mechanism = mechanism
        self._find = find
        self._unknown = unknown
        self._find_token = find_token
        self._nonce = ""
        self._header = b""
        self._claimed_name = ""
        self._first_messages = ""
        self._credential: Credential | None = None

    def step(self, message: bytes | bytearray | memoryview, wall_ms: int) -> bytes:
        try:
            text = str(message, "utf-8")
        except UnicodeDecodeError as error:
            raise self._failed() from error
        if self._credential is None:
            return self._challenge(text, wall_ms)
        return self._verify(text, self._credential)

    def _challenge(self, text: str, wall_ms: int) -> bytes:
        found = _FIRST.fullmatch(text)
        if found is None:
            raise self._failed()
        name = unescaped(found["name"])
        authorization_id = found["authorization_id"]
        if name is None or (authorization_id and unescaped(authorization_id) != name):
            raise self._failed()
        self._credential = credential = self._known(name, found["extensions"], wall_ms)
        self._header = found["header"].encode()
        self._nonce = found["nonce"] + secrets.token_urlsafe(24)
        salt = base64.b64encode(credential.salt).decode()
        challenge = f"r={self._nonce},s={salt},i={credential.iterations}"
        self._first_messages = f"{found['bare']},{challenge}"
        return challenge.encode()

    def _known(self, name: str, extensions: str, wall_ms: int) -> Credential:
        """Return the credential to challenge with."""
        given = _TOKEN.findall(extensions)
        if not given or given[-1].lower() != "true":
            self._claimed_name = name
            unknown = self._unknown(name)
            return self._find(name) or unknown
        owner = self._find_token(name)
        if owner is None:
            self.refusal = "there is no such delegation token"
            raise self._failed()
        if owner.ends_wall_ms < wall_ms:
            self.refusal = "the delegation token has expired"
            raise self._failed()
        self.by_token, self.ends_wall_ms, self._claimed_name = True, owner.ends_wall_ms, owner.name
        return owner.credential

    def _verify(self, text: str, credential: Credential) -> bytes:
        found = _FINAL.fullmatch(text)
        if found is None or found["nonce"] != self._nonce or decoded(found["header"]) != self._header:
            raise self._failed()
        mechanism, auth_message = self._mechanism, f"{self._first_messages},{found['unproven']}".encode()
        signature, proof = mechanism.mac(credential.stored_key, auth_message), decoded(found["proof"])
        if proof is None or len(proof) != len(signature):
            raise self._failed()
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(mechanism.digest(client_key), credential.stored_key):
            raise self._failed()
        self.name = self._claimed_name
        return b"v=" + base64.b64encode(mechanism.mac(credential.server_key, auth_message))

    def _failed(self) -> ApiError:
        return invalid_credentials(self._mechanism.name)


def unescaped(name: str) -> str | None:
    """Decode a saslname, in which =2C and =3D stand for "," and "=". None for any other "="."""
    if any(found[1] is None for found in _ESCAPED.finditer(name)):
        return None
    return name.replace("=2C", ",").replace("=3D", "=")


def decoded(text: str) -> bytes | None:
    """Return the bytes of base64; None for any other text."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return None

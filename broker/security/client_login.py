"""SASL on the client's side: PLAIN and SCRAM. (RFC 4616, RFC 5802, RFC 7677; Kafka: PlainSaslClient,
ScramSaslClient)

Used by the gateway, which logs in at upstream brokers. Pure. User names and passwords are not prepared
(SASLprep), as in Kafka. A delegation token is the user of a SCRAM login with the extension `tokenauth`.
(KIP-48; Kafka: ScramExtensions)
"""

import base64
import hashlib
import hmac
import re
import secrets
from typing import Final, Protocol

from broker.common.errors import ConfigError
from broker.security import plain
from broker.security.plain import PLAIN_MODULE, parse_jaas
from broker.security.sasl import authentication_failed
from broker.security.scram import MAX_ITERATIONS, MECHANISMS, MIN_ITERATIONS, ScramMechanism, decoded
from broker.security.sealed import Sealed

SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"

MAX_SALTS: Final = 64
"""Salted passwords that are kept for one user; ours. Each broker has a salt of its own for a token."""

_EXTENSION: Final = ",tokenauth=true"

_CHALLENGE: Final = re.compile(
    r"r=(?P<nonce>[\x21-\x2B\x2D-\x7E]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>[0-9]{1,9})(?:,[A-Za-z]=[^,]*)*"
)
_FINAL: Final = re.compile(r"v=(?P<signature>[A-Za-z0-9+/=]+)(?:,[A-Za-z]=[^,]*)*")


class ClientLogin(Protocol):
    """One login: `first` returns the first message, `answer` the one after the broker's response, or None
    when the login is done. `answer` raises ApiError if the broker did not prove that it knows the password.
    It derives a key where `derives` says so, which takes milliseconds and can be done in a thread.
    """

    def first(self) -> bytes: ...

    def derives(self, response: bytes) -> bool: ...

    def answer(self, response: bytes) -> bytes | None: ...


def login_module(mechanism: str) -> str:
    """Return the name of the login module of a mechanism."""
    return PLAIN_MODULE if mechanism == plain.MECHANISM else SCRAM_MODULE


class ClientCredentials:
    """A user's name and password for one mechanism, or the id and the HMAC in base64 of a delegation token;
    `owner` is then the name of its owner, whom the broker knows after the login. Keeps the salted passwords
    of the last MAX_SALTS salts, which cost milliseconds (RFC 5802, section 5.1).
    """

    def __init__(self, mechanism: str, name: str, password: str, owner: str | None = None) -> None:
        self.mechanism = mechanism
        self.name = name
        self.owner = owner
        self._password = Sealed(password.encode())
        self._salted: dict[tuple[bytes, int], Sealed] = {}

    @classmethod
    def from_jaas(cls, key: str, text: str, mechanism: str) -> "ClientCredentials":
        """Parse `<login module> required username="<name>" password="<password>";`.

        Raises ConfigError, which names the setting `key` and never shows the text.
        """
        wanted = login_module(mechanism)
        form = f'"{wanted} required username=\\"<name>\\" password=\\"<password>\\";"'
        module = parse_jaas(key, text, form)
        if module.name != wanted:
            raise ConfigError(key, module.name, f"the login module of {mechanism}: {wanted}")
        name, password = module.options.get("username", ""), module.options.get("password", "")
        if not name or not password or "\0" in name + password:
            raise ConfigError(key, "(hidden)", form)
        return cls(mechanism, name, password)

    def for_mechanism(self, mechanism: str) -> "ClientCredentials":
        """Return the same name and password for another mechanism."""
        return ClientCredentials(mechanism, self.name, self._password.open().decode(), self.owner)

    def is_same_user(self, other: "ClientCredentials") -> bool:
        """Whether a broker lets these renew a login with the others: the principal and the mechanism stay."""
        return (self.mechanism, self.owner or self.name) == (other.mechanism, other.owner or other.name)

    def equals(self, other: "ClientCredentials") -> bool:
        """Whether user, mechanism and password are the same."""
        return (
            self.is_same_user(other)
            and self.name == other.name
            and hmac.compare_digest(self._password.open(), other._password.open())
        )

    def login(self) -> ClientLogin:
        """Return a new login."""
        if self.mechanism == plain.MECHANISM:
            return _Plain(self.name, self._password.open().decode())
        return _Scram(MECHANISMS[self.mechanism], self)

    def knows(self, salt: bytes, iterations: int) -> bool:
        """Whether `salted_password` derives nothing."""
        return (salt, iterations) in self._salted

    def salted_password(self, hash_name: str, salt: bytes, iterations: int) -> bytes:
        known = self._salted.get((salt, iterations))
        if known is not None:
            return known.open()
        salted = hashlib.pbkdf2_hmac(hash_name, self._password.open(), salt, iterations)
        while len(self._salted) >= MAX_SALTS:
            self._salted.pop(next(iter(self._salted)), None)
        self._salted[salt, iterations] = Sealed(salted)
        return salted


class _Plain:
    def __init__(self, name: str, password: str) -> None:
        self._message = f"\0{name}\0{password}".encode()

    def first(self) -> bytes:
        return self._message

    def derives(self, response: bytes) -> bool:
        return False

    def answer(self, response: bytes) -> bytes | None:
        return None


class _Scram:
    def __init__(self, mechanism: ScramMechanism, credentials: ClientCredentials) -> None:
        self._mechanism = mechanism
        self._credentials = credentials
        name = credentials.name.replace("=", "=3D").replace(",", "=2C")
        self._nonce = secrets.token_urlsafe(24)
        self._bare = f"n={name},r={self._nonce}{'' if credentials.owner is None else _EXTENSION}"
        self._signature: bytes | None = None

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def derives(self, response: bytes) -> bool:
        found = _CHALLENGE.fullmatch(response.decode(errors="replace"))
        if self._signature is not None or found is None:
            return False
        salt = decoded(found["salt"])
        return salt is not None and not self._credentials.knows(salt, int(found["iterations"]))

    def answer(self, response: bytes) -> bytes | None:
        try:
            text = response.decode()
        except UnicodeDecodeError as error:
            raise authentication_failed("the broker's SCRAM message is not UTF-8") from error
        if self._signature is None:
            return self._prove(text)
        self._verify(text, self._signature)
        return None

    def _prove(self, text: str) -> bytes:
        found = _CHALLENGE.fullmatch(text)
        salt = decoded(found["salt"]) if found else None
        if found is None or not salt:
            raise authentication_failed("the broker's SCRAM challenge is invalid")
        nonce, iterations = found["nonce"], int(found["iterations"])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise authentication_failed("the broker's SCRAM challenge has another nonce")
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise authentication_failed(
                f"the broker asks for {iterations} SCRAM iterations; "
                f"{MIN_ITERATIONS} to {MAX_ITERATIONS} are allowed"
            )
        mechanism = self._mechanism
        salted = self._credentials.salted_password(mechanism.hash_name, salt, iterations)
        client_key = mechanism.mac(salted, b"Client Key")
        unproven = f"c=biws,r={nonce}"
        message = f"{self._bare},{text},{unproven}".encode()
        signature = mechanism.mac(mechanism.digest(client_key), message)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = mechanism.mac(mechanism.mac(salted, b"Server Key"), message)
        return f"{unproven},p={base64.b64encode(proof).decode()}".encode()

    def _verify(self, text: str, expected: bytes) -> None:
        if text.startswith("e="):
            raise authentication_failed(f"the broker refuses the login: {text[2:]}")
        found = _FINAL.fullmatch(text)
        signature = decoded(found["signature"]) if found else None
        if signature is None or not hmac.compare_digest(signature, expected):
            raise authentication_failed("the broker does not know the password: its SCRAM signature is wrong")

"""SASL on the client's side: PLAIN and SCRAM. (RFC 4616, RFC 5802, RFC 7677; Kafka: PlainSaslClient,
ScramSaslClient)

Used by the gateway, which logs in at upstream brokers. Pure. User names and passwords are not prepared
(SASLprep), as in Kafka.
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

SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"

_CHALLENGE: Final = re.compile(
    r"r=(?P<nonce>[\x21-\x2B\x2D-\x7E]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>[0-9]{1,9})(?:,[A-Za-z]=[^,]*)*"
)
_FINAL: Final = re.compile(r"v=(?P<signature>[A-Za-z0-9+/=]+)(?:,[A-Za-z]=[^,]*)*")


class ClientLogin(Protocol):
    """One login: `first` returns the first message, `answer` the one after the broker's response, or None
    when the login is done. `answer` raises ApiError if the broker did not prove that it knows the password.
    """

    def first(self) -> bytes: ...

    def answer(self, response: bytes) -> bytes | None: ...


class ClientCredentials:
    """A user's name and password for one mechanism. Keeps the salted password of the last login, which costs
    milliseconds (RFC 5802, section 5.1).
    """

    def __init__(self, mechanism: str, name: str, password: str) -> None:
        self.mechanism = mechanism
        self.name = name
        self._password = password
        self._salted: tuple[bytes, int, bytes] | None = None

    @classmethod
    def from_jaas(cls, key: str, text: str, mechanism: str) -> "ClientCredentials":
        """Parse `<login module> required username="<name>" password="<password>";`.

        Raises ConfigError, which names the setting `key` and never shows the text.
        """
        wanted = PLAIN_MODULE if mechanism == plain.MECHANISM else SCRAM_MODULE
        form = f'"{wanted} required username=\\"<name>\\" password=\\"<password>\\";"'
        module = parse_jaas(key, text, form)
        if module.name != wanted:
            raise ConfigError(key, module.name, f"the login module of {mechanism}: {wanted}")
        name, password = module.options.get("username", ""), module.options.get("password", "")
        if not name or not password or "\0" in name + password:
            raise ConfigError(key, "(hidden)", form)
        return cls(mechanism, name, password)

    def login(self) -> ClientLogin:
        """Return a new login."""
        if self.mechanism == plain.MECHANISM:
            return _Plain(self.name, self._password)
        return _Scram(MECHANISMS[self.mechanism], self)

    def salted_password(self, hash_name: str, salt: bytes, iterations: int) -> bytes:
        known = self._salted
        if known is None or known[:2] != (salt, iterations):
            salted = hashlib.pbkdf2_hmac(hash_name, self._password.encode(), salt, iterations)
            self._salted = known = (salt, iterations, salted)
        return known[2]


class _Plain:
    def __init__(self, name: str, password: str) -> None:
        self._message = f"\0{name}\0{password}".encode()

    def first(self) -> bytes:
        return self._message

    def answer(self, response: bytes) -> bytes | None:
        return None


class _Scram:
    def __init__(self, mechanism: ScramMechanism, credentials: ClientCredentials) -> None:
        self._mechanism = mechanism
        self._credentials = credentials
        name = credentials.name.replace("=", "=3D").replace(",", "=2C")
        self._nonce = secrets.token_urlsafe(24)
        self._bare = f"n={name},r={self._nonce}"
        self._signature: bytes | None = None

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

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

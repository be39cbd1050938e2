"""Tokens of the console and the REST API: shown once, stored as a salted digest.

Called by broker.controller. A plain SHA-256 is enough because a generated token has 256 random bits; a slow
hash would let clients block the event loop with wrong tokens. A token chosen by the operator is only as
strong as chosen.
"""

import hashlib
import hmac
import secrets
from typing import Final, NamedTuple

_SALT_BYTES: Final = 16


class StoredToken(NamedTuple):
    salt: bytes
    digest: bytes


def new_secret() -> str:
    """Return 256 random bits as 43 characters that need no escaping in a URL or a header."""
    return secrets.token_urlsafe(32)


def store(secret: str) -> StoredToken:
    salt = secrets.token_bytes(_SALT_BYTES)
    return StoredToken(salt, _digest(salt, secret))


def matches(secret: str, salt: bytes, digest: bytes) -> bool:
    """Compare in constant time for a given length of `secret`."""
    return hmac.compare_digest(_digest(salt, secret), digest)


def _digest(salt: bytes, secret: str) -> bytes:
    # A browser may send any text, which is only compared: lone surrogates must not raise.
    return hashlib.sha256(salt + secret.encode("utf-8", "surrogatepass")).digest()

"""Console passwords, stored as scrypt hashes, because chosen passwords can be guessed.

Called by broker.controller. Each hash stores its cost, so that a later release can raise the cost without
locking users out. Slow on purpose: a hash takes a quarter of a second of a core and 32 MiB and releases the
interpreter lock; callers use worker threads, a few at a time.
"""

import hashlib
import hmac
import secrets
import unicodedata
from dataclasses import dataclass, field
from typing import Final, NamedTuple

MIN_LENGTH: Final = 12
MAX_LENGTH: Final = 256
MIN_DISTINCT: Final = 5

_SALT_BYTES: Final = 16
_DIGEST_BYTES: Final = 32


class Cost(NamedTuple):
    """scrypt's parameters (RFC 7914): 128 * n * r bytes of memory, p times over."""

    n: int
    r: int
    p: int


COST: Final = Cost(2**15, 8, 3)
"""One of the equivalent settings of OWASP's password storage sheet.

It has the third lowest memory use: concurrent attempts are limited, memory more tightly than time.
"""


@dataclass(frozen=True, slots=True)
class StoredPassword:
    """The stored form of a password: scrypt's salt, parameters and output."""

    salt: bytes = field(repr=False)
    cost: Cost
    digest: bytes = field(repr=False)


def password_error(password: str, name: str) -> str | None:
    """Return why `password` is invalid for the user `name`; None if it is valid."""
    text = _normal(password)
    if not MIN_LENGTH <= len(text) <= MAX_LENGTH:
        return f"Invalid password: expected {MIN_LENGTH} to {MAX_LENGTH} characters"
    if len(set(text)) < MIN_DISTINCT:
        return f"Invalid password: expected at least {MIN_DISTINCT} different characters"
    if text.casefold() == _normal(name).casefold():
        return "Invalid password: it must differ from the name"
    return None


def store(password: str, cost: Cost = COST) -> StoredPassword:
    salt = secrets.token_bytes(_SALT_BYTES)
    return StoredPassword(salt, cost, _digest(password, salt, cost))


def matches(password: str, stored: StoredPassword) -> bool:
    return hmac.compare_digest(_digest(password, stored.salt, stored.cost), stored.digest)


def unmatchable(cost: Cost = COST) -> StoredPassword:
    """Return a password that matches nothing, at the cost of a real one."""
    return StoredPassword(bytes(_SALT_BYTES), cost, secrets.token_bytes(_DIGEST_BYTES))


def _digest(password: str, salt: bytes, cost: Cost) -> bytes:
    # A browser may send any text, which is only compared: lone surrogates must not raise.
    text = _normal(password).encode("utf-8", "surrogatepass")
    memory = 128 * cost.r * (cost.n + cost.p + 2)
    return hashlib.scrypt(
        text, salt=salt, n=cost.n, r=cost.r, p=cost.p, maxmem=2 * memory, dklen=_DIGEST_BYTES
    )


def _normal(text: str) -> str:
    """Normalize equivalent spellings, which differ between keyboards."""
    return unicodedata.normalize("NFKC", text)

"""Passwords of the console: chosen by people, so kept as scrypt hashes that cost a guesser time and memory.

Called by broker.control. What it costs is written beside each hash, so that a later release can ask for more
without locking anybody out. Slow on purpose: a hash is a quarter of a second of a core and 32 MiB, in which
the interpreter's lock is let go; whoever calls this does so in a worker thread, a few at a time.
"""

import hashlib
import hmac
import secrets
import unicodedata
from typing import Final, NamedTuple

SHORTEST: Final = 12
LONGEST: Final = 256
LEAST_DIFFERENT: Final = 5

_SALT_BYTES: Final = 16
_DIGEST_BYTES: Final = 32


class Cost(NamedTuple):
    """scrypt's parameters (RFC 7914): 128 * n * r bytes of memory, p times over."""

    n: int
    r: int
    p: int


COST: Final = Cost(2**15, 8, 3)
"""One of the equal settings of OWASP's password storage sheet, that with the least memory but two: what is
tried at once is bounded, memory more tightly than time.
"""


class StoredPassword(NamedTuple):
    salt: bytes
    cost: Cost
    digest: bytes


def complaint(password: str, name: str) -> str | None:
    """What is wrong with it as a password of `name`; None where it will do."""
    text = _normal(password)
    if not SHORTEST <= len(text) <= LONGEST:
        return f"A password has {SHORTEST} to {LONGEST} characters"
    if len(set(text)) < LEAST_DIFFERENT:
        return f"A password has at least {LEAST_DIFFERENT} different characters"
    if text.casefold() == _normal(name).casefold():
        return "A password is not the name"
    return None


def store(password: str, cost: Cost = COST) -> StoredPassword:
    salt = secrets.token_bytes(_SALT_BYTES)
    return StoredPassword(salt, cost, _digest(password, salt, cost))


def matches(password: str, stored: StoredPassword) -> bool:
    return hmac.compare_digest(_digest(password, stored.salt, stored.cost), stored.digest)


def nobodys(cost: Cost = COST) -> StoredPassword:
    """Matches nothing, in the time that a real one takes."""
    return StoredPassword(bytes(_SALT_BYTES), cost, secrets.token_bytes(_DIGEST_BYTES))


def _digest(password: str, salt: bytes, cost: Cost) -> bytes:
    # Whatever a browser sends is only compared; lone surrogates must not raise.
    text = _normal(password).encode("utf-8", "surrogatepass")
    room = 128 * cost.r * (cost.n + cost.p + 2)
    return hashlib.scrypt(text, salt=salt, n=cost.n, r=cost.r, p=cost.p, maxmem=2 * room, dklen=_DIGEST_BYTES)


def _normal(text: str) -> str:
    """One spelling for what looks the same, whichever keyboard typed it."""
    return unicodedata.normalize("NFKC", text)

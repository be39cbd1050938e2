"""What a SCRAM login for an unknown user is challenged with: a salt and an iteration count as the known users
have them, so that a challenge does not tell whether a user exists. (RFC 5802, section 9)

Used by the SaslAuthenticate handler, which computes one for every login, known or unknown, so that the time
does not tell either. Pure. The values depend on the name, on a secret of the metadata and on what the known
users have, and on nothing else: they survive reconnects and restarts.

Kafka fails the first message of an unknown user instead, which tells it apart.
"""

import hmac
import math
import re
import string
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from broker.security.scram import LEAST_ITERATIONS, Credential, ScramMechanism

MOST_SHAPES: Final = 16
"""A login for any name costs as many HMACs at most."""

LARGEST_SAMPLE: Final = 1_000
"""Users that are looked at when the users have changed."""

_KAFKA_BITS: Final = 130
_KAFKA_SALT: Final = re.compile(rb"1?[0-9a-z]{20,25}")
_BASE_36: Final = string.digits + string.ascii_lowercase
_ALPHABETS: Final = tuple(
    letters.encode()
    for letters in (
        string.digits + "abcdef",
        _BASE_36,
        string.ascii_letters + string.digits + "-_",
        string.ascii_letters + string.digits + "+/=",
    )
)


class Shape(NamedTuple):
    """What a credential shows of itself. `salt_bytes` 0: a salt as Kafka's own tools make it, 130 random bits
    in base 36; else so many bytes, of `alphabet` where that is not empty.
    """

    iterations: int
    salt_bytes: int
    alphabet: bytes


KAFKA_DEFAULT: Final = Shape(LEAST_ITERATIONS, 0, b"")
"""What `kafka-configs.sh --add-config 'SCRAM-SHA-256=[password=...]'` makes."""


@dataclass(frozen=True, slots=True)
class UnknownCredential:
    """A `Credential` that no proof fits."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


class UnknownUsers:
    """`secret` is random, kept in the metadata, and shown to nobody."""

    __slots__ = ("_secret", "_shapes", "_users")

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._users: Mapping[str, Mapping[str, Credential]] | None = None
        self._shapes: dict[str, list[tuple[Shape, int]]] = {}

    def credential(
        self, mechanism: ScramMechanism, name: str, users: Mapping[str, Mapping[str, Credential]]
    ) -> UnknownCredential:
        """What `name` is challenged with where it is not among the users of this mechanism. `users` is by
        user, then by mechanism; it is replaced, never edited.

        Each shape that the users have is chosen for its share of the names, and a name keeps its shape while
        the shares stay: a user more or less moves only the share of names that its shape gains or loses.
        """
        if users is not self._users:
            self._users, self._shapes = users, {}
        shapes = self._shapes.get(mechanism.name)
        if shapes is None:
            shapes = self._shapes[mechanism.name] = shapes_of(mechanism, users)
        key = f"{mechanism.name}\n{name}".encode()
        shape = max(shapes, key=lambda each: self._weight(key, *each))[0]
        salt = _salt(shape, self._stream(key, shape, b"salt"))
        size = len(mechanism.digest(b""))
        stored = self._stream(key, shape, b"stored key").take(size)
        return UnknownCredential(
            salt, shape.iterations, stored, self._stream(key, shape, b"server").take(size)
        )

    def _weight(self, key: bytes, shape: Shape, users: int) -> float:
        """Weighted rendezvous hashing: the greatest of these is each shape's with its share of users."""
        drawn = int.from_bytes(self._stream(key, shape, b"choice").take(8), "big")
        return -users / math.log((drawn + 0.5) / 2**64)

    def _stream(self, key: bytes, shape: Shape, purpose: bytes) -> "_Stream":
        about = b"%d %d %s %s\n" % (shape.iterations, shape.salt_bytes, shape.alphabet, purpose)
        return _Stream(self._secret, about + key)


def shapes_of(
    mechanism: ScramMechanism, users: Mapping[str, Mapping[str, Credential]]
) -> list[tuple[Shape, int]]:
    """The most frequent shapes of the users' credentials and how many users have each, in a fixed order. Of
    many users every n-th is looked at.
    """
    step = len(users) // LARGEST_SAMPLE + 1
    sampled = (each.get(mechanism.name) for each in islice(users.values(), 0, None, step))
    counts = Counter(_shape(credential) for credential in sampled if credential is not None)
    return counts.most_common(MOST_SHAPES) or [(KAFKA_DEFAULT, 1)]


def _shape(credential: Credential) -> Shape:
    salt = credential.salt
    alphabet = next((letters for letters in _ALPHABETS if not salt.translate(None, letters)), b"")
    if alphabet == _BASE_36.encode() and _KAFKA_SALT.fullmatch(salt):
        return Shape(credential.iterations, 0, b"")
    return Shape(credential.iterations, len(salt), alphabet)


class _Stream:
    """As many bytes as are wanted that only the secret and the text determine."""

    __slots__ = ("_secret", "_text")

    def __init__(self, secret: bytes, text: bytes) -> None:
        self._secret = secret
        self._text = text

    def take(self, size: int) -> bytes:
        blocks = (
            hmac.digest(self._secret, b"%d %s" % (number, self._text), "sha512")
            for number in range((size + 63) // 64)
        )
        return b"".join(blocks)[:size]


def _salt(shape: Shape, stream: _Stream) -> bytes:
    if not shape.salt_bytes:
        return _in_base_36(int.from_bytes(stream.take(17), "big") >> (17 * 8 - _KAFKA_BITS))
    if not shape.alphabet:
        return stream.take(shape.salt_bytes)
    letters = shape.alphabet
    # Two bytes a letter: the bias of the remainder is below 0.1 %.
    drawn = stream.take(2 * shape.salt_bytes)
    return bytes(
        letters[int.from_bytes(drawn[at : at + 2], "big") % len(letters)] for at in range(0, len(drawn), 2)
    )


def _in_base_36(number: int) -> bytes:
    """Java's BigInteger.toString(36)."""
    digits = []
    while number:
        number, digit = divmod(number, 36)
        digits.append(_BASE_36[digit])
    return "".join(reversed(digits)).encode()

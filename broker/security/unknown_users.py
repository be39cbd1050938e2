"""Fake SCRAM credentials for unknown users.

Salt and iteration count look like those of known users, so that a challenge does not reveal whether a user
exists. The SaslAuthenticate handler computes a credential for every login, known or unknown, so that the time
does not reveal it either. Pure. The values depend only on the name, on a secret in the metadata and on the
known users' credentials: they survive reconnects and restarts. (RFC 5802, section 9)

Kafka instead fails the first message of an unknown user, which reveals that the user does not exist.
"""

import hmac
import math
import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping
from heapq import nlargest
from typing import Final, NamedTuple

from broker.common.slices import Steps, run_through
from broker.security.scram import MECHANISMS, MIN_ITERATIONS, ComputedCredential, Credential, ScramMechanism

MAX_SHAPES: Final = 16
"""Limits the HMACs per login of any name."""


AT_ONCE: Final = 128
"""Shapes compared between two pauses."""

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
    """The visible properties of a credential.

    `salt_bytes` 0: a salt as Kafka's own tools generate it, 130 random bits in base 36; otherwise its length,
    of characters in `alphabet` unless that is empty.
    """

    iterations: int
    salt_bytes: int
    alphabet: bytes


KAFKA_DEFAULT: Final = Shape(MIN_ITERATIONS, 0, b"")
"""The result of `kafka-configs.sh --add-config 'SCRAM-SHA-256=[password=...]'`."""


Users = Mapping[str, Mapping[str, Credential]]
"""By user, then by mechanism."""


class UnknownUsers:
    """Fake credentials.

    `secret` is random, stored in the metadata and never shown. The users of each shape are counted once for
    `users`, and then incrementally as users change.
    """

    def __init__(self, secret: bytes, users: Users) -> None:
        self._secret = secret
        self._counts: dict[str, Counter[Shape]] = {name: Counter() for name in MECHANISMS}
        self._shapes: dict[str, list[tuple[Shape, int]]] = {}
        run_through(self.on_metadata_update({}, users, users))

    def on_metadata_update(self, old: Users, new: Users, names: Iterable[str]) -> Steps[None]:
        """Apply changes to the users `names`. The fake credentials change with the last step."""
        for name in names:
            yield
            for mechanism, credential in old.get(name, {}).items():
                self._count(mechanism, credential, -1)
            for mechanism, credential in new.get(name, {}).items():
                self._count(mechanism, credential, 1)
        shapes = {}
        for mechanism, counts in self._counts.items():
            shapes[mechanism] = (yield from _most_common(counts)) or [(KAFKA_DEFAULT, 1)]
        self._shapes = shapes

    def _count(self, mechanism: str, credential: Credential, more: int) -> None:
        counts = self._counts.get(mechanism)
        if counts is None:
            return
        shape = _shape(credential)
        counts[shape] += more
        if not counts[shape]:
            del counts[shape]

    def credential(self, mechanism: ScramMechanism, name: str) -> ComputedCredential:
        """Return the credential for a `name` that is not a user of this mechanism; it matches no proof.

        Each shape gets a share of the names equal to its share of the users, and a name keeps its shape while
        the shares stay: adding or removing a user moves only the names that its shape gains or loses.
        """
        shapes = self._shapes[mechanism.name]
        key = f"{mechanism.name}\n{name}".encode()
        shape = max(shapes, key=lambda each: self._weight(key, *each))[0]
        salt = _salt(shape, self._stream(key, shape, b"salt"))
        size = len(mechanism.digest(b""))
        stored = self._stream(key, shape, b"stored key").take(size)
        return ComputedCredential(
            salt, shape.iterations, stored, self._stream(key, shape, b"server").take(size)
        )

    def _weight(self, key: bytes, shape: Shape, users: int) -> float:
        """Weighted rendezvous hashing: each shape has the greatest weight for its share of the names."""
        random_bits = int.from_bytes(self._stream(key, shape, b"choice").take(8), "big")
        return -users / math.log((random_bits + 0.5) / 2**64)

    def _stream(self, key: bytes, shape: Shape, purpose: bytes) -> "_Stream":
        about = b"%d %d %s %s\n" % (shape.iterations, shape.salt_bytes, shape.alphabet, purpose)
        return _Stream(self._secret, about + key)


def _most_common(counts: Counter[Shape]) -> Steps[list[tuple[Shape, int]]]:
    """Return the most frequent shapes with their user counts, independent of insertion order."""
    largest: list[tuple[int, Shape]] = []
    counted = [(count, shape) for shape, count in counts.items()]
    for at in range(0, len(counted), AT_ONCE):
        largest = nlargest(MAX_SHAPES, largest + counted[at : at + AT_ONCE])
        yield
    return [(shape, count) for count, shape in largest]


def _shape(credential: Credential) -> Shape:
    salt = credential.salt
    alphabet = next((letters for letters in _ALPHABETS if not salt.translate(None, letters)), b"")
    if alphabet == _BASE_36.encode() and _KAFKA_SALT.fullmatch(salt):
        return Shape(credential.iterations, 0, b"")
    return Shape(credential.iterations, len(salt), alphabet)


class _Stream:
    """A byte stream determined only by the secret and the text."""

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
    # Two bytes per letter keep the modulo bias below 0.1 %.
    random_bits = stream.take(2 * shape.salt_bytes)
    return bytes(
        letters[int.from_bytes(random_bits[at : at + 2], "big") % len(letters)]
        for at in range(0, len(random_bits), 2)
    )


def _in_base_36(number: int) -> bytes:
    """Format like Java's BigInteger.toString(36)."""
    digits = []
    while number:
        number, digit = divmod(number, 36)
        digits.append(_BASE_36[digit])
    return "".join(reversed(digits)).encode()

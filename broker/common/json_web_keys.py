"""The public keys of a token issuer, and signatures that they verify. (RFC 7515, RFC 7517, RFC 7518)

Used by broker.security.access_tokens for Kafka clients, and by webui.security.oidc for the console. Pure.
Only asymmetric algorithms exist here: neither `none` nor an HMAC, so that no public key can serve as a
secret.

pyjwt has the algorithms. It is loaded with the first key set, because most brokers need none.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)

MAX_KEYS: Final = 100
MIN_RSA_BITS: Final = 2_048
MAX_RSA_BITS: Final = 8_192
"""A login with a token whose key has 8,192 bits takes 0.5 ms, one with 2,048 bits 0.1 ms."""

_TYPES: Final = {"E": "EC", "R": "RSA", "P": "RSA"}
_CURVES: Final = {
    "ES256": ("P-256",),
    "ES384": ("P-384",),
    "ES512": ("P-521",),
    "EdDSA": ("Ed25519", "Ed448"),
}
_PUBLIC: Final = ("kty", "crv", "n", "e", "x", "y")
"""The parts of a key that are public. A key set that also has private parts verifies only."""


class PublicKey(msgspec.Struct, frozen=True):
    """`parts` is the key as JSON, `key` what pyjwt verifies with."""

    parts: Mapping[str, Any]
    key: Any


def fits(key: Mapping[str, Any], key_id: object, algorithm: str) -> bool:
    """Whether a key as JSON is for signatures by this algorithm, and has the id, unless that is None."""
    type_ = "OKP" if algorithm == "EdDSA" else _TYPES[algorithm[0]]
    curves = _CURVES.get(algorithm)
    return (
        key.get("kty") == type_
        and (curves is None or key.get("crv") in curves)
        and key.get("use", "sig") == "sig"
        and key.get("alg", algorithm) == algorithm
        and (key_id is None or key.get("kid") == key_id)
    )


def key_for(keys: Sequence[PublicKey], key_id: object, algorithm: str) -> PublicKey | None:
    """Return the key of this id; without an id, the only key for the algorithm. None if there are none or
    several.
    """
    found = [each for each in keys if fits(each.parts, key_id, algorithm)]
    return found[0] if len(found) == 1 else None


def read_keys(document: bytes) -> tuple[PublicKey, ...]:
    """Return the keys of a JSON Web Key Set that can verify signatures; others, such as secrets, are left
    out.

    Raises ValueError with the reason, for people. MAX_KEYS keys take 2 ms.
    """
    found = read_object(document).get("keys")
    if not isinstance(found, list):
        raise ValueError("it is not a JSON Web Key Set: it has no list named keys")
    if len(found) > MAX_KEYS:
        raise ValueError(f"it has more than {MAX_KEYS} keys")
    keys = tuple(key for each in found if isinstance(each, dict) and (key := _public_key(each)) is not None)
    if not keys:
        raise ValueError("it has no public key for signatures")
    return keys


def read_object(text: bytes) -> dict[str, Any]:
    """Return a JSON object in UTF-8 in which no name occurs twice, at any depth. Raises ValueError."""
    try:
        found = json.loads(text.decode(), object_pairs_hook=_unique, parse_constant=_not_json)
    except RecursionError:
        raise ValueError("it nests too deeply") from None
    except ValueError as error:
        # Messages of the JSON reader show no content, but those of the UTF-8 decoder do.
        raise ValueError("it is not JSON with unique names") from error
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    return found


def verify(token: str, key: PublicKey, algorithm: str) -> bytes:
    """Return the payload of a token in compact form whose signature is right. Raises ValueError."""
    import jwt

    try:
        payload = jwt.PyJWS().decode(token, key.key, algorithms=[algorithm])
    except (jwt.PyJWTError, ValueError) as error:
        raise ValueError("its signature is wrong") from error
    assert isinstance(payload, bytes)
    return payload


def _public_key(parts: Mapping[str, Any]) -> PublicKey | None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from jwt import PyJWTError
    from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

    readers: dict[object, Any] = {"RSA": RSAAlgorithm, "EC": ECAlgorithm, "OKP": OKPAlgorithm}
    reader = readers.get(parts.get("kty")) if isinstance(parts.get("kty"), str) else None
    if reader is None or not any(fits(parts, None, algorithm) for algorithm in ALGORITHMS):
        return None
    try:
        key = reader.from_jwk({name: parts[name] for name in _PUBLIC if name in parts})
    except (PyJWTError, UnsupportedAlgorithm, ValueError, TypeError, KeyError, OverflowError):
        return None
    if isinstance(key, RSAPublicKey) and not MIN_RSA_BITS <= key.key_size <= MAX_RSA_BITS:
        return None
    return PublicKey(parts, key)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _not_json(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")

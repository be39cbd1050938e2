"""An issuer of access tokens: key sets and tokens, good and bad."""

import json
from base64 import urlsafe_b64encode
from functools import cache
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

ISSUER: Final = "https://id.example/"
AUDIENCE: Final = "kafka"


@cache
def rsa_key(name: str = "first", bits: int = 2_048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65_537, bits)


@cache
def ec_key(curve: type[ec.EllipticCurve] = ec.SECP256R1) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(curve())


@cache
def ed_key() -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


def as_json(key: Any, **more: object) -> dict[str, Any]:
    """Return the public part of a private key as it stands in a key set; `more` are other members."""
    public = key.public_key()
    writers = {rsa.RSAPublicKey: RSAAlgorithm, ec.EllipticCurvePublicKey: ECAlgorithm}
    writer = next((each for kind, each in writers.items() if isinstance(public, kind)), OKPAlgorithm)
    parts = writer.to_jwk(public, as_dict=True)
    parts.pop("key_ops", None)
    return {**parts, "kid": "first", **more}


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": list(keys or (as_json(rsa_key()),))}).encode()


def write_key_set(directory: Path, *keys: dict[str, Any]) -> str:
    """Write a key set and return its URL."""
    file = directory / "keys.json"
    file.write_bytes(key_set(*keys))
    return file.as_uri()


def claims(now_s: float, **changes: object) -> dict[str, Any]:
    """Return good claims of ann's, for five minutes; `changes` of None remove a claim."""
    usual = {"sub": "ann", "iat": now_s, "exp": now_s + 300, "iss": ISSUER, "aud": AUDIENCE}
    return {name: value for name, value in {**usual, **changes}.items() if value is not None}


def token(
    now_s: float,
    *,
    key: Any = None,
    algorithm: str = "RS256",
    key_id: object = "first",
    header: dict[str, Any] | None = None,
    **changes: object,
) -> str:
    """Return a signed token."""
    headers = {**({} if key_id is None else {"kid": key_id}), **(header or {})}
    return jwt.encode(claims(now_s, **changes), key or rsa_key(), algorithm=algorithm, headers=headers)


def signed(header: bytes, payload: bytes) -> str:
    """Return a token of any header and payload, with a right signature by RS256."""
    signing_input = b".".join(map(_encoded, (header, payload)))
    signature = RSAAlgorithm(RSAAlgorithm.SHA256).sign(signing_input, rsa_key())
    return b".".join((signing_input, _encoded(signature))).decode()


def message(access_token: str, before: str = "n,,", after: str = "") -> bytes:
    """Return the client's first message."""
    return f"{before}\x01auth=Bearer {access_token}\x01{after}\x01".encode()


def _encoded(data: bytes) -> bytes:
    return urlsafe_b64encode(data).rstrip(b"=")

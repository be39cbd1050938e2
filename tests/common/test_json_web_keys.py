"""Key sets of token issuers: which keys are used, and for which signatures."""

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from broker.common.json_web_keys import (
    ALGORITHMS,
    MAX_KEYS,
    MAX_RSA_BITS,
    MIN_RSA_BITS,
    key_for,
    read_keys,
    read_object,
    verify,
)
from tests.support.token_issuer import as_json, ec_key, ed_key, key_set, rsa_key, token

SECRET = {"kty": "oct", "k": "c2VjcmV0", "kid": "first", "alg": "HS256"}


def private_key(algorithm: str) -> Any:
    match algorithm:
        case "ES256":
            return ec_key(ec.SECP256R1)
        case "ES384":
            return ec_key(ec.SECP384R1)
        case "ES512":
            return ec_key(ec.SECP521R1)
        case "EdDSA":
            return ed_key()
    return rsa_key()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_algorithm_verifies_with_the_key_of_its_type_only(algorithm: str) -> None:
    keys = read_keys(key_set(*(as_json(private_key(each)) for each in ("RS256", *ALGORITHMS[6:]))))
    key = key_for(keys, "first", algorithm)
    assert key is not None
    assert b'"ann"' in verify(token(0, key=private_key(algorithm), algorithm=algorithm), key, algorithm)
    with pytest.raises(ValueError, match="signature"):
        verify(token(0, key=private_key(algorithm), algorithm=algorithm)[:-8] + "AAAAAAAA", key, algorithm)


def test_neither_none_nor_an_hmac_is_an_algorithm() -> None:
    assert not [name for name in ALGORITHMS if name.upper() == "NONE" or name.startswith("HS")]


@pytest.mark.parametrize(
    ("key_id", "algorithm", "found"),
    [
        ("first", "RS256", "first"),
        ("second", "RS256", "second"),
        ("third", "RS256", None),
        ("first", "RS384", None),
        (None, "RS256", None),
        (None, "ES256", "curve"),
        ("curve", "ES384", None),
        ("curve", "RS256", None),
        ("for encryption", "RS256", None),
    ],
)
def test_a_key_is_found_by_its_id_and_without_one_if_it_is_the_only_one(
    key_id: str | None, algorithm: str, found: str | None
) -> None:
    keys = read_keys(
        key_set(
            as_json(rsa_key(), alg="RS256"),
            as_json(rsa_key("second"), kid="second"),
            as_json(ec_key(), kid="curve"),
            as_json(rsa_key("third"), kid="for encryption", use="enc"),
        )
    )
    key = key_for(keys, key_id, algorithm)
    assert (None if key is None else key.parts["kid"]) == found


def test_two_keys_of_one_id_are_none() -> None:
    keys = read_keys(key_set(as_json(rsa_key()), as_json(rsa_key("second"))))
    assert len(keys) == 2 and key_for(keys, "first", "RS256") is None


@pytest.mark.parametrize(
    "unusable",
    [
        SECRET,
        as_json(rsa_key(), use="enc"),
        as_json(rsa_key(), alg="RSA-OAEP"),
        {"kty": "RSA", "n": "AQAB"},
        {"kty": "RSA", "n": 7, "e": "AQAB"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": ["RSA"]},
        {},
        7,
    ],
)
def test_keys_that_cannot_verify_are_left_out(unusable: Any) -> None:
    with pytest.raises(ValueError, match="no public key for signatures"):
        read_keys(key_set(unusable))
    assert len(read_keys(key_set(unusable, as_json(rsa_key())))) == 1


@pytest.mark.parametrize(
    ("bits", "is_used"),
    [(MIN_RSA_BITS - 8, False), (MIN_RSA_BITS, True), (MAX_RSA_BITS, True), (MAX_RSA_BITS + 8, False)],
)
def test_the_length_of_an_rsa_key_has_limits(bits: int, is_used: bool) -> None:
    number = (1 << (bits - 1)) | 1
    modulus = json.loads(json.dumps({"kty": "RSA", "e": "AQAB", "n": _number(number)}))
    if is_used:
        assert len(read_keys(key_set(modulus))) == 1
    else:
        with pytest.raises(ValueError, match="no public key"):
            read_keys(key_set(modulus))


def test_the_private_part_of_a_key_is_not_used() -> None:
    from jwt.algorithms import RSAAlgorithm

    private = RSAAlgorithm.to_jwk(rsa_key(), as_dict=True)
    (key,) = read_keys(key_set({**private, "kid": "first"}))
    assert not hasattr(key.key, "sign")


@pytest.mark.parametrize("count", [MAX_KEYS - 1, MAX_KEYS, MAX_KEYS + 1])
def test_a_set_has_a_limited_number_of_keys(count: int) -> None:
    document = key_set(*([as_json(ec_key())] * count))
    if count <= MAX_KEYS:
        assert len(read_keys(document)) == count
    else:
        with pytest.raises(ValueError, match=f"more than {MAX_KEYS} keys"):
            read_keys(document)


@pytest.mark.parametrize(
    "document",
    [
        *(
            b"",
            b"[]",
            b"7",
            b"{}",
            b'{"keys": 7}',
            b'{"keys": []}',
            b"\xff",
            b'{"keys": [',
            b'{"keys": [NaN]}',
        ),
        *(b"[" * 100_000, b'{"keys": ' + b"[" * 100_000, b'{"keys": [], "keys": []}'),
    ],
)
def test_a_document_that_is_no_key_set_is_refused(document: bytes) -> None:
    with pytest.raises(ValueError):
        read_keys(document)


@pytest.mark.parametrize(
    "text", [b'{"a": 1, "a": 2}', b'{"a": {"b": 1, "b": 1}}', b'{"a": [{"b": 1, "b": 1}]}', b'{"a": 1e']
)
def test_a_name_that_occurs_twice_is_refused_at_any_depth(text: bytes) -> None:
    with pytest.raises(ValueError, match="unique names"):
        read_object(text)


def _number(value: int) -> str:
    from jwt.utils import to_base64url_uint

    return to_base64url_uint(value).decode()

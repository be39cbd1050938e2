"""HMACs of delegation tokens, and the credentials that are kept of them."""

import pytest

from broker.security.delegation_tokens import DelegationTokens
from broker.security.scram import MECHANISMS

SHA_512 = MECHANISMS["SCRAM-SHA-512"]


def test_the_hmac_is_kafkas() -> None:
    """The expected one is from `printf id | openssl dgst -sha512 -hmac key`."""
    expected = (
        "69203b2245b207c62f779403ea4167aa94ce5b14ad595376f89c7d4b5286bc44"
        "4dafb56dcdbca6dba750b37510f39f0876e1ec96c0644b983642c179f758858c"
    )
    assert DelegationTokens("key").hmac("id").hex() == expected


def test_a_token_is_found_by_its_hmac_until_it_is_removed() -> None:
    tokens = DelegationTokens("key", ["a"])
    tokens.add("b")
    tokens.add("b")
    assert [tokens.find(tokens.hmac(each)) for each in ("a", "b", "c")] == ["a", "b", None]
    tokens.remove("a")
    tokens.remove("c")
    assert [tokens.find(tokens.hmac(each)) for each in ("a", "b")] == [None, "b"]


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_a_credential_is_derived_once_and_the_same_after_a_restart(
    mechanism: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = DelegationTokens("key", ["a"])
    first = tokens.credential(mechanism, "a")  # type: ignore[arg-type]
    again = DelegationTokens("key", ["a"]).credential(mechanism, "a")  # type: ignore[arg-type]
    assert first == again and first.iterations == 4_096 and len(first.salt) == 32

    def derived(*_: object) -> bytes:
        raise AssertionError("derived again")

    monkeypatch.setattr("hashlib.pbkdf2_hmac", derived)
    assert tokens.credential(mechanism, "a") is first  # type: ignore[arg-type]
    tokens.remove("a")
    tokens.add("a")
    with pytest.raises(AssertionError, match="derived again"):
        tokens.credential(mechanism, "a")  # type: ignore[arg-type]


def test_another_key_has_other_secrets() -> None:
    one, other = DelegationTokens("key", ["a"]), DelegationTokens("other", ["a"])
    assert one.hmac("a") != other.hmac("a")
    assert one.credential(SHA_512, "a").salt != other.credential(SHA_512, "a").salt


def test_without_a_key_there_are_no_tokens() -> None:
    tokens = DelegationTokens("", ["a"])
    tokens.remove("a")
    assert not tokens.enabled and tokens.find(b"") is None

"""Tokens are random, salted and never stored."""

from broker.security.tokens import matches, new_secret, store


def test_a_token_has_256_random_bits_in_url_safe_characters() -> None:
    secret = new_secret()
    assert len(secret) == 43
    assert secret != new_secret()
    assert set(secret) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def test_only_the_same_secret_matches() -> None:
    stored = store("the secret")
    assert matches("the secret", *stored)
    assert not any(
        matches(other, *stored) for other in ("", "the secre", "the secret ", "The secret", "\ud800")
    )


def test_equal_secrets_are_stored_differently_and_not_readably() -> None:
    one, two = store("the secret"), store("the secret")
    assert one.digest != two.digest
    assert b"secret" not in one.salt + one.digest

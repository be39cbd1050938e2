"""Console passwords: scrypt hashes, not easily guessed, one spelling for equivalent text."""

import hashlib

import pytest

from broker.security.passwords import COST, Cost, matches, password_error, store, unmatchable

CHEAP = Cost(2**4, 8, 1)
GOOD = "correct horse battery"


def test_a_password_matches_what_was_kept_of_it_and_nothing_else_does() -> None:
    stored = store(GOOD, CHEAP)
    assert matches(GOOD, stored)
    for other in ("", GOOD + " ", GOOD[:-1], GOOD.upper(), "\ud800"):
        assert not matches(other, stored)


def test_two_of_the_same_share_nothing_that_can_be_seen() -> None:
    one, two = store(GOOD, CHEAP), store(GOOD, CHEAP)
    assert one.salt != two.salt and one.digest != two.digest
    assert len(one.salt) * 8 >= 128 and GOOD not in repr(one)


def test_it_is_scrypt_with_its_parameters_beside_it() -> None:
    stored = store(GOOD, CHEAP)
    expected = hashlib.scrypt(GOOD.encode(), salt=stored.salt, n=16, r=8, p=1, dklen=32)
    assert stored.digest == expected and stored.cost == CHEAP


def test_the_cost_of_a_hash_is_one_of_owasps_settings() -> None:
    assert COST in {(2**17, 8, 1), (2**16, 8, 2), (2**15, 8, 3), (2**14, 8, 5), (2**13, 8, 10)}
    assert matches(GOOD, store(GOOD))


def test_passwords_that_look_alike_are_the_same() -> None:
    composed, apart = "caf\u00e9 au lait, deux", "cafe\u0301 au lait, deux"
    assert composed != apart and matches(apart, store(composed, CHEAP))


def test_nobodys_password_matches_nothing() -> None:
    assert not any(matches(each, unmatchable(CHEAP)) for each in ("", GOOD, "\0"))


@pytest.mark.parametrize(
    ("password", "words"),
    [
        ("abcdefghijk", "12 to 256"),
        ("abcdefghijkl", None),
        ("abcdefghijklm", None),
        ("abcde" * 51, None),
        ("abcde" * 51 + "f", None),
        ("abcde" * 51 + "fg", "12 to 256"),
        ("", "12 to 256"),
        ("aaaaaaaaaaaabcd", "5 different"),
        ("aaaaaaaaaaaabcde", None),
        ("Administrator", "differ from the name"),
        ("administrator!", None),
    ],
)
def test_easily_guessed_passwords_are_refused(password: str, words: str | None) -> None:
    error = password_error(password, "administrator")
    assert (error is None) if words is None else (error is not None and words in error)

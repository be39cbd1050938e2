"""The broker challenges unknown users like existing ones."""

import base64
import hashlib
import random
import secrets
import string
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import pytest

from broker.common.slices import run_through
from broker.security.scram import MECHANISMS, ComputedCredential, ScramLogin, ScramMechanism
from broker.security.unknown_users import MAX_SHAPES, UnknownUsers

SHA_256, SHA_512 = MECHANISMS["SCRAM-SHA-256"], MECHANISMS["SCRAM-SHA-512"]
BASE_36 = string.digits + string.ascii_lowercase


class Kept(NamedTuple):
    salt: bytes
    iterations: int
    stored_key: bytes = bytes(32)
    server_key: bytes = bytes(32)


Users = Mapping[str, Mapping[str, Kept]]


class Unknown:
    """`UnknownUsers` with changing users."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._of: tuple[Users, UnknownUsers] | None = None

    def credential(self, mechanism: ScramMechanism, name: str, known: Users) -> ComputedCredential:
        if self._of is None or self._of[0] is not known:
            self._of = known, UnknownUsers(self._secret, known)
        return self._of[1].credential(mechanism, name)


def users(*kept: Kept, mechanism: ScramMechanism = SHA_256) -> Users:
    return {f"user-{number}": {mechanism.name: each} for number, each in enumerate(kept)}


def kafka_salt(random_bits: int) -> bytes:
    """Kafka: ScramFormatter.secureRandomString, new BigInteger(130, random).toString(36)."""
    digits = ""
    while random_bits:
        random_bits, digit = divmod(random_bits, 36)
        digits = BASE_36[digit] + digits
    return digits.encode()


def names(count: int) -> list[str]:
    return [f"nobody-{number}" for number in range(count)]


def challenge(unknown: Unknown, name: str, known: Users, mechanism: ScramMechanism = SHA_256) -> str:
    """Return salt and iterations as they are on the wire."""
    login = ScramLogin(
        mechanism,
        lambda each: known.get(each, {}).get(mechanism.name),
        lambda each: unknown.credential(mechanism, each, known),
    )
    return login.step(f"n,,n={name},r=x".encode(), 0).decode().partition(",")[2]


@pytest.mark.parametrize("iterations", [4_096, 8_192, 16_384])
def test_unknown_users_have_the_iterations_that_all_users_have(iterations: int) -> None:
    known = users(*(Kept(secrets.token_bytes(16), iterations) for _ in range(5)))
    unknown = Unknown(secrets.token_bytes(32))
    seen = {challenge(unknown, name, known).rpartition(",i=")[2] for name in [*names(50), "user-0"]}
    assert seen == {str(iterations)}


@pytest.mark.parametrize("size", [8, 16, 20, 64])
def test_unknown_users_have_salts_as_long_as_all_users_have(size: int) -> None:
    known = users(*(Kept(secrets.token_bytes(size), 4_096) for _ in range(5)))
    unknown = Unknown(secrets.token_bytes(32))
    salts = {unknown.credential(SHA_256, name, known).salt for name in names(50)}
    assert {len(salt) for salt in salts} == {size} and len(salts) == 50
    assert len(set(b"".join(salts))) > 200 or size < 16, "every byte occurs"


@pytest.mark.parametrize("letters", ["0123456789abcdef", string.ascii_letters + string.digits + "-_"])
def test_unknown_users_have_salts_of_the_letters_that_the_users_have(letters: str) -> None:
    random.seed(7)
    known = users(*(Kept("".join(random.choices(letters, k=24)).encode(), 4_096) for _ in range(5)))
    unknown = Unknown(secrets.token_bytes(32))
    salts = [unknown.credential(SHA_256, name, known).salt.decode() for name in names(200)]
    assert {len(salt) for salt in salts} == {24}
    assert set("".join(salts)) == set(letters)


def test_unknown_users_have_salts_as_kafkas_own_tools_make_them() -> None:
    """26 characters starting with a 1, or fewer, in the same proportion as Kafka's."""
    random.seed(7)
    real = [kafka_salt(random.getrandbits(130)) for _ in range(4_000)]
    known = users(*(Kept(salt, 4_096) for salt in real[:20]))
    unknown = Unknown(bytes(32))
    made = [unknown.credential(SHA_256, name, known).salt for name in names(4_000)]
    lengths, expected = Counter(map(len, made)), Counter(map(len, real))
    assert abs(lengths[26] - expected[26]) < 150 and abs(lengths[25] - expected[25]) < 150
    assert {salt[:1] for salt in made if len(salt) == 26} == {b"1"}
    assert set(b"".join(made).decode()) == set(BASE_36)


def test_without_users_the_answer_is_that_of_a_user_made_by_kafkas_tools() -> None:
    credential = Unknown(bytes(32)).credential(SHA_256, "nobody", {})
    assert credential.iterations == 4_096
    assert 22 <= len(credential.salt) <= 26 and set(credential.salt.decode()) <= set(BASE_36)


def test_users_with_different_counts_give_their_shares_of_them_to_unknown_names() -> None:
    known = users(*[Kept(secrets.token_bytes(16), 4_096)] * 3, Kept(secrets.token_bytes(16), 8_192))
    unknown = Unknown(bytes(32))
    counts = Counter(unknown.credential(SHA_256, name, known).iterations for name in names(4_000))
    assert 2_850 < counts[4_096] < 3_150 and counts[4_096] + counts[8_192] == 4_000


def test_a_mechanism_follows_its_own_users() -> None:
    both = {"ann": {SHA_256.name: Kept(bytes(16), 4_096), SHA_512.name: Kept(bytes(64), 16_384)}}
    unknown = Unknown(bytes(32))
    assert unknown.credential(SHA_256, "nobody", both).iterations == 4_096
    assert unknown.credential(SHA_512, "nobody", both).iterations == 16_384
    only = users(Kept(secrets.token_bytes(16), 8_192))
    assert "i=8192" in challenge(unknown, "nobody", only)
    assert "i=4096" in challenge(unknown, "user-0", only, SHA_512), "known by another mechanism only"


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_the_answer_stays_over_reconnects_and_restarts_and_is_each_names_own(
    mechanism: ScramMechanism,
) -> None:
    secret = secrets.token_bytes(32)
    known = users(Kept(secrets.token_bytes(16), 4_096), mechanism=mechanism)
    first, restarted = Unknown(secret), Unknown(secret)
    challenges = [challenge(each, "nobody", known, mechanism) for each in (first, first, restarted)]
    assert len(set(challenges)) == 1
    assert challenge(first, "somebody", known, mechanism) != challenges[0]
    assert challenge(Unknown(bytes(32)), "nobody", known, mechanism) != challenges[0]


def test_a_user_more_of_the_same_shape_changes_no_answer() -> None:
    before = users(*(Kept(secrets.token_bytes(16), 4_096) for _ in range(5)))
    after = {**before, "new": {SHA_256.name: Kept(secrets.token_bytes(16), 4_096)}}
    unknown = Unknown(bytes(32))
    for name in names(50):
        assert challenge(unknown, name, before) == challenge(unknown, name, after)


def test_a_user_more_of_another_shape_moves_only_the_share_of_names_that_it_gains() -> None:
    before = users(*(Kept(secrets.token_bytes(16), 4_096) for _ in range(9)))
    after = {**before, "new": {SHA_256.name: Kept(secrets.token_bytes(16), 8_192)}}
    unknown = Unknown(bytes(32))
    moved = [
        name for name in names(2_000) if challenge(unknown, name, before) != challenge(unknown, name, after)
    ]
    assert 140 < len(moved) < 260, "a tenth"
    # A user whose count changes has a new salt too.
    for name in moved:
        assert challenge(unknown, name, before).split(",")[0] != challenge(unknown, name, after).split(",")[0]


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_the_keys_are_as_long_as_a_users(mechanism: ScramMechanism) -> None:
    credential = Unknown(bytes(32)).credential(mechanism, "nobody", {})
    size = hashlib.new(mechanism.hash_name).digest_size
    assert (len(credential.stored_key), len(credential.server_key)) == (size, size)


class Counting(Unknown):
    def __init__(self) -> None:
        super().__init__(bytes(32))
        self.requested: list[str] = []

    def credential(self, mechanism: ScramMechanism, name: str, known: Users) -> ComputedCredential:
        self.requested.append(name)
        return super().credential(mechanism, name, known)


def test_the_same_work_is_done_for_a_known_and_an_unknown_user() -> None:
    known, unknown = users(Kept(bytes(16), 4_096)), Counting()
    challenge(unknown, "user-0", known)
    challenge(unknown, "nobody", known)
    assert unknown.requested == ["user-0", "nobody"]


@pytest.mark.parametrize("count", [MAX_SHAPES - 1, MAX_SHAPES, MAX_SHAPES + 1])
def test_the_shapes_that_a_login_chooses_from_are_bounded(count: int) -> None:
    known = users(*(Kept(secrets.token_bytes(16), 4_096 + number) for number in range(count)))
    unknown = Unknown(bytes(32))
    seen = {unknown.credential(SHA_256, name, known).iterations for name in names(2_000)}
    assert len(seen) == min(count, MAX_SHAPES)


def test_of_many_users_those_at_the_end_count_too() -> None:
    early = [Kept(secrets.token_bytes(16), 4_096)] * 1_000
    late = [Kept(secrets.token_bytes(16), 8_192)] * 1_000
    unknown, known = Unknown(bytes(32)), users(*early, *late)
    counts = Counter(unknown.credential(SHA_256, name, known).iterations for name in names(2_000))
    assert 850 < counts[8_192] < 1_150


def test_a_salt_travels_in_base64_without_a_sign_of_its_making() -> None:
    known = users(Kept(secrets.token_bytes(16), 4_096))
    salt = challenge(Unknown(bytes(32)), "nobody", known).split(",")[0].removeprefix("s=")
    assert len(base64.b64decode(salt, validate=True)) == 16


def test_users_that_come_change_and_go_are_counted_as_if_they_had_been_there_at_the_start() -> None:
    random.seed(7)
    known: dict[str, Mapping[str, Kept]] = {}
    followed = UnknownUsers(bytes(32), known)
    for _ in range(200):
        changed = {f"user-{random.randrange(40)}" for _ in range(3)}
        after = dict(known)
        for name in changed:
            iterations = random.choice([4_096, 8_192, 16_384])
            kept = {each: Kept(bytes(16), iterations) for each in MECHANISMS if random.random() < 0.6}
            after.pop(name, None) if not kept else after.update({name: kept})
        run_through(followed.on_metadata_update(known, after, changed))
        known = after
        at_once = UnknownUsers(bytes(32), dict(sorted(known.items())))
        for mechanism in MECHANISMS.values():
            for name in names(5):
                assert followed.credential(mechanism, name) == at_once.credential(mechanism, name)


@pytest.mark.parametrize("count", [1, 2, 10_000])
def test_a_change_of_many_users_is_followed_one_at_a_time_and_holds_at_the_last(count: int) -> None:
    """One more step finds the most frequent shapes."""
    known = users(*[Kept(bytes(16), 8_192)] * count)
    unknown = UnknownUsers(bytes(32), {})
    steps = unknown.on_metadata_update({}, known, known)
    assert [unknown.credential(SHA_256, "nobody").iterations for _ in steps] == [4_096] * (count + 1)
    assert unknown.credential(SHA_256, "nobody").iterations == 8_192

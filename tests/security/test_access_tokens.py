"""Access tokens: which are good, and why others are not."""

import hmac
import json
from base64 import urlsafe_b64encode
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.common.json_web_keys import key_for, read_keys
from broker.security.access_tokens import (
    LONGEST_HEADER,
    LONGEST_NAME,
    AccessToken,
    InvalidToken,
    TokenRules,
    read_token,
)
from tests.support.token_issuer import (
    AUDIENCE,
    ISSUER,
    as_json,
    claims,
    ec_key,
    key_set,
    rsa_key,
    signed,
    token,
)

NOW_S = 1_800_000_000
SKEW_S = 30
RULES = TokenRules((AUDIENCE, "other"), ISSUER, SKEW_S * 1_000)
KEYS = read_keys(key_set(as_json(rsa_key()), as_json(ec_key(), kid="curve")))
HEADER = {"alg": "RS256", "kid": "first"}


def read(text: str, rules: TokenRules = RULES, now_ms: int = NOW_S * 1_000) -> AccessToken:
    return read_token(text, lambda key_id, algorithm: key_for(KEYS, key_id, algorithm), rules, now_ms)


def refusal(text: str, rules: TokenRules = RULES, now_ms: int = NOW_S * 1_000) -> str:
    with pytest.raises(InvalidToken) as caught:
        read(text, rules, now_ms)
    return str(caught.value)


def test_a_good_token_names_the_user_and_its_end() -> None:
    assert read(token(NOW_S)) == AccessToken("ann", (NOW_S + 300) * 1_000)
    assert read(token(NOW_S, key=ec_key(), algorithm="ES256", key_id=None)).name == "ann"


@pytest.mark.parametrize(
    ("exp_s", "is_good"),
    [(-SKEW_S - 1, False), (-SKEW_S, False), (-SKEW_S + 0.001, True), (-SKEW_S + 1, True), (0, True)],
)
def test_a_token_is_good_until_its_end_and_the_clock_skew(exp_s: float, is_good: bool) -> None:
    text = token(NOW_S, iat=NOW_S - 600, exp=NOW_S + exp_s)
    if is_good:
        assert read(text).ends_wall_ms == round((NOW_S + exp_s) * 1_000)
    else:
        assert refusal(text) == f"the token expired {-exp_s} s ago"


@pytest.mark.parametrize("claim", ["iat", "nbf"])
@pytest.mark.parametrize(("at_s", "is_good"), [(SKEW_S - 1, True), (SKEW_S, True), (SKEW_S + 1, False)])
def test_a_token_from_the_future_is_good_within_the_clock_skew(claim: str, at_s: int, is_good: bool) -> None:
    text = token(NOW_S, **{claim: NOW_S + at_s})
    if is_good:
        assert read(text).name == "ann"
    else:
        assert refusal(text) == f"the token is not valid for another {SKEW_S + 1} s"


def test_without_a_skew_the_millisecond_counts() -> None:
    rules = TokenRules((AUDIENCE,), ISSUER, 0)
    text = token(NOW_S)
    assert read(text, rules, (NOW_S + 300) * 1_000 - 1).name == "ann"
    assert refusal(text, rules, (NOW_S + 300) * 1_000) == "the token expired 0 s ago"
    assert read(text, rules, NOW_S * 1_000).name == "ann"
    assert "not valid for another" in refusal(text, rules, NOW_S * 1_000 - 1)


@pytest.mark.parametrize("claim", ["iat", "nbf"])
def test_a_token_that_expires_before_it_is_valid_is_refused(claim: str) -> None:
    text = token(NOW_S, exp=NOW_S + 5, **{claim: NOW_S + 6})
    assert refusal(text) == "the token expires before it is valid"


@pytest.mark.parametrize("value", [None, "1800000300", True, -1, 10**30, [1]])
def test_times_are_numbers(value: Any) -> None:
    assert refusal(_payload(exp=value)) == "the token has no expiry"
    assert refusal(_payload(iat=value)) == "the token does not say when it was issued"
    if value is not None:
        assert refusal(_payload(nbf=value)) == "the token has an invalid start"


@pytest.mark.parametrize("number", [b"1e999", b"NaN", b"Infinity", b"9" * 5_000])
def test_absurd_numbers_are_refused(number: bytes) -> None:
    payload = b'{"sub": "ann", "iat": 1800000000, "aud": "kafka", "exp": ' + number + b"}"
    refusal(signed(json.dumps(HEADER).encode(), payload))


@pytest.mark.parametrize(
    "name", ["ann", "zoë, the first", "CN=ann,O=x", "a b", "アン", "a\\b", "ann@example", "\u212a"]
)
def test_the_user_is_the_subject(name: str) -> None:
    assert read(token(NOW_S, sub=name)).name == name


NOT_PLAIN = [
    *(" admin", "admin ", "\tadmin", "admin\r\n", "admin\u00a0", "\u3000admin", "admin\u2028", "admin\u0085"),
    *("admin\u2003", "ad\nmin", "ad\u200bmin", "\u202eadmin", "admin\0", "ad\u00a0min", "\ufeffadmin"),
    *("admin\x1f", "ad\u00admin", "admin\u180e", "\x1cadmin", "\ud800admin"),
]


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_a_subject_that_looks_like_another_is_refused(name: str) -> None:
    why = "the token's user name has spaces around it or is not printable"
    assert refusal(token(NOW_S, sub=name)) == why


@pytest.mark.parametrize("name", [None, "", "  ", 7, ["ann"]])
def test_a_token_without_a_user_is_refused(name: Any) -> None:
    assert refusal(_payload(sub=name)) == "the token names no user"


@pytest.mark.parametrize("length", [LONGEST_NAME - 1, LONGEST_NAME, LONGEST_NAME + 1])
def test_a_name_has_a_limited_length(length: int) -> None:
    text = token(NOW_S, sub="x" * length)
    if length <= LONGEST_NAME:
        assert len(read(text).name) == length
    else:
        assert refusal(text) == f"the token's user name has more than {LONGEST_NAME} characters"


def test_other_claims_may_name_the_user_and_the_scope() -> None:
    rules = TokenRules((AUDIENCE,), ISSUER, 0, "scp", "client_id")
    assert read(token(NOW_S, client_id="app", scp=["a"], scope=7), rules).name == "app"
    assert refusal(token(NOW_S, client_id="app", scp=["a", "a"]), rules) == "the token has a scope twice"
    assert refusal(token(NOW_S), rules) == "the token names no user"


@pytest.mark.parametrize("scope", [None, "a", "a b", ["a", "b"], [], 7, {"a": 1}])
def test_scopes_that_kafka_takes(scope: Any) -> None:
    assert read(_payload(scope=scope)).name == "ann"


@pytest.mark.parametrize("scope", ["", " ", [""], ["a", "a"], ["a", " a "], [7], [None]])
def test_scopes_that_kafka_refuses(scope: Any) -> None:
    assert "scope" in refusal(_payload(scope=scope))


@pytest.mark.parametrize(
    ("audience", "expected", "is_good"),
    [
        ("kafka", ("kafka",), True),
        (["x", "kafka"], ("kafka", "y"), True),
        ("kafka2", ("kafka",), False),
        (["x"], ("kafka",), False),
        ([], ("kafka",), False),
        (None, ("kafka",), False),
        (7, ("kafka",), False),
        ([7, ["kafka"]], ("kafka",), False),
        (None, (), True),
        ("kafka", (), True),
        ([], (), True),
        (7, (), True),
    ],
)
def test_the_audience_is_one_of_those_expected(
    audience: Any, expected: tuple[str, ...], is_good: bool
) -> None:
    rules, text = TokenRules(expected, ISSUER), _payload(aud=audience)
    if is_good:
        assert read(text, rules).name == "ann"
    else:
        assert refusal(text, rules) == "the token is for another audience"


@pytest.mark.parametrize(
    ("issuer", "expected", "is_good"),
    [
        (ISSUER, ISSUER, True),
        (ISSUER + "x", ISSUER, False),
        (None, ISSUER, False),
        (None, "", True),
        ("x", "", True),
    ],
)
def test_the_issuer_is_the_expected_one(issuer: str | None, expected: str, is_good: bool) -> None:
    rules, text = TokenRules((AUDIENCE,), expected), token(NOW_S, iss=issuer)
    if is_good:
        assert read(text, rules).name == "ann"
    else:
        assert refusal(text, rules) == "the token is of another issuer"


def test_a_token_of_another_key_is_refused() -> None:
    assert refusal(token(NOW_S, key=rsa_key("other"))) == "the token's signature is wrong"
    assert refusal(token(NOW_S, key_id="other")) == "the key of the token's signature is unknown"


def test_no_public_key_serves_as_a_secret() -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    pem = rsa_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    parts = [{"alg": "HS256", "kid": "first"}, claims(NOW_S)]
    signing_input = ".".join(_encoded(json.dumps(part).encode()) for part in parts)
    signature = _encoded(hmac.digest(pem, signing_input.encode(), "sha256"))
    why = "the algorithm of the token's signature is not accepted"
    assert refusal(f"{signing_input}.{signature}") == why


@pytest.mark.parametrize("algorithm", ["none", "None", "HS256", "HS512", "", "rs256", None, 7, ["RS256"]])
def test_other_algorithms_are_refused(algorithm: Any) -> None:
    header = json.dumps({"alg": algorithm, "kid": "first"}).encode()
    why = "the algorithm of the token's signature is not accepted"
    assert refusal(signed(header, json.dumps(claims(NOW_S)).encode())) == why


@pytest.mark.parametrize("algorithm", ["ES256", "EdDSA", "PS256", "RS384"])
def test_a_signature_by_another_algorithm_than_the_header_says_is_refused(algorithm: str) -> None:
    header = json.dumps({"alg": algorithm, "kid": "first"}).encode()
    refusal(signed(header, json.dumps(claims(NOW_S)).encode()))


@pytest.mark.parametrize(
    "header",
    [
        b'{"alg": "none", "alg": "RS256", "kid": "first"}',
        b'{"alg": "RS256", "kid": "first", "kid": "first"}',
        b'{"alg": "RS256", "kid": 7}',
        b'{"alg": "RS256", "kid": "first", "crit": ["b64"], "b64": false}',
        b'{"alg": "RS256", "kid": "first", "crit": []}',
        b"[]",
        b"\xff",
        b"[" * 2_000,
    ],
)
def test_an_ambiguous_header_is_refused(header: bytes) -> None:
    refusal(signed(header, json.dumps(claims(NOW_S)).encode()))


@pytest.mark.parametrize(
    "payload",
    [
        b'{"sub": "ann", "sub": "root", "iat": 1800000000, "exp": 1800000300, "aud": "kafka"}',
        *(b"[]", b'"ann"', b"\xff", b"", b"{" * 10, b'{"a":' * 20_000),
    ],
)
def test_claims_that_can_be_read_in_two_ways_are_refused(payload: bytes) -> None:
    refusal(signed(json.dumps(HEADER).encode(), payload))


@pytest.mark.parametrize("length", [LONGEST_HEADER - 4, LONGEST_HEADER, LONGEST_HEADER + 4])
def test_a_header_has_a_limited_length(length: int) -> None:
    empty = len(json.dumps({**HEADER, "x": ""}))
    header = json.dumps({**HEADER, "x": "y" * (length // 4 * 3 - empty)}).encode()
    text = signed(header, json.dumps(claims(NOW_S)).encode())
    assert text.index(".") == length
    if length <= LONGEST_HEADER:
        assert read(text).name == "ann"
    else:
        assert refusal(text) == f"the token's header has more than {LONGEST_HEADER} characters"


def test_every_truncated_token_is_refused() -> None:
    text = token(NOW_S)
    for end in range(0, len(text), 7):
        refusal(text[:end])


@given(st.text(max_size=200) | st.text("abc.-_=+/", max_size=200))
def test_no_random_text_is_a_token(text: str) -> None:
    refusal(text)


@given(st.integers(0, 10_000), st.binary(min_size=1, max_size=1))
def test_a_changed_token_is_refused_or_the_same(at: int, byte: bytes) -> None:
    text = token(NOW_S)
    at %= len(text)
    changed = text[:at] + byte.decode("latin-1") + text[at + 1 :]
    with suppress(InvalidToken):
        assert read(changed) == read(text)


def test_a_refusal_shows_nothing_of_the_token() -> None:
    named = {
        "sub": "hidden-name",
        "iss": "hidden-issuer",
        "aud": ["hidden-audience"],
        "scope": "hidden-scope",
    }
    for text in (
        token(NOW_S, **named),
        token(NOW_S, **{**named, "iss": ISSUER}),
        token(NOW_S, key_id="hidden-key", **named),
        token(NOW_S, **{**named, "exp": 1}),
        signed(b'{"alg": "hidden-algorithm"}', b"{}"),
        signed(json.dumps(HEADER).encode(), b'{"hidden-claim": 1, "hidden-claim": 2}'),
    ):
        assert "hidden" not in refusal(text)


def _payload(**changes: Any) -> str:
    """Return a token whose claims pyjwt would refuse to write."""
    return signed(json.dumps(HEADER).encode(), json.dumps(claims(NOW_S, **changes)).encode())


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()

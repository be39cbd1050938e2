"""OAuth access tokens: JSON Web Tokens whose signature and claims say who a client is. (RFC 7519, KIP-768;
Kafka: ValidatorAccessTokenValidator, ClaimValidationUtils)

Called by `oauthbearer`. Pure. Reasons are for the operator's log and show nothing of a token. The signature
is checked before the claims are read. Unlike Kafka, a token that was issued in the future is refused, and so
is a user name of more than LONGEST_NAME characters.
"""

import binascii
import math
import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from broker.common.json_web_keys import ALGORITHMS, PublicKey, read_object, verify
from broker.common.principal import is_plain

LONGEST_TOKEN: Final = 65_536
LONGEST_HEADER: Final = 4_096
"""Characters. Anybody can send a header, which is read before the signature; tokens of known issuers have
some hundred characters of it.
"""

LONGEST_NAME: Final = 1_024

_COMPACT: Final = re.compile(r"(?P<header>[A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_LAST_MS: Final = 2**63 - 1

FindKey = Callable[[object, str], PublicKey | None]
"""Returns the key for a key id (None: the token names none) and an algorithm."""


class InvalidToken(Exception):  # noqa: N818 - says what the token is
    """The message says why, for the operator."""


class TokenRules(msgspec.Struct, frozen=True):
    """The requirements of a listener on tokens. `audiences` (), `issuer` "": any."""

    audiences: tuple[str, ...] = ()
    issuer: str = ""
    skew_ms: int = 30_000
    scope_claim: str = "scope"
    sub_claim: str = "sub"


class AccessToken(msgspec.Struct, frozen=True):
    """`ends_wall_ms` is the token's expiry in ms since the epoch."""

    name: str
    ends_wall_ms: int


def read_token(token: str, find: FindKey, rules: TokenRules, wall_ms: int) -> AccessToken:
    """Raises InvalidToken."""
    payload = _signed_payload(token, find)
    try:
        claims = read_object(payload)
    except ValueError as error:
        raise InvalidToken(f"the token's claims: {error}") from error
    _check_scope(claims.get(rules.scope_claim))
    ends_ms = _check_times(claims, rules.skew_ms, wall_ms)
    _check_parties(claims, rules)
    name = claims.get(rules.sub_claim)
    if not isinstance(name, str) or not name.strip():
        raise InvalidToken("the token names no user")
    if len(name) > LONGEST_NAME:
        raise InvalidToken(f"the token's user name has more than {LONGEST_NAME} characters")
    if not is_plain(name):
        raise InvalidToken("the token's user name has spaces around it or is not printable")
    return AccessToken(name, ends_ms)


def _signed_payload(token: str, find: FindKey) -> bytes:
    found = _COMPACT.fullmatch(token)
    if found is None:
        raise InvalidToken("the token is not a signed JSON Web Token")
    encoded = found["header"]
    if len(encoded) > LONGEST_HEADER:
        raise InvalidToken(f"the token's header has more than {LONGEST_HEADER} characters")
    try:
        header = read_object(urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    except (ValueError, binascii.Error) as error:
        raise InvalidToken("the token's header is not a JSON object with unique names") from error
    algorithm, key_id = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise InvalidToken("the algorithm of the token's signature is not accepted")
    if "crit" in header:
        raise InvalidToken("the token's header has extensions")
    if key_id is not None and not isinstance(key_id, str):
        raise InvalidToken("the token's key id is not a text")
    key = find(key_id, algorithm)
    if key is None:
        raise InvalidToken("the key of the token's signature is unknown")
    try:
        return verify(token, key, algorithm)
    except ValueError as error:
        raise InvalidToken("the token's signature is wrong") from error


def _check_scope(scope: object) -> None:
    """Scopes say nothing about a user's rights here; as in Kafka they must be well-formed."""
    scopes = scope if isinstance(scope, list) else [scope] if isinstance(scope, str) else []
    words = [each.strip() if isinstance(each, str) else "" for each in scopes]
    if "" in words:
        raise InvalidToken("the token has an empty scope")
    if len(set(words)) < len(words):
        raise InvalidToken("the token has a scope twice")


def _check_times(claims: Mapping[str, Any], skew_ms: int, wall_ms: int) -> int:
    """Return the expiry in ms since the epoch."""
    ends_ms = _time(claims.get("exp"), "the token has no expiry")
    begins_ms = _time(claims.get("iat"), "the token does not say when it was issued")
    if "nbf" in claims:
        begins_ms = max(begins_ms, _time(claims["nbf"], "the token has an invalid start"))
    if wall_ms - skew_ms >= ends_ms:
        raise InvalidToken(f"the token expired {(wall_ms - ends_ms) // 1_000} s ago")
    if begins_ms - skew_ms > wall_ms:
        raise InvalidToken(f"the token is not valid for another {(begins_ms - wall_ms) // 1_000} s")
    if ends_ms < begins_ms:
        raise InvalidToken("the token expires before it is valid")
    return ends_ms


def _check_parties(claims: Mapping[str, Any], rules: TokenRules) -> None:
    if rules.issuer and claims.get("iss") != rules.issuer:
        raise InvalidToken("the token is of another issuer")
    if not rules.audiences:
        return
    audience = claims.get("aud")
    audiences = [audience] if isinstance(audience, str) else audience
    if not isinstance(audiences, list) or not any(each in rules.audiences for each in audiences):
        raise InvalidToken("the token is for another audience")


def _time(seconds: object, why_not: str) -> int:
    """Return ms of a NumericDate, which may have a fraction."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
        raise InvalidToken(why_not)
    if not 0 <= seconds <= _LAST_MS // 1_000:
        raise InvalidToken(why_not)
    return int(seconds * 1_000)

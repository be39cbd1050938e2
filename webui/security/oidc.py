"""Single sign-on: OpenID Connect's Authorization Code flow with PKCE.

Used by webui.http.page_routes. `begin` makes the address of the provider's login, `finish` exchanges the code
that comes back and verifies the id token with PyJWT: signature, issuer, audience, expiry and nonce. A state
is good once, for ten minutes, and for the browser that began; so nobody can log another user's browser in.

Only asymmetric signatures are accepted: `none` and the client secret are not keys. Keys of the provider are
read again for an unknown key id, at most once a minute.
"""

import hmac
import json
import secrets
from base64 import b64encode, urlsafe_b64encode
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from broker.common.http_requests import HttpRequest
from broker.common.json_web_keys import ALGORITHMS, fits
from broker.common.principal import is_plain
from broker.config.sections.console import ConsoleConfig
from broker.controller.commands import Role
from webui.problem import Problem
from webui.security.backoff import network_of

DISCOVERY: Final = "/.well-known/openid-configuration"
MAX_PENDING: Final = 1_024
PENDING_MS: Final = 600_000
DISCOVERED_MS: Final = 3_600_000
KEYS_AGAIN_MS: Final = 60_000
LEEWAY_S: Final = 60
"""How much the clocks of provider and broker may differ."""

LONGEST_NAME: Final = 128

_FAILED: Final = "Single sign-on failed"


Fetch = Callable[[HttpRequest], Awaitable[tuple[int, bytes]]]
"""Returns status and body. Raises OSError for network errors."""


class SignedIn(msgspec.Struct, frozen=True):
    """`logout_url` ends the provider's session, "" if it offers none."""

    name: str
    role: Role
    logout_url: str


class _Pending(msgspec.Struct, frozen=True):
    """`network` is where the login was begun, as addresses are counted."""

    network: str
    browser: bytes
    nonce: str
    verifier: str
    redirect_uri: str
    begun_ms: int


class _Provider(msgspec.Struct, frozen=True):
    authorization: str
    token: str
    keys: str
    userinfo: str
    end_session: str
    basic_auth: bool
    names_issuer: bool
    read_ms: int


class Oidc:
    """`now_ms` is a monotonic clock."""

    def __init__(self, settings: ConsoleConfig, fetch: Fetch, now_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._fetch = fetch
        self._now_ms = now_ms
        self._pending: dict[str, _Pending] = {}
        self._provider: _Provider | None = None
        self._keys: list[dict[str, Any]] = []
        self._keys_read_ms = 0

    @property
    def is_enabled(self) -> bool:
        return bool(self._settings.oidc_issuer)

    async def begin(self, redirect_uri: str, address: str) -> tuple[str, str]:
        """Return the address of the provider's login, and a secret for the browser's cookie. `address` is the
        browser's: beyond MAX_PENDING, the address with the most begun logins loses its oldest. Raises Problem
        502.
        """
        provider = await self._discovered()
        browser, state, nonce = (secrets.token_urlsafe(32) for _ in range(3))
        verifier = secrets.token_urlsafe(48)
        self._forget_old()
        network = network_of(address)
        self._pending[state] = _Pending(
            network, _hash(browser), nonce, verifier, redirect_uri, self._now_ms()
        )
        self._make_room()
        challenge = urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = urlencode(
            {
                "response_type": "code",
                "client_id": self._settings.oidc_client_id,
                "redirect_uri": redirect_uri,
                "scope": " ".join(self._settings.oidc_scopes),
                "state": state,
                "nonce": nonce,
                "code_challenge": challenge,
                "code_challenge_method": "S256",
            }
        )
        return f"{provider.authorization}{'&' if '?' in provider.authorization else '?'}{query}", browser

    async def finish(self, query: Mapping[str, str], browser: str) -> SignedIn:
        """Return who has logged in. `query` is that of the callback, `browser` the cookie's secret. Raises
        Problem 401, 403 for a user without a role, 502 if the provider does not answer.
        """
        pending = self._pending.pop(query.get("state", ""), None)
        if pending is None or self._now_ms() - pending.begun_ms >= PENDING_MS:
            raise Problem(401, "This login was used before or took longer than ten minutes. Log in again.")
        if not hmac.compare_digest(_hash(browser), pending.browser):
            raise Problem(401, "This login was begun in another browser. Log in again.")
        provider = await self._discovered()
        issuer = query.get("iss")
        if (issuer is not None or provider.names_issuer) and issuer != self._settings.oidc_issuer:
            raise Problem(401, f"{_FAILED}: the response is from another provider.")
        if "error" in query:
            raise Problem(401, f"{_FAILED}: {_shown(query.get('error_description') or query['error'])}.")
        tokens = await self._exchange(provider, query.get("code", ""), pending)
        claims = await self._verified(provider, str(tokens.get("id_token", "")), pending.nonce)
        claims = await self._with_userinfo(provider, claims, str(tokens.get("access_token", "")))
        return self._signed_in(provider, claims, pending.redirect_uri)

    async def _discovered(self) -> _Provider:
        known = self._provider
        if known is not None and self._now_ms() - known.read_ms < DISCOVERED_MS:
            return known
        found = await self._json(HttpRequest(self._settings.oidc_issuer.rstrip("/") + DISCOVERY))
        if found.get("issuer") != self._settings.oidc_issuer:
            raise Problem(502, f"{_FAILED}: the provider calls itself {_shown(found.get('issuer'))}.")
        ways = found.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        self._provider = _Provider(
            self._endpoint(found, "authorization_endpoint"),
            self._endpoint(found, "token_endpoint"),
            self._endpoint(found, "jwks_uri"),
            self._endpoint(found, "userinfo_endpoint", is_needed=False),
            self._endpoint(found, "end_session_endpoint", is_needed=False),
            "client_secret_basic" in ways,
            found.get("authorization_response_iss_parameter_supported") is True,
            self._now_ms(),
        )
        return self._provider

    def _endpoint(self, found: Mapping[str, Any], name: str, *, is_needed: bool = True) -> str:
        """Return an endpoint, which must be encrypted if the issuer is."""
        url = found.get(name, "")
        schemes = ("https", "http") if self._settings.oidc_issuer.startswith("http:") else ("https",)
        if not url and not is_needed:
            return ""
        if not isinstance(url, str) or urlsplit(url).scheme not in schemes or not urlsplit(url).hostname:
            raise Problem(502, f"{_FAILED}: the provider has no usable {name}.")
        return url

    async def _exchange(self, provider: _Provider, code: str, pending: _Pending) -> dict[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": pending.redirect_uri,
            "client_id": self._settings.oidc_client_id,
            "code_verifier": pending.verifier,
        }
        secret, authorization = self._settings.oidc_client_secret, ""
        if secret and provider.basic_auth:
            authorization = _basic(self._settings.oidc_client_id, secret)
        elif secret:
            form["client_secret"] = secret
        return await self._json(HttpRequest(provider.token, form, authorization), refusal=401)

    async def _verified(self, provider: _Provider, token: str, nonce: str) -> dict[str, Any]:
        """Return the claims of an id token. Raises Problem 401."""
        import jwt

        try:
            header = jwt.get_unverified_header(token)
            algorithm = header.get("alg")
            if algorithm not in ALGORITHMS:
                raise jwt.InvalidAlgorithmError("the signature's algorithm is not accepted")
            key = jwt.PyJWK(await self._key(provider, header.get("kid"), str(algorithm)), str(algorithm))
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[str(algorithm)],
                audience=self._settings.oidc_client_id,
                issuer=self._settings.oidc_issuer,
                leeway=LEEWAY_S,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError as error:
            raise Problem(401, f"{_FAILED}: invalid id token ({_shown(error)}).") from error
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise Problem(401, f"{_FAILED}: the id token is not for this login.")
        party = claims.get("azp", self._settings.oidc_client_id)
        if party != self._settings.oidc_client_id:
            raise Problem(401, f"{_FAILED}: the id token is for another client.")
        return claims

    async def _key(self, provider: _Provider, key_id: object, algorithm: str) -> dict[str, Any]:
        """Return the key of this id; without an id, the only key of the algorithm's type. Raises Problem."""
        for is_fresh in (False, True):
            if is_fresh or not self._keys:
                await self._read_keys(provider)
            found = [each for each in self._keys if fits(each, key_id, algorithm)]
            if len(found) == 1:
                return found[0]
        raise Problem(401, f"{_FAILED}: the key of the id token is unknown.")

    async def _read_keys(self, provider: _Provider) -> None:
        if self._keys and self._now_ms() - self._keys_read_ms < KEYS_AGAIN_MS:
            return
        found = (await self._json(HttpRequest(provider.keys))).get("keys")
        self._keys = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
        self._keys_read_ms = self._now_ms()

    async def _with_userinfo(
        self, provider: _Provider, claims: dict[str, Any], access_token: str
    ) -> dict[str, Any]:
        """Add what the id token lacks: some providers have groups and names at the userinfo endpoint only."""
        wanted = (self._settings.oidc_groups_claim, self._settings.oidc_name_claim)
        if not provider.userinfo or not access_token or all(name in claims for name in wanted):
            return claims
        found = await self._json(HttpRequest(provider.userinfo, authorization=f"Bearer {access_token}"))
        if found.get("sub") != claims["sub"]:
            raise Problem(401, f"{_FAILED}: the provider tells about another user.")
        return found | claims

    def _signed_in(self, provider: _Provider, claims: Mapping[str, Any], redirect_uri: str) -> SignedIn:
        named = (self._settings.oidc_name_claim, "email", "sub")
        name = next((claims[claim] for claim in named if claims.get(claim)), "")
        if not isinstance(name, str) or not is_plain(name) or len(name) > LONGEST_NAME:
            raise Problem(403, f"{_FAILED}: the user's name is not printable or too long.")
        role = self._role(claims.get(self._settings.oidc_groups_claim))
        if role is None:
            raise Problem(403, f"{name} has no group that may use this console.")
        logout = ""
        if provider.end_session:
            home = redirect_uri.removesuffix("oidc/callback")
            query = {"client_id": self._settings.oidc_client_id, "post_logout_redirect_uri": home}
            logout = f"{provider.end_session}{'&' if '?' in provider.end_session else '?'}{urlencode(query)}"
        return SignedIn(f"oidc:{name}", role, logout)

    def _role(self, claimed: object) -> Role | None:
        groups = {claimed} if isinstance(claimed, str) else set()
        if isinstance(claimed, list):
            groups = {each for each in claimed if isinstance(each, str)}
        if groups & set(self._settings.oidc_admin_groups):
            return Role.ADMIN
        if groups & set(self._settings.oidc_editor_groups):
            return Role.EDITOR
        viewers = self._settings.oidc_viewer_groups
        return Role.VIEWER if "*" in viewers or groups & set(viewers) else None

    async def _json(self, request: HttpRequest, refusal: int = 502) -> dict[str, Any]:
        """Raises Problem: `refusal` if the provider refuses, 502 if it does not answer with an object."""
        try:
            status, body = await self._fetch(request)
        except OSError as error:
            raise Problem(502, f"{_FAILED}: the provider does not respond ({_shown(error)}).") from error
        try:
            found = json.loads(body)
        except ValueError:
            found = None
        if not 200 <= status < 300:
            why = found.get("error_description") or found.get("error") if isinstance(found, dict) else ""
            raise Problem(refusal, f"{_FAILED}: the provider answers {status} {_shown(why or '')}".strip())
        if not isinstance(found, dict):
            raise Problem(502, f"{_FAILED}: the provider's answer is not JSON.")
        return found

    def _forget_old(self) -> None:
        now_ms = self._now_ms()
        self._pending = {
            state: each for state, each in self._pending.items() if now_ms - each.begun_ms < PENDING_MS
        }

    def _make_room(self) -> None:
        while len(self._pending) > MAX_PENDING:
            ((most, _),) = Counter(each.network for each in self._pending.values()).most_common(1)
            oldest = next(state for state, each in self._pending.items() if each.network == most)
            del self._pending[oldest]


def _hash(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogateescape")).digest()


def _basic(name: str, secret: str) -> str:
    pair = f"{quote(name, safe='')}:{quote(secret, safe='')}"
    return f"Basic {b64encode(pair.encode()).decode()}"


def _shown(value: object) -> str:
    return "".join(each for each in str(value) if each.isprintable())[:200]

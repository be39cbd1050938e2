"""Single sign-on against a provider in memory: the flow, and what a hostile provider or browser can send."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from broker.common.http_requests import HttpRequest
from broker.controller.commands import Role
from tests.webui.conftest import Clock
from tests.webui.fakes import console_config
from webui.problem import Problem
from webui.security.oidc import DISCOVERED_MS, KEYS_AGAIN_MS, MAX_PENDING, PENDING_MS, Oidc

ISSUER = "https://id.example/realms/main"
REDIRECT = "https://weir.example/oidc/callback"
OURS = rsa.generate_private_key(65_537, 2_048)
THEIRS = rsa.generate_private_key(65_537, 2_048)
CURVE = ec.generate_private_key(ec.SECP256R1())
SETTINGS = console_config(
    oidc_issuer=ISSUER,
    oidc_client_id="weir",
    oidc_client_secret="client secret",
    oidc_admin_groups=("ops",),
    oidc_editor_groups=("quota-owners",),
    oidc_viewer_groups=("staff",),
)


def public(key: Any, key_id: str, algorithm: str) -> dict[str, Any]:
    made = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
    return {**made, "kid": key_id, "use": "sig", "alg": algorithm}


@dataclass
class Provider:
    """Answers as a provider does; the tests change what it says."""

    discovery: dict[str, Any] = field(
        default_factory=lambda: {
            "issuer": ISSUER,
            "authorization_endpoint": f"{ISSUER}/auth",
            "token_endpoint": f"{ISSUER}/token",
            "jwks_uri": f"{ISSUER}/keys",
            "end_session_endpoint": f"{ISSUER}/logout",
        }
    )
    keys: list[dict[str, Any]] = field(default_factory=lambda: [public(OURS, "k1", "RS256")])
    claims: dict[str, Any] = field(default_factory=dict)
    userinfo: dict[str, Any] = field(default_factory=dict)
    token: Callable[[dict[str, Any]], str] | None = None
    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    requests: list[HttpRequest] = field(default_factory=list)
    nonce: str = ""
    challenge: str = ""

    async def fetch(self, request: HttpRequest) -> tuple[int, bytes]:
        self.requests.append(request)
        place = request.url.rpartition("/")[2]
        if place in self.answers:
            return self.answers[place]
        match place:
            case "openid-configuration":
                return 200, json.dumps(self.discovery).encode()
            case "keys":
                return 200, json.dumps({"keys": self.keys}).encode()
            case "userinfo":
                return 200, json.dumps(self.userinfo).encode()
            case "token":
                return self._token(request)
        raise OSError("no such place")

    def _token(self, request: HttpRequest) -> tuple[int, bytes]:
        assert request.form is not None
        verifier = request.form["code_verifier"].encode()
        import base64

        challenge = base64.urlsafe_b64encode(sha256(verifier).digest()).rstrip(b"=").decode()
        if challenge != self.challenge or request.form["code"] != "good":
            return 400, b'{"error": "invalid_grant"}'
        make = self.token or (lambda claims: jwt.encode(claims, OURS, "RS256", {"kid": "k1"}))
        return 200, json.dumps({"id_token": make(self.all_claims()), "access_token": "at"}).encode()

    def all_claims(self) -> dict[str, Any]:
        now = int(time.time())
        given = {
            name: now + int(value.total_seconds()) if isinstance(value, timedelta) else value
            for name, value in self.claims.items()
        }
        usual = {
            "iss": ISSUER,
            "aud": "weir",
            "sub": "1234",
            "exp": now + 300,
            "iat": now,
            "nonce": self.nonce,
            "preferred_username": "ann",
            "groups": ["staff"],
        }
        return {name: value for name, value in (usual | given).items() if value is not None}

    def follow(self, address: str) -> dict[str, str]:
        """What a browser does at the provider; returns the callback's query."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        self.nonce, self.challenge = query["nonce"], query["code_challenge"]
        return {"code": "good", "state": query["state"]}


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def oidc(provider: Provider, clock: Clock) -> Oidc:
    return Oidc(SETTINGS, provider.fetch, clock)


HERE = "127.0.0.1"


async def log_in(oidc: Oidc, provider: Provider, **changes: str) -> Any:
    address, browser = await oidc.begin(REDIRECT, HERE)
    return await oidc.finish(provider.follow(address) | changes, browser)


async def refusal(oidc: Oidc, provider: Provider, **changes: str) -> Problem:
    with pytest.raises(Problem) as refused:
        await log_in(oidc, provider, **changes)
    return refused.value


async def test_a_login_begins_with_pkce_state_and_nonce(oidc: Oidc) -> None:
    addresses = [(await oidc.begin(REDIRECT, HERE))[0] for _ in range(2)]
    queries = [parse_qs(urlsplit(address).query) for address in addresses]
    first = {name: values[0] for name, values in queries[0].items()}
    assert addresses[0].startswith(f"{ISSUER}/auth?")
    assert (first["response_type"], first["client_id"], first["redirect_uri"]) == ("code", "weir", REDIRECT)
    assert (first["scope"], first["code_challenge_method"]) == ("openid profile email groups", "S256")
    for name in ("state", "nonce", "code_challenge"):
        assert len(first[name]) >= 43 and queries[0][name] != queries[1][name]


@pytest.mark.parametrize(
    ("groups", "role"),
    [
        (["staff"], Role.VIEWER),
        (["staff", "quota-owners"], Role.EDITOR),
        (["ops", "quota-owners", "staff"], Role.ADMIN),
        ("ops", Role.ADMIN),
    ],
)
async def test_the_groups_decide_the_role(oidc: Oidc, provider: Provider, groups: Any, role: Role) -> None:
    provider.claims["groups"] = groups
    signed_in = await log_in(oidc, provider)
    assert (signed_in.name, signed_in.role) == ("oidc:ann", role)
    assert signed_in.logout_url.startswith(f"{ISSUER}/logout?client_id=weir&post_logout_redirect_uri=")


@pytest.mark.parametrize("groups", [[], ["others"], None, 5, {"ops": True}, [["ops"]], ["OPS"]])
async def test_a_user_without_a_group_is_told_so(oidc: Oidc, provider: Provider, groups: Any) -> None:
    provider.claims["groups"] = groups
    problem = await refusal(oidc, provider)
    assert problem.status == 403 and "ann has no group" in problem.detail


async def test_every_user_may_look_if_the_configuration_says_so(provider: Provider, clock: Clock) -> None:
    provider.claims["groups"] = None
    oidc = Oidc(replace(SETTINGS, oidc_viewer_groups=("*",)), provider.fetch, clock)
    assert (await log_in(oidc, provider)).role is Role.VIEWER


async def test_a_name_falls_back_and_must_be_printable(oidc: Oidc, provider: Provider) -> None:
    provider.claims |= {"preferred_username": None, "email": "ann@example"}
    assert (await log_in(oidc, provider)).name == "oidc:ann@example"
    provider.claims["email"] = None
    assert (await log_in(oidc, provider)).name == "oidc:1234"
    for name in ("a\nb", "a\u202eb", "ann\u00a0", " ann", "\u3000ann", "ann\u2028", "x" * 129, ["ann"], 7):
        provider.claims["preferred_username"] = name
        assert (await refusal(oidc, provider)).status == 403


async def test_what_the_id_token_lacks_comes_from_userinfo(oidc: Oidc, provider: Provider) -> None:
    provider.discovery["userinfo_endpoint"] = f"{ISSUER}/userinfo"
    provider.claims["groups"] = None
    provider.userinfo = {"sub": "1234", "groups": ["ops"], "preferred_username": "mallory"}
    signed_in = await log_in(oidc, provider)
    assert (signed_in.name, signed_in.role) == ("oidc:ann", Role.ADMIN)
    assert provider.requests[-1].authorization == "Bearer at"
    provider.userinfo["sub"] = "other"
    assert "another user" in (await refusal(oidc, provider)).detail


@pytest.mark.parametrize(("methods", "basic"), [(None, True), (["client_secret_post"], False)])
async def test_the_client_secret_goes_the_way_that_the_provider_takes(
    oidc: Oidc, provider: Provider, methods: list[str] | None, basic: bool
) -> None:
    if methods:
        provider.discovery["token_endpoint_auth_methods_supported"] = methods
    await log_in(oidc, provider)
    (request,) = [each for each in provider.requests if each.form is not None]
    assert bool(request.authorization) is basic
    assert ("client_secret" in (request.form or {})) is not basic


def hostile(claims: dict[str, Any]) -> dict[str, Callable[[dict[str, Any]], str]]:
    del claims
    as_secret = b"client secret".ljust(32, b".")

    def none(claims: dict[str, Any]) -> str:
        return jwt.encode(claims, None, algorithm="none")

    return {
        "another key": lambda claims: jwt.encode(claims, THEIRS, "RS256", {"kid": "k1"}),
        "alg none": none,
        "alg None": lambda claims: none(claims).replace("eyJhbGciOiJub25l", "eyJhbGciOiJOb25l", 1),
        "the secret as key": lambda claims: jwt.encode(claims, as_secret, "HS256", {"kid": "k1"}),
        "an unknown key id": lambda claims: jwt.encode(claims, OURS, "RS256", {"kid": "k9"}),
        "another algorithm": lambda claims: jwt.encode(claims, CURVE, "ES256", {"kid": "k1"}),
        "no signature": lambda claims: (
            jwt.encode(claims, OURS, "RS256", {"kid": "k1"}).rpartition(".")[0] + "."
        ),
        "a changed payload": lambda claims: changed(jwt.encode(claims, OURS, "RS256", {"kid": "k1"})),
        "no token": lambda _claims: "",
        "rubbish": lambda _claims: "a.b.c",
        "a key of its own": lambda claims: jwt.encode(
            claims, THEIRS, "RS256", {"jwk": public(THEIRS, "k1", "RS256"), "jku": "https://evil.example/"}
        ),
    }


def changed(token: str) -> str:
    head, payload, signature = token.split(".")
    claims = json.loads(jwt.utils.base64url_decode(payload)) | {"groups": ["ops"]}
    return ".".join((head, jwt.utils.base64url_encode(json.dumps(claims).encode()).decode(), signature))


@pytest.mark.parametrize("kind", list(hostile({})))
async def test_a_forged_token_logs_nobody_in(oidc: Oidc, provider: Provider, kind: str) -> None:
    provider.token = hostile({})[kind]
    problem = await refusal(oidc, provider)
    assert problem.status == 401 and "Single sign-on failed" in problem.detail
    assert not any("evil.example" in request.url for request in provider.requests)


@pytest.mark.parametrize(
    ("claims", "accepted"),
    [
        ({"iss": "https://evil.example"}, False),
        ({"iss": ISSUER + "/"}, False),
        ({"aud": "another"}, False),
        ({"aud": []}, False),
        ({"aud": ["another", "weir"]}, True),
        ({"aud": ["another", "weir"], "azp": "another"}, False),
        ({"azp": "weir"}, True),
        ({"exp": timedelta(seconds=-61)}, False),
        ({"exp": timedelta(seconds=-30)}, True),
        ({"exp": None}, False),
        ({"iat": None}, False),
        ({"iat": timedelta(seconds=600)}, False),
        ({"nbf": timedelta(seconds=600)}, False),
        ({"sub": None}, False),
        ({"iss": None}, False),
        ({"aud": None}, False),
        ({"nonce": None}, False),
        ({"nonce": "another"}, False),
        ({"nonce": ["x"]}, False),
    ],
)
async def test_the_claims_of_a_token_are_checked(
    oidc: Oidc, provider: Provider, claims: dict[str, Any], accepted: bool
) -> None:
    provider.claims |= claims
    if accepted:
        assert (await log_in(oidc, provider)).name == "oidc:ann"
    else:
        assert (await refusal(oidc, provider)).status == 401


async def test_a_state_is_good_once(oidc: Oidc, provider: Provider) -> None:
    address, browser = await oidc.begin(REDIRECT, HERE)
    query = provider.follow(address)
    await oidc.finish(query, browser)
    with pytest.raises(Problem, match="was used before"):
        await oidc.finish(query, browser)


@pytest.mark.parametrize(("after_ms", "accepted"), [(PENDING_MS - 1, True), (PENDING_MS, False)])
async def test_a_state_is_good_for_ten_minutes(
    oidc: Oidc, provider: Provider, clock: Clock, after_ms: int, accepted: bool
) -> None:
    address, browser = await oidc.begin(REDIRECT, HERE)
    clock.ms += after_ms
    if accepted:
        await oidc.finish(provider.follow(address), browser)
    else:
        with pytest.raises(Problem, match="longer than ten minutes"):
            await oidc.finish(provider.follow(address), browser)


async def test_a_callback_that_another_browser_began_logs_nobody_in(oidc: Oidc, provider: Provider) -> None:
    address, _ = await oidc.begin(REDIRECT, HERE)
    _, other = await oidc.begin(REDIRECT, HERE)
    for browser in (other, ""):
        with pytest.raises(Problem, match=r"another browser|used before"):
            await oidc.finish(provider.follow(address), browser)
    assert not any(request.form is not None for request in provider.requests)


@pytest.mark.parametrize("query", [{}, {"state": ""}, {"state": "unknown", "code": "good"}])
async def test_an_unknown_state_asks_the_provider_nothing(
    oidc: Oidc, provider: Provider, query: dict[str, str]
) -> None:
    with pytest.raises(Problem) as refused:
        await oidc.finish(query, "x")
    assert refused.value.status == 401 and provider.requests == []


@pytest.mark.parametrize(("others", "is_lost"), [(-2, False), (-1, False), (0, True)])
async def test_the_number_of_begun_logins_is_bounded(
    oidc: Oidc, provider: Provider, others: int, is_lost: bool
) -> None:
    first, browser = await oidc.begin(REDIRECT, HERE)
    for _ in range(MAX_PENDING + others):
        await oidc.begin(REDIRECT, HERE)
    assert len(oidc._pending) == MAX_PENDING + min(others + 1, 0)
    if is_lost:
        with pytest.raises(Problem, match="used before"):
            await oidc.finish(provider.follow(first), browser)
    else:
        assert (await oidc.finish(provider.follow(first), browser)).name == "oidc:ann"


@pytest.mark.parametrize("flood", ["192.0.2.66", "2001:db8::"])
async def test_an_address_that_begins_logins_without_end_loses_only_its_own(
    oidc: Oidc, provider: Provider, flood: str
) -> None:
    """An IPv6 host is its whole /64."""
    begun = [await oidc.begin(REDIRECT, f"192.0.2.{at}") for at in range(20)]
    for at in range(2 * MAX_PENDING):
        await oidc.begin(REDIRECT, f"{flood}{at % 9_999:x}" if ":" in flood else flood)
    assert len(oidc._pending) == MAX_PENDING
    for address, browser in begun:
        assert (await oidc.finish(provider.follow(address), browser)).name == "oidc:ann"


async def test_the_response_of_another_provider_is_refused(oidc: Oidc, provider: Provider) -> None:
    assert "another provider" in (await refusal(oidc, provider, iss="https://evil.example")).detail
    provider.discovery["authorization_response_iss_parameter_supported"] = True
    fresh = Oidc(SETTINGS, provider.fetch, Clock())
    assert "another provider" in (await refusal(fresh, provider)).detail
    assert (await log_in(fresh, provider, iss=ISSUER)).name == "oidc:ann"


async def test_an_error_of_the_provider_is_reported(oidc: Oidc, provider: Provider) -> None:
    problem = await refusal(oidc, provider, error="access_denied", error_description="No\nway<b>")
    assert (problem.status, problem.detail) == (401, "Single sign-on failed: Noway<b>.")
    assert "400 invalid_grant" in (await refusal(oidc, provider, code="bad")).detail


@pytest.mark.parametrize(
    ("place", "answer", "status"),
    [
        ("openid-configuration", (500, b"oops"), 502),
        ("openid-configuration", (200, b"not JSON"), 502),
        ("openid-configuration", (200, b"[]"), 502),
        ("openid-configuration", (200, b'{"issuer": "https://evil.example"}'), 502),
        ("keys", (404, b""), 502),
        ("keys", (200, b'{"keys": "none"}'), 401),
        ("keys", (200, b'{"keys": [5, {"kty": "RSA"}]}'), 401),
        ("token", (200, b'"text"'), 502),
        ("token", (200, b"{}"), 401),
        ("token", (503, b""), 401),
    ],
)
async def test_a_provider_that_answers_wrongly_is_an_error(
    oidc: Oidc, provider: Provider, place: str, answer: tuple[int, bytes], status: int
) -> None:
    provider.answers[place] = answer
    assert (await refusal(oidc, provider)).status == status


@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "jwks_uri"])
@pytest.mark.parametrize("url", [None, "", "http://id.example/x", "file:///etc/passwd", "javascript:1", 5])
async def test_endpoints_are_as_encrypted_as_the_issuer(
    oidc: Oidc, provider: Provider, name: str, url: Any
) -> None:
    provider.discovery[name] = url
    problem = await refusal(oidc, provider)
    assert problem.status == 502 and name in problem.detail


async def test_new_keys_are_read_at_most_once_a_minute(oidc: Oidc, provider: Provider, clock: Clock) -> None:
    def asked() -> int:
        return sum(request.url.endswith("/keys") for request in provider.requests)

    await log_in(oidc, provider)
    await log_in(oidc, provider)
    assert asked() == 1
    provider.keys = [public(THEIRS, "k2", "RS256")]
    provider.token = lambda claims: jwt.encode(claims, THEIRS, "RS256", {"kid": "k2"})
    clock.ms += KEYS_AGAIN_MS - 1
    assert "key of the id token is unknown" in (await refusal(oidc, provider)).detail
    assert asked() == 1
    clock.ms += 1
    assert (await log_in(oidc, provider)).name == "oidc:ann"
    assert asked() == 2


async def test_the_discovery_is_read_once_an_hour(oidc: Oidc, provider: Provider, clock: Clock) -> None:
    await oidc.begin(REDIRECT, HERE)
    clock.ms += DISCOVERED_MS - 1
    await oidc.begin(REDIRECT, HERE)
    assert len(provider.requests) == 1
    clock.ms += 1
    await oidc.begin(REDIRECT, HERE)
    assert len(provider.requests) == 2


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [(OURS, "RS512"), (OURS, "PS256"), (CURVE, "ES256")],
    ids=["RS512", "PS256", "ES256"],
)
async def test_asymmetric_signatures_are_accepted(
    oidc: Oidc, provider: Provider, key: Any, algorithm: str
) -> None:
    provider.keys = [public(key, "k", algorithm)]
    provider.token = lambda claims: jwt.encode(claims, key, algorithm, {"kid": "k"})
    assert (await log_in(oidc, provider)).name == "oidc:ann"

"""Single sign-on over HTTP: redirects and cookies, the session that it opens, its proof, and logging out."""

from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec.structs import replace as replaced

from tests.webui.conftest import OWN_HOST, PORT, Browserless, Clock
from tests.webui.fakes import FakeBroker
from tests.webui.http.test_page_routes import csrf_of, text_of
from tests.webui.security.test_oidc import ISSUER, SETTINGS, Provider
from webui.http.app import build_app, make_console
from webui.security.authenticator import RECENT_MS
from webui.security.oidc import Oidc

NAVIGATION = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}


class Browser:
    """Keeps the console's cookies, and visits the provider as a user does."""

    def __init__(self, http: Browserless, provider: Provider) -> None:
        self.http = http
        self.provider = provider
        self.cookies: SimpleCookie = SimpleCookie()

    async def ask(self, method: str, path: str, **rest: Any) -> Any:
        cookie = "; ".join(f"{name}={each.value}" for name, each in self.cookies.items() if each.value)
        answer = await self.http.ask(method, path, token=None, **({"Cookie": cookie} | rest))
        for header in answer.headers.getlist("Set-Cookie"):
            self.cookies.load(header)
        return answer

    async def log_in(self, **changes: str) -> Any:
        begun = await self.ask("GET", "/oidc/login")
        assert begun.status_code == 303
        query = self.provider.follow(begun.headers["Location"]) | changes
        text = "&".join(f"{name}={value}" for name, value in query.items())
        return await self.ask("GET", f"/oidc/callback?{text}", **NAVIGATION)

    @property
    def session(self) -> str:
        return f"weir-{PORT}={self.cookies[f'weir-{PORT}'].value}"


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def http(broker: FakeBroker, clock: Clock, provider: Provider) -> Browserless:
    console = make_console(broker.backend(), SETTINGS, PORT, now_ms=lambda: broker.now_ms, uptime_ms=clock)
    console = replaced(console, oidc=Oidc(SETTINGS, provider.fetch, clock))
    return Browserless(build_app(console).test_client(use_cookies=False))


@pytest.fixture
def browser(http: Browserless, provider: Provider) -> Browser:
    return Browser(http, provider)


async def test_a_user_logs_in_changes_what_the_role_allows_and_logs_out(
    browser: Browser, broker: FakeBroker, provider: Provider
) -> None:
    provider.claims["groups"] = ["quota-owners"]
    answer = await browser.log_in()
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    page = await text_of(await browser.ask("GET", "/quotas"))
    assert 'data-who="oidc:ann" data-role="editor"' in page and 'data-sign-on="yes"' in page
    csrf = await csrf_of(browser.http, browser.session)
    entry = {"entity": {"user": "a"}, "ops": [{"key": "producer_byte_rate", "value": 5}]}
    patched = await browser.ask(
        "PATCH", "/api/v1/client-quotas", body={"entries": [entry]}, X_CSRF_Token=csrf
    )
    assert patched.status_code == 200 and broker.applied[0][1].name == "oidc:ann"
    refused = await browser.ask("PATCH", "/api/v1/broker-configs", body={"ops": [{"key": "a", "value": "b"}]})
    assert refused.status_code == 403
    left = await browser.ask("POST", "/logout", X_CSRF_Token=csrf)
    location = (await left.get_json())["location"]
    assert location.startswith(f"{ISSUER}/logout?client_id=weir")
    home = parse_qs(urlsplit(location).query)["post_logout_redirect_uri"]
    assert home == [f"http://{OWN_HOST}/"]
    assert (await browser.ask("GET", "/session")).status_code == 401


async def test_the_cookies_are_for_the_server_and_the_right_sites(browser: Browser) -> None:
    begun = await browser.ask("GET", "/oidc/login")
    (cookie,) = begun.headers.getlist("Set-Cookie")
    assert cookie.startswith(f"weir-{PORT}-oidc=")
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie and "Max-Age=600" in cookie
    answer = await browser.log_in()
    session, gone = sorted(answer.headers.getlist("Set-Cookie"), key=len, reverse=True)
    if "Max-Age=0" in session:
        session, gone = gone, session
    assert "HttpOnly" in session and "SameSite=Strict" in session
    assert "-oidc=;" in gone and "Max-Age=0" in gone


async def test_a_callback_without_the_cookie_logs_nobody_in(browser: Browser, provider: Provider) -> None:
    begun = await browser.ask("GET", "/oidc/login")
    query = provider.follow(begun.headers["Location"])
    answer = await browser.http.get(
        f"/oidc/callback?code=good&state={query['state']}", token=None, **NAVIGATION
    )
    assert answer.status_code == 401 and "another browser" in await text_of(answer)
    assert not any(cookie.startswith(f"weir-{PORT}=") for cookie in answer.headers.getlist("Set-Cookie"))


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"code": "bad"}, 401, "the provider answers 400 invalid_grant"),
        ({"error": "access_denied"}, 401, "access_denied"),
        ({"state": "another"}, 401, "used before"),
        ({"error": "x", "error_description": "<script>alert(1)</script>"}, 401, "&lt;script&gt;"),
    ],
)
async def test_a_refusal_is_shown_on_the_login_page(
    browser: Browser, changes: dict[str, str], status: int, words: str
) -> None:
    answer = await browser.log_in(**changes)
    text = await text_of(answer)
    assert answer.status_code == status and words in text and "Log in by single sign-on" in text
    assert "<script>alert" not in text


async def test_a_provider_that_does_not_answer_is_reported(browser: Browser, provider: Provider) -> None:
    provider.answers["openid-configuration"] = (503, b"")
    answer = await browser.ask("GET", "/oidc/login")
    assert answer.status_code == 502 and "the provider answers 503" in await text_of(answer)


async def test_a_login_of_the_last_five_minutes_proves_who_asks(
    browser: Browser, clock: Clock, provider: Provider
) -> None:
    provider.claims["groups"] = ["ops"]
    await browser.log_in()
    csrf = await csrf_of(browser.http, browser.session)
    body = {"name": "new", "role": "viewer"}
    clock.ms += RECENT_MS - 1
    made = await browser.ask("POST", "/api/v1/tokens", body=body, X_CSRF_Token=csrf)
    assert made.status_code == 201
    clock.ms += 1
    refused = await browser.ask("POST", "/api/v1/tokens", body=body | {"name": "b"}, X_CSRF_Token=csrf)
    problem = await refused.get_json()
    assert (refused.status_code, problem["where"]) == (403, "/present")


async def test_tokens_work_beside_it(browser: Browser) -> None:
    await browser.log_in()
    assert (await browser.http.get("/api/v1/overview", token="viewer-token")).status_code == 200
    answer = await browser.http.ask("POST", "/login", token=None, body={"token": "admin-token"})
    assert answer.status_code == 200


async def test_without_a_provider_there_is_no_single_sign_on(console: Any) -> None:
    plain = Browserless(build_app(console).test_client(use_cookies=False))
    assert (await plain.get("/oidc/login", token=None)).status_code == 404
    assert "single sign-on" not in await text_of(await plain.get("/", token=None))

"""The pages themselves, signing in and out, and the files they are made of."""

import re

import pytest
from quart import Response

from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from webui.console import Console
from webui.http.app import build_app
from webui.http.static_files import StaticFiles
from webui.pages.catalogue import PAGES, Page
from webui.rest.routes import ROUTES

NAVIGATION = {"Sec_Fetch_Site": "none", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}


def cookie_of(answer: Response) -> str:
    return answer.headers["Set-Cookie"].partition(";")[0]


async def sign_in(http: Browserless, token: str = "admin-token") -> str:
    answer = await http.get(f"/?token={token}", token=None, **NAVIGATION)
    assert answer.status_code == 303
    return cookie_of(answer)


async def text_of(answer: Response) -> str:
    return (await answer.get_data()).decode()


async def csrf_of(http: Browserless, cookie: str) -> str:
    page = await text_of(await http.get("/", token=None, Cookie=cookie))
    found = re.search(r'data-csrf="([\w-]+)"', page)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("callback", ["", "acme.quotas:Groups"])
async def test_the_quotas_page_says_where_a_callback_decides(
    http: Browserless, broker: FakeBroker, callback: str
) -> None:
    broker.callback = callback
    page = await text_of(await http.get("/quotas", token=None, Cookie=await sign_in(http)))
    assert ("The quota callback <code>acme.quotas:Groups</code> decides" in page) is bool(callback)


async def test_the_printed_link_signs_in_and_loses_its_token(http: Browserless) -> None:
    answer = await http.get("/?token=admin-token", token=None, **NAVIGATION)
    assert answer.status_code == 303 and answer.headers["Location"] == "/"
    attributes = answer.headers["Set-Cookie"].split("; ")[1:]
    assert set(attributes) == {"HttpOnly", "Path=/", "SameSite=Strict"}


async def test_every_page_is_shown_to_whoever_is_signed_in(http: Browserless) -> None:
    cookie = await sign_in(http)
    for page in PAGES:
        answer = await http.get(page.path, token=None, Cookie=cookie)
        text = await text_of(answer)
        assert answer.status_code == 200 and f"<h1>{page.title}</h1>" in text
        assert 'aria-current="page"' in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.key)
async def test_pages_are_made_of_files_that_are_there_and_of_nothing_inline(
    http: Browserless, page: object
) -> None:
    cookie = await sign_in(http)
    text = await text_of(await http.get(page.path, token=None, Cookie=cookie))  # type: ignore[attr-defined]
    addresses = re.findall(r'(?:src|href)="([^"#]+)"', text)
    paths = {door.path for door in PAGES}
    for address in addresses:
        if address.partition("?")[0] not in paths:
            assert (await http.get(address, token=None)).status_code == 200, address
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=|javascript:", text)


async def test_every_address_a_script_asks_is_there() -> None:
    # Read from the sources: no page may ask for what is not answered.
    static = StaticFiles()
    known = (
        {route.path for route in ROUTES} | {page.path for page in PAGES} | {"/login", "/logout", "/session"}
    )
    for name in static.names:
        content, _ = static.get(name) or (b"", "")
        for address in re.findall(rb"[\"'`](/[a-z]{2}[\w/.-]*)", content):
            path = address.decode()
            named = any(each.startswith(path + "{") for each in known) and path.endswith("/")
            assert path in known or named, (name, address)
        for module in re.findall(rb'from "\./([\w.]+)"', content):
            assert static.get("js/" + module.decode()) is not None, (name, module)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.key)
def test_the_modules_of_a_page_are_what_its_script_imports_directly_or_not(page: Page) -> None:
    static = StaticFiles()
    wanted, found = {page.key}, set[str]()
    while wanted:
        name = wanted.pop()
        found.add(name)
        content, _ = static.get(f"js/{name}.js") or (b"", "")
        imported = {one.decode() for one in re.findall(rb'from "\./(\w+)\.js"', content)}
        wanted |= imported - found
    assert found - {page.key} == set(page.modules)


async def test_strangers_are_shown_the_sign_in_page_and_no_figures(http: Browserless) -> None:
    for page in PAGES:
        answer = await http.get(page.path, token=None)
        text = await text_of(answer)
        assert answer.status_code == 401 and "Sign in" in text and "csrf" not in text


async def test_a_wrong_token_in_the_link_is_said_so(http: Browserless) -> None:
    answer = await http.get("/?token=wrong", token=None, **NAVIGATION)
    assert answer.status_code == 401 and "not known here" in await text_of(answer)
    assert "Set-Cookie" not in answer.headers


async def test_guessing_by_link_makes_wait_too(http: Browserless) -> None:
    for index in range(5):
        await http.get(f"/?token=guess-{index}", token=None, **NAVIGATION)
    answer = await http.get("/?token=admin-token", token=None, **NAVIGATION)
    assert answer.status_code == 429 and answer.headers["Retry-After"] == "1"


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_another_sites_link_signs_nobody_in(http: Browserless, site: str) -> None:
    answer = await http.get("/?token=admin-token", token=None, **NAVIGATION | {"Sec_Fetch_Site": site})
    assert answer.status_code == 403 and "Set-Cookie" not in answer.headers


async def test_a_bearer_token_opens_no_page(http: Browserless) -> None:
    assert (await http.get("/")).status_code == 401


async def test_signing_in_by_the_form(http: Browserless) -> None:
    answer = await http.ask("POST", "/login", token=None, body={"token": "viewer-token"})
    assert answer.status_code == 200
    page = await text_of(await http.get("/", token=None, Cookie=cookie_of(answer)))
    assert 'data-may-edit="no"' in page and "viewer" in page


@pytest.mark.parametrize(
    "body", [{}, {"token": ""}, {"token": 7}, {"token": "x" * 1_025}, {"token": "x", "next": "/"}, []]
)
async def test_a_form_that_is_no_form_is_refused(http: Browserless, body: object) -> None:
    answer = await http.ask("POST", "/login", token=None, body=body)
    assert answer.status_code == 400


async def test_the_form_is_json_or_nothing(http: Browserless) -> None:
    form = b"token=admin-token"
    answer = await http.ask(
        "POST", "/login", token=None, body=form, Content_Type="application/x-www-form-urlencoded"
    )
    assert answer.status_code == 415 and "Set-Cookie" not in answer.headers


async def test_a_new_sign_in_ends_the_session_that_the_browser_had(http: Browserless) -> None:
    before = await sign_in(http)
    answer = await http.ask("POST", "/login", token=None, body={"token": "admin-token"}, Cookie=before)
    assert answer.status_code == 200 and cookie_of(answer) != before
    assert (await http.get("/", token=None, Cookie=before)).status_code == 401


async def test_signing_in_again_hands_an_open_page_what_it_goes_on_with(http: Browserless) -> None:
    answer = await http.ask("POST", "/login", token=None, body={"token": "admin-token"})
    told = await answer.get_json()
    cookie = cookie_of(answer)
    assert told == {"name": "root", "role": "admin", "csrf": await csrf_of(http, cookie)}
    assert answer.headers["Cache-Control"] == "no-store"


async def test_signing_out_is_real(http: Browserless) -> None:
    cookie = await sign_in(http)
    csrf = await csrf_of(http, cookie)
    refused = await http.ask("POST", "/logout", token=None, Cookie=cookie)
    assert refused.status_code == 403
    answer = await http.ask("POST", "/logout", token=None, Cookie=cookie, X_CSRF_Token=csrf)
    assert answer.status_code == 204 and "Expires=Thu, 01 Jan 1970" in answer.headers["Set-Cookie"]
    assert (await http.get("/", token=None, Cookie=cookie)).status_code == 401


async def test_a_page_changes_quotas_with_its_csrf_token_only(http: Browserless) -> None:
    cookie = await sign_in(http)
    csrf = await csrf_of(http, cookie)
    body = {"entries": [{"entity": {"user": "a"}, "ops": [{"key": "producer_byte_rate", "value": 1}]}]}
    for given, status in ((None, 403), ("wrong", 403), (csrf, 200)):
        headers = {} if given is None else {"X_CSRF_Token": given}
        answer = await http.patch("/api/v1/client-quotas", body, token=None, Cookie=cookie, **headers)
        assert answer.status_code == status, given


async def test_whether_there_is_a_session_can_be_asked(http: Browserless) -> None:
    assert (await http.get("/session", token=None)).status_code == 401
    assert (await http.get("/session", token=None, Cookie=await sign_in(http))).status_code == 204


async def test_over_tls_the_cookie_is_secure(console: Console) -> None:
    client = build_app(console).test_client(use_cookies=False)
    headers = {"Sec-Fetch-Site": "none"}
    answer = await client.get("/?token=admin-token", headers=headers, scheme="https")
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith("__Host-weir-8080=") and "; Secure" in cookie
    assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"


@pytest.mark.parametrize(
    "path",
    ["../app.py", "..%2fapp.py", "%2e%2e/app.py", "css/../../app.py", "css%2f..%2f..%2fapp.py", "/etc/passwd",
     "css/base.css%00", "css", "", "css/base.css/", "..\\app.py"],
)  # fmt: skip
async def test_only_files_that_are_there_by_name_are_served(http: Browserless, path: str) -> None:
    assert (await http.get(f"/static/x/{path}", token=None)).status_code in (404, 405)


async def test_files_of_this_release_are_kept_for_ever_and_others_are_not(http: Browserless) -> None:
    static = StaticFiles()
    answer = await http.get(static.address("css/base.css"), token=None)
    assert "immutable" in answer.headers["Cache-Control"]
    assert answer.content_type == "text/css; charset=utf-8"
    answer = await http.get("/static/another/css/base.css", token=None)
    assert answer.headers["Cache-Control"] == "no-store"

"""The pages themselves, logging in and out, and the files they are made of."""

import re
from urllib.parse import quote

import pytest
from quart import Response

from tests.webui.conftest import OWN_HOST, Browserless, Clock
from tests.webui.fakes import FakeBroker
from tests.webui.rows import group, topic, upstream
from webui.console import Console
from webui.http.app import build_app
from webui.pages import KINDS, PAGES, Page, StaticFiles, menu
from webui.rest.routes import ROUTES

NAVIGATION = {"Sec_Fetch_Site": "none", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}


def cookie_of(answer: Response) -> str:
    return answer.headers["Set-Cookie"].partition(";")[0]


async def sign_in(http: Browserless, token: str = "admin-token") -> str:
    answer = await http.ask("POST", "/login", token=None, body={"token": token})
    assert answer.status_code == 200
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


async def by_link(http: Browserless, code: str, **headers: str) -> Response:
    return await http.get(f"/?code={code}", token=None, **NAVIGATION | headers)


async def test_a_link_signs_in_and_loses_its_code(
    http: Browserless, broker: FakeBroker, clock: Clock
) -> None:
    answer = await by_link(http, broker.links.make(clock.ms))
    assert answer.status_code == 303 and answer.headers["Location"] == "/"
    attributes = answer.headers["Set-Cookie"].split("; ")[1:]
    assert set(attributes) == {"HttpOnly", "Path=/", "SameSite=Strict"}
    page = await text_of(await http.get("/", token=None, Cookie=cookie_of(answer)))
    assert 'data-who="root"' in page


@pytest.mark.parametrize(("age_ms", "status"), [(899_999, 303), (900_000, 401), (900_001, 401)])
async def test_a_link_is_good_for_fifteen_minutes(
    http: Browserless, broker: FakeBroker, clock: Clock, age_ms: int, status: int
) -> None:
    code = broker.links.make(clock.ms)
    clock.ms += age_ms
    answer = await by_link(http, code)
    assert answer.status_code == status and ("Set-Cookie" in answer.headers) is (status == 303)
    if status == 401:
        assert "older than fifteen minutes" in await text_of(answer)


async def test_a_link_is_good_once(http: Browserless, broker: FakeBroker, clock: Clock) -> None:
    code = broker.links.make(clock.ms)
    cookie = cookie_of(await by_link(http, code))
    again = await by_link(http, code)
    assert again.status_code == 401 and "used before" in await text_of(again)
    # In the browser that it has logged in it leads to the page.
    mine = await by_link(http, code, Cookie=cookie)
    assert mine.status_code == 303 and "Set-Cookie" not in mine.headers


async def test_asking_for_the_head_of_a_link_does_not_use_it_up(
    http: Browserless, broker: FakeBroker, clock: Clock
) -> None:
    code = broker.links.make(clock.ms)
    head = await http.ask("HEAD", f"/?code={code}", token=None, **NAVIGATION)
    assert head.status_code == 401 and "Set-Cookie" not in head.headers
    assert (await by_link(http, code)).status_code == 303


@pytest.mark.parametrize("token", ["admin-token", "wrong"])
async def test_a_token_in_an_address_signs_no_user_in_and_is_not_looked_at(
    http: Browserless, broker: FakeBroker, token: str
) -> None:
    for _ in range(10):
        answer = await http.get(f"/?token={token}", token=None, **NAVIGATION)
        assert answer.status_code == 403 and "Set-Cookie" not in answer.headers
        assert "in the URL is not accepted" in await text_of(answer)
    assert (await http.get("/api/v1/overview")).status_code == 200


@pytest.mark.parametrize("is_gateway", [False, True], ids=["broker", "gateway"])
async def test_every_page_is_shown_to_whoever_is_signed_in(
    http: Browserless, broker: FakeBroker, is_gateway: bool
) -> None:
    broker.upstream_row = upstream() if is_gateway else None
    cookie = await sign_in(http)
    for page in PAGES:
        answer = await http.get(page.path, token=None, Cookie=cookie)
        text = await text_of(answer)
        assert answer.status_code == 200 and f"<h1>{page.title}</h1>" in text
        is_in_menu = any(page in entry.pages for entry in menu(is_gateway=is_gateway))
        assert ('aria-current="page"' in text) is is_in_menu


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.key)
async def test_pages_are_made_of_files_that_are_there_and_of_nothing_inline(
    http: Browserless, page: object
) -> None:
    cookie = await sign_in(http)
    text = await text_of(await http.get(page.path, token=None, Cookie=cookie))  # type: ignore[attr-defined]
    addresses = re.findall(r'(?:src|href)="([^"#]+)"', text)
    paths = {page.path for page in PAGES} | {route.path for route in ROUTES}
    for address in addresses:
        if address.partition("?")[0] not in paths:
            assert (await http.get(address, token=None)).status_code == 200, address
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=|javascript:", text)


async def test_every_address_a_script_asks_is_there() -> None:
    # Read from the sources: no page may ask for what is not answered.
    static = StaticFiles()
    of_things = {f"{kind.listed}/" for kind in KINDS}
    known = (
        {route.path for route in ROUTES} | {page.path for page in PAGES} | {"/login", "/logout", "/session"}
    )
    for name in static.names:
        content, _ = static.get(name) or (b"", "")
        for address in re.findall(rb"[\"'`](/[a-z]{2}[\w/.-]*)", content):
            path = address.decode()
            named = path in of_things or (
                any(each.startswith(path + "{") for each in known) and path.endswith("/")
            )
            assert path in known or named, (name, address)
        for module in re.findall(rb'from "\./([\w.]+)"', content):
            assert static.get("js/" + module.decode()) is not None, (name, module)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.key)
async def test_a_page_preloads_what_its_script_imports_directly_or_not(http: Browserless, page: Page) -> None:
    static = StaticFiles()
    wanted, found = {page.key}, set[str]()
    while wanted:
        name = wanted.pop()
        found.add(name)
        content, _ = static.get(f"js/{name}.js") or (b"", "")
        imported = {one.decode() for one in re.findall(rb'from "\./(\w+)\.js"', content)}
        wanted |= imported - found
    text = await text_of(await http.get(page.path, token=None, Cookie=await sign_in(http)))
    preloaded = re.findall(r'rel="modulepreload" href="/static/\w+/js/(\w+)\.js"', text)
    assert found - {page.key} == set(preloaded) and len(set(preloaded)) == len(preloaded)


async def test_strangers_are_shown_the_sign_in_page_and_no_figures(http: Browserless) -> None:
    for page in PAGES:
        answer = await http.get(page.path, token=None)
        text = await text_of(answer)
        assert answer.status_code == 401 and "Log in" in text and "csrf" not in text


async def test_a_wrong_code_in_the_link_is_refused_with_the_reason(http: Browserless) -> None:
    for code in ("wrong", "", "x" * 75, "%C3%A9" * 75):
        answer = await by_link(http, code)
        assert answer.status_code == 401 and "weir console-link for a new one" in await text_of(answer)
        assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_another_sites_link_signs_no_user_in(
    http: Browserless, broker: FakeBroker, clock: Clock, site: str
) -> None:
    code = broker.links.make(clock.ms)
    answer = await by_link(http, code, Sec_Fetch_Site=site)
    assert answer.status_code == 403 and "Set-Cookie" not in answer.headers
    assert (await by_link(http, code)).status_code == 303


@pytest.mark.parametrize(
    ("address", "status"),
    [("127.0.0.1", 303), ("::1", 303), ("::ffff:127.0.0.1", 303), ("10.0.0.7", 403), ("2001:db8::7", 403)],
)
async def test_a_browser_that_does_not_say_where_a_link_comes_from_is_believed_on_this_machine_only(
    console: Console, broker: FakeBroker, clock: Clock, address: str, status: int
) -> None:
    client = build_app(console).test_client(use_cookies=False)
    code = broker.links.make(clock.ms)
    arguments = {"headers": {"Host": OWN_HOST}, "scope_base": {"client": (address, 50_000)}}
    answer = await client.get(f"/?code={code}", **arguments)
    assert answer.status_code == status and ("Set-Cookie" in answer.headers) is (status == 303)
    if status == 403:
        assert "so links cannot log in" in await text_of(answer)
        arguments["headers"] |= {"Sec-Fetch-Site": "none"}  # type: ignore[index]
        assert (await client.get(f"/?code={code}", **arguments)).status_code == 303


# The host name of the pages


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.key)
@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:8080", "[::1]:8080"])
async def test_a_page_is_at_a_host_name_of_its_own(http: Browserless, page: Page, host: str) -> None:
    answer = await http.get(f"{page.path}?search=a%26b&x=%0d%0aX:1", token=None, Host=host)
    assert answer.status_code == 307
    assert answer.headers["Location"] == f"http://{OWN_HOST}{page.path}?search=a%26b&x=%0d%0aX:1"
    assert answer.headers["Cache-Control"] == "no-store"


async def test_a_link_by_address_is_used_up_where_it_leads_to(
    http: Browserless, broker: FakeBroker, clock: Clock
) -> None:
    code = broker.links.make(clock.ms)
    answer = await by_link(http, code, Host="127.0.0.1:8080")
    assert answer.status_code == 307 and "Set-Cookie" not in answer.headers
    assert answer.headers["Location"] == f"http://{OWN_HOST}/?code={code}"
    assert (await by_link(http, code)).status_code == 303


async def test_the_published_port_of_a_container_is_part_of_its_name(http: Browserless) -> None:
    answer = await http.get("/", token=None, Host="127.0.0.1:18080")
    assert answer.headers["Location"] == "http://weir-18080.localhost:18080/"
    assert (await http.get("/", token=None, Host="weir-18080.localhost:18080")).status_code == 401
    moved = await http.get("/", token=None, Host="weir-8080.localhost:18080")
    assert moved.headers["Location"] == "http://weir-18080.localhost:18080/"


async def test_programs_use_the_address(http: Browserless) -> None:
    for host in ("127.0.0.1:8080", "localhost:8080", OWN_HOST):
        assert (await http.get("/api/v1/overview", Host=host)).status_code == 200
        assert (await http.get("/healthz", token=None, Host=host)).status_code == 200
        assert (await http.get("/session", token=None, Host=host)).status_code == 401


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
    body = await answer.get_json()
    cookie = cookie_of(answer)
    assert body == {"name": "root", "role": "admin", "csrf": await csrf_of(http, cookie)}
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
    answer = await client.post("/login", json={"token": "admin-token"}, scheme="https")
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


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/topics/orders", 200, "topic_records.js"),
        ("/topics/orders?tab=config", 200, "topic_config.js"),
        ("/topics/orders?tab=nothing", 200, "topic_records.js"),
        ("/topics/Orders", 404, "This topic does not exist"),
        ("/topics/orders/", 404, "This topic does not exist"),
        ("/groups/a%2Fb?tab=offsets", 200, "group_offsets.js"),
        ("/groups/a~2fb?tab=reset", 200, "group_reset.js"),
        ("/groups/~2e~2e", 200, "group_members.js"),
        ("/groups/a%20b", 404, "This group does not exist"),
        ("/groups/~ff", 404, "This group does not exist"),
    ],
)
async def test_a_topic_and_a_group_have_a_page(
    http: Browserless, broker: FakeBroker, path: str, status: int, words: str
) -> None:
    broker.topic_rows = [topic("orders")]
    broker.group_rows = [group("a/b"), group("..")]
    cookie = await sign_in(http)
    answer = await http.get(path, token=None, Cookie=cookie)
    text = await text_of(answer)
    assert answer.status_code == status and words in text
    assert ("missing.js" in text) is (status == 404)
    assert (await http.get(path, token=None)).status_code == 401


async def test_a_link_to_a_topic_signs_in_there(http: Browserless, broker: FakeBroker, clock: Clock) -> None:
    code = broker.links.make(clock.ms)
    answer = await http.get(f"/groups/a%2Fb?code={code}", token=None, **NAVIGATION)
    assert answer.status_code == 303 and answer.headers["Location"] == "/groups/a~2fb"


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("/records", "/topics"),
        ("/records?limit=20", "/topics"),
        ("/records?topic=a.b", "/topics/a.b?start=latest"),
        ("/records?topic=..%2F%2Fx.example", "/topics/..~2f~2fx.example?start=latest"),
        ("/records?topic=o&start=offset&at=7&key=a%26b", "/topics/o?start=offset&at=7&key=a%26b"),
    ],
)
async def test_the_old_page_of_records_leads_to_the_topics(
    http: Browserless, path: str, location: str
) -> None:
    answer = await http.get(path, token=None)
    assert answer.status_code == 303 and answer.headers["Location"] == location


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ('/quotas?rule={"user":"alice","client-id":null}', "/quotas/user=alice,client-id"),
        (
            '/quotas?rule={"client-id":"a/b"}&edit=producer_byte_rate',
            "/quotas/client-id=a~2fb?edit=producer_byte_rate",
        ),
        ('/quotas?rule={"ip":"10.0.0.7"}&q=x', "/quotas/ip=10.0.0.7"),
    ],
)
async def test_the_old_address_of_a_rule_leads_to_its_page(
    http: Browserless, path: str, location: str
) -> None:
    answer = await http.get(quote(path, safe="/?=&"), token=None)
    assert answer.status_code == 303 and answer.headers["Location"] == location


@pytest.mark.parametrize("query", ["rule=", "rule=x", "rule={}", 'rule={"topic":"a"}', "rule=[]", "q=a"])
async def test_other_addresses_of_the_list_stay_there(http: Browserless, query: str) -> None:
    cookie = await sign_in(http)
    answer = await http.get(f"/quotas?{quote(query, safe='=')}", token=None, Cookie=cookie)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/quotas/user=alice,client-id", 200),
        ("/quotas/user=alice,client-id?tab=clients", 200),
        ("/quotas/client-id=a~2fb?tab=changes", 200),
        ("/quotas/user=alice", 404),
        ("/quotas/client-id=a%2Fb", 404),  # not the id of a rule
        ("/quotas/alice", 404),
    ],
)
async def test_a_rule_has_a_page_by_its_id(
    http: Browserless, broker: FakeBroker, path: str, status: int
) -> None:
    broker.set((("user", "alice"), ("client-id", None)), {"producer_byte_rate": 1.0})
    broker.set((("client-id", "a/b"),), {"producer_byte_rate": 1.0})
    answer = await http.get(path, token=None, Cookie=await sign_in(http))
    text = await text_of(answer)
    assert (answer.status_code, "This quota does not exist" in text) == (status, status == 404)
    assert (await http.get(path, token=None)).status_code == 401

"""What clients call themselves is shown and never run; what other pages send is never obeyed."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.webui.browser.conftest import Watched
from tests.webui.fake_access import ADMIN, EDITOR, VIEWER
from tests.webui.fakes import FakeBroker
from tests.webui.rows import connection, throttled
from webui.http.app import monotonic_ms

NAMES = (
    "<img src=x onerror=alert(1)>",
    '"><svg/onload=alert(2)>',
    "${{7*7}}{{7*7}}#{7*7}",
    "line\u2028separator\u2029and\u0085more",
    "right\u202eleft\u2066isolated",
    "</script><script>alert(3)</script>",
    "javascript:alert(4)",
    "' onmouseover='alert(5)",
    "tab\tnewline\nnul\0end",
    "x" * 249,
)
WRITTEN_OUT = {
    "\0": "U+0000",
    "\t": "U+0009",
    "\n": "U+000A",
    "\u0085": "U+0085",
    "\u2028": "U+2028",
    "\u2029": "U+2029",
    "\u202e": "U+202E",
    "\u2066": "U+2066",
}
WATCH = (
    "window.refused = []; document.addEventListener('securitypolicyviolation', "
    "event => refused.push(event.violatedDirective));"
)


@pytest.fixture
def hostile(page: Watched, broker: FakeBroker) -> Watched:
    page.page.add_init_script(WATCH)
    broker.connection_rows = [connection(name, name, index) for index, name in enumerate(NAMES)]
    broker.throttled_rows = [
        throttled(
            name, connection_id=f"c{index}", principal=name, entity=(("user", name), ("client-id", name))
        )
        for index, name in enumerate(NAMES)
    ]
    for name in NAMES:
        broker.set((("user", name), ("client-id", name)), {"producer_byte_rate": 1e6}, by=name)
    page.sign_in()
    return page


def shown(page: Any, selector: str) -> list[str]:
    return [
        text or "" for text in page.locator(selector).evaluate_all("all => all.map(one => one.textContent)")
    ]


@pytest.mark.parametrize("path", ["/throttled", "/quotas"])
def test_names_are_shown_as_text_and_run_nothing(hostile: Watched, expect: Any, path: str) -> None:
    opened = hostile.go(path)
    expect(opened.locator("tbody tr")).to_have_count(len(NAMES))
    texts = shown(opened, "tbody .name")
    assert {name.translate(str.maketrans(WRITTEN_OUT)) for name in NAMES} <= set(texts)
    assert opened.evaluate("refused") == []
    assert opened.locator("tbody img, tbody script").count() == 0


def test_names_stay_names_in_the_editor_and_the_command(hostile: Watched, expect: Any) -> None:
    opened = hostile.go("/quotas")
    opened.get_by_role("button", name="Edit user <img").click()
    opened.locator("form.editor input").first.fill("5 MB")
    expect(opened.locator(".copyable pre")).to_contain_text("'<img src=x onerror=alert(1)>'")
    opened.get_by_role("button", name="Save limits").click()
    expect(opened.locator(".toast")).to_contain_text("<img src=x onerror=alert(1)>")
    assert opened.evaluate("refused") == []


def test_the_browser_refuses_what_our_scripts_must_not_do(page: Watched) -> None:
    page.page.add_init_script(WATCH)
    page.sign_in()
    opened = page.go("/")
    script = """async () => {
        const tries = {
            html: () => (document.body.innerHTML = "<p>"),
            handler: () => document.querySelector("h1").setAttribute("onclick", "window.ran = true"),
            script: () => (document.createElement("script").text = "window.ran = true"),
            style: () => document.querySelector("h1").setAttribute("style", "color: red"),
        };
        for (const [name, run] of Object.entries(tries)) {
            try { run(); } catch { refused.push(`${name} thrown`); }
        }
        document.querySelector("h1").click();
        await new Promise(resolve => setTimeout(resolve, 200));
        return [window.ran === undefined, refused];
    }"""
    idle, refused = opened.evaluate(script)
    assert idle and {"html thrown", "handler thrown", "script thrown", "style-src-attr"} <= set(refused)
    page.troubles.clear()


@contextmanager
def another_site(html: str, host: str, cookies: list[str] | None = None) -> Iterator[str]:
    """A page on another port of this machine, found by `host`; `cookies` are those that it is sent."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if cookies is not None:
                cookies.append(self.headers.get("Cookie", ""))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *given: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://{host}:{server.server_port}/"
        server.shutdown()
        thread.join()


BODY = '{"entries":[{"entity":{"user":"mallory"},"ops":[{"key":"producer_byte_rate","value":1}]}]}'
TOKEN = '{"role":"admin","name":"mallory"}'
"""What a form of plain text sends is `name=value`, which makes JSON of a kind: a token called `mallory=`."""

ATTACKS = {
    "form that is JSON": """<form method=post action="{target}/api/v1/tokens" enctype="text/plain">
        <input name='{{"role":"admin","name":"mallory' value='"}}'></form>
        <script>document.forms[0].submit()</script>""",
    "no-cors that is JSON": """<script>fetch("{target}/api/v1/tokens", {{method: "POST", mode: "no-cors",
        credentials: "include", body: '{token}'}}).catch(() => 0)</script>""",
    "form": """<form method=post action="{target}/api/v1/client-quotas" enctype="text/plain">
        <input name='{body}'></form><script>document.forms[0].submit()</script>""",
    "form to log out": """<form method=post action="{target}/logout"></form>
        <script>document.forms[0].submit()</script>""",
    "fetch": """<script>fetch("{target}/api/v1/client-quotas", {{method: "PATCH", credentials: "include",
        headers: {{"Content-Type": "application/json"}}, body: '{body}'}}).catch(() => 0)</script>""",
    "no-cors": """<script>fetch("{target}/api/v1/client-quotas", {{method: "POST", mode: "no-cors",
        credentials: "include", body: '{body}'}}).catch(() => 0)</script>""",
    "frame": """<iframe src="{target}/quotas"></iframe>""",
    "script": """<script src="{target}/api/v1/overview"></script>""",
    "stream": """<script>new EventSource("{target}/api/v1/events", {{withCredentials: true}})</script>""",
    "log in": """<script>fetch("{target}/login", {{method: "POST", mode: "no-cors",
        body: '{{"token": "viewer-token"}}'}})</script>""",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_page_on_another_port_changes_nothing_and_reads_nothing(
    page: Watched, broker: FakeBroker, attack: str
) -> None:
    page.sign_in()
    opened = page.go("/")
    opened.goto("about:blank")
    answers: list[tuple[str, int]] = []
    opened.on("response", lambda response: answers.append((response.url, response.status)))
    html = ATTACKS[attack].format(target=page.console.pages, body=BODY, token=TOKEN)
    # Another port of the pages' own name: the same site, another origin.
    with another_site(html, urlsplit(page.console.pages).hostname or "") as site:
        opened.goto(site)
        opened.wait_for_timeout(500)
    ours = [(url, status) for url, status in answers if url.startswith(page.console.pages)]
    assert all(status in (403, 404, 405, 421) for _, status in ours), ours
    assert broker.applied == [] and broker.rows == {} and broker.token_rows == [ADMIN, EDITOR, VIEWER]
    page.troubles.clear()
    page.go("/quotas")
    assert "Client quotas" in opened.title() and 'data-may-edit="yes"' in opened.content()


def test_the_session_is_not_sent_to_other_services_of_this_machine(page: Watched, broker: FakeBroker) -> None:
    """Cookies ignore ports: browsers send those of 127.0.0.1 to every server on 127.0.0.1."""
    opened = page.page
    opened.goto(f"{page.console.address}/?code={broker.links.make(monotonic_ms())}")
    assert opened.title() == "Overview · Weir"
    for host in ("127.0.0.1", "localhost", "weir-1.localhost"):
        sent: list[str] = []
        with another_site("<p>", host, sent) as site:
            opened.goto(site)
        assert sent[0] == "", host
    assert page.go("/").title() == "Overview · Weir"
    page.troubles.clear()


def test_a_rebound_name_is_not_answered(browser: Any, page: Watched) -> None:
    port = page.console.pages.rpartition(":")[2]
    answer = page.page.request.get(f"{page.console.address}/", headers={"Host": f"evil.example:{port}"})
    assert answer.status == 421

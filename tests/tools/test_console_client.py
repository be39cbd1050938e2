"""The command line sends its token only to the named console."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import click
import pytest

from broker.tools.console_client import Console, RefusedError
from broker.tools.top.streams import EventStream
from tests.support.certificates import certificates

TOKEN = "a-token-of-an-administrator"


class Server(ThreadingHTTPServer):
    """Responds to each path with its entry in `answers`, or with an empty object. `asked` has method, path
    and token of each request.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, tuple[int, str]] = {}
        self.requests: list[tuple[str, str, str | None]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def paths(self) -> list[str]:
        return [path for _, path, _ in self.requests]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append((self.command, self.path, self.headers.get("Authorization")))
        status, to = self.server.answers.get(self.path, (200, ""))
        self.send_response(status)
        if to:
            self.send_header("Location", to)
        body = b'{"answered": true}'
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_DELETE = do_PUT = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("http://weir-8080.localhost:8080", "http://localhost:8080"),
        ("http://WEIR-1.LOCALHOST:1/", "http://localhost:1/"),
        ("http://weir-80.localhost", "http://localhost"),
        ("http://localhost:1", "http://localhost:1"),
        ("http://weir.localhost.example:1", "http://weir.localhost.example:1"),
        ("http://a@weir-1.localhost:1", "http://a@weir-1.localhost:1"),
        ("https://weir-1.localhost:1", "https://weir-1.localhost:1"),
    ],
)
def test_the_name_in_a_browser_is_that_of_this_machine(given: str, asked: str) -> None:
    assert Console.at(given, TOKEN).url == asked


@contextmanager
def serving() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def console() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def elsewhere() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_the_token_does_not_follow_a_redirect_to_another_origin(
    console: Server, elsewhere: Server, status: int, method: str
) -> None:
    console.answers["/api"] = (status, f"{elsewhere.url}/stolen")
    with pytest.raises(click.ClickException) as refused:
        Console.at(console.url, TOKEN).request(method, "/api", body=None if method == "GET" else {})
    assert elsewhere.requests == []
    assert console.requests == [(method, "/api", f"Bearer {TOKEN}")]
    assert not isinstance(refused.value, RefusedError)
    assert refused.value.message == (
        f"{console.url} redirects to {elsewhere.url}/stolen, which never receives the token: "
        "give the console's own address with --console"
    )


@pytest.mark.parametrize(
    "to",
    ["https://127.0.0.1:{port}/x", "//localhost:{port}/x", "http://user@127.0.0.1:{port}/x", "ftp://x/y"],
)
def test_another_scheme_host_or_user_is_another_origin(console: Server, to: str) -> None:
    console.answers["/api"] = (302, to.format(port=console.server_port))
    with pytest.raises(click.ClickException, match="which never receives the token"):
        Console.at(console.url, TOKEN).request("GET", "/api")
    assert console.paths() == ["/api"]


@pytest.mark.parametrize("to", ["/there", "there", "http://127.0.0.1:{port}/there"])
def test_a_redirect_within_the_console_is_followed_when_something_is_read(console: Server, to: str) -> None:
    console.answers["/api"] = (302, to.format(port=console.server_port))
    assert Console.at(console.url, TOKEN).request("GET", "/api") == {"answered": True}
    assert console.requests == [("GET", "/api", f"Bearer {TOKEN}"), ("GET", "/there", f"Bearer {TOKEN}")]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_change_is_not_taken_for_done_because_of_a_redirect(console: Server, status: int) -> None:
    """HTTP clients turn a redirected POST into a GET, whose response would look like success."""
    console.answers["/api"] = (status, "/there")
    with pytest.raises(click.ClickException, match="redirects to"):
        Console.at(console.url, TOKEN).request("POST", "/api", body={})
    assert console.paths() == ["/api"]


def test_a_redirect_in_a_circle_ends(console: Server) -> None:
    console.answers["/api"] = (302, "/api")
    with pytest.raises(click.ClickException):
        Console.at(console.url, TOKEN).request("GET", "/api")
    assert 1 < len(console.requests) < 20


def test_a_hostile_address_is_printed_without_its_control_characters(console: Server) -> None:
    console.answers["/api"] = (302, "http://elsewhere.example/\x1b[2Jx")
    with pytest.raises(click.ClickException) as refused:
        Console.at(console.url, TOKEN).request("GET", "/api")
    assert "\x1b" not in refused.value.message


def test_a_stream_is_not_redirected(console: Server, elsewhere: Server) -> None:
    console.answers["/api/v1/events?"] = (302, f"{elsewhere.url}/stolen")
    with pytest.raises(click.ClickException) as refused:
        EventStream(Console.at(console.url, TOKEN), {})
    assert elsewhere.requests == []
    assert f"redirects to {elsewhere.url}/stolen" in refused.value.message


def test_an_encrypted_console_does_not_send_the_token_in_the_clear() -> None:
    known = certificates()
    with serving() as console:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(known.server.store)
        console.socket = context.wrap_socket(console.socket, server_side=True)
        url = f"https://localhost:{console.server_port}"
        console.answers["/api"] = (302, f"http://localhost:{console.server_port}/api")
        with pytest.raises(click.ClickException, match="which never receives the token"):
            Console.at(url, TOKEN, str(known.authority.certificate)).request("GET", "/api")
        assert console.paths() == ["/api"]

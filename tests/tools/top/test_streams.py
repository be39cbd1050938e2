"""Parsing of the console's live stream, and the errors of an invalid one."""

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
import pytest

from broker.tools.console_client import Console, RefusedError
from broker.tools.top.streams import STALE_S, EventStream, Reader, Watch, events_in

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def parsed(text: bytes) -> list[tuple[str, Any]]:
    return list(events_in(text.splitlines(keepends=True)))


def test_events_have_a_name_and_a_value() -> None:
    text = b'retry: 1000\n\nevent: overview\ndata: {"at":1}\n\n: still here\n\n'
    text += b"event: throttled\r\ndata: []\r\n\r\n"
    assert parsed(text) == [("overview", {"at": 1}), ("throttled", [])]


def test_an_event_that_was_cut_off_is_none() -> None:
    assert parsed(b'event: overview\ndata: {"at":1}\n') == []


def test_events_without_json_are_refused() -> None:
    with pytest.raises(ValueError):
        parsed(b"event: overview\ndata: {\n\n")


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """Yield the URL of a server that sends these bytes to each client and disconnects."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            self.wfile.write(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_a_stream_ends_as_the_console_ends_it() -> None:
    with answering(HEAD + b"event: x\ndata: 1\n\n") as url:
        assert list(EventStream(Console(url, "t"), {"topics": "x"})) == [("x", 1)]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "no console responds"),
        (b"220 mail.example ESMTP\r\n", "no console responds"),
        (HEAD + b"event: x\ndata: nonsense\n\n", "no console responds"),
        (HEAD + b"event: x\ndata: {", "no console responds"),
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", "500 Oh"),
    ],
)
def test_a_server_that_is_not_a_console_is_reported_in_one_line(answer: bytes, words: str) -> None:
    with answering(answer) as url, pytest.raises(click.ClickException) as refused:
        list(EventStream(Console(url, "t"), {"topics": "x"}))
    assert words in refused.value.message and "\n" not in refused.value.message


def test_a_problem_document_says_why() -> None:
    body = json.dumps({"status": 401, "detail": "Unknown token."}).encode()
    answer = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with answering(answer) as url, pytest.raises(RefusedError) as refused:
        EventStream(Console(url, "t"), {})
    assert (refused.value.message, refused.value.problem["status"]) == ("Unknown token.", 401)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def watching() -> tuple[Watch, Clock, Reader, Reader]:
    """A watch without reader threads; the test calls their methods."""
    clock = Clock()
    watch = Watch(Console("http://127.0.0.1:1", "t"), {}, clock)
    return watch, clock, watch._readers["rest"], watch._readers["rules"]


def test_figures_are_shown_when_all_of_them_are_there() -> None:
    watch, _, rest, rules = watching()
    for name in ("overview", "throttled", "usage"):
        watch.receive(rest, name, name)
        assert watch.topics() == {}
    watch.receive(rules, "quotas", 1)
    assert set(watch.topics()) == {"overview", "throttled", "usage", "quotas"}


def test_a_console_that_says_nothing_makes_figures_stale() -> None:
    watch, clock, rest, _ = watching()
    watch.receive(rest, "overview", 1)
    clock.now = STALE_S
    assert watch.trouble() is None
    clock.now = STALE_S + 0.1
    assert watch.trouble() == "3 s old; the console sends nothing"
    watch.receive(rest, "overview", 1)
    assert watch.trouble() is None


def test_a_lost_stream_makes_them_stale_at_once_until_it_is_back() -> None:
    watch, clock, rest, rules = watching()
    watch.receive(rest, "overview", 1)
    clock.now = 1.0
    watch.fail(rules, click.ClickException("no console responds"))
    assert watch.trouble() == "1 s old; no console responds"
    watch.receive(rest, "overview", 1)  # the other stream is still broken
    assert watch.trouble() == "0 s old; no console responds"
    watch.receive(rules, "quotas", 1)
    assert watch.trouble() is None


def test_a_token_that_is_revoked_ends_it() -> None:
    watch, _, rest, _ = watching()
    watch.receive(rest, "signed-out", {})
    with pytest.raises(click.ClickException, match="no longer accepts"):
        watch.topics()


@pytest.mark.parametrize(("status", "ends"), [(401, True), (403, True), (503, False)])
def test_only_a_refusal_that_stays_one_ends_it(status: int, ends: bool) -> None:
    watch, _, rest, _ = watching()
    watch.fail(rest, RefusedError({"status": status, "detail": "no"}))
    assert watch.trouble() == "0 s old; no"
    if ends:
        with pytest.raises(RefusedError):
            watch.topics()
    else:
        assert watch.topics() == {}


def test_a_stream_that_was_replaced_is_not_listened_to() -> None:
    watch, _, rest, _ = watching()
    watch._readers["rest"] = Reader("rest", watch, lambda: EventStream(watch._console, {}))
    watch.receive(rest, "usage", "sorted as before")
    watch.fail(rest, click.ClickException("cut"))
    assert watch._topics == {} and watch.trouble() is None

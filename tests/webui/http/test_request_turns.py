"""A request waits for its turn before the framework sees it."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import trio
from hypercorn.typing import ASGIReceiveEvent, ASGISendEvent
from quart_trio import QuartTrio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.webui.conftest import Browserless
from tests.webui.fakes import ADMIN, FakeBroker
from webui.console import Console
from webui.fair_queue import (
    BURST,
    FLOOD_TURN_S,
    FLOOD_WAIT_S,
    HEALTH_BURST,
    HEALTH_PER_S,
    MAX_AT_ONCE,
    TURNS_PER_S,
    FairQueue,
    Turn,
    TurnKind,
)
from webui.http.app import build_app
from webui.http.request import ENTRY, WEBSOCKET
from webui.security.headers import SECURITY_HEADERS


async def test_a_flood_waits_and_others_do_not(
    autojump_clock: MockClock, http: Browserless, broker: FakeBroker
) -> None:
    answered: list[float] = []

    async def ask() -> None:
        answer = await http.get("/api/v1/throttled-channels")
        assert answer.status_code == 200
        answered.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        for _ in range(MAX_AT_ONCE + 10):
            nursery.start_soon(ask)
        await trio.sleep(1.2)
        before = trio.current_time()
        for token in ("viewer-token", None):
            assert (await http.get("/readyz", token=token)).status_code == 200
        assert trio.current_time() == before
    assert answered[:MAX_AT_ONCE] == [0.0] * MAX_AT_ONCE
    assert answered[MAX_AT_ONCE:] == [FLOOD_TURN_S * turn for turn in range(1, 11)]


async def test_a_flood_that_never_ends_is_told_to_come_back(
    autojump_clock: MockClock, http: Browserless
) -> None:
    refused: list[Any] = []

    async def ask() -> None:
        answer = await http.get("/api/v1/overview")
        if answer.status_code == 503:
            refused.append((trio.current_time(), answer))

    async with trio.open_nursery() as nursery:
        for _ in range(MAX_AT_ONCE + round(FLOOD_WAIT_S / FLOOD_TURN_S) + 3):
            nursery.start_soon(ask)
    assert [at for at, _ in refused] == [FLOOD_WAIT_S] * 3
    _, answer = refused[0]
    assert answer.headers["Retry-After"] == "5" and answer.content_type == "application/problem+json"
    assert json.loads(await answer.get_data())["detail"] == "The console is overloaded."
    assert all(answer.headers[name] == value for name, value in SECURITY_HEADERS.items())


async def test_clients_are_identified_by_session_token_and_address(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, _ = console.authenticator.sign_in("viewer-token", "10.0.0.1", None)
    other, _ = console.authenticator.sign_in("viewer-token", "10.0.0.1", None)
    requests: Counter[str] = Counter()
    turn_of = FairQueue.turn

    def turn(lines: FairQueue, identity: str, kind: TurnKind) -> Turn:
        requests[identity] += 1
        return turn_of(lines, identity, kind)

    monkeypatch.setattr(FairQueue, "turn", turn)
    app = build_app(console)
    for headers in (
        [],
        [(b"authorization", b"Bearer wrong")],
        [(b"authorization", b"Bearer " + b"x" * 5_000)],
        [(b"authorization", b"Bearer admin-token")],
        [(b"authorization", b"bearer  viewer-token ")],
        [(b"cookie", b"a=b; weir-8080=" + secret.encode())],
        [(b"cookie", b"weir-8080=" + other.encode() + b"; c=d")],
        [(b"cookie", b"weir-8080=made-up")],
    ):
        await _ask(app, "/api/v1/overview", headers)
    by_kind = sorted((identity.partition(" ")[0], count) for identity, count in requests.items())
    assert by_kind == [("address", 4), ("session", 1), ("session", 1), ("token", 1), ("token", 1)]


async def test_a_body_that_arrives_while_its_request_waits_is_not_lost(
    autojump_clock: MockClock, http: Browserless, console: Console, broker: FakeBroker
) -> None:
    for _ in range(MAX_AT_ONCE):
        console.fair_queue.turn(f"token {ADMIN.name}")
    body = {"entries": [{"entity": {"user": "a"}, "ops": [{"key": "producer_byte_rate", "value": 1}]}]}
    answer = await http.patch("/api/v1/client-quotas", body)
    assert answer.status_code == 200 and trio.current_time() == FLOOD_TURN_S
    assert len(broker.applied) == 1


@pytest.mark.parametrize(("token", "waits"), [("admin-token", False), ("viewer-token", True)])
async def test_a_change_of_quotas_does_not_wait_behind_what_others_read(
    autojump_clock: MockClock, http: Browserless, console: Console, token: str, waits: bool
) -> None:
    for number in range(BURST + TURNS_PER_S):
        console.fair_queue.turn(f"visitor {number}")
    body = {"entries": [{"entity": {"user": "a"}, "ops": [{"key": "producer_byte_rate", "value": 1}]}]}
    await http.patch("/api/v1/client-quotas", body, token=token)
    assert (trio.current_time() > 1) is waits


async def test_a_websocket_waits_for_its_turn_like_any_request(
    autojump_clock: MockClock, console: Console
) -> None:
    app = build_app(console)
    for count in range(BURST + TURNS_PER_S):
        assert trio.current_time() == pytest.approx(max(0, count - BURST) / TURNS_PER_S)
        start, _ = await _ask(app, "/", [], state={WEBSOCKET: True})
        assert start["status"] == 400  # type: ignore[typeddict-item]


@pytest.mark.parametrize(("ahead", "expected"), [(BURST - 1, []), (BURST, [True, False])])
async def test_a_connection_whose_request_waits_counts_as_idle(
    autojump_clock: MockClock, console: Console, ahead: int, expected: list[bool]
) -> None:
    received: list[bool] = []

    class Entry:
        is_reserved = False
        set_idle = staticmethod(received.append)

    for number in range(ahead):
        console.fair_queue.turn(f"visitor {number}")
    await _ask(build_app(console), "/", [], state={ENTRY: Entry()})
    assert received == expected


async def test_a_health_check_waits_behind_no_other_request(
    autojump_clock: MockClock, http: Browserless, console: Console
) -> None:
    for _ in range(MAX_AT_ONCE):
        console.fair_queue.turn("address 10.0.0.1")
    for number in range(BURST + TURNS_PER_S):
        console.fair_queue.turn(f"visitor {number}")
    for path in ("/healthz", "/readyz"):
        await _ask(build_app(console), path, [])
    assert trio.current_time() == 0
    for _ in range(HEALTH_BURST - 2):
        console.fair_queue.turn("another", TurnKind.HEALTH).done()
    await _ask(build_app(console), "/healthz", [])
    assert trio.current_time() == pytest.approx(1 / HEALTH_PER_S)


async def test_a_peer_that_goes_while_its_request_waits_leaves_no_place_behind(
    mock_clock: MockClock, console: Console, broker: FakeBroker
) -> None:
    app = build_app(console)
    gone = trio.Event()
    async with trio.open_nursery() as nursery:
        for _ in range(200):
            nursery.start_soon(_ask, app, "/api/v1/tasks", [], gone)
        await wait_all_tasks_blocked()
        assert len(console.fair_queue) == 1
        gone.set()
        await wait_all_tasks_blocked()
        assert len(console.fair_queue) == 0


async def _ask(
    app: QuartTrio,
    path: str,
    headers: list[tuple[bytes, bytes]],
    gone: trio.Event | None = None,
    state: dict[str, Any] | None = None,
) -> list[ASGISendEvent]:
    """A request as hypercorn passes it, and the messages sent for it."""
    sent: list[ASGISendEvent] = []
    scope: Any = {
        "type": "http",
        "asgi": {"spec_version": "2.1", "version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"localhost"), *headers],
        "client": ("10.0.0.1", 1),
        "server": ("localhost", 8080),
        "state": state or {},
        "extensions": {},
    }
    messages: list[ASGIReceiveEvent] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> ASGIReceiveEvent:
        if messages:
            return messages.pop()
        await (trio.Event() if gone is None else gone).wait()
        return {"type": "http.disconnect"}

    async def send(message: ASGISendEvent) -> None:
        sent.append(message)

    application: Callable[..., Any] = app
    await application(scope, receive, send)
    return sent

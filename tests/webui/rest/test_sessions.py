"""The end of sessions."""

import logging
from contextlib import aclosing

import pytest
import trio
from trio.testing import MockClock

from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from tests.webui.http.test_page_routes import csrf_of, sign_in
from webui.console import Console
from webui.live.sse_client import StreamSubscriber
from webui.rest.events import make_live, stream
from webui.rest.tokens import ENDED

SESSIONS_PATH = "/api/v1/sessions"
ALL_TOKENS = ("admin-token", "editor-token", "viewer-token")


async def is_in(http: Browserless, cookie: str) -> bool:
    return (await http.get("/session", token=None, Cookie=cookie)).status_code == 204


async def end(http: Browserless, path: str, cookie: str) -> int:
    csrf = await csrf_of(http, cookie)
    answer = await http.ask("DELETE", path, token=None, Cookie=cookie, X_CSRF_Token=csrf)
    assert answer.status_code == 200
    return int(ENDED.check(await answer.get_json())["ended"])


@pytest.mark.parametrize("token", ALL_TOKENS)
async def test_a_user_ends_all_sessions_of_the_own_token_and_no_other(http: Browserless, token: str) -> None:
    mine = [await sign_in(http, token) for _ in range(3)]
    others = [await sign_in(http, each) for each in ALL_TOKENS if each != token]
    assert await end(http, SESSIONS_PATH, mine[1]) == 3
    assert [await is_in(http, each) for each in mine] == [False] * 3
    assert [await is_in(http, each) for each in others] == [True] * 2
    assert (await http.get("/api/v1/tokens", token=token)).status_code == 200, "the token stays good"


async def test_an_administrator_ends_all_sessions_of_all_tokens(http: Browserless) -> None:
    cookies = [await sign_in(http, each) for each in (*ALL_TOKENS, *ALL_TOKENS)]
    assert await end(http, f"{SESSIONS_PATH}?of=all", cookies[0]) == 6
    assert [await is_in(http, each) for each in cookies] == [False] * 6


@pytest.mark.parametrize("token", ["editor-token", "viewer-token"])
async def test_others_do_not_end_the_sessions_of_all_tokens(http: Browserless, token: str) -> None:
    cookie = await sign_in(http, token)
    refused = await http.ask("DELETE", f"{SESSIONS_PATH}?of=all", token=token)
    assert refused.status_code == 403
    assert (await refused.get_json())[
        "detail"
    ] == "Ending the sessions of other tokens requires the role admin."
    assert await is_in(http, cookie)


async def test_a_program_ends_the_sessions_of_its_token(http: Browserless) -> None:
    cookie = await sign_in(http, "viewer-token")
    answer = await http.ask("DELETE", SESSIONS_PATH, token="viewer-token")
    assert await answer.get_json() == {"ended": 1} and not await is_in(http, cookie)
    assert await (await http.ask("DELETE", SESSIONS_PATH, token="viewer-token")).get_json() == {"ended": 0}


async def test_without_a_token_or_the_pages_proof_no_session_ends(http: Browserless) -> None:
    cookie = await sign_in(http)
    assert (await http.ask("DELETE", SESSIONS_PATH, token=None)).status_code == 401
    assert (await http.ask("DELETE", SESSIONS_PATH, token=None, Cookie=cookie)).status_code == 403
    assert (await http.ask("DELETE", f"{SESSIONS_PATH}?of=nobody")).status_code == 400
    assert await is_in(http, cookie)


async def test_the_log_has_the_reason_of_their_end(
    http: Browserless, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "webui.rest.access")
    await sign_in(http, "viewer-token")
    await http.ask("DELETE", f"{SESSIONS_PATH}?of=all")
    (record,) = (each for each in caplog.records if each.name == "webui.rest.access")
    assert (record.__dict__["by"], record.__dict__["of"], record.__dict__["ended"]) == ("root", "all", 1)


async def test_live_streams_of_the_ended_sessions_end_with_the_next_beat(
    autojump_clock: MockClock, http: Browserless, broker: FakeBroker, console: Console
) -> None:
    ended, kept = await sign_in(http, "viewer-token"), await sign_in(http, "editor-token")
    heard: dict[str, list[tuple[float, bytes]]] = {ended: [], kept: []}
    live = make_live(broker.views, broker.alerts, lambda: 0)

    async def listen(cookie: str) -> None:
        secret = cookie.partition("=")[2]
        follower = StreamSubscriber([], lambda: console.authenticator.session(secret) is not None)
        async with aclosing(stream(live, follower)) as events:
            async for event in events:
                heard[cookie].append((trio.current_time(), event))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(live.run)
        for each in heard:
            nursery.start_soon(listen, each)
        await trio.sleep(2.5)
        began = trio.current_time()
        await http.ask("DELETE", SESSIONS_PATH, token="viewer-token")
        await trio.sleep(5)
        nursery.cancel_scope.cancel()
    at, event = heard[ended][-1]
    assert b"signed-out" in event and at - began <= 1
    assert not any(b"signed-out" in event for _, event in heard[kept])

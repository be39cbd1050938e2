"""All routes behind one set of checks, and the rendering of errors."""

import logging
from functools import partial
from typing import Any

import pytest
import trio
import trio.lowlevel
import trio.testing

from broker.common.errors import ApiError, ErrorCode
from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from webui.console import Console
from webui.http import app
from webui.problem import PROBLEM
from webui.rest.routes import ROUTES

PRIVATE = [route for route in ROUTES if not route.public]
PAGES = ("/", "/throttled", "/quotas")


@pytest.mark.parametrize("route", PRIVATE, ids=lambda route: route.operation)
async def test_nothing_is_told_to_strangers(http: Browserless, route: object) -> None:
    answer = await http.ask(route.method, route.path, token=None)  # type: ignore[attr-defined]
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    PROBLEM.check(await answer.get_json())


EXPECTED = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Written out, so that what is taken away there is missed here."""


@pytest.mark.parametrize(
    "path", ["/healthz", "/static/x/css/base.css", "/", "/nowhere", "/api/v1/overview", "/metrics"]
)
async def test_every_answer_carries_the_security_headers(http: Browserless, path: str) -> None:
    answer = await http.get(path, token=None)
    for name, value in EXPECTED.items():
        assert answer.headers[name] == value, (path, name)
    assert "script-src 'self'" in answer.headers["Content-Security-Policy"].split("; ")
    assert "Server" not in answer.headers and "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize("path", [*PAGES, "/api/v1/overview", "/metrics", "/healthz", "/nowhere"])
async def test_answers_are_not_stored(http: Browserless, path: str) -> None:
    assert (await http.get(path)).headers["Cache-Control"] == "no-store"


async def test_nothing_inline_may_run(http: Browserless) -> None:
    policy = (await http.get("/", token=None)).headers["Content-Security-Policy"]
    assert set(policy.split("; ")) == {
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    }


@pytest.mark.parametrize("path", [*PAGES, "/api/v1/overview", "/static/x/css/base.css", "/login", "/nowhere"])
async def test_a_strange_host_is_told_nothing(http: Browserless, path: str) -> None:
    answer = await http.get(path, Host="evil.example")
    assert answer.status_code == 421


async def test_a_configured_host_is_answered(http: Browserless) -> None:
    assert (await http.get("/api/v1/overview", Host="weir.test:8080")).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_other_sites_may_not_even_read(http: Browserless, site: str) -> None:
    for path in ("/api/v1/overview", "/api/v1/events", "/static/x/js/dom.js", "/session"):
        assert (await http.get(path, Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors")).status_code == 403, path


@pytest.mark.parametrize(
    "media", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
async def test_a_form_changes_nothing_even_with_a_token(
    http: Browserless, broker: FakeBroker, media: str
) -> None:
    body = b'{"entries": [{"entity": {"user": "a"}, "ops": [{"key": "producer_byte_rate", "value": 1}]}]}'
    answer = await http.patch("/api/v1/client-quotas", body, Content_Type=media)
    assert answer.status_code == 415 and broker.applied == []


@pytest.mark.parametrize(("size", "status"), [(1_048_576, 400), (1_048_577, 413)])
async def test_a_body_has_a_megabyte_and_no_byte_more(http: Browserless, size: int, status: int) -> None:
    body = b'"' + b"x" * (size - 2) + b'"'
    answer = await http.patch("/api/v1/client-quotas", body, Content_Type="application/json")
    assert answer.status_code == status
    PROBLEM.check(await answer.get_json())


async def test_a_wrong_method_says_which_are_right(http: Browserless) -> None:
    answer = await http.ask("DELETE", "/api/v1/client-quotas")
    assert answer.status_code == 405
    assert {method.strip() for method in answer.headers["Allow"].split(",")} >= {"GET", "PATCH"}
    detail = (await answer.get_json())["detail"]
    assert detail == "This path does not have the method; the header Allow names those that it has."


async def test_unknown_paths_are_not_found(http: Browserless) -> None:
    answer = await http.get("/api/v1/nothing")
    assert answer.status_code == 404 and answer.content_type == "application/problem+json"
    assert (await answer.get_json())["detail"] == "There is no page and no resource at this path."


async def test_people_are_refused_with_a_page(http: Browserless) -> None:
    answer = await http.get("/nowhere", Sec_Fetch_Dest="document", Sec_Fetch_Mode="navigate")
    assert answer.status_code == 404 and answer.content_type == "text/html; charset=utf-8"
    page = (await answer.get_data()).decode()
    assert "Not found" in page and "There is no page and no resource at this path." in page


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 403),
        (ErrorCode.KAFKA_STORAGE_ERROR, 503),
        (ErrorCode.UNSUPPORTED_VERSION, 400),
        (ErrorCode.UNKNOWN_SERVER_ERROR, 500),
    ],
)
async def test_kafkas_codes_have_a_status(
    http: Browserless, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, error: ErrorCode, status: int
) -> None:
    def refuse() -> None:
        raise ApiError(error, "because")

    monkeypatch.setattr(broker, "throttled", refuse)
    answer = await http.get("/api/v1/throttled-channels")
    assert answer.status_code == status
    assert (await answer.get_json())["code"] == error.name


async def test_a_bug_is_logged_and_not_explained_to_strangers(
    http: Browserless, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def break_() -> None:
        raise RuntimeError("/secret/path")

    monkeypatch.setattr(broker, "throttled", break_)
    with caplog.at_level(logging.ERROR):
        answer = await http.get("/api/v1/throttled-channels")
    assert answer.status_code == 500
    text = (await answer.get_data()).decode()
    assert "secret" not in text and "Traceback" not in text
    assert "/secret/path" in caplog.text


@pytest.mark.parametrize(("over", "at_once"), [(-1, 3), (0, 3), (1, 1)])
async def test_one_large_body_is_parsed_at_a_time(
    http: Browserless, monkeypatch: pytest.MonkeyPatch, over: int, at_once: int
) -> None:
    parsing: list[int] = [0]
    seen: list[int] = []

    async def parse(_body: bytes, _schema: object) -> Any:
        parsing[0] += 1
        seen.append(parsing[0])
        await trio.lowlevel.checkpoint()
        await trio.testing.wait_all_tasks_blocked()
        parsing[0] -= 1
        return {"entries": []}

    monkeypatch.setattr(app, "read", parse)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            body = b" " * (app.LARGE_BODY + over)
            ask = partial(
                http.ask, "PATCH", "/api/v1/client-quotas", body=body, Content_Type="application/json"
            )
            nursery.start_soon(ask)
    assert max(seen) == at_once


async def test_one_large_file_is_parsed_and_answered_at_a_time(
    http: Browserless, console: Console, broker: FakeBroker
) -> None:
    """Those that wait are still composed one after the other, and the turn is given back after an error."""
    body = b"quotas: [\n" + b" " * app.LARGE_BODY
    answers: list[int] = []

    async def ask() -> None:
        path = "/api/v1/client-quotas:import"
        answer = await http.ask("POST", path, body=body, Content_Type="application/yaml")
        answers.append(answer.status_code)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(ask)
    assert answers == [400] * 3
    assert console.large_bodies.value == 1

"""The queue of a request, and the limit of its body: longer bodies are neither stored, read nor parsed."""

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from broker.controller.commands import Role
from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from tests.webui.raw_http import rest_of, served
from webui.http.request import QUOTAS, UNAUTHENTICATED, BodyLimits, _changes_quotas, refusal_of
from webui.problem import PROBLEM
from webui.rest import bodies as strict_json
from webui.rest.routes import ROUTES
from webui.rest.routing import SHORT_BODY, Route
from webui.schema import Listing, Maybe, Names, OneOf, Record, Schema


@pytest.mark.parametrize(
    ("method", "path", "role", "is_change"),
    [
        ("PATCH", QUOTAS, Role.ADMIN, True),
        ("PATCH", QUOTAS, Role.EDITOR, True),
        ("PATCH", QUOTAS, Role.VIEWER, False),
        ("GET", QUOTAS, Role.ADMIN, False),
        ("PUT", f"{QUOTAS}/user=alice", Role.EDITOR, True),
        ("DELETE", f"{QUOTAS}/user=alice", Role.EDITOR, True),
        ("PUT", f"{QUOTAS}/user=alice", Role.VIEWER, False),
        ("GET", f"{QUOTAS}/user=alice", Role.ADMIN, False),
        ("PUT", f"{QUOTAS}:import", Role.ADMIN, False),
        ("PATCH", "/api/v1/broker-configs", Role.ADMIN, False),
    ],
)
def test_a_user_that_may_change_quotas_and_does_takes_a_turn_for_changes(
    method: str, path: str, role: Role, is_change: bool
) -> None:
    scope: Any = {"method": method, "path": path, "headers": []}
    assert _changes_quotas(scope, role.name.lower()) is is_change


@pytest.mark.parametrize(
    ("length", "is_change"), [(SHORT_BODY - 1, True), (SHORT_BODY, True), (SHORT_BODY + 1, False)]
)
def test_a_rule_that_is_too_long_takes_no_turn_for_changes(length: int, is_change: bool) -> None:
    headers = [(b"content-length", b"%d" % length)]
    scope: Any = {"method": "PUT", "path": f"{QUOTAS}/user=alice", "headers": headers}
    assert _changes_quotas(scope, "admin") is is_change


@pytest.mark.parametrize(
    ("is_stranger", "more", "refused"), [(True, 0, False), (True, 1, True), (False, 1, False)]
)
def test_a_stranger_whose_body_is_too_long_never_meets_the_framework(
    is_stranger: bool, more: int, refused: bool
) -> None:
    scope: Any = {
        "method": "POST",
        "path": "/login",
        "headers": [(b"host", b"localhost"), (b"content-length", str(SHORT_BODY + more).encode())],
    }
    if is_stranger:
        scope[UNAUTHENTICATED] = True
    problem = refusal_of(BodyLimits(ROUTES, 1_048_576), scope)
    assert (problem is not None) is refused
    if problem is not None:
        assert (problem.status, problem.headers["Connection"]) == (413, "close")
        assert problem.detail == f"Request body too long: at most {SHORT_BODY} bytes are allowed."


LONGEST: Final = 1_048_576
WITH_BODY: Final = [route for route in ROUTES if route.body is not None]
ADDRESSES: Final = [(route.method, route.path) for route in WITH_BODY] + [("POST", "/login")]
LISTS: Final = {(route.method, route.path) for route in ROUTES if route.has_list}


def schemas_in(schema: Schema) -> Iterator[Schema]:
    yield schema
    match schema:
        case Record():
            inner = list(schema.fields.values())
        case OneOf():
            inner = list(schema.options)
        case Listing():
            inner = [schema.items]
        case Names():
            inner = [schema.values]
        case Maybe():
            inner = [schema.schema]
        case _:
            inner = []
    for each in inner:
        yield from schemas_in(each)


def longest(method: str, path: str) -> int:
    return LONGEST if (method, path) in LISTS else SHORT_BODY


@pytest.mark.parametrize("route", WITH_BODY, ids=lambda route: route.operation)
def test_a_route_may_have_a_long_body_where_it_takes_a_list_and_nowhere_else(route: Route) -> None:
    assert route.body is not None
    within = list(schemas_in(route.body))
    assert route.has_list or not any(isinstance(each, Listing) for each in within)
    assert not route.has_list or any(isinstance(each, Listing | Names) for each in within)


def test_a_route_without_a_body_has_no_long_one() -> None:
    assert not [route.operation for route in ROUTES if route.has_list and route.body is None]


@pytest.mark.parametrize(
    ("method", "path", "limit"),
    [
        ("PATCH", "/api/v1/client-quotas", LONGEST),
        ("GET", "/api/v1/client-quotas", SHORT_BODY),
        ("PATCH", "/api/v1/client-quotas/", SHORT_BODY),
        ("PUT", "/api/v1/client-metrics/a", LONGEST),
        ("PUT", "/api/v1/client-metrics/a/b\nc", LONGEST),
        ("PUT", "/api/v1/client-metrics/", SHORT_BODY),
        ("POST", "/login", SHORT_BODY),
        ("POST", "/nowhere", SHORT_BODY),
    ],
)
def test_the_limit_is_that_of_the_method_and_the_path(method: str, path: str, limit: int) -> None:
    assert BodyLimits(ROUTES, LONGEST).of(method, path) == limit


@pytest.mark.parametrize(("setting", "limit"), [(4_095, 4_095), (4_096, 4_096), (4_097, 4_096)])
def test_no_body_is_longer_than_the_setting_says(setting: int, limit: int) -> None:
    limits = BodyLimits(ROUTES, setting)
    assert (limits.of("POST", "/login"), limits.of("PATCH", "/api/v1/client-quotas")) == (limit, setting)


def padded(size: int) -> bytes:
    return b'{"x": "' + b"x" * (size - 9) + b'"}'


@pytest.mark.parametrize("more", [-1, 0, 1])
@pytest.mark.parametrize(("method", "path"), ADDRESSES, ids=lambda text: text)
async def test_a_body_is_as_long_as_its_limit_and_no_byte_longer(
    http: Browserless, method: str, path: str, more: int
) -> None:
    limit = longest(method, path)
    where = path.replace("{mechanism}", "SCRAM-SHA-256").replace("{", "").replace("}", "")
    answer = await http.ask(method, where, body=padded(limit + more), Content_Type="application/json")
    problem = await answer.get_json()
    PROBLEM.check(problem)
    if more == 1:
        assert answer.status_code == 413
        assert problem["detail"] == f"Request body too long: at most {limit} bytes are allowed."
    else:
        assert answer.status_code == 400


@pytest.mark.parametrize("more", [-1, 0, 1])
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/login"), ("PATCH", "/api/v1/client-quotas")], ids=lambda text: text
)
async def test_a_body_without_a_length_ends_at_the_limit(
    http: Browserless, method: str, path: str, more: int
) -> None:
    size = longest(method, path) + more
    headers = {"Content-Type": "application/json", "Authorization": "Bearer admin-token"}
    async with http.client.request(path, method=method, headers=headers) as connection:  # type: ignore[var-annotated]
        body = padded(size)
        for at in range(0, size, 1_000):
            await connection.send(body[at : at + 1_000])
        await connection.send_complete()
        answer: Any = await connection.as_response()
    assert answer.status_code == (413 if more == 1 else 400)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of bytes of each parse."""
    sizes: list[int] = []
    parse = strict_json.parse

    def seen(body: bytes) -> Any:
        sizes.append(len(body))
        return parse(body)

    for module in ("webui.rest.bodies", "webui.rest.bodies"):
        monkeypatch.setattr(f"{module}.parse", seen)
    return sizes


async def test_a_client_that_has_guessed_too_often_is_refused_before_its_body_is_parsed(
    http: Browserless, parsed: list[int]
) -> None:
    for guess in range(5):
        answer = await http.ask("POST", "/login", token=None, body={"token": f"guess-{guess}"})
        assert answer.status_code == 401
    assert len(parsed) == 5
    answer = await http.ask("POST", "/login", token=None, body={"token": "admin-token"})
    assert (answer.status_code, len(parsed)) == (429, 5)
    too_long = await http.ask(
        "POST", "/login", token=None, body=b"x" * 5_000, Content_Type="application/json"
    )
    assert (too_long.status_code, len(parsed)) == (429, 5)


@pytest.mark.parametrize(("method", "path"), ADDRESSES[:-1], ids=lambda text: text)
async def test_nothing_is_parsed_before_authentication(
    http: Browserless, parsed: list[int], method: str, path: str
) -> None:
    where = path.replace("{", "").replace("}", "")
    answer = await http.ask(method, where, token=None, body={"token": "x"})
    assert (answer.status_code, parsed) == (401, [])


async def test_a_long_body_is_parsed_in_pieces(
    http: Browserless, broker: FakeBroker, parsed: list[int]
) -> None:
    entries = [
        {"entity": {"user": f"u{at}"}, "ops": [{"key": "producer_byte_rate", "value": 1}]}
        for at in range(1_000)
    ]
    body = json.dumps({"entries": entries}).encode()
    answer = await http.patch("/api/v1/client-quotas", body, Content_Type="application/json")
    assert answer.status_code == 200 and len(broker.rows) == 1_000
    assert max(parsed) < 5_000 and sum(parsed) >= len(body) - 5_000


@pytest.mark.parametrize("header", [b"", b"Authorization: Bearer wrong\r\n"])
async def test_a_stranger_is_answered_before_a_long_body_has_come(broker: FakeBroker, header: bytes) -> None:
    async with served(broker) as server:
        stream = await server.open()
        head = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        await stream.send_all(head + header + b"Content-Length: 1000000\r\n\r\n[")
        answer = await rest_of(stream)
    assert answer.startswith(b"HTTP/1.1 413") and b"connection: close" in answer.lower()
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["status"] == 413

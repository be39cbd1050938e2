"""Every problem has a type that is listed, served and documented."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from broker.common.errors import ErrorCode
from tests.conventions.sources import ROOT
from tests.webui.conftest import Browserless
from webui import problem_types
from webui.problem import STATUS_OF, Problem
from webui.problem_types import OF_CODE, OF_STATUS, TYPES, ProblemType, type_of
from webui.rest.routes import PROBLEM_TYPES

RAISED = ("Problem", "InsightsUnavailable")


class Raised(NamedTuple):
    place: str
    status: int
    kind: str | None
    code: str | None


def raised() -> Iterator[Raised]:
    """Yield the problems that the code makes with a literal status."""
    for path in sorted((ROOT / "webui").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=int() as status), *_]) if (
                    name in RAISED
                ):
                    given = {keyword.arg: keyword.value for keyword in node.keywords}
                    kind, code = given.get("kind"), given.get("code")
                    yield Raised(
                        f"{path.relative_to(ROOT)}:{node.lineno}",
                        status,
                        kind.id if isinstance(kind, ast.Name) else None,
                        code.value if isinstance(code, ast.Constant) else None,
                    )


def test_every_problem_has_a_listed_type_of_its_status() -> None:
    found = list(raised())
    assert len(found) > 50
    for place, status, name, code in found:
        kind = type_of(status, code) if name is None else getattr(problem_types, name)
        assert kind in TYPES and status in kind.statuses, place


def test_every_type_has_a_use() -> None:
    named = re.compile(r"kind=([A-Z_]+)")
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "webui").rglob("*.py"))
    used = {getattr(problem_types, name) for text in sources for name in named.findall(text)}
    assert set(TYPES) == used | set(OF_STATUS.values()) | set(OF_CODE.values())


def test_names_are_unique_and_make_uris() -> None:
    assert len({kind.name for kind in TYPES}) == len(TYPES)
    for kind in TYPES:
        assert re.fullmatch(r"urn:weir:problem:[a-z]+(-[a-z]+)*", kind.uri) and kind.title and kind.meaning


def test_types_of_codes_and_statuses_have_that_status() -> None:
    assert all(status in kind.statuses for status, kind in OF_STATUS.items())
    for error, status in STATUS_OF.items():
        if status >= 400:
            assert status in type_of(status, error.name).statuses, error


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("NOT_COORDINATOR", 503),
        ("NOT_LEADER_OR_FOLLOWER", 503),
        ("NOT_CONTROLLER", 503),
        ("LEADER_NOT_AVAILABLE", 503),
        ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", 503),
        ("REASSIGNMENT_IN_PROGRESS", 409),
        ("INVALID_REPLICA_ASSIGNMENT", 400),
    ],
)
def test_what_an_upstream_cluster_may_answer_is_no_failure_of_the_gateway(code: str, status: int) -> None:
    problem = Problem.of(ErrorCode[code], None)
    assert problem.status == status
    assert problem.document()["type"] != "urn:weir:problem:internal-error"


@pytest.mark.parametrize(
    ("problem", "name"),
    [
        (Problem(404, "x"), "not-found"),
        (Problem(404, "x", code="NO_TABLE"), "no-data"),
        (Problem(400, "x", code="INVALID_REQUEST"), "refused"),
        # A code of another status does not decide.
        (Problem(400, "x", code="BUSY"), "invalid-request"),
        (Problem(409, "x", kind=problem_types.IN_USE), "in-use"),
        (Problem(418, "x"), "invalid-request"),
        (Problem(504, "x"), "internal-error"),
    ],
)
def test_the_type_follows_from_kind_code_or_status(problem: Problem, name: str) -> None:
    document = problem.document()
    assert document["type"] == f"urn:weir:problem:{name}"
    assert list(document)[:4] == ["type", "title", "status", "detail"]


def documented(path: Path) -> dict[str, tuple[str, str]]:
    """Return the statuses and the meaning by type, from the table in docs/rest-resources.md."""
    row = re.compile(r"^\| `([a-z-]+)` \| ([\d, ]+) \| (.+) \|$", re.MULTILINE)
    return {
        name: (statuses, meaning) for name, statuses, meaning in row.findall(path.read_text(encoding="utf-8"))
    }


def in_document(kind: ProblemType) -> tuple[str, str]:
    return ", ".join(map(str, kind.statuses)), kind.meaning


def test_the_document_lists_every_type_with_its_meaning() -> None:
    assert documented(ROOT / "docs" / "rest-resources.md") == {kind.name: in_document(kind) for kind in TYPES}


async def test_they_are_served_by_status(http: Browserless) -> None:
    page = PROBLEM_TYPES.check(
        await (await http.get("/api/v1/problem-types", token="viewer-token")).get_json()
    )
    assert {each["type"] for each in page["items"]} == {kind.uri for kind in TYPES}
    statuses = [each["statuses"] for each in page["items"]]
    assert statuses == sorted(statuses)

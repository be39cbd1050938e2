"""The queue and the kind of turn of a request."""

from typing import Any

import pytest

from broker.control.commands import Role
from webui.http.request import QUOTAS, UNAUTHENTICATED, BodyLimits, _changes_quotas, refusal_of
from webui.rest.routes import ROUTES
from webui.rest.routing import SHORT_BODY


@pytest.mark.parametrize(
    ("method", "path", "role", "is_change"),
    [
        ("PATCH", QUOTAS, Role.ADMIN, True),
        ("PATCH", QUOTAS, Role.EDITOR, True),
        ("PATCH", QUOTAS, Role.VIEWER, False),
        ("GET", QUOTAS, Role.ADMIN, False),
        ("PATCH", "/api/v1/broker-configs", Role.ADMIN, False),
    ],
)
def test_who_may_change_quotas_and_does_takes_a_turn_for_changes(
    method: str, path: str, role: Role, is_change: bool
) -> None:
    scope: Any = {"method": method, "path": path}
    assert _changes_quotas(scope, role.name.lower()) is is_change


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

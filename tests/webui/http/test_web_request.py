"""Whose turns a request takes, and of which kind."""

from typing import Any

import pytest

from broker.control.commands import Role
from webui.http.web_request import QUOTAS, _changes_quotas


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

"""docs/rest-resources.md is generated from the routes, and has each of them once."""

import importlib.util
import re
from typing import Any

import pytest

from tests.conventions.sources import ROOT
from webui.rest.routes import ROUTES
from webui.rest.routing import BASE

PAGE = ROOT / "docs" / "rest-resources.md"


@pytest.fixture(scope="module")
def resources() -> Any:
    spec = importlib.util.spec_from_file_location("resources", ROOT / "docs" / "resources.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_generated_from_the_routes(resources: Any) -> None:
    assert PAGE.read_text(encoding="utf-8") == resources.render(), "run python docs/resources.py"


def test_every_route_has_a_row() -> None:
    rows = re.findall(r"^\| (GET|PUT|PATCH|POST|DELETE) `([^`]+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted((route.method, route.path.removeprefix(BASE)) for route in ROUTES)

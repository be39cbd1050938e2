"""The document that describes the REST API, and that it says the truth."""

import re
from typing import Any

from tests.webui.conftest import Browserless
from webui.rest.routes import ROUTES, document


async def described(http: Browserless) -> dict[str, Any]:
    answer = await http.get("/api/v1/openapi.json")
    assert answer.status_code == 200
    return dict(await answer.get_json())


async def test_every_route_is_in_it_and_nothing_else(http: Browserless) -> None:
    paths = (await described(http))["paths"]
    documented = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert documented == {(route.method, route.path) for route in ROUTES}


async def test_every_operation_says_what_it_answers_and_how_it_refuses(http: Browserless) -> None:
    for path, methods in (await described(http))["paths"].items():
        for method, operation in methods.items():
            responses = operation["responses"]
            assert {"200", "201", "204"} & responses.keys(), (method, path)
            for status in ("400", "401", "403", "421", "500", "503"):
                assert list(responses[status]["content"]) == ["application/problem+json"], (path, status)


async def test_public_routes_need_no_token_and_the_others_do(http: Browserless) -> None:
    answer = await described(http)
    assert answer["security"] == [{"bearer": []}]
    open_paths = {
        path
        for path, methods in answer["paths"].items()
        for operation in methods.values()
        if operation.get("security") == []
    }
    assert open_paths == {"/healthz", "/readyz"}


def test_references_lead_somewhere() -> None:
    answer = document(ROUTES, "1")
    references = re.findall(r"'\$ref': '#/components/schemas/(\w+)'", str(answer))
    assert references and set(references) <= answer["components"]["schemas"].keys()


async def test_it_names_the_version_that_runs(http: Browserless) -> None:
    answer = await described(http)
    assert answer["openapi"] == "3.1.0" and answer["info"]["version"] == "0.1.0"


def test_bodies_are_closed() -> None:
    answer = document(ROUTES, "1")
    body = answer["paths"]["/api/v1/client-quotas"]["patch"]["requestBody"]
    schema = body["content"]["application/json"]["schema"]
    assert schema["additionalProperties"] is False
    entry = schema["properties"]["entries"]["items"]
    assert entry["required"] == ["entity", "ops"] and entry["additionalProperties"] is False
    assert entry["properties"]["ops"]["items"]["oneOf"][0]["properties"]["value"]["exclusiveMinimum"] == 0


def test_every_edit_of_an_entity_takes_the_version_that_was_read() -> None:
    edits = {route.path: route for route in ROUTES if route.method in ("PUT", "PATCH", "DELETE")}
    # Connections and sessions have no versions: they can only be ended.
    for ended in ("/api/v1/connections/{id}", "/api/v1/sessions"):
        assert edits.pop(ended).method == "DELETE"
    # Groups neither: they are deleted while nobody uses them.
    for unused in ("/api/v1/groups/{group}", "/api/v1/groups/{group}/offsets"):
        assert edits.pop(unused).method == "DELETE"
    # An ACL never changes.
    assert edits.pop("/api/v1/acls/{id}").method == "DELETE"
    assert len(edits) > 4
    assert [path for path, route in edits.items() if "If-Match" not in route.headers] == []

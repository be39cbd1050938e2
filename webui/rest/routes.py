"""All routes of the REST API, in the order of the OpenAPI document, and the document built from them.

Validation and description use the same schema values (webui.rest.schema), so they cannot differ.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from webui.rest import (
    access,
    alerts,
    audit,
    broker_configs,
    broker_quotas,
    client_metrics,
    client_quotas,
    doctor,
    events,
    insights_routes,
    insights_what_if,
    inventory,
    ip_quotas,
    monitoring,
    quota_files,
    resolving,
    scram_users,
    subscription_files,
    upstream,
)
from webui.rest.files import YAML
from webui.rest.problem import PROBLEM, PROBLEM_TYPE
from webui.rest.routing import JSON, Call, Query, Reply, ResponseSpec, Route
from webui.tables.json_output import encode_in_slices
from webui.tables.slices import collect

NO_CONTENT: Final = 204
_REFUSALS: Final = {
    400: "Invalid request",
    401: "Missing or unknown token",
    403: "Insufficient role, or a cross-site request",
    413: "Request body too large",
    415: "Request body is not application/json",
    421: "The Host header is not one of the console's names",
    429: "Too many failed sign-ins",
    431: "The address or the headers are longer than 16 KiB",
    500: "Internal error",
    503: "The broker is starting, stopping or overloaded",
}


def document(routes: Iterable[Route], version: str) -> dict[str, Any]:
    return _around(_described(routes), version)


async def written_document(routes: Iterable[Route], version: str) -> bytes:
    """Build the document as JSON, in slices."""
    return await encode_in_slices(_around(await collect(_described(routes), at_once=1), version))


def _described(routes: Iterable[Route]) -> Iterator[tuple[Route, dict[str, Any]]]:
    return ((route, _operation(route)) for route in routes)


def _around(operations: Iterable[tuple[Route, dict[str, Any]]], version: str) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for route, operation in operations:
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Weir",
            "version": version,
            "description": "Monitor and configure a Weir broker. Every error is a problem detail (RFC 9457).",
        },
        "paths": paths,
        "security": [{"bearer": []}],
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Problem": PROBLEM.describe()},
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.operation,
        "summary": route.about,
        "responses": {
            str(status): {"description": response.about} if status == NO_CONTENT else _response(response)
            for status, response in route.responses.items()
        },
    }
    problem = {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for status, about in _REFUSALS.items():
        operation["responses"].setdefault(str(status), {"description": about, "content": problem})
    parameters = [_parameter(part, "path") | {"required": True} for part in route.path_params]
    parameters += [_parameter(query, "query") for query in route.query] + [
        {"name": name, "in": "header", "description": about, "schema": {"type": "string"}}
        for name, about in route.headers.items()
    ]
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        medias = (JSON, YAML) if route.is_file else (JSON,)
        content = {media: {"schema": route.body.describe()} for media in medias}
        operation["requestBody"] = {"required": True, "content": content}
    if route.public:
        operation["security"] = []
    return operation


def _response(response: ResponseSpec) -> dict[str, Any]:
    if response.schema is not None:
        schema = response.schema.describe()
    else:
        schema = {"type": "object"} if response.media == JSON else {"type": "string"}
    media = PROBLEM_TYPE if "status" in schema.get("properties", {}) else response.media
    content = {each.partition(";")[0]: {"schema": schema} for each in (media, *response.also)}
    return {"description": response.about, "content": content}


def _parameter(query: Query, location: str) -> dict[str, Any]:
    schema = query.schema.describe()
    if query.default is not None:
        schema["default"] = query.default
    return {"name": query.name, "in": location, "description": query.about, "schema": schema}


_documents: Final[dict[str, bytes]] = {}


async def openapi(call: Call) -> Reply:
    """The document, built once."""
    version = call.console.backend.views.server_info().software_version
    if version not in _documents:
        _documents[version] = await written_document(ROUTES, version)
    return Reply(_documents[version])


ROUTES: Final[tuple[Route, ...]] = (
    *client_quotas.ROUTES,
    *resolving.ROUTES,
    *quota_files.ROUTES,
    *ip_quotas.ROUTES,
    *client_metrics.ROUTES,
    *subscription_files.ROUTES,
    *audit.ROUTES,
    *broker_configs.ROUTES,
    *broker_quotas.ROUTES,
    *monitoring.ROUTES,
    *inventory.ROUTES,
    *upstream.ROUTES,
    *doctor.ROUTES,
    *alerts.ROUTES,
    *insights_routes.ROUTES,
    *insights_what_if.ROUTES,
    *access.ROUTES,
    *scram_users.ROUTES,
    *events.ROUTES,
    Route(
        "GET",
        "/api/v1/openapi.json",
        "getOpenApi",
        "This document.",
        openapi,
        {200: ResponseSpec("An OpenAPI 3.1 document")},
    ),
)

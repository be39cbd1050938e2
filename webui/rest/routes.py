"""All routes of the REST API, in the order of the OpenAPI document, and what describes the API itself: that
document, and the types of problems.

Validation and description use the same schema values (webui.schema), so they cannot differ.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from webui.problem import PROBLEM, PROBLEM_TYPE
from webui.problem_types import TYPES, ProblemType
from webui.rest import (
    acls,
    alerts,
    audit,
    broker_configs,
    client_metrics,
    client_quota_rule,
    client_quotas,
    connections,
    delegation_tokens,
    doctor,
    events,
    groups,
    insights_routes,
    insights_what_if,
    ip_quotas,
    overview,
    quota_files,
    records,
    resolving,
    rule_clients,
    scram_users,
    subscription_files,
    tokens,
    topics,
    transactions,
    upstream,
    usage,
)
from webui.rest.files import YAML
from webui.rest.paging import list_page, list_query, page_schema
from webui.rest.routing import JSON, Call, PathName, Query, Reply, ResponseSpec, Route
from webui.schema import COUNT, Listing, Record, Text
from webui.tables.json_output import encode_in_slices
from webui.tables.slices import collect

CREATED: Final = 201
WITHOUT_CONTENT: Final = (204, 304)

TAGS: Final[Mapping[str, str]] = {
    "client-quotas": "Limits of users, client ids and addresses",
    "ip-quotas": "Connection creation rates of addresses",
    "client-metrics": "Subscriptions to metrics of clients",
    "client-instances": "Clients that push metrics",
    "audit": "Changes, with undo",
    "broker-configs": "The broker's settings",
    "request-log": "Requests that the broker logs",
    "broker-quotas": "Limits of the whole broker and of the cluster",
    "overview": "The broker's metrics",
    "attention": "What needs attention",
    "throttled-channels": "Throttled connections",
    "usage": "Use by client",
    "tasks": "The broker's tasks",
    "metrics": "Metrics for Prometheus",
    "healthz": "Whether the process runs",
    "readyz": "Whether clients are served",
    "connections": "Open connections",
    "topics": "Topics and their partitions",
    "groups": "Groups of consumers, share consumers and Kafka Streams applications",
    "transactions": "Transactional ids and their transactions",
    "upstream": "The upstream cluster of a gateway",
    "gateways": "Gateways that share limits",
    "gateway": "This gateway",
    "gateway-shares": "Shares of each gateway in each limit",
    "doctor": "Symptoms and what to do about them",
    "insights": "The pipeline's tables",
    "tokens": "Access tokens",
    "sessions": "Sessions of browsers",
    "scram-users": "Who can log in to the Kafka listeners by SCRAM",
    "delegation-tokens": "Tokens with which clients log in to the Kafka listeners as their owners",
    "acls": "What principals may do with topics, groups and the cluster",
    "alerts": "Alerts that are pending or firing, and their history",
    "alert-rules": "When an alert fires",
    "alert-silences": "Until when notifications are held back",
    "alert-destinations": "Where notifications of alerts go",
    "events": "Live updates",
    "problem-types": "Types of errors",
    "openapi.json": "The description of this API",
}
"""The groups of operations (`Route.tag`): the first segment of their paths."""

_LOCATION: Final = {
    "description": "The path of the created resource",
    "required": True,
    "schema": {"type": "string", "format": "uri-reference"},
}
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
    return await encode_in_slices(_around(await collect(_described(routes)), version))


class _Described(NamedTuple):
    """A route's operation, and the schemas that it refers to, by their titles."""

    route: Route
    operation: dict[str, Any]
    components: dict[str, dict[str, Any]]


def _described(routes: Iterable[Route]) -> Iterator[_Described]:
    for route in routes:
        components: dict[str, dict[str, Any]] = {}
        yield _Described(route, _referring(_operation(route), components), components)


def _referring(value: Any, components: dict[str, dict[str, Any]]) -> Any:
    """Return a description in which schemas with a title are references, and add these to `components`."""
    if isinstance(value, list):
        return [_referring(each, components) for each in value]
    if not isinstance(value, dict):
        return value
    within = {name: _referring(each, components) for name, each in value.items()}
    if value.get("type") != "object" or not isinstance(value.get("title"), str):
        return within
    components[value["title"]] = within
    return {"$ref": f"#/components/schemas/{value['title']}"}


def _around(described: Iterable["_Described"], version: str) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    schemas: dict[str, dict[str, Any]] = {}
    for route, operation, components in described:
        paths.setdefault(route.path, {})[route.method.lower()] = operation
        schemas |= components
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Weir",
            "version": version,
            "description": "Monitor and configure a Weir broker. Every error is a problem detail (RFC 9457).",
        },
        "paths": paths,
        "tags": [{"name": name, "description": about} for name, about in TAGS.items()],
        "security": [{"bearer": []}],
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas,
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.operation,
        "tags": [route.tag],
        "summary": route.about,
        "responses": {
            str(status): _response(status, response) for status, response in route.responses.items()
        },
    }
    problem = {PROBLEM_TYPE: {"schema": PROBLEM.describe()}}
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
        content: dict[str, Any] = {"schema": route.body.describe()}
        if route.example:
            content["example"] = route.example
        medias = (JSON, YAML) if route.is_file else (JSON,)
        operation["requestBody"] = {"required": True, "content": dict.fromkeys(medias, content)}
    if route.public:
        operation["security"] = []
    return operation


def _response(status: int, response: ResponseSpec) -> dict[str, Any]:
    if status in WITHOUT_CONTENT:
        return {"description": response.about}
    if response.schema is not None:
        schema = response.schema.describe()
    else:
        schema = {"type": "object"} if response.media == JSON else {"type": "string"}
    media = PROBLEM_TYPE if "status" in schema.get("properties", {}) else response.media
    content = {each.partition(";")[0]: {"schema": schema} for each in (media, *response.also)}
    described: dict[str, Any] = {"description": response.about, "content": content}
    if status == CREATED:
        described["headers"] = {"Location": _LOCATION}
    return described


def _parameter(query: Query, location: str) -> dict[str, Any]:
    schema = query.schema.describe()
    if query.default is not None:
        schema["default"] = query.default
    about = f"{query.about} {ESCAPES}" if isinstance(query, PathName) else query.about
    return {"name": query.name, "in": location, "description": about, "schema": schema}


ESCAPES: Final = "`~` and two hexadecimal digits stand for a byte of UTF-8; write `.`, `..` and slashes so."

_documents: Final[dict[str, bytes]] = {}


async def openapi(call: Call) -> Reply:
    """The document, built once."""
    version = call.views.server_info().software_version
    if version not in _documents:
        _documents[version] = await written_document(ROUTES, version)
    return Reply(_documents[version])


_PROBLEM_TYPE: Final = Record(
    {"type": Text(form="uri"), "title": Text(), "meaning": Text(), "statuses": Listing(COUNT, min_items=1)},
    title="ProblemType",
)
PROBLEM_TYPES: Final = page_schema(_PROBLEM_TYPE)


def _type_json(kind: ProblemType) -> dict[str, Any]:
    return {
        "type": kind.uri,
        "title": kind.title,
        "meaning": kind.meaning,
        "statuses": list(kind.statuses),
    }


async def problem_types(call: Call) -> Reply:
    return Reply(await list_page(call, TYPES, _type_json, lambda kind: (kind.statuses, kind.name)))


ROUTES: Final[tuple[Route, ...]] = (
    *client_quotas.ROUTES,
    *client_quota_rule.ROUTES,
    *rule_clients.ROUTES,
    *resolving.ROUTES,
    *quota_files.ROUTES,
    *ip_quotas.ROUTES,
    *client_metrics.ROUTES,
    *subscription_files.ROUTES,
    *audit.ROUTES,
    *broker_configs.ROUTES,
    *overview.ROUTES,
    *usage.ROUTES,
    *connections.ROUTES,
    *topics.ROUTES,
    *records.ROUTES,
    *groups.ROUTES,
    *transactions.ROUTES,
    *upstream.ROUTES,
    *doctor.ROUTES,
    *alerts.ROUTES,
    *insights_routes.ROUTES,
    *insights_what_if.ROUTES,
    *tokens.ROUTES,
    *scram_users.ROUTES,
    *delegation_tokens.ROUTES,
    *acls.ROUTES,
    *events.ROUTES,
    Route(
        "GET /api/v1/problem-types",
        "listProblemTypes",
        "The types of problems, by status.",
        problem_types,
        {200: ResponseSpec("A page of types", PROBLEM_TYPES)},
        query=list_query(),
    ),
    Route(
        "GET /api/v1/openapi.json",
        "getOpenApi",
        "This document.",
        openapi,
        {200: ResponseSpec("An OpenAPI 3.1 document")},
    ),
)

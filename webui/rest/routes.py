"""All routes of the REST API, in the order of the OpenAPI document; the document's own route is the last."""

from typing import Final

from webui.rest import (
    audit,
    broker_configs,
    broker_quotas,
    client_metrics,
    client_quotas,
    doctor,
    events,
    existing,
    insights_routes,
    insights_what_if,
    ip_quotas,
    monitoring,
    passwords,
    quota_files,
    request_log,
    resolving,
    sessions,
    tokens,
)
from webui.rest.openapi import written_document
from webui.rest.routing import Answer, Call, Reply, Route

_documents: Final[dict[str, bytes]] = {}


async def openapi(call: Call) -> Reply:
    """The document, built once."""
    version = call.console.backend.views.overview().software_version
    if version not in _documents:
        _documents[version] = await written_document(ROUTES, version)
    return Reply(_documents[version])


ROUTES: Final[tuple[Route, ...]] = (
    *client_quotas.ROUTES,
    *resolving.ROUTES,
    *quota_files.ROUTES,
    *ip_quotas.ROUTES,
    *client_metrics.ROUTES,
    *audit.ROUTES,
    *broker_configs.ROUTES,
    *broker_quotas.ROUTES,
    *monitoring.ROUTES,
    *existing.ROUTES,
    *doctor.ROUTES,
    *insights_routes.ROUTES,
    *insights_what_if.ROUTES,
    *request_log.ROUTES,
    *tokens.ROUTES,
    *passwords.ROUTES,
    *sessions.ROUTES,
    *events.ROUTES,
    Route(
        "GET",
        "/api/v1/openapi.json",
        "getOpenApi",
        "This document.",
        openapi,
        {200: Answer("An OpenAPI 3.1 document")},
    ),
)

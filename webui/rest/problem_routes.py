"""GET /problem-types: the types of problems, with their meanings."""

from typing import Any, Final

from webui.problem_types import TYPES, ProblemType
from webui.rest.paging import list_page, list_query, page_schema
from webui.rest.routing import Call, Reply, ResponseSpec, Route
from webui.schema import COUNT, Listing, Record, Text

_TYPE: Final = Record(
    {"type": Text(form="uri"), "title": Text(), "meaning": Text(), "statuses": Listing(COUNT, min_items=1)},
    title="ProblemType",
)
PAGE: Final = page_schema(_TYPE)


def _type_json(kind: ProblemType) -> dict[str, Any]:
    return {
        "type": kind.uri,
        "title": kind.title,
        "meaning": kind.meaning,
        "statuses": list(kind.statuses),
    }


async def problem_types(call: Call) -> Reply:
    return Reply(await list_page(call, TYPES, _type_json, lambda kind: (kind.statuses, kind.name)))


ROUTES: Final = (
    Route(
        "GET /api/v1/problem-types",
        "listProblemTypes",
        "The types of problems, by status.",
        problem_types,
        {200: ResponseSpec("A page of types", PAGE)},
        query=list_query(),
    ),
)

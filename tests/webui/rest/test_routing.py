"""What a REST route is, and how its query is read."""

import pytest

from webui.rest.routes import ROUTES
from webui.rest.routing import Query, Reply, Route, read_query
from webui.schema import Flag, Invalid, Number, Text


async def nothing(call: object) -> Reply:
    return Reply()


ROUTE = Route(
    "GET /x",
    "x",
    "",
    nothing,
    {},
    query=(
        Query("name", Text(), "", default="anybody"),
        Query("limit", Number(integer=True, minimum=1, maximum=10), "", default=5),
        Query("strict", Flag(), "", default=False),
    ),
)


def test_omitted_parameters_have_their_defaults() -> None:
    assert read_query(ROUTE, {}) == {"name": "anybody", "limit": 5, "strict": False}


def test_given_parameters_are_read_as_their_types() -> None:
    given = {"name": ["7"], "limit": ["7"], "strict": ["true"]}
    assert read_query(ROUTE, given) == {"name": "7", "limit": 7, "strict": True}


@pytest.mark.parametrize(
    "given",
    [
        {"limit": ["0"]},
        {"limit": ["11"]},
        {"limit": ["1.0"]},
        {"limit": ["1e1"]},
        {"limit": ["٣"]},
        {"limit": [""]},
        {"limit": ["1" * 10_000]},
        {"strict": ["True"]},
        {"strict": ["1"]},
        {"strict": [""]},
        {"name": ["a", "b"]},
        {"other": ["1"]},
        {"Name": ["a"]},
    ],
)
def test_anything_else_is_refused(given: dict[str, list[str]]) -> None:
    with pytest.raises(Invalid):
        read_query(ROUTE, given)


def test_no_two_routes_are_the_same() -> None:
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)
    assert len({route.operation for route in ROUTES}) == len(ROUTES)


def test_defaults_fit_their_own_schema() -> None:
    for route in ROUTES:
        for query in route.query:
            if query.default is not None:
                assert query.schema.check(query.default) == query.default, (route.path, query.name)

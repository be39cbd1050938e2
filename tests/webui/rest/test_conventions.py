"""The conventions of docs/rest.md, checked for every route."""

import re
from collections.abc import Iterator

from tests.support.each import for_each
from webui.quotas import ALL_KEYS, ENTITY_TYPES
from webui.rest.routes import ROUTES, TAGS
from webui.rest.routing import Route
from webui.schema import Listing, Maybe, Names, OneOf, Record, Schema

SNAKE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
KEBAB = re.compile(r"[a-z]+(-[a-z]+)*")
CAMEL = re.compile(r"[a-z]+([A-Z][a-z]+)+")
KAFKAS = frozenset({*ALL_KEYS, *ENTITY_TYPES, "interval.ms"})
ENDS_SESSIONS = "endSessions"
"""The one DELETE with something to say: how many."""

every_route = for_each(ROUTES, lambda route: route.operation)


def records_in(schema: Schema | None) -> Iterator[Record]:
    match schema:
        case Record(fields=fields):
            yield schema
            for field in fields.values():
                yield from records_in(field)
        case Listing(items=within) | Maybe(schema=within) | Names(values=within):
            yield from records_in(within)
        case OneOf(options=options):
            for option in options:
                yield from records_in(option)


def names_in(schema: Schema | None) -> set[str]:
    return {name for record in records_in(schema) for name in record.fields}


@every_route
def test_names_are_kafkas_or_snake_case(route: Route) -> None:
    parameters = {each.name for each in (*route.query, *route.path_params)}
    assert {name for name in parameters if not SNAKE.fullmatch(name)} == set()
    fields = names_in(route.body).union(*(names_in(each.schema) for each in route.responses.values()))
    assert {name for name in fields - KAFKAS if not SNAKE.fullmatch(name)} == set()


@every_route
def test_paths_are_kebab_case(route: Route) -> None:
    path = re.sub(r"\{[a-z_]+\}", "", route.path.removeprefix("/api/v1")).replace("openapi.json", "")
    assert all(KEBAB.fullmatch(part) for part in re.split(r"[/:]", path) if part)


@every_route
def test_operations_have_a_stable_name_and_a_described_tag(route: Route) -> None:
    assert CAMEL.fullmatch(route.operation) and route.tag in TAGS


def test_every_tag_has_an_operation() -> None:
    assert {route.tag for route in ROUTES} == TAGS.keys()


@every_route
def test_statuses_follow_the_method(route: Route) -> None:
    statuses = route.responses.keys()
    match route.method:
        case "DELETE" if route.operation != ENDS_SESSIONS:
            assert 204 in statuses
            assert (200 in statuses) is ("validate_only" in {each.name for each in route.query})
        case "PUT" | "PATCH":
            assert statuses & {200, 204}
    if 201 in statuses:
        assert route.method in ("PUT", "POST")
    assert 422 not in statuses


@every_route
def test_an_example_is_a_body_that_the_route_accepts(route: Route) -> None:
    if route.example is not None:
        assert route.body is not None and route.body.check(route.example) == route.example


def test_everything_that_is_created_has_an_example() -> None:
    assert {route.operation for route in ROUTES if 201 in route.responses and route.body} <= {
        route.operation for route in ROUTES if route.example
    }


@every_route
def test_a_preview_is_asked_for_in_one_way(route: Route) -> None:
    names = {each.name for each in route.query}
    assert not names & {"dry_run", "dryrun", "preview", "offset", "page", "before", "after", "shape"} or (
        route.operation == "streamEvents"
    )

"""Writes docs/rest-resources.md: `python docs/resources.py`. A test compares it with the console's routes."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from broker.controller.commands import Role
from webui.problem_types import TYPES
from webui.rest.routes import ROUTES, TAGS
from webui.rest.routing import BASE, Route
from webui.schema import Record

PATH: Final = Path(__file__).parent / "rest-resources.md"
LISTED: Final = ("search", "filter", "sort", "order", "limit", "cursor")

HEAD: Final = f"""# Resources of the REST API

Generated from the routes of `webui/rest` by `python docs/resources.py`; do not edit it by hand.

[rest.md](rest.md) has the conventions. Paths are below `{BASE}`, but for `/metrics`, `/healthz` and
`/readyz`. `role` is the least role that a request needs, where it is not viewer; a DELETE needs that of the
PUT, or what its description says. *list* stands for `search`, `filter`, `sort`, `order`, `limit`, `cursor`.
`{BASE}/openapi.json` has every field, and the values of each parameter.
"""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _role(route: Route) -> str:
    if not isinstance(route.role, Role):
        return "`console.browse.role`"
    return "" if route.role is Role.VIEWER else route.role.name.lower()


def _parameters(route: Route) -> str:
    names = [query.name for query in route.query]
    if set(LISTED) <= set(names):
        own = [name for name in names if name not in LISTED]
        return ", ".join(["*list*", *(f"`{name}`" for name in own)])
    return ", ".join(f"`{name}`" for name in names)


def _body(route: Route) -> str:
    """Return an example of the body, or the names of its fields, those that may be missing in brackets."""
    if route.example is not None:
        return f" Body: `{json.dumps(route.example)}`"
    if isinstance(route.body, Record) and route.body.fields:
        fields = (f"[`{name}`]" if name in route.body.optional else f"`{name}`" for name in route.body.fields)
        return f" Body: {', '.join(fields)}."
    return ""


def _rows(tag: str) -> Iterator[str]:
    for route in ROUTES:
        if route.tag == tag:
            path = route.path.removeprefix(BASE)
            about = _cell(route.about + _body(route))
            yield f"| {route.method} `{path}` | {_role(route)} | {about} | {_parameters(route)} |"


def render() -> str:
    """Return the page."""
    parts = [HEAD]
    for tag, meaning in TAGS.items():
        parts += [f"## {tag}", "", f"{meaning}.", "", "| request | role | what it does | parameters |"]
        parts += ["| --- | --- | --- | --- |", *_rows(tag), ""]
    parts += [
        "## Types of problems",
        "",
        "`type` is `urn:weir:problem:` and one of these names; GET `/problem-types` lists them too.",
        "",
        "| type | status | meaning |",
        "| --- | --- | --- |",
        *(f"| `{kind.name}` | {', '.join(map(str, kind.statuses))} | {kind.meaning} |" for kind in TYPES),
    ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")

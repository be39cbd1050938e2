"""Replies that resources have in common, with their versions; and the version that a request expects."""

from typing import Any
from urllib.parse import quote

from webui.path_names import path_name
from webui.problem import Problem
from webui.rest.routing import BASE, Reply
from webui.security.headers import HeaderLookup


def no_content() -> Reply:
    """Return the response to a request that leaves nothing to say, such as DELETE."""
    return Reply(b"", status=204)


def versioned(content: Any, version: int) -> Reply:
    """Return the response with a resource and its version."""
    return Reply(content, headers={"ETag": etag(version)})


def created(content: Any, location: str, version: int) -> Reply:
    """Return the response to a request that created the resource at `location` (see `path_of`)."""
    return Reply(content, status=201, headers={"Location": location, "ETag": etag(version)})


def stored(content: Any, version: int, location: str, *, existed: bool) -> Reply:
    """Return the response to a PUT that replaced a resource, or created it."""
    return versioned(content, version) if existed else created(content, location, version)


def path_of(collection: str, place: str) -> str:
    """Return the path of one resource, as in `path_of("audit", "7")`."""
    return f"{BASE}/{collection}/{quote(place, safe='=,:@')}"


def path_of_name(collection: str, name: str) -> str:
    """Return the path of the resource with this PathName, as in `path_of_name("tokens", "ci")`."""
    return path_of(collection, path_name(name))


IF_MATCH = {"If-Match": "The ETag of the entity as read; 412 if the entity has changed since."}
HEADERS = IF_MATCH | {
    "If-None-Match": "`*`: only if the entity does not exist yet.",
}


def expected_version(headers: HeaderLookup) -> int | None:
    """Return the version that the caller has seen: 0 for a new entity, None without a header. Raises Problem
    400.
    """
    if headers.get("If-None-Match") == "*":
        return 0
    tag = headers.get("If-Match")
    if tag is None:
        return None
    digits = tag.strip().removeprefix('"').removesuffix('"')
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise Problem(400, 'Invalid If-Match: expected the ETag of one entity, such as "17".')
    return int(digits)


def etag(version: int) -> str:
    return f'"{version}"'

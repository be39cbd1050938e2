"""If-Match and If-None-Match: the version that an edit is about. Used by every route that edits an entity."""

from webui.rest.problem import Problem
from webui.security.headers import HeaderLookup

IF_MATCH = {"If-Match": "The ETag that was read: refused with 412 where the entity has changed since."}
HEADERS = IF_MATCH | {
    "If-None-Match": "*: only if there is nothing yet.",
}


def expected_version(headers: HeaderLookup) -> int | None:
    """The version that the caller has seen, 0 for none, None where he does not say. Raises Problem 400."""
    if headers.get("If-None-Match") == "*":
        return 0
    tag = headers.get("If-Match")
    if tag is None:
        return None
    digits = tag.strip().removeprefix('"').removesuffix('"')
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise Problem(400, 'If-Match must be the ETag of one entity, as "17".')
    return int(digits)


def etag(version: int) -> str:
    return f'"{version}"'

"""If-Match and If-None-Match: the version on which an edit is based. Used by every route that edits an
entity.
"""

from webui.rest.problem import Problem
from webui.security.headers import HeaderLookup

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

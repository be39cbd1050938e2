"""The types of problems (RFC 9457): their names, which never change, their titles and meanings.

Used by webui.problem. docs/rest.md lists them, and GET /problem-types returns them. A problem's type
says what a program can do about it; its `detail` has more for people.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec

PREFIX: Final = "urn:weir:problem:"


class ProblemType(msgspec.Struct, frozen=True):
    """A type. Every problem of it has one of `statuses`."""

    name: str
    title: str
    meaning: str
    statuses: tuple[int, ...]

    @property
    def uri(self) -> str:
        return PREFIX + self.name


_found: list[ProblemType] = []


def _type(name: str, meaning: str, *statuses: int, title: str = "") -> ProblemType:
    made = ProblemType(name, title or name.replace("-", " ").capitalize(), meaning, statuses)
    _found.append(made)
    return made


INVALID_REQUEST: Final = _type(
    "invalid-request",
    "A parameter, a header or the body is not what the route takes; `where` names it.",
    400,
)
INVALID_CURSOR: Final = _type(
    "invalid-cursor",
    "The cursor is malformed, or belongs to another list or to other parameters. Start again without one.",
    400,
)
REFUSED: Final = _type(
    "refused",
    "The request is well-formed, and the broker's rules refuse it; `code` is Kafka's error.",
    400,
)
UNAUTHENTICATED: Final = _type(
    "unauthenticated",
    "The token or the session is missing, unknown, expired or ended.",
    401,
)
FORBIDDEN: Final = _type(
    "forbidden",
    "The token's role does not permit this; or the upstream cluster refuses it to the gateway's credential, "
    "and `detail` names the ACL that it wants.",
    403,
)
CROSS_SITE: Final = _type(
    "cross-site", "A browser sent the request for another site, or without its CSRF token.", 403
)
SECRET_REQUIRED: Final = _type(
    "secret-required",
    "A browser must present its user's secret again, or the presented one is wrong.",
    403,
)
NOT_FOUND: Final = _type("not-found", "The resource does not exist, or no longer.", 404)
NOT_SERVED: Final = _type(
    "not-served",
    "A gateway does not serve this resource of a broker, or a broker not this one of a gateway.",
    404,
)
NO_DATA: Final = _type(
    "no-data",
    "There are no tables to read, nothing to read them with, or no records of the requested days; `code` "
    "says which.",
    404,
)
METHOD_NOT_ALLOWED: Final = _type(
    "method-not-allowed", "The resource does not support the method; `Allow` lists those that it does.", 405
)
TIMEOUT: Final = _type("request-timeout", "The body did not arrive in time.", 408)
CONFLICT: Final = _type("conflict", "The present state forbids this.", 409)
ALREADY_EXISTS: Final = _type("already-exists", "A resource of this name exists.", 409)
IN_USE: Final = _type("in-use", "The resource is not empty, or is in use.", 409)
CHANGED_SINCE: Final = _type(
    "changed-since", "The change cannot be undone, because the value has changed again since.", 409
)
LAST_ADMINISTRATOR: Final = _type(
    "last-administrator",
    "This is the last administrator's token without an expiry, which must stay.",
    409,
)
CURSOR_EXPIRED: Final = _type(
    "cursor-expired",
    "The version of the table that the cursor belongs to was removed. Start again without one.",
    410,
)
VERSION_MISMATCH: Final = _type(
    "version-mismatch",
    "The resource has changed since it was read (If-Match), or exists already (If-None-Match); `current` is "
    "its present state.",
    412,
)
TOO_LARGE: Final = _type("body-too-large", "The body is longer than the route accepts.", 413)
UNSUPPORTED_MEDIA_TYPE: Final = _type("unsupported-media-type", "The body is not application/json.", 415)
UNKNOWN_HOST: Final = _type("unknown-host", "The Host header is not one of the console's names.", 421)
TOO_MANY_REQUESTS: Final = _type(
    "too-many-requests",
    "Too many failed logins from this address, or for this user; `Retry-After` says when to try again.",
    429,
)
TOO_MANY_STREAMS: Final = _type(
    "too-many-streams", "This token, or all of them together, have as many live streams as allowed.", 429, 503
)
QUOTA_EXCEEDED: Final = _type("quota-exceeded", "The change exceeds a quota of the caller.", 429)
HEAD_TOO_LARGE: Final = _type("head-too-large", "The address and the headers are longer than 16 KiB.", 431)
INTERNAL_ERROR: Final = _type(
    "internal-error", "The broker failed; its log has the reason. Please report it.", 500
)
TABLE_UNREADABLE: Final = _type(
    "table-unreadable",
    "A table is damaged, was written by another program, or is too large for the process that reads it; "
    "`code` says which.",
    502,
)
UNAVAILABLE: Final = _type(
    "unavailable",
    "The broker is starting, stopping or overloaded, its disk fails, or a gateway's upstream cluster does "
    "not answer; `Retry-After` may say when to try again.",
    503,
)
BUSY: Final = _type("busy", "Another simulation is running.", 503)
TOO_SLOW: Final = _type("too-slow", "The answer took too long: request fewer days.", 503)
NO_DISK_SPACE: Final = _type("no-disk-space", "The disk has no space for the simulation.", 503)

TYPES: Final = tuple(_found)

OF_CODE: Final[Mapping[str, ProblemType]] = {
    "INVALID_REQUEST": REFUSED,
    "INVALID_CONFIG": REFUSED,
    "UNSUPPORTED_VERSION": REFUSED,
    "POLICY_VIOLATION": REFUSED,
    "TOPIC_ALREADY_EXISTS": ALREADY_EXISTS,
    "DUPLICATE_RESOURCE": ALREADY_EXISTS,
    "NON_EMPTY_GROUP": IN_USE,
    "GROUP_SUBSCRIBED_TO_TOPIC": IN_USE,
    "INVALID_UPDATE_VERSION": VERSION_MISMATCH,
    "THROTTLING_QUOTA_EXCEEDED": QUOTA_EXCEEDED,
    "INSIGHTS_OFF": NO_DATA,
    "READER_MISSING": NO_DATA,
    "NO_TABLE": NO_DATA,
    "NO_REQUESTS": NO_DATA,
    "BUSY": BUSY,
    "TOO_SLOW": TOO_SLOW,
    "NO_DISK_SPACE": NO_DISK_SPACE,
}
"""Types by the `code` of a problem: Kafka's error name, or one of /insights."""

OF_STATUS: Final[Mapping[int, ProblemType]] = {
    400: INVALID_REQUEST,
    401: UNAUTHENTICATED,
    403: FORBIDDEN,
    404: NOT_FOUND,
    405: METHOD_NOT_ALLOWED,
    408: TIMEOUT,
    409: CONFLICT,
    410: CURSOR_EXPIRED,
    412: VERSION_MISMATCH,
    413: TOO_LARGE,
    415: UNSUPPORTED_MEDIA_TYPE,
    421: UNKNOWN_HOST,
    429: TOO_MANY_REQUESTS,
    431: HEAD_TOO_LARGE,
    500: INTERNAL_ERROR,
    502: TABLE_UNREADABLE,
    503: UNAVAILABLE,
}
"""Types of problems that have no type of their own."""


def type_of(status: int, code: str | None) -> ProblemType:
    """Return the type of a problem with this status, and with this `code` if it has one."""
    found = OF_CODE.get(code or "")
    if found is not None and status in found.statuses:
        return found
    fallback = INTERNAL_ERROR if status >= HTTPStatus.INTERNAL_SERVER_ERROR else INVALID_REQUEST
    return OF_STATUS.get(status, fallback)

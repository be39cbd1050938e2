"""Errors as RFC 9457 problem details, and the HTTP status of each Kafka error code.

Raised anywhere in webui; webui.http.app turns them into responses. Their texts are for the API's users: no
stack traces, no paths.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from broker.errors import ErrorCode
from webui.rest.schema import Number, Record, Schema, Text

STATUS_OF: Final[Mapping[ErrorCode, int]] = {
    ErrorCode.NONE: 200,
    ErrorCode.INVALID_REQUEST: 400,
    ErrorCode.INVALID_CONFIG: 400,
    ErrorCode.UNSUPPORTED_VERSION: 400,
    ErrorCode.POLICY_VIOLATION: 400,
    ErrorCode.UNACCEPTABLE_CREDENTIAL: 400,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: 403,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: 403,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: 403,
    ErrorCode.RESOURCE_NOT_FOUND: 404,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.INVALID_UPDATE_VERSION: 412,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: 429,
    ErrorCode.KAFKA_STORAGE_ERROR: 503,
    ErrorCode.REQUEST_TIMED_OUT: 503,
}

PROBLEM_TYPE: Final = "application/problem+json"
PROBLEM_FIELDS: Final[dict[str, Schema]] = {
    "type": Text(),
    "title": Text(),
    "status": Number(integer=True, minimum=400, maximum=599),
    "detail": Text(max_length=4096),
    "code": Text(),
    "where": Text(),
    "line": Number(integer=True, minimum=1, nullable=True),
}


def problem_schema(**members: Schema) -> Record:
    """Return the schema of a problem with optional extension members."""
    return Record({**PROBLEM_FIELDS, **members}, optional=frozenset({"code", "where", "line", *members}))


PROBLEM: Final = problem_schema()


class Problem(Exception):  # noqa: N818 - RFC 9457's word
    """An error response. `members` are extension members of the document; `headers` are added."""

    def __init__(
        self, status: int, detail: str, *, headers: Mapping[str, str] | None = None, **members: Any
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})
        self.members = members

    @classmethod
    def of(cls, error: ErrorCode, detail: str | None, **members: Any) -> "Problem":
        """Return the HTTP problem for a Kafka error code."""
        text = detail or error.name.replace("_", " ").capitalize()
        return cls(status_of(error), text, code=error.name, **members)

    def document(self) -> dict[str, Any]:
        return {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        } | self.members


def status_of(error: ErrorCode) -> int:
    return STATUS_OF.get(error, 500)

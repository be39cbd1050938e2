"""Errors as RFC 9457 problem details, and the HTTP status of each Kafka error code.

Raised anywhere in webui; webui.http.app turns them into responses. Their texts are for the API's users: no
stack traces, no paths.
"""

from collections.abc import Mapping
from typing import Any, Final

from broker.common.errors import ErrorCode
from broker.controller.commands import EntryOutcome
from webui.problem_types import ProblemType, type_of
from webui.schema import Number, Record, Schema, Text

MOVING: Final = (
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    ErrorCode.LISTENER_NOT_FOUND,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
)
"""Errors of the upstream cluster of a gateway while partitions, coordinators or the controller move."""

STATUS_OF: Final[Mapping[ErrorCode, int]] = {
    ErrorCode.NONE: 200,
    ErrorCode.INVALID_REQUEST: 400,
    ErrorCode.INVALID_CONFIG: 400,
    ErrorCode.UNSUPPORTED_VERSION: 400,
    ErrorCode.POLICY_VIOLATION: 400,
    ErrorCode.INVALID_TOPIC_EXCEPTION: 400,
    ErrorCode.INVALID_PARTITIONS: 400,
    ErrorCode.INVALID_REPLICATION_FACTOR: 400,
    ErrorCode.INVALID_GROUP_ID: 400,
    ErrorCode.OFFSET_OUT_OF_RANGE: 400,
    ErrorCode.MESSAGE_TOO_LARGE: 400,
    ErrorCode.INVALID_RECORD: 400,
    ErrorCode.UNACCEPTABLE_CREDENTIAL: 400,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: 400,
    ErrorCode.INVALID_TIMESTAMP: 400,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: 400,
    ErrorCode.RECORD_LIST_TOO_LARGE: 400,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: 403,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: 403,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: 403,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: 403,
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: 403,
    ErrorCode.RESOURCE_NOT_FOUND: 404,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.GROUP_ID_NOT_FOUND: 404,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: 404,
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: 404,
    ErrorCode.TOPIC_ALREADY_EXISTS: 409,
    ErrorCode.DUPLICATE_RESOURCE: 409,
    ErrorCode.NON_EMPTY_GROUP: 409,
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: 409,
    ErrorCode.TOPIC_DELETION_DISABLED: 409,
    ErrorCode.SECURITY_DISABLED: 409,
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: 409,
    ErrorCode.NOT_ENOUGH_REPLICAS: 409,
    ErrorCode.UNKNOWN_MEMBER_ID: 409,
    ErrorCode.INVALID_TXN_STATE: 409,
    ErrorCode.CONCURRENT_TRANSACTIONS: 409,
    ErrorCode.REASSIGNMENT_IN_PROGRESS: 409,
    ErrorCode.REBALANCE_IN_PROGRESS: 409,
    ErrorCode.UNSTABLE_OFFSET_COMMIT: 409,
    ErrorCode.INVALID_UPDATE_VERSION: 412,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: 429,
    ErrorCode.KAFKA_STORAGE_ERROR: 503,
    ErrorCode.BROKER_NOT_AVAILABLE: 503,
    ErrorCode.REQUEST_TIMED_OUT: 503,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: 503,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: 503,
    **dict.fromkeys(MOVING, 503),
}

PROBLEM_TYPE: Final = "application/problem+json"
PROBLEM_FIELDS: Final[dict[str, Schema]] = {
    "type": Text(form="uri"),
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


PROBLEM: Final = Record(PROBLEM_FIELDS, optional=frozenset({"code", "where", "line"}), title="Problem")


class Problem(Exception):  # noqa: N818 - RFC 9457's word
    """An error response. Its type is `kind`, else follows from `code` among the members or from the status
    (`problem_types.type_of`). `members` are extension members of the document; `headers` are added.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        kind: ProblemType | None = None,
        headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.kind = kind or type_of(status, members.get("code"))
        self.headers = dict(headers or {})
        self.members = members

    @classmethod
    def of(cls, error: ErrorCode, detail: str | None, **members: Any) -> "Problem":
        """Return the HTTP problem for a Kafka error code."""
        text = detail or error.name.replace("_", " ").capitalize()
        return cls(status_of(error), text, code=error.name, **members)

    def document(self) -> dict[str, Any]:
        return {
            "type": self.kind.uri,
            "title": self.kind.title,
            "status": self.status,
            "detail": self.detail,
        } | self.members


def status_of(error: ErrorCode) -> int:
    return STATUS_OF.get(error, 500)


def raise_refusal(outcome: EntryOutcome, current: object) -> None:
    """Raise the Problem of a refused change; do nothing if it was made. Of a conflict of versions the problem
    has the resource's `current` state, None if it is gone.
    """
    if outcome.error is ErrorCode.INVALID_UPDATE_VERSION:
        raise Problem.of(outcome.error, outcome.message, current=current)
    if not outcome.ok:
        raise Problem.of(outcome.error, outcome.message)

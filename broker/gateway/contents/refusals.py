"""What the upstream cluster refuses to the gateway's credential, and the ACL that would allow it."""

from collections.abc import Mapping
from typing import Final

from broker.common.errors import ApiError, ErrorCode
from broker.controller.rows.upstream import RefusedRead
from broker.gateway.upstream.errors import name_of
from broker.protocol.api_key import NAMES, ApiKey
from broker.security.acl.acl import CLUSTER_NAME, Operation, ResourceType

TYPES: Final[Mapping[int, ResourceType]] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: ResourceType.TOPIC,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: ResourceType.GROUP,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ResourceType.CLUSTER,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ResourceType.TRANSACTIONAL_ID,
}
"""The resource that each error is about."""

OPERATIONS: Final[Mapping[int, Operation]] = {
    ApiKey.FETCH: Operation.READ,
    ApiKey.PRODUCE: Operation.WRITE,
    ApiKey.DESCRIBE_CONFIGS: Operation.DESCRIBE_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Operation.ALTER_CONFIGS,
    ApiKey.CREATE_TOPICS: Operation.CREATE,
    ApiKey.DELETE_TOPICS: Operation.DELETE,
    ApiKey.CREATE_PARTITIONS: Operation.ALTER,
    ApiKey.OFFSET_COMMIT: Operation.READ,
    ApiKey.OFFSET_DELETE: Operation.DELETE,
    ApiKey.DELETE_GROUPS: Operation.DELETE,
    ApiKey.CREATE_ACLS: Operation.ALTER,
    ApiKey.DELETE_ACLS: Operation.ALTER,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Operation.ALTER,
    ApiKey.INIT_PRODUCER_ID: Operation.WRITE,
}
"""The operation that an API needs, DESCRIBE if it is not here. (Kafka: KafkaApis)"""


def wanted_acl(key: int, code: int, name: str) -> tuple[str, str, str] | None:
    """Return the operation, the type and the name of the resource that an ACL must allow; None if the error
    is not one of authorization. `name` is that of the topic, the group or the transactional id.
    """
    kind = TYPES.get(code)
    if kind is None:
        return None
    operation = OPERATIONS.get(key, Operation.DESCRIBE)
    if key == ApiKey.OFFSET_DELETE and kind is ResourceType.TOPIC:
        operation = Operation.READ
    return operation.name, kind.name, CLUSTER_NAME if kind is ResourceType.CLUSTER else name


def error_of(key: int, code: int, name: str, message: str | None = None) -> ApiError:
    """Return the error for a person: of a refusal, it says which ACL the gateway's credential wants."""
    wanted = wanted_acl(key, code, name)
    if wanted is not None:
        operation, kind, resource = wanted
        text = (
            f"The upstream cluster refuses {NAMES[key]} to the gateway's credential: it wants an ACL that "
            f"allows {operation} on {kind} {resource}."
        )
    else:
        words = f": {message}" if message else ""
        about = f" of {name}" if name else ""
        text = f"The upstream cluster answers {NAMES[key]}{about} with {name_of(code)}{words}"
    try:
        return ApiError(ErrorCode(code), text)
    except ValueError:
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, text)


class Notes:
    """What a reading could not read, though it read the rest. `lists_all` is False if a node did not list
    what it has; `unread` are the APIs of which something is missing, as far as they are noted.
    """

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.unread: set[int] = set()
        self.lists_all = True
        self._refused: dict[tuple[str, str, str, str], tuple[str, int]] = {}

    @property
    def refused(self) -> tuple[RefusedRead, ...]:
        return tuple(
            RefusedRead(api, code, operation, kind, name, count)
            for (api, code, operation, kind), (name, count) in self._refused.items()
        )

    def note(self, key: int, code: int, name: str = "", message: str | None = None) -> bool:
        """Note an error code of a response. Returns whether it is one."""
        if not code:
            return False
        self.unread.add(key)
        wanted = wanted_acl(key, code, name)
        if wanted is None:
            self.failed(error_of(key, code, name, message))
            return True
        operation, kind, resource = wanted
        at = (NAMES[key], name_of(code), operation, kind)
        first, count = self._refused.get(at, (resource, 0))
        self._refused[at] = first, count + 1
        return True

    def failed(self, error: Exception, key: int | None = None) -> None:
        """Note why a request failed. Keeps the first few: they often have one cause."""
        if key is not None:
            self.unread.add(key)
        text = error.message or error.code.name if isinstance(error, ApiError) else str(error)
        if len(self.errors) < MAX_ERRORS and text not in self.errors:
            self.errors.append(text)


MAX_ERRORS: Final = 5

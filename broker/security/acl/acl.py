"""ACLs as values, with Kafka's resource types, pattern types, operations and permissions, and their filters.

An `Acl` allows or denies a principal on a host an operation on the resources of a pattern. It is its own
identity: two equal ACLs are one. `AclFilter` is for DescribeAcls and DeleteAcls. (Kafka: AclBinding,
StandardAcl, AclBindingFilter)
"""

import json
from enum import IntEnum
from typing import Final, NamedTuple

WILDCARD: Final = "*"
"""The name of a LITERAL pattern that matches every resource of its type, and the host of an ACL for every
host.
"""

EVERYBODY: Final = "User:*"
"""The principal of an ACL for every user."""

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""


class ResourceType(IntEnum):
    """As on the wire. ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """As on the wire. ANY and MATCH are for filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """As on the wire. ANY is for filters only, ALL for ACLs and filters."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """As on the wire. ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


IMPLIED_BY: Final[dict[int, frozenset[int]]] = {
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
}
"""The operations of ALLOW ACLs that allow an operation. An ACL that denies READ does not deny DESCRIBE."""

SUPPORTED: Final[dict[int, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""The operations that resources of a type have. (Kafka: AclEntry.supportedOperations)"""


class Acl(NamedTuple):
    """The numbers are those of the wire, and need not be known before `controller.acls` has checked them."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int

    def applies_to(self, operation: int) -> bool:
        """Whether it allows or denies `operation`, where its pattern, principal and host match."""
        own = self.operation
        if own in (operation, Operation.ALL):
            return True
        return self.permission == Permission.ALLOW and own in IMPLIED_BY.get(operation, ())

    def __str__(self) -> str:
        """Return the words of the audit lines and the console."""
        return (
            f"{Permission(self.permission).name} {self.principal} {Operation(self.operation).name} "
            f"on {ResourceType(self.resource_type).name} {PatternType(self.pattern_type).name} "
            f"{self.resource_name} from {self.host}"
        )


def entity_of(acl: Acl) -> str:
    """Return the entity of an ACL's row in the audit trail, as JSON: all but its permission, which is the
    row's key.
    """
    parts = (
        ResourceType(acl.resource_type).name,
        PatternType(acl.pattern_type).name,
        acl.resource_name,
        acl.principal,
        acl.host,
        Operation(acl.operation).name,
    )
    return json.dumps(parts, separators=(",", ":"), ensure_ascii=False)


def key_of(acl: Acl) -> str:
    return Permission(acl.permission).name


def read_acl(entity: str, key: str) -> Acl:
    """Return the ACL of a row of the audit trail."""
    kind, pattern, name, principal, host, operation = json.loads(entity)
    return Acl(
        ResourceType[kind], name, PatternType[pattern], principal, host, Operation[operation], Permission[key]
    )


class AclFilter(NamedTuple):
    """A number of ANY, or None, matches everything. The pattern type MATCH selects the patterns that match
    the resource of this name; ANY those of exactly this name, of any pattern type.
    """

    resource_type: int = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = Operation.ANY
    permission: int = Permission.ANY

    def fault(self) -> str | None:
        """Return why the filter is not valid, or None."""
        if _is_unknown(self.resource_type, ResourceType) or _is_unknown(self.pattern_type, PatternType):
            return "Unknown patternFilter."
        if _is_unknown(self.operation, Operation) or _is_unknown(self.permission, Permission):
            return "Unknown entryFilter."
        return None

    def exact(self) -> Acl | None:
        """Return the only ACL that the filter can match, or None if it can match several."""
        name, principal, host = self.resource_name, self.principal, self.host
        if name is None or principal is None or host is None:
            return None
        if self.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
            return None
        if self.resource_type == ResourceType.ANY or self.operation == Operation.ANY:
            return None
        if self.permission == Permission.ANY:
            return None
        return Acl(
            self.resource_type, name, self.pattern_type, principal, host, self.operation, self.permission
        )

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self._matches_pattern(acl)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        wanted, name = self.pattern_type, self.resource_name
        if wanted not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if name is None:
            return True
        if wanted != PatternType.MATCH:
            return name == acl.resource_name
        if acl.pattern_type == PatternType.PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.resource_name in (name, WILDCARD)


def filter_of(acl: Acl) -> AclFilter:
    """Return the filter that matches this ACL only."""
    return AclFilter(*acl)


def _is_unknown(code: int, kind: type[ResourceType | PatternType | Operation | Permission]) -> bool:
    return code <= 0 or code > max(kind)

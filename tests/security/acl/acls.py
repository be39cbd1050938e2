"""Short ways to write ACLs in tests."""

from broker.security.acl.acl import Acl, Operation, PatternType, Permission, ResourceType


def allow(
    operation: Operation,
    name: str = "orders",
    *,
    principal: str = "User:alice",
    host: str = "*",
    kind: ResourceType = ResourceType.TOPIC,
    pattern: PatternType = PatternType.LITERAL,
) -> Acl:
    return Acl(kind, name, pattern, principal, host, operation, Permission.ALLOW)


def deny(
    operation: Operation,
    name: str = "orders",
    *,
    principal: str = "User:alice",
    host: str = "*",
    kind: ResourceType = ResourceType.TOPIC,
    pattern: PatternType = PatternType.LITERAL,
) -> Acl:
    return Acl(kind, name, pattern, principal, host, operation, Permission.DENY)

"""Kafka's rules written as plainly as possible: every ACL is looked at for every question."""

from collections.abc import Iterable

from broker.security.acl.acl import Acl, Operation, PatternType, Permission

IMPLIED = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


def is_allowed(
    acls: Iterable[Acl],
    principal: str,
    host: str,
    operation: Operation,
    kind: int,
    name: str,
    *,
    is_open: bool = False,
) -> bool:
    about = [acl for acl in acls if acl.resource_type == kind and _matches(acl, name)]
    mine = [acl for acl in about if acl.principal in (principal, "User:*") and acl.host in (host, "*")]
    if any(acl.permission == Permission.DENY and acl.operation in (operation, Operation.ALL) for acl in mine):
        return False
    granting = {operation, Operation.ALL} | IMPLIED.get(operation, set())
    if any(acl.permission == Permission.ALLOW and acl.operation in granting for acl in mine):
        return True
    return is_open and not about


def is_allowed_anywhere(
    acls: Iterable[Acl], principal: str, host: str, operation: Operation, kind: int, *, is_open: bool = False
) -> bool:
    acls = list(acls)
    if is_allowed(acls, principal, host, operation, kind, "hardcode", is_open=is_open):
        return True
    mine = [
        acl
        for acl in acls
        if acl.resource_type == kind
        and acl.principal in (principal, "User:*")
        and acl.host in (host, "*")
        and acl.operation in (operation, Operation.ALL)
    ]
    denied = [acl for acl in mine if acl.permission == Permission.DENY]
    if any(_is_wildcard(acl) for acl in denied):
        return False
    allowed = [acl for acl in mine if acl.permission == Permission.ALLOW]
    return any(_is_wildcard(acl) or not any(_covers(no, acl) for no in denied) for acl in allowed)


def _matches(acl: Acl, name: str) -> bool:
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, "*")


def _is_wildcard(acl: Acl) -> bool:
    return acl.pattern_type == PatternType.LITERAL and acl.resource_name == "*"


def _covers(denied: Acl, allowed: Acl) -> bool:
    if denied.pattern_type == PatternType.PREFIXED:
        return allowed.resource_name.startswith(denied.resource_name)
    return (denied.pattern_type, denied.resource_name) == (allowed.pattern_type, allowed.resource_name)

"""Plans CreateAcls and DeleteAcls: which ACLs exist. (Kafka: AclApis, AclControlManager, with their codes and
messages)
"""

from typing import Final

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Steps
from broker.controller.commands import AclDeletion, CreateAcls, DeleteAcls, EntryOutcome
from broker.controller.plan import Plan, Situation
from broker.metadata.actor import Role
from broker.metadata.changes import ACL_IS_SET, Change, ChangeKind
from broker.security.acl.acl import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from broker.security.acl.acl import entity_of as acl_entity
from broker.security.acl.acl import key_of as acl_key

LONGEST_TEXT: Final = 1_024
"""Characters of a resource name, a principal and a host. Kafka has no limit; ours keeps pages and log lines
readable, as for quotas.
"""

MAX_DELETED: Final = 10_000
"""ACLs that one request deletes. (Kafka: MAX_RECORDS_PER_USER_OP)"""

NO_AUTHORIZER: Final = "No Authorizer is configured."

_RESOURCE_TYPES: Final = frozenset(ResourceType) - {ResourceType.UNKNOWN, ResourceType.ANY}
_PATTERN_TYPES: Final = frozenset({PatternType.LITERAL, PatternType.PREFIXED})
_OPERATIONS: Final = frozenset(Operation) - {Operation.UNKNOWN, Operation.ANY}
_PERMISSIONS: Final = frozenset({Permission.DENY, Permission.ALLOW})


def plan_create_acls(command: CreateAcls, at: Situation) -> Steps[Plan[list[EntryOutcome]]]:
    refusal = _refusal(at)
    outcomes: list[EntryOutcome] = []
    created: dict[Acl, Change] = {}
    for acl in command.acls:
        yield
        try:
            if refusal is not None:
                raise ApiError(refusal.error, refusal.message)
            check_acl(acl)
        except ApiError as error:
            outcomes.append(EntryOutcome(error.code, error.message))
            continue
        outcomes.append(EntryOutcome())
        if acl not in at.image.acls and acl not in created:
            created[acl] = _change(acl, ACL_IS_SET)
    return Plan(outcomes) if command.validate_only else Plan(outcomes, tuple(created.values()))


def plan_delete_acls(command: DeleteAcls, at: Situation) -> Steps[Plan[list[AclDeletion]]]:
    refusal = _refusal(at)
    outcomes: list[AclDeletion] = []
    deleted: dict[Acl, Change] = {}
    for wanted in command.filters:
        yield
        if refusal is not None:
            outcomes.append(AclDeletion(refusal.error, refusal.message))
            continue
        fault = wanted.fault()
        if fault is not None:
            outcomes.append(AclDeletion(ErrorCode.INVALID_REQUEST, fault))
            continue
        matched = yield from _matched(wanted, at)
        if len(deleted) + sum(acl not in deleted for acl in matched) > MAX_DELETED:
            outcomes.append(
                AclDeletion(
                    ErrorCode.POLICY_VIOLATION,
                    f"Cannot remove more than {MAX_DELETED} acls in a single delete operation.",
                )
            )
            continue
        for acl in matched:
            deleted[acl] = _change(acl, None)
            yield
        outcomes.append(AclDeletion(deleted=tuple(matched)))
    return Plan(outcomes) if command.validate_only else Plan(outcomes, tuple(deleted.values()))


def check_acl(acl: Acl) -> None:
    """Raise ApiError INVALID_REQUEST if such an ACL cannot exist."""
    for code, kind, known, what in (
        (acl.resource_type, ResourceType, _RESOURCE_TYPES, "resourceType"),
        (acl.pattern_type, PatternType, _PATTERN_TYPES, "patternType"),
        (acl.operation, Operation, _OPERATIONS, "operation"),
        (acl.permission, Permission, _PERMISSIONS, "permissionType"),
    ):
        if code not in known:
            name = kind(code).name if code in set(kind) else "UNKNOWN"
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Invalid {what} {name}")
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
        )
    if not acl.resource_name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid empty resource name")
    kind_of_principal, colon, name = acl.principal.partition(":")
    if not colon:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal "
            "type from the principal name)",
        )
    if not kind_of_principal or not name:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"expected a string in format principalType:principalName but got {acl.principal}",
        )
    if not acl.host:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid empty host")
    if max(map(len, (acl.resource_name, acl.principal, acl.host))) > LONGEST_TEXT:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"A resource name, a principal and a host have at most {LONGEST_TEXT} characters",
        )


def _refusal(at: Situation) -> EntryOutcome | None:
    if not at.config.security.authorizer_class_name:
        return EntryOutcome(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    return at.refusal(Role.ADMIN, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _matched(wanted: AclFilter, at: Situation) -> Steps[list[Acl]]:
    exact = wanted.exact()
    if exact is not None:
        return [exact] if exact in at.image.acls else []
    matched: list[Acl] = []
    for acl in at.image.acls:
        if wanted.matches(acl):
            matched.append(acl)
        yield
    return matched


def _change(acl: Acl, new: str | None) -> Change:
    return Change(ChangeKind.ACL, acl_entity(acl), acl_key(acl), new)

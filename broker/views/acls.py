"""The ACLs as rows with their values, and which of them decides a question. Part of `console.Views`.

The authorizer that answers is the one that Kafka clients meet, so an answer is what a client's next request
would get.
"""

from collections.abc import Callable, Iterator
from enum import StrEnum

import msgspec

from broker.common.slices import Steps
from broker.metadata.image import AclEntry, Image
from broker.security.acl.acl import (
    CLUSTER_NAME,
    SUPPORTED,
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    entity_of,
    filter_of,
    key_of,
)
from broker.security.acl.authorizer import Authorizer

__all__ = [
    "CLUSTER_NAME",
    "SUPPORTED",
    "WILDCARD",
    "Acl",
    "AclDecision",
    "AclFilter",
    "AclRow",
    "AclViews",
    "DecidedBy",
    "Operation",
    "PatternType",
    "Permission",
    "ResourceType",
    "entity_of",
    "filter_of",
    "key_of",
]


class AclRow(msgspec.Struct, frozen=True):
    """An ACL, and who created it when: "" and None for those of an upstream cluster, which does not tell."""

    acl: Acl
    created_at_ms: int | None
    created_by: str


class DecidedBy(StrEnum):
    """The origin of a decision: an ACL, `super.users`, `allow.everyone.if.no.acl.found`, or that no ACL
    allows it.
    """

    ACL = "acl"
    SUPER_USER = "super-user"
    NO_ACL_FOUND = "no-acl-found"
    NO_ACL_ALLOWS = "no-acl-allows"


class AclDecision(msgspec.Struct, frozen=True):
    """`acl` is None unless an ACL decides. `unknown` are settings that are not known and could change the
    decision: none at a broker (None).
    """

    is_allowed: bool
    decided_by: DecidedBy
    acl: Acl | None = None
    unknown: tuple[str, ...] | None = None


def decision_of(
    authorizer: Authorizer, principal: str, host: str, operation: int, resource_type: int, name: str
) -> AclDecision:
    """Return whether the principal may do this, and what decides it."""
    if authorizer.is_super_user(principal):
        return AclDecision(True, DecidedBy.SUPER_USER)
    rule = authorizer.rule(principal, host, operation, resource_type, name)
    if rule.acl is not None:
        return AclDecision(rule.is_allowed, DecidedBy.ACL, rule.acl)
    by = DecidedBy.NO_ACL_FOUND if rule.is_allowed else DecidedBy.NO_ACL_ALLOWS
    return AclDecision(rule.is_allowed, by)


class AclViews:
    """`authorizer` is None if `authorizer.class.name` is empty; ACLs of an earlier run are not shown then."""

    def __init__(self, image: Callable[[], Image], authorizer: Authorizer | None) -> None:
        self._image = image
        self._authorizer = authorizer

    @property
    def has_authorizer(self) -> bool:
        return self._authorizer is not None

    def each(self, wanted: AclFilter = AclFilter()) -> Iterator[AclRow | None]:  # noqa: B008 - immutable
        """Yield the ACLs that match, in no order, built lazily. None stands for one that does not match."""
        if self._authorizer is None:
            return
        for acl, entry in self._image().acls.items():
            yield _row(acl, entry) if wanted.matches(acl) else None

    def one(self, acl: Acl) -> AclRow | None:
        """Return the row of an ACL; None if it does not exist."""
        entry = None if self._authorizer is None else self._image().acls.get(acl)
        return None if entry is None else _row(acl, entry)

    def decide(
        self, principal: str, host: str, operation: int, resource_type: int, name: str
    ) -> Steps[AclDecision | None]:
        """Return whether the principal, such as "User:alice", may do this now, and what decides it. None
        without an authorizer.
        """
        yield
        authorizer = self._authorizer
        if authorizer is None:
            return None
        return decision_of(authorizer, principal, host, operation, resource_type, name)


def _row(acl: Acl, entry: AclEntry) -> AclRow:
    return AclRow(acl, entry.changed_at_ms, entry.changed_by)

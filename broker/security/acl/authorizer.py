"""Decides whether a client may do something, by ACLs and super users. (Kafka: StandardAuthorizer)

broker.api asks it for each resource of a request. Its decisions are kept until the ACLs change, so that most
cost one lookup. `server.listeners` applies the changes; `api.security.client_security` has the
authorizer, or None if `authorizer.class.name` is empty.
"""

import logging
from collections.abc import Collection, Iterable
from typing import Final

from broker.common.limited_lines import LimitedLines, shown
from broker.common.slices import Steps
from broker.security.acl.acl import SUPPORTED, Acl, Operation, ResourceType
from broker.security.acl.acl_index import AclIndex, MatchingRule

logger = logging.getLogger("kafka.authorizer.logger")

MAX_DECISIONS: Final = 16_384
"""Decisions that are kept; all are dropped if there are more, which takes a millisecond. Ours: Kafka
keeps none.
"""

LONGEST_KEPT: Final = 256
"""Characters of a name whose decision is kept; ours. Clients choose the names."""

ANY_NAME: Final = None
"""In place of a name, for the decisions of `allows_any`."""


class Authorizer:
    """`super_users` are principals as text, such as "User:admin". `is_open`: see `AclIndex`.

    `denials` counts what was denied since the start, by operation and resource type. (Kafka:
    kafka.authorizer.logger, which has a line for each)
    """

    def __init__(self, acls: Iterable[Acl], super_users: Collection[str], *, is_open: bool) -> None:
        self._index = AclIndex(acls, is_open=is_open)
        self._super_users = frozenset(super_users)
        self._decisions: dict[tuple[str, str, int, int, str | None], bool] = {}
        self.denials: dict[tuple[int, int], int] = {}
        self._lines = LimitedLines()

    @property
    def acl_count(self) -> int:
        return self._index.size

    def is_super_user(self, principal: str) -> bool:
        return principal in self._super_users

    def update(self, added: Iterable[Acl], removed: Iterable[Acl]) -> Steps[None]:
        """Apply a change of ACLs, in steps; it takes effect as a whole, in the last step."""
        self._index = yield from self._index.changed(added, removed)
        self._decisions = {}

    def allows(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        """Whether the principal, a text such as "User:alice", may do this on the resource of this name."""
        key = (principal, host, operation, resource_type, name)
        decision = self._decisions.get(key)
        if decision is None:
            decision = self.rule(principal, host, operation, resource_type, name).is_allowed
            if len(name) <= LONGEST_KEPT:
                self._keep(key, decision)
        return decision

    def allows_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Whether the principal may do this on at least one resource of the type."""
        key = (principal, host, operation, resource_type, ANY_NAME)
        decision = self._decisions.get(key)
        if decision is None:
            decision = self.is_super_user(principal) or self._index.allows_any(
                principal, host, operation, resource_type
            )
            self._keep(key, decision)
        return decision

    def rule(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> MatchingRule:
        """Return what decides; a super user's rule has no ACL."""
        if self.is_super_user(principal):
            return MatchingRule(True)
        return self._index.rule(principal, host, operation, resource_type, name)

    def operations(self, principal: str, host: str, resource_type: int, name: str) -> int:
        """Return the bit field of the operations that the principal may do on a resource."""
        return bit_field(
            each
            for each in SUPPORTED[resource_type]
            if self.allows(principal, host, each, resource_type, name)
        )

    def note_denied(
        self, principal: str, host: str, operation: int, resource_type: int, name: str, api: str, now_ms: int
    ) -> None:
        """Count a denied request, and log it unless there are too many."""
        denied = (operation, resource_type)
        self.denials[denied] = self.denials.get(denied, 0) + 1
        left_out = self._lines.line(principal, host, now_ms)
        if left_out is None:
            return
        rule = self.rule(principal, host, operation, resource_type, name)
        details: dict[str, object] = {
            "principal": shown(principal),
            "operation": Operation(operation).name,
            "resource_type": ResourceType(resource_type).name,
            "resource": shown(name),
            "host": host,
            "request": api,
            "rule": "no ACL allows it" if rule.acl is None else str(rule.acl),
        }
        if left_out:
            details["left_out"] = left_out
        logger.info("denied", extra=details)

    def _keep(self, key: tuple[str, str, int, int, str | None], decision: bool) -> None:
        if len(self._decisions) >= MAX_DECISIONS:
            self._decisions.clear()
        self._decisions[key] = decision


def bit_field(operations: Iterable[int]) -> int:
    """Return the field of authorized operations in responses."""
    field = 0
    for each in operations:
        field |= 1 << each
    return field


EVERY_OPERATION: Final = {kind: bit_field(operations) for kind, operations in SUPPORTED.items()}
"""The bit fields of a server without an authorizer, by resource type."""

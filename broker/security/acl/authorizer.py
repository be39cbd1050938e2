"""Decides whether a client may do something, by ACLs and super users. (Kafka: StandardAuthorizer,
StandardAuthorizerData)

broker.api asks it for each resource of a request. Its decisions are kept until the ACLs change, so that most
cost one lookup. `server.listeners` applies the changes; `api.security.client_security` has the
authorizer, or None if `authorizer.class.name` is empty.
"""

import logging
from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from broker.common.limited_lines import LimitedLines, shown
from broker.common.slices import Steps
from broker.security.acl.acl import (
    EVERYBODY,
    SUPPORTED,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

logger = logging.getLogger("kafka.authorizer.logger")

MAX_DECISIONS: Final = 16_384
"""Decisions that are kept; all are dropped if there are more, which takes a millisecond. Ours: Kafka
keeps none.
"""

LONGEST_KEPT: Final = 256
"""Characters of a name whose decision is kept; ours. Clients choose the names."""

ANY_NAME: Final = None
"""In place of a name, for the decisions of `allows_any`."""


Subject = tuple[int, str, str]
"""Resource type, principal, host."""

Pattern = tuple[int, str]
"""Pattern type, resource name."""

OfSubject = dict[Pattern, tuple[Acl, ...]]


class MatchingRule(NamedTuple):
    """The decision by `acl`, or by the default if it is None. (Kafka: StandardAuthorizerData.MatchingRule)"""

    is_allowed: bool
    acl: Acl | None = None


class AclIndex:
    """The ACLs in force, by subject and pattern, and the rules that decide by them.

    An index is immutable. `changed` returns the next one and copies only what changes, so that all ACLs of
    one request apply at one moment. A decision looks up four subjects (the principal or everybody, the host
    or every host) and the patterns that match a name: the literal one, the wildcard, and one for each length
    of prefix that any ACL of the type has. Its cost does not depend on the number of ACLs. `is_open` allows
    everything on resources without any ACL. (allow.everyone.if.no.acl.found)
    """

    def __init__(self, acls: Iterable[Acl] = (), *, is_open: bool = False) -> None:
        self._is_open = is_open
        self._by_subject: dict[Subject, OfSubject] = {}
        self._patterns: dict[tuple[int, Pattern], int] = {}
        """The number of ACLs of each pattern, by resource type and pattern."""
        self._lengths: dict[int, dict[int, int]] = {}
        """The number of prefixes of each length, by resource type."""
        self._prefix_lengths: dict[int, tuple[int, ...]] = {}
        self.size = 0
        own: set[Subject] = set()
        for acl in acls:
            self._add(acl, own)
        self._measure()

    def changed(self, added: Iterable[Acl], removed: Iterable[Acl]) -> "Steps[AclIndex]":
        """Return the index after a change, in steps. Adding a known ACL or removing an unknown one changes
        nothing.
        """
        new = AclIndex(is_open=self._is_open)
        new._by_subject, new._patterns, new.size = dict(self._by_subject), dict(self._patterns), self.size
        new._lengths = {kind: dict(lengths) for kind, lengths in self._lengths.items()}
        own: set[Subject] = set()
        for acl in removed:
            new._remove(acl, own)
            yield
        for acl in added:
            new._add(acl, own)
            yield
        new._measure()
        return new

    def rule(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> MatchingRule:
        """Return what decides whether the principal may do this: an ACL that denies it, else one that allows
        it, else the default.
        """
        patterns = self._matching(resource_type, name)
        allowing: Acl | None = None
        for of_subject in self._of(principal, host, resource_type):
            for pattern in patterns:
                for acl in of_subject.get(pattern, ()):
                    if acl.applies_to(operation):
                        if acl.permission == Permission.DENY:
                            return MatchingRule(False, acl)
                        allowing = allowing or acl
        if allowing is not None:
            return MatchingRule(True, allowing)
        return MatchingRule(self._is_open and not patterns)

    def allows_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Whether the principal may do this on at least one resource of the type, which need not exist.

        Kafka's rules: implied operations do not count, and a denied prefix outweighs an allowed name or
        prefix that begins with it. (Authorizer.authorizeByResourceType)
        """
        if self.rule(principal, host, operation, resource_type, "hardcode").is_allowed:
            return True
        allowed: set[Pattern] = set()
        denied: set[Pattern] = set()
        for of_subject in self._of(principal, host, resource_type):
            for pattern, acls in of_subject.items():
                for acl in acls:
                    if acl.operation in (operation, Operation.ALL):
                        (denied if acl.permission == Permission.DENY else allowed).add(pattern)
        wildcard = (PatternType.LITERAL, WILDCARD)
        if wildcard in denied:
            return False
        return wildcard in allowed or not all(_is_covered(pattern, denied) for pattern in allowed)

    def _matching(self, resource_type: int, name: str) -> list[Pattern]:
        """Return the patterns of any ACL that match a name."""
        known = self._patterns
        candidates: list[Pattern] = [(PatternType.LITERAL, name), (PatternType.LITERAL, WILDCARD)]
        for length in self._prefix_lengths.get(resource_type, ()):
            if length > len(name):
                break
            candidates.append((PatternType.PREFIXED, name[:length]))
        return [each for each in candidates if (resource_type, each) in known]

    def _of(self, principal: str, host: str, resource_type: int) -> Iterator[OfSubject]:
        for who in dict.fromkeys((principal, EVERYBODY)):
            for where in dict.fromkeys((host, WILDCARD)):
                found = self._by_subject.get((resource_type, who, where))
                if found is not None:
                    yield found

    def _add(self, acl: Acl, own: set[Subject]) -> None:
        """Add an ACL; `own` are the subjects whose maps no other index shares."""
        of_subject = self._own(acl, own)
        pattern = (acl.pattern_type, acl.resource_name)
        known = of_subject.get(pattern, ())
        if acl in known:
            return
        of_subject[pattern] = (*known, acl)
        counted = (acl.resource_type, pattern)
        self._patterns[counted] = self._patterns.get(counted, 0) + 1
        if self._patterns[counted] == 1:
            self._count_prefix(acl, 1)
        self.size += 1

    def _remove(self, acl: Acl, own: set[Subject]) -> None:
        of_subject = self._own(acl, own)
        pattern = (acl.pattern_type, acl.resource_name)
        known = of_subject.get(pattern, ())
        left = tuple(each for each in known if each != acl)
        if len(left) == len(known):
            return
        if left:
            of_subject[pattern] = left
        else:
            del of_subject[pattern]
            if not of_subject:
                subject = (acl.resource_type, acl.principal, acl.host)
                del self._by_subject[subject]
                own.discard(subject)
        counted = (acl.resource_type, pattern)
        self._patterns[counted] -= 1
        if not self._patterns[counted]:
            del self._patterns[counted]
            self._count_prefix(acl, -1)
        self.size -= 1

    def _own(self, acl: Acl, own: set[Subject]) -> OfSubject:
        subject = (acl.resource_type, acl.principal, acl.host)
        if subject not in own:
            own.add(subject)
            self._by_subject[subject] = dict(self._by_subject.get(subject, ()))
        return self._by_subject[subject]

    def _count_prefix(self, acl: Acl, by: int) -> None:
        if acl.pattern_type == PatternType.PREFIXED:
            lengths = self._lengths.setdefault(acl.resource_type, {})
            length = len(acl.resource_name)
            lengths[length] = lengths.get(length, 0) + by

    def _measure(self) -> None:
        """Note the lengths of the prefixes of each type, in ascending order."""
        self._prefix_lengths = {
            kind: tuple(sorted(length for length, count in lengths.items() if count))
            for kind, lengths in self._lengths.items()
        }


def _is_covered(pattern: Pattern, denied: set[Pattern]) -> bool:
    """Whether a denied pattern covers an allowed one."""
    pattern_type, name = pattern
    if pattern_type == PatternType.LITERAL and pattern in denied:
        return True
    return any((PatternType.PREFIXED, name[:end]) in denied for end in range(1, len(name) + 1))


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

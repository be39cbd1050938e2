"""Filters of ACLs, for DescribeAcls and DeleteAcls. (Kafka: AclBindingFilter)"""

from typing import NamedTuple

from broker.security.acl.acl import WILDCARD, Acl, Operation, PatternType, Permission, ResourceType


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

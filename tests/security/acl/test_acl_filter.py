"""Which ACLs a filter matches."""

import pytest

from broker.security.acl.acl import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    filter_of,
)
from tests.security.acl.acls import allow, deny

PREFIXED = PatternType.PREFIXED
ACLS = {
    "literal": allow(Operation.READ),
    "other": allow(Operation.READ, "payments"),
    "prefix": allow(Operation.WRITE, "ord", pattern=PREFIXED),
    "whole prefix": allow(Operation.WRITE, "orders", pattern=PREFIXED),
    "wildcard": deny(Operation.ALL, "*", principal="User:*", host="10.0.0.1"),
    "group": allow(Operation.READ, kind=ResourceType.GROUP),
}


def matched(wanted: AclFilter) -> list[str]:
    return [name for name, acl in ACLS.items() if wanted.matches(acl)]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (AclFilter(), list(ACLS)),
        (AclFilter(ResourceType.GROUP), ["group"]),
        (AclFilter(resource_name="orders"), ["literal", "whole prefix", "group"]),
        (AclFilter(resource_name="*"), ["wildcard"]),
        (AclFilter(pattern_type=PREFIXED), ["prefix", "whole prefix"]),
        (AclFilter(resource_name="orders", pattern_type=PatternType.LITERAL), ["literal", "group"]),
        (AclFilter(resource_name="orders", pattern_type=PREFIXED), ["whole prefix"]),
        (
            AclFilter(ResourceType.TOPIC, "orders", PatternType.MATCH),
            ["literal", "prefix", "whole prefix", "wildcard"],
        ),
        (AclFilter(ResourceType.TOPIC, "or", PatternType.MATCH), ["wildcard"]),
        (AclFilter(ResourceType.TOPIC, "*", PatternType.MATCH), ["wildcard"]),
        (AclFilter(pattern_type=PatternType.MATCH), list(ACLS)),
        (AclFilter(principal="User:*"), ["wildcard"]),
        (AclFilter(host="10.0.0.1"), ["wildcard"]),
        (AclFilter(host="*", operation=Operation.WRITE), ["prefix", "whole prefix"]),
        (AclFilter(operation=Operation.ALL), ["wildcard"]),
        (AclFilter(permission=Permission.DENY), ["wildcard"]),
        (AclFilter(principal="User:bob"), []),
    ],
)
def test_a_filter_matches(wanted: AclFilter, names: list[str]) -> None:
    assert matched(wanted) == names


@pytest.mark.parametrize("name", ACLS)
def test_the_filter_of_an_acl_matches_it_alone_and_knows_it(name: str) -> None:
    wanted = filter_of(ACLS[name])
    assert matched(wanted) == [name]
    assert wanted.exact() == ACLS[name]


@pytest.mark.parametrize(
    "changed",
    [
        {"resource_type": ResourceType.ANY},
        {"resource_name": None},
        {"pattern_type": PatternType.ANY},
        {"pattern_type": PatternType.MATCH},
        {"principal": None},
        {"host": None},
        {"operation": Operation.ANY},
        {"permission": Permission.ANY},
    ],
    ids=str,
)
def test_a_filter_with_a_gap_is_not_exact(changed: dict[str, int | None]) -> None:
    assert filter_of(allow(Operation.READ))._replace(**changed).exact() is None


@pytest.mark.parametrize(
    ("wanted", "fault"),
    [
        (AclFilter(), None),
        (AclFilter(ResourceType.USER, None, PREFIXED, None, None, Operation.TWO_PHASE_COMMIT, 3), None),
        (AclFilter(0), "Unknown patternFilter."),
        (AclFilter(8), "Unknown patternFilter."),
        (AclFilter(-1), "Unknown patternFilter."),
        (AclFilter(pattern_type=0), "Unknown patternFilter."),
        (AclFilter(pattern_type=5), "Unknown patternFilter."),
        (AclFilter(operation=0), "Unknown entryFilter."),
        (AclFilter(operation=16), "Unknown entryFilter."),
        (AclFilter(permission=0), "Unknown entryFilter."),
        (AclFilter(permission=4), "Unknown entryFilter."),
    ],
)
def test_unknown_numbers_are_faults(wanted: AclFilter, fault: str | None) -> None:
    assert wanted.fault() == fault


def test_an_acl_in_a_row_of_the_audit_trail_is_read_again() -> None:
    from broker.security.acl.acl import entity_of, key_of, read_acl

    odd = Acl(7, 'n"[,]', 3, "User:CN=a, O=b", "*", 15, 2)
    for acl in (*ACLS.values(), odd):
        assert read_acl(entity_of(acl), key_of(acl)) == acl

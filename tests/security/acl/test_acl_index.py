"""Which ACL decides, and that the index agrees with the plain rules whatever the ACLs."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.common.slices import run_through
from broker.security.acl.acl import Acl, Operation, PatternType, Permission, ResourceType
from broker.security.acl.authorizer import AclIndex
from tests.security.acl.acls import allow, deny
from tests.security.acl.oracle import is_allowed, is_allowed_anywhere

TOPIC, PREFIXED = ResourceType.TOPIC, PatternType.PREFIXED
OPERATIONS = [each for each in Operation if each > Operation.ALL]


def may(index: AclIndex, operation: Operation, name: str = "orders", **more: Any) -> bool:
    principal, host = more.get("principal", "User:alice"), more.get("host", "10.0.0.1")
    return index.rule(principal, host, operation, more.get("kind", TOPIC), name).is_allowed


def test_nothing_is_allowed_without_an_acl() -> None:
    rule = AclIndex().rule("User:alice", "10.0.0.1", Operation.READ, TOPIC, "orders")
    assert rule == (False, None)


def test_a_literal_acl_is_about_one_name_of_one_type_for_one_user() -> None:
    index = AclIndex([allow(Operation.READ)])
    assert may(index, Operation.READ)
    assert not may(index, Operation.READ, "orders2")
    assert not may(index, Operation.READ, "order")
    assert not may(index, Operation.READ, kind=ResourceType.GROUP)
    assert not may(index, Operation.READ, principal="User:bob")
    assert not may(index, Operation.READ, principal="Group:alice")
    assert not may(index, Operation.WRITE)


def test_a_prefix_is_about_every_name_that_begins_with_it() -> None:
    index = AclIndex([allow(Operation.READ, "ord", pattern=PREFIXED)])
    assert [may(index, Operation.READ, name) for name in ("or", "ord", "orders", "xord")] == [
        False,
        True,
        True,
        False,
    ]


def test_an_asterisk_is_a_wildcard_in_a_literal_pattern_only() -> None:
    assert may(AclIndex([allow(Operation.READ, "*")]), Operation.READ, "any.topic")
    assert not may(AclIndex([allow(Operation.READ, "*", pattern=PREFIXED)]), Operation.READ, "any.topic")
    assert may(AclIndex([allow(Operation.READ, "*", pattern=PREFIXED)]), Operation.READ, "*topic")


def test_everybody_and_every_host_are_written_with_an_asterisk() -> None:
    index = AclIndex([allow(Operation.READ, principal="User:*", host="10.0.0.1")])
    assert may(index, Operation.READ, principal="User:bob")
    assert may(index, Operation.READ, principal="User:ANONYMOUS")
    assert not may(index, Operation.READ, host="10.0.0.2")


@pytest.mark.parametrize(
    "pattern", [("orders", PatternType.LITERAL), ("o", PREFIXED), ("*", PatternType.LITERAL)]
)
@pytest.mark.parametrize("principal", ["User:alice", "User:*"])
@pytest.mark.parametrize("host", ["10.0.0.1", "*"])
def test_a_denial_outweighs_every_allowance(
    pattern: tuple[str, PatternType], principal: str, host: str
) -> None:
    denial = deny(Operation.READ, pattern[0], pattern=pattern[1], principal=principal, host=host)
    allowances = [
        allow(Operation.ALL),
        allow(Operation.ALL, "ord", pattern=PREFIXED),
        allow(Operation.ALL, "*"),
    ]
    index = AclIndex([*allowances, denial])
    rule = index.rule("User:alice", "10.0.0.1", Operation.READ, TOPIC, "orders")
    assert rule == (False, denial)
    assert may(index, Operation.WRITE)


@pytest.mark.parametrize("granted", OPERATIONS)
def test_which_operations_imply_others(granted: Operation) -> None:
    index = AclIndex([allow(granted)])
    expected = {granted}
    if granted in (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER):
        expected.add(Operation.DESCRIBE)
    if granted is Operation.ALTER_CONFIGS:
        expected.add(Operation.DESCRIBE_CONFIGS)
    assert {each for each in OPERATIONS if may(index, each)} == expected


@pytest.mark.parametrize("denied", OPERATIONS)
def test_a_denial_implies_no_other_operation(denied: Operation) -> None:
    index = AclIndex([allow(Operation.ALL), deny(denied)])
    assert {each for each in OPERATIONS if not may(index, each)} == {denied}


def test_all_is_every_operation() -> None:
    assert all(may(AclIndex([allow(Operation.ALL)]), each) for each in OPERATIONS)
    assert not any(may(AclIndex([allow(Operation.ALL), deny(Operation.ALL)]), each) for each in OPERATIONS)


def test_an_open_index_allows_what_no_acl_is_about() -> None:
    index = AclIndex([allow(Operation.READ, principal="User:bob")], is_open=True)
    assert may(index, Operation.READ, "payments")
    assert not may(index, Operation.READ), "another user's ACL is about this topic"
    for wide in (
        allow(Operation.READ, "*", principal="User:bob"),
        allow(Operation.READ, "pay", pattern=PREFIXED),
    ):
        assert not may(AclIndex([wide], is_open=True), Operation.WRITE, "payments")


def test_adding_twice_and_removing_what_is_not_there_change_nothing() -> None:
    index = AclIndex([allow(Operation.READ), allow(Operation.READ)])
    assert index.size == 1
    index = run_through(index.changed([allow(Operation.READ)], [allow(Operation.WRITE)]))
    assert index.size == 1 and may(index, Operation.READ)
    index = run_through(index.changed([], [allow(Operation.READ)]))
    assert index.size == 0 and not may(index, Operation.READ)


def test_a_change_leaves_the_old_index_as_it_was() -> None:
    old = AclIndex([allow(Operation.READ), allow(Operation.WRITE)])
    new = run_through(old.changed([allow(Operation.ALTER)], [allow(Operation.READ)]))
    assert [may(old, each) for each in (Operation.READ, Operation.ALTER)] == [True, False]
    assert [may(new, each) for each in (Operation.READ, Operation.WRITE, Operation.ALTER)] == [
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(("added", "removed"), [(0, 0), (1, 0), (65, 0), (0, 65), (3, 2)])
def test_a_change_pauses_after_every_acl(added: int, removed: int) -> None:
    acls = [allow(Operation.READ, f"t{number}") for number in range(added + removed)]
    steps = AclIndex(acls[added:]).changed(acls[:added], acls[added:])
    assert sum(1 for _ in steps) == added + removed


NAMES = st.sampled_from(["*", "a", "aa", "ab", "abc", "b", "hardcode"])
ACLS = st.builds(
    Acl,
    st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]),
    NAMES,
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    st.sampled_from(["User:alice", "User:bob", "User:*"]),
    st.sampled_from(["*", "10.0.0.1", "10.0.0.2"]),
    st.sampled_from([Operation.ALL, *OPERATIONS[:6]]),
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)
QUESTIONS = st.tuples(
    st.sampled_from(["User:alice", "User:bob", "User:*"]),
    st.sampled_from(["10.0.0.1", "10.0.0.2"]),
    st.sampled_from(OPERATIONS[:6]),
    st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]),
)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(ACLS, max_size=14),
    st.lists(ACLS, max_size=6),
    st.lists(ACLS, max_size=6),
    QUESTIONS,
    NAMES,
    st.booleans(),
)
def test_the_index_agrees_with_the_plain_rules(
    first: list[Acl],
    added: list[Acl],
    removed: list[Acl],
    question: tuple[str, str, Operation, ResourceType],
    name: str,
    is_open: bool,
) -> None:
    index = run_through(AclIndex(first, is_open=is_open).changed(added, removed))
    acls = (set(first) - set(removed)) | set(added)
    assert index.size == len(acls)
    assert index.rule(*question, name).is_allowed is is_allowed(acls, *question, name, is_open=is_open)
    assert index.allows_any(*question) is is_allowed_anywhere(acls, *question, is_open=is_open)

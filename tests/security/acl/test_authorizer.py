"""The authorizer: super users, kept decisions, authorized operations, and the lines of denied requests."""

import logging

import pytest

from broker.common.slices import run_through
from broker.security.acl import authorizer as module
from broker.security.acl.acl import CLUSTER_NAME, SUPPORTED, Acl, Operation, PatternType, ResourceType
from broker.security.acl.authorizer import EVERY_OPERATION, LONGEST_KEPT, Authorizer
from tests.security.acl.acls import allow, deny

ALICE, HOST, TOPIC = "User:alice", "10.0.0.1", ResourceType.TOPIC


def authorizer(*acls: Acl, is_open: bool = False) -> Authorizer:
    return Authorizer(acls, ["User:root"], is_open=is_open)


def test_a_super_user_may_do_what_is_denied() -> None:
    one = authorizer(deny(Operation.ALL, "*", principal="User:*"), deny(Operation.ALL, principal="User:root"))
    assert one.allows("User:root", HOST, Operation.WRITE, TOPIC, "orders")
    assert one.allows_any("User:root", HOST, Operation.WRITE, TOPIC)
    assert not one.allows(ALICE, HOST, Operation.WRITE, TOPIC, "orders")


def test_a_decision_is_kept_until_the_acls_change() -> None:
    one = authorizer(allow(Operation.READ))
    for _ in range(2):
        assert one.allows(ALICE, HOST, Operation.READ, TOPIC, "orders")
        assert one.allows_any(ALICE, HOST, Operation.READ, TOPIC)
    assert len(one._decisions) == 2
    run_through(one.update([], [allow(Operation.READ)]))
    assert not one.allows(ALICE, HOST, Operation.READ, TOPIC, "orders")
    assert not one.allows_any(ALICE, HOST, Operation.READ, TOPIC)
    run_through(one.update([allow(Operation.READ)], []))
    assert one.allows(ALICE, HOST, Operation.READ, TOPIC, "orders")


def test_a_change_takes_effect_as_a_whole_in_its_last_step() -> None:
    one = authorizer(allow(Operation.READ, "t0"))
    steps = one.update(
        [allow(Operation.READ, f"t{number}") for number in range(1, 200)], [allow(Operation.READ, "t0")]
    )
    for _ in steps:
        assert one.allows(ALICE, HOST, Operation.READ, TOPIC, "t0")
        assert not one.allows(ALICE, HOST, Operation.READ, TOPIC, "t1")
    assert not one.allows(ALICE, HOST, Operation.READ, TOPIC, "t0")
    assert one.allows(ALICE, HOST, Operation.READ, TOPIC, "t199")


def test_the_kept_decisions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DECISIONS", 3)
    one = authorizer(allow(Operation.READ, "*"))
    sizes = []
    for number in range(5):
        assert one.allows(ALICE, HOST, Operation.READ, TOPIC, f"t{number}")
        sizes.append(len(one._decisions))
    assert sizes == [1, 2, 3, 1, 2]


@pytest.mark.parametrize(
    ("length", "kept"), [(LONGEST_KEPT - 1, 1), (LONGEST_KEPT, 1), (LONGEST_KEPT + 1, 0)]
)
def test_decisions_of_long_names_are_not_kept(length: int, kept: int) -> None:
    one = authorizer(allow(Operation.READ, "*"))
    assert one.allows(ALICE, HOST, Operation.READ, TOPIC, "x" * length)
    assert len(one._decisions) == kept


def test_the_authorized_operations_are_those_allowed_that_the_type_has() -> None:
    one = authorizer(allow(Operation.READ), allow(Operation.CLUSTER_ACTION))
    assert one.operations(ALICE, HOST, TOPIC, "orders") == (1 << Operation.READ) | (1 << Operation.DESCRIBE)
    assert one.operations("User:root", HOST, TOPIC, "orders") == EVERY_OPERATION[TOPIC]
    assert one.operations(ALICE, HOST, ResourceType.CLUSTER, CLUSTER_NAME) == 0


@pytest.mark.parametrize(
    ("kind", "field"),
    [(ResourceType.TOPIC, 3576), (ResourceType.GROUP, 3400), (ResourceType.CLUSTER, 8096)],
)
def test_the_fields_without_an_authorizer_are_kafkas(kind: ResourceType, field: int) -> None:
    """3576 and 8096 are what Kafka's own tests expect; a group has its configs since 4.0."""
    assert EVERY_OPERATION[kind] == field
    assert set(SUPPORTED) == set(ResourceType) - {ResourceType.UNKNOWN, ResourceType.ANY}


def test_a_line_says_who_was_denied_what_and_by_which_acl(caplog: pytest.LogCaptureFixture) -> None:
    one = authorizer(deny(Operation.WRITE, "ord", pattern=PatternType.PREFIXED))
    with caplog.at_level(logging.INFO, "kafka.authorizer.logger"):
        one.note_denied(ALICE, HOST, Operation.WRITE, TOPIC, "orders", "Produce", 0)
        one.note_denied(ALICE, HOST, Operation.READ, TOPIC, "x" * 300, "Fetch", 0)
    first, second = (vars(record) for record in caplog.records)
    assert {
        key: first[key] for key in ("principal", "operation", "resource_type", "resource", "host", "request")
    } == {
        "principal": ALICE,
        "operation": "WRITE",
        "resource_type": "TOPIC",
        "resource": "orders",
        "host": HOST,
        "request": "Produce",
    }
    assert first["rule"] == "DENY User:alice WRITE on TOPIC PREFIXED ord from *"
    assert second["rule"] == "no ACL allows it" and len(second["resource"]) == 256
    assert one.denials == {(Operation.WRITE, TOPIC): 1, (Operation.READ, TOPIC): 1}


def test_lines_that_are_left_out_are_counted_and_said_later(caplog: pytest.LogCaptureFixture) -> None:
    one = authorizer()
    with caplog.at_level(logging.INFO, "kafka.authorizer.logger"):
        for now_ms in (*range(15), 60_000):
            one.note_denied(ALICE, HOST, Operation.WRITE, TOPIC, "orders", "Produce", now_ms)
    assert len(caplog.records) == 11
    assert vars(caplog.records[-1])["left_out"] == 5
    assert one.denials == {(Operation.WRITE, TOPIC): 16}

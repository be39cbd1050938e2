"""CreateAcls and DeleteAcls: Kafka's codes and messages, and what is stored."""

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.controller import acls as module
from broker.controller.acls import LONGEST_TEXT, plan_create_acls, plan_delete_acls
from broker.controller.commands import AclDeletion, CreateAcls, DeleteAcls, EntryOutcome
from broker.controller.undo import inverse_of
from broker.metadata.actor import Role
from broker.metadata.changes import ACL_IS_SET, AclChange, AuditRow, ChangeKind, Delta
from broker.security.acl.acl import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    filter_of,
)
from tests.controller.world import AUTHORIZER, World
from tests.security.acl.acls import allow, deny

READ = allow(Operation.READ)


@pytest.fixture
def world() -> World:
    return World(AUTHORIZER)


def create(world: World, *acls: Acl, role: Role = Role.ADMIN) -> list[EntryOutcome]:
    return world.do(plan_create_acls, CreateAcls(acls), role)


def delete(world: World, *filters: AclFilter, role: Role = Role.ADMIN) -> list[AclDeletion]:
    return world.do(plan_delete_acls, DeleteAcls(filters), role)


def test_acls_are_created_once_and_deleted(world: World) -> None:
    assert create(world, READ, deny(Operation.ALL), READ) == [EntryOutcome(), EntryOutcome(), EntryOutcome()]
    assert set(world.image.acls) == {READ, deny(Operation.ALL)}
    assert world.image.acls[READ].changed_by == "ann"
    assert world.plan(plan_create_acls, CreateAcls((READ,))).changes == ()
    assert delete(world, filter_of(READ)) == [AclDeletion(deleted=(READ,))]
    assert delete(world, filter_of(READ)) == [AclDeletion()]
    assert set(world.image.acls) == {deny(Operation.ALL)}
    create(world, READ)
    assert READ in world.image.acls


def test_an_acl_that_two_filters_match_is_in_both_results_and_deleted_once(world: World) -> None:
    write = allow(Operation.WRITE)
    create(world, READ, write)
    command = DeleteAcls((AclFilter(operation=Operation.READ), AclFilter(principal="User:alice")))
    plan = world.plan(plan_delete_acls, command)
    assert [each.deleted for each in plan.result] == [(READ,), (READ, write)]
    assert [(each.kind, each.key, each.new) for each in plan.changes] == [(ChangeKind.ACL, "ALLOW", None)] * 2


def test_validate_only_changes_nothing(world: World) -> None:
    create(world, READ)
    assert world.plan(plan_create_acls, CreateAcls((deny(Operation.ALL),), True)).changes == ()
    plan = world.plan(plan_delete_acls, DeleteAcls((AclFilter(),), True))
    assert plan.changes == () and plan.result == [AclDeletion(deleted=(READ,))]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"resource_type": 0}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_type": 2}, None),
        ({"resource_type": 7}, None),
        ({"resource_type": 8}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": -1}, "Invalid resourceType UNKNOWN"),
        ({"pattern_type": 0}, "Invalid patternType UNKNOWN"),
        ({"pattern_type": 1}, "Invalid patternType ANY"),
        ({"pattern_type": 2}, "Invalid patternType MATCH"),
        ({"pattern_type": 3}, None),
        ({"pattern_type": 4}, None),
        ({"pattern_type": 5}, "Invalid patternType UNKNOWN"),
        ({"operation": 0}, "Invalid operation UNKNOWN"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"operation": 2}, None),
        ({"operation": 15}, None),
        ({"operation": 16}, "Invalid operation UNKNOWN"),
        ({"permission": 1}, "Invalid permissionType ANY"),
        ({"permission": 2}, None),
        ({"permission": 3}, None),
        ({"permission": 4}, "Invalid permissionType UNKNOWN"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_name": "*"}, None),
        ({"resource_name": "x" * LONGEST_TEXT}, None),
        (
            {"resource_name": "x" * (LONGEST_TEXT + 1)},
            "A resource name, a principal and a host have at most 1024 characters",
        ),
        ({"resource_type": 4, "resource_name": "kafka-cluster"}, None),
        (
            {"resource_type": 4, "resource_name": "orders"},
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        (
            {"resource_type": 4, "resource_name": "*"},
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        (
            {"principal": "alice"},
            "Could not parse principal from `alice` (no colon is present separating the principal type from "
            "the principal name)",
        ),
        (
            {"principal": "User:"},
            "expected a string in format principalType:principalName but got User:",
        ),
        (
            {"principal": ":alice"},
            "expected a string in format principalType:principalName but got :alice",
        ),
        ({"principal": "User:CN=alice, O=b:c"}, None),
        ({"host": ""}, "Invalid empty host"),
        ({"host": "not.an.address"}, None),
    ],
    ids=str,
)
def test_an_acl_is_checked_as_kafka_checks_it(
    world: World, changed: dict[str, int | str], message: str | None
) -> None:
    acl = READ._replace(**changed)  # type: ignore[arg-type]
    error = ErrorCode.NONE if message is None else ErrorCode.INVALID_REQUEST
    assert create(world, acl, deny(Operation.ALL)) == [EntryOutcome(error, message), EntryOutcome()]
    assert (acl in world.image.acls) is (message is None)


def test_an_unknown_filter_deletes_nothing_and_the_others_work(world: World) -> None:
    create(world, READ)
    unknown, known = delete(world, AclFilter(operation=0), AclFilter())
    assert unknown == AclDeletion(ErrorCode.INVALID_REQUEST, "Unknown entryFilter.")
    assert known.deleted == (READ,)


@pytest.mark.parametrize(("most", "error"), [(2, "POLICY_VIOLATION"), (3, "NONE"), (4, "NONE")])
def test_one_request_deletes_so_many(
    world: World, most: int, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_DELETED", most)
    create(world, *(allow(Operation.READ, f"t{number}") for number in range(3)))
    (outcome,) = delete(world, AclFilter())
    assert outcome.error.name == error
    assert len(world.image.acls) == (3 if error == "POLICY_VIOLATION" else 0)


@pytest.mark.parametrize("role", [Role.VIEWER, Role.EDITOR])
def test_acls_are_the_administrators(world: World, role: Role) -> None:
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert [each.error for each in create(world, READ, role=role)] == [refused]
    assert [each.error for each in delete(world, AclFilter(), role=role)] == [refused]


def test_without_an_authorizer_there_are_no_acls() -> None:
    world = World()
    disabled = EntryOutcome(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    assert create(world, READ, READ) == [disabled, disabled]
    assert delete(world, AclFilter()) == [AclDeletion(disabled.error, disabled.message)]


@pytest.mark.parametrize("count", [1, 2, 1_025])
def test_acls_are_planned_one_at_a_time(world: World, count: int) -> None:
    acls = tuple(allow(Operation.READ, f"t{number}") for number in range(count))
    steps = plan_create_acls(CreateAcls(acls), world.at())
    assert sum(1 for _ in steps) == count


def row(acl: Acl, old: str | None, new: str | None) -> AuditRow:
    entity, key = module.acl_entity(acl), module.acl_key(acl)
    return AuditRow(1, 1, 0, "ann", "admin", "", "rest", ChangeKind.ACL, entity, key, old, new)


def test_a_change_of_an_acl_can_be_undone(world: World) -> None:
    create(world, READ)
    assert inverse_of(row(READ, None, ACL_IS_SET), (), world.image, 0) == DeleteAcls((filter_of(READ),))
    gone = deny(Operation.ALL)
    assert inverse_of(row(gone, ACL_IS_SET, None), (), world.image, 0) == CreateAcls((gone,))
    for acl, old, new in ((gone, None, ACL_IS_SET), (READ, ACL_IS_SET, None)):
        with pytest.raises(ApiError, match="changed since"):
            inverse_of(row(acl, old, new), (), world.image, 0)


def test_a_commit_says_which_acls_it_creates_and_deletes(world: World) -> None:
    created = world.plan(plan_create_acls, CreateAcls((READ,)))
    assert Delta.of(created.changes).acls == (AclChange(READ, True),)
    world.write(created.changes)
    deleted = world.plan(plan_delete_acls, DeleteAcls((AclFilter(),)))
    assert Delta.of(deleted.changes).acls == (AclChange(READ, False),)


def test_every_number_that_an_acl_may_have_is_kafkas() -> None:
    assert [each.value for each in ResourceType] == list(range(8))
    assert [each.value for each in PatternType] == list(range(5))
    assert [each.value for each in Operation] == list(range(16))
    assert [each.value for each in Permission] == list(range(4))

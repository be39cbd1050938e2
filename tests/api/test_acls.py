"""CreateAcls, DescribeAcls and DeleteAcls as clients see them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.common.errors import ErrorCode
from broker.protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from broker.security.acl.acl import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    ResourceType,
    filter_of,
)
from tests.api.harness import Connection, Harness
from tests.controller.world import AUTHORIZER
from tests.security.acl.acls import allow, deny

READ = allow(Operation.READ)
PREFIX = deny(Operation.ALL, "ord", pattern=PatternType.PREFIXED)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Harness]:
    harness = Harness(tmp_path, AUTHORIZER, "super.users=User:root")
    yield harness
    harness.close()


def user(name: str = "root") -> Connection:
    connection = Connection()
    connection.principal = name
    return connection


def creation(*acls: Acl) -> CreateAclsRequest:
    return CreateAclsRequest([AclCreation(*acl) for acl in acls])


def deletion(*filters: AclFilter) -> DeleteAclsRequest:
    return DeleteAclsRequest([DeleteAclsFilter(*each) for each in filters])


async def described(harness: Harness, wanted: AclFilter, version: int | None = None) -> set[Acl]:
    reply = await harness.ask(DescribeAclsRequest(*wanted), version, connection=user())
    assert reply.error_code == 0
    return {
        Acl(
            each.resource_type,
            each.resource_name,
            each.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for each in reply.resources
        for acl in each.acls
    }


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_what_is_created_is_described_and_deleted(guarded: Harness, version: int) -> None:
    reply = await guarded.ask(creation(READ, PREFIX, READ), version, connection=user())
    assert [(each.error_code, each.error_message) for each in reply.results] == [(0, None)] * 3
    assert await described(guarded, AclFilter(), version) == {READ, PREFIX}
    match = AclFilter(ResourceType.TOPIC, "orders", PatternType.MATCH)
    assert await described(guarded, match, version) == {READ, PREFIX}
    assert await described(guarded, AclFilter(operation=Operation.ALL), version) == {PREFIX}
    done = await guarded.ask(
        deletion(filter_of(PREFIX), AclFilter(host="nowhere")), version, connection=user()
    )
    first, second = done.filter_results
    (gone,) = first.matching_acls
    assert (gone.resource_name, gone.pattern_type, gone.operation, gone.permission_type) == ("ord", 4, 2, 2)
    assert (second.error_code, second.matching_acls) == (0, [])
    assert await described(guarded, AclFilter(), version) == {READ}


async def test_the_acls_of_one_pattern_share_an_entry(guarded: Harness) -> None:
    acls = (READ, allow(Operation.WRITE), allow(Operation.READ, principal="User:bob"), PREFIX)
    await guarded.ask(creation(*acls), connection=user())
    reply = await guarded.ask(DescribeAclsRequest(*AclFilter()), connection=user())
    assert [(each.resource_name, len(each.acls)) for each in reply.resources] == [("orders", 3), ("ord", 1)]


async def test_an_invalid_acl_fails_alone(guarded: Harness) -> None:
    bad = READ._replace(operation=Operation.ANY)
    reply = await guarded.ask(creation(bad, READ), connection=user())
    assert [each.error_code for each in reply.results] == [ErrorCode.INVALID_REQUEST, 0]
    assert reply.results[0].error_message == "Invalid operation ANY"


async def test_an_unknown_filter_is_invalid(guarded: Harness) -> None:
    reply = await guarded.ask(DescribeAclsRequest(*AclFilter(resource_type=0)), connection=user())
    assert (reply.error_code, reply.error_message) == (ErrorCode.INVALID_REQUEST, "Unknown patternFilter.")
    done = await guarded.ask(deletion(AclFilter(permission=0)), connection=user())
    assert done.filter_results[0].error_code == ErrorCode.INVALID_REQUEST


async def test_acls_are_kept_over_a_restart(tmp_path: Path) -> None:
    harness = Harness(tmp_path, AUTHORIZER, "super.users=User:root")
    await harness.ask(creation(READ, PREFIX), connection=user())
    await harness.ask(deletion(filter_of(READ)), connection=user())
    harness.close()
    again = Harness(tmp_path, AUTHORIZER, "super.users=User:root")
    assert await described(again, AclFilter()) == {PREFIX}
    assert again.authorizer is not None and again.authorizer.acl_count == 1
    again.close()


async def test_the_audit_trail_has_who_created_an_acl(guarded: Harness) -> None:
    await guarded.ask(creation(READ), connection=user())
    from broker.metadata.changes import AuditFilter

    (row,) = guarded.metadata.history(AuditFilter(kind="acl"))
    assert (row.actor, row.role, row.origin, row.old, row.new) == ("User:root", "admin", "wire", None, "true")
    assert (row.entity, row.key) == ('["TOPIC","LITERAL","orders","User:alice","*","READ"]', "ALLOW")


async def test_without_an_authorizer_security_is_disabled(harness: Harness) -> None:
    disabled = ErrorCode.SECURITY_DISABLED
    created = await harness.ask(creation(READ, READ))
    assert [(each.error_code, each.error_message) for each in created.results] == [
        (disabled, "No Authorizer is configured.")
    ] * 2
    reply = await harness.ask(DescribeAclsRequest(*AclFilter()))
    assert (reply.error_code, reply.error_message) == (disabled, "No Authorizer is configured on the broker")
    done = await harness.ask(deletion(AclFilter()))
    assert done.filter_results[0].error_code == disabled


async def test_acls_need_acls(guarded: Harness) -> None:
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    cluster = {"kind": ResourceType.CLUSTER}
    for granted, may_describe, may_alter in (
        (None, False, False),
        (allow(Operation.DESCRIBE, CLUSTER_NAME, **cluster), True, False),
        (allow(Operation.ALTER, CLUSTER_NAME, **cluster), True, True),
    ):
        if granted is not None:
            await guarded.ask(creation(granted), connection=user())
        reply = await guarded.ask(DescribeAclsRequest(*AclFilter()), connection=user("alice"))
        assert reply.error_code == (0 if may_describe else refused)
        created = await guarded.ask(creation(READ), connection=user("alice"))
        assert [each.error_code for each in created.results] == [0 if may_alter else refused]
        done = await guarded.ask(deletion(filter_of(READ)), connection=user("alice"))
        assert [each.error_code for each in done.filter_results] == [0 if may_alter else refused]


async def test_too_many_acls_are_refused(guarded: Harness) -> None:
    many = [allow(Operation.READ, f"t{number}") for number in range(10_001)]
    reply = await guarded.ask(creation(*many), connection=user())
    assert {each.error_code for each in reply.results} == {ErrorCode.POLICY_VIOLATION}
    reply = await guarded.ask(creation(*many[:-1]), connection=user())
    assert {each.error_code for each in reply.results} == {0}
    assert guarded.authorizer is not None and guarded.authorizer.acl_count == 10_000

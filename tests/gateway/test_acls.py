"""ACLs are the upstream cluster's: the gateway forwards their APIs, and has no authorizer itself."""

from pathlib import Path

import pytest

from broker.common.errors import ConfigError
from broker.protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from broker.security.acl.acl import AclFilter, Operation
from tests.controller.world import AUTHORIZER
from tests.security.acl.acls import allow
from tests.support.running import running_broker
from tests.support.running_gateway import running_gateway

READ = allow(Operation.READ)


@pytest.mark.parametrize("version", [1, 3])
async def test_the_upstream_cluster_creates_describes_and_deletes_acls(tmp_path: Path, version: int) -> None:
    async with (
        running_broker(tmp_path / "broker", AUTHORIZER, "super.users=User:ANONYMOUS") as broker,
        running_gateway(tmp_path / "gateway", broker.port) as gateway,
    ):
        client = await gateway.connect()
        created = await client.ask(CreateAclsRequest([AclCreation(*READ)]), version)
        assert [each.error_code for each in created.results] == [0]
        assert set(broker.server.control.image.acls) == {READ}
        assert gateway.server.control.image.acls == {}
        described = await client.ask(DescribeAclsRequest(*AclFilter()), version)
        assert [each.resource_name for each in described.resources] == ["orders"]
        deleted = await client.ask(DeleteAclsRequest([DeleteAclsFilter(*AclFilter())]), version)
        assert len(deleted.filter_results[0].matching_acls) == 1
        assert broker.server.control.image.acls == {}


async def test_a_gateway_with_an_authorizer_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="empty for weir gateway"):
        async with running_gateway(tmp_path, 1, AUTHORIZER):
            pass

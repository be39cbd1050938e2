"""The upstream cluster's ACLs and SCRAM users at a gateway: read and changed."""

from pathlib import Path

import pytest

from broker.controller.commands import AlterUserScramCredentials, CreateAcls
from broker.controller.scram import upsertion_of
from broker.metadata.actor import BROKER_ITSELF
from broker.security.acl.acl import Acl, Operation, PatternType, Permission, ResourceType
from tests.gateway.contents.world import World, world

AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
OPEN = "allow.everyone.if.no.acl.found=true"
ACL = Acl(
    ResourceType.TOPIC,
    "orders",
    PatternType.LITERAL,
    "User:alice",
    "*",
    Operation.READ,
    Permission.ALLOW,
)
WANTED = {
    "resource_type": "GROUP",
    "name": "readers",
    "pattern_type": "PREFIXED",
    "principal": "User:bob",
    "operation": "READ",
    "permission": "DENY",
}


async def trail(found: World) -> list[tuple[str, str, str, str]]:
    rows = (await found.get("audit?kind=upstream"))["items"]
    return [(row["actor"], row["entity"], row["key"], row["new"]) for row in reversed(rows)]


async def test_acls_are_listed_created_and_deleted(tmp_path: Path) -> None:
    async with world(tmp_path, of_broker=(AUTHORIZER, OPEN, "super.users=User:ANONYMOUS")) as found:
        own = found.broker.server.control
        await own.apply(CreateAcls((ACL,)), BROKER_ITSELF)
        page = await found.get("acls")
        (row,) = page["items"]
        assert (row["principal"], row["name"], row["operation"]) == ("User:alice", "orders", "READ")
        assert (row["created_at"], row["created_by"]) == (None, "")
        assert page["upstream"]["read_at"] is not None
        assert (await found.get(f"acls/{row['id']}"))["id"] == row["id"]
        assert (await found.get("acls?resource_type=GROUP"))["items"] == []
        made = await found.ask("POST", "acls", 201, WANTED)
        assert (made["name"], made["permission"]) == ("readers", "DENY")
        assert {acl.resource_name for acl in own.image.acls} == {"orders", "readers"}
        await found.ask("POST", "acls", 409, WANTED)
        await found.ask("POST", "acls", 400, WANTED | {"principal": "bob"})
        preview = await found.ask("DELETE", f"acls/{made['id']}?validate_only=true", 200)
        assert preview["id"] == made["id"]
        await found.ask("DELETE", f"acls/{made['id']}", 204)
        assert {acl.resource_name for acl in own.image.acls} == {"orders"}
        await found.get(f"acls/{made['id']}", 404)
        text = "ACL DENY User:bob READ on GROUP PREFIXED readers from *"
        assert await trail(found) == [
            ("administrator", text, "created", "by an operator"),
            ("administrator", text, "deleted", "by an operator"),
        ]
        query = "principal=User:alice&operation=READ&resource_type=TOPIC&name=orders"
        assert "super.users" in (await found.get(f"acls:resolve?{query}", 404))["detail"]


async def test_a_change_that_the_asked_broker_does_not_know_yet_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, of_broker=(AUTHORIZER, OPEN, "super.users=User:ANONYMOUS")) as found:
        # What was read stays as it was before the change.
        monkeypatch.setattr(found.gateway.server.contents.readings, "outdate", lambda *_: None)
        made = await found.ask("POST", "acls", 201, WANTED)
        assert (made["name"], made["created_at"], made["created_by"]) == ("readers", None, "")
        body = {"password": "a long secret", "iterations": 8_192}
        made = await found.ask("PUT", "scram-users/SCRAM-SHA-256/bob", 201, body)
        assert (made["user"], made["iterations"], made["changed_at"]) == ("bob", 8_192, None)


async def test_a_cluster_without_an_authorizer_has_no_acls(tmp_path: Path) -> None:
    async with world(tmp_path) as found:
        problem = await found.get("acls", 409)
        assert problem["code"] == "SECURITY_DISABLED"
        assert not found.gateway.server.views.acls.has_authorizer


async def test_what_the_cluster_refuses_says_which_acl_it_wants(tmp_path: Path) -> None:
    deny = (AUTHORIZER, "super.users=User:admin")
    async with world(tmp_path, of_broker=deny) as found:
        problem = await found.get("acls", 403)
        assert problem["detail"] == (
            "The upstream cluster refuses DescribeAcls to the gateway's credential: it wants an ACL that "
            "allows DESCRIBE on CLUSTER kafka-cluster."
        )
        assert problem["code"] == "CLUSTER_AUTHORIZATION_FAILED"
        problem = await found.get("scram-users", 403)
        assert "DESCRIBE on CLUSTER kafka-cluster" in problem["detail"]
        problem = await found.ask("POST", "topics", 403, {"name": "orders"})
        assert "allows CREATE on TOPIC orders" in problem["detail"]
        problem = await found.ask("POST", "acls?validate_only=true", 403, WANTED)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_scram_users_of_the_cluster(tmp_path: Path, mechanism: str) -> None:
    async with world(tmp_path) as found:
        own = found.broker.server.control
        await own.apply(
            AlterUserScramCredentials((upsertion_of("alice", mechanism, "secret", 4096, None),)),
            BROKER_ITSELF,
        )
        page = await found.get("scram-users")
        assert [(row["user"], row["mechanism"], row["iterations"]) for row in page["items"]] == [
            ("alice", mechanism, 4096)
        ]
        assert page["items"][0]["changed_at"] is None
        made = await found.ask(
            "PUT", f"scram-users/{mechanism}/bob", 201, {"password": "a long secret", "iterations": 8192}
        )
        assert (made["user"], made["iterations"]) == ("bob", 8192)
        assert own.image.scram["bob"][mechanism].iterations == 8192
        assert found.gateway.server.control.image.scram == {}
        await found.ask("PUT", f"scram-users/{mechanism}/bob", 400, {"password": "x", "iterations": 4095})
        await found.ask("DELETE", f"scram-users/{mechanism}/bob", 204)
        assert "bob" not in own.image.scram
        await found.ask("DELETE", f"scram-users/{mechanism}/bob", 404)
        assert await trail(found) == [
            ("administrator", "SCRAM user bob", "set", f"{mechanism}, 8192 iterations"),
            ("administrator", "SCRAM user bob", "deleted", mechanism),
        ]


async def test_a_gateway_that_logs_clients_in_has_users_of_its_own(tmp_path: Path) -> None:
    listeners = (
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        "gateway.authentication=gateway",
        "sasl.enabled.mechanisms=SCRAM-SHA-256",
    )
    async with world(tmp_path, *listeners) as found:
        page = await found.get("scram-users")
        assert page["items"] == [] and "upstream" not in page
        await found.ask("PUT", "scram-users/SCRAM-SHA-256/bob", 201, {"password": "a long secret"})
        assert set(found.gateway.server.control.image.scram) == {"bob"}
        assert found.broker.server.control.image.scram == {}

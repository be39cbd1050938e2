"""The upstream cluster's ACLs and SCRAM users at a gateway: read and changed."""

from pathlib import Path
from typing import Any

import pytest

from broker.common.errors import ErrorCode
from broker.common.slices import run_through
from broker.controller.commands import AlterUserScramCredentials, CreateAcls, DeleteAcls
from broker.controller.scram import deletion_of, upsertion_of
from broker.metadata.actor import BROKER_ITSELF
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.acls import (
    AclDescription,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from broker.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from broker.security.acl.acl import Acl, Operation, PatternType, Permission, ResourceType
from broker.views.acls import filter_of
from tests.gateway.contents.world import CONSOLE, World, rest_of, world
from tests.support.fake_upstream import fake_cluster
from tests.support.running_gateway import running_gateway

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


def question(principal: str, name: str, operation: str = "READ") -> str:
    return f"acls:resolve?principal=User:{principal}&operation={operation}&resource_type=TOPIC&name={name}"


async def test_decisions_are_those_of_the_broker_itself(tmp_path: Path) -> None:
    async with world(tmp_path, of_broker=(AUTHORIZER, OPEN, "super.users=User:ANONYMOUS;User:root")) as found:
        own = found.broker.server
        deny = Acl(2, "ord", PatternType.PREFIXED, "User:bob", "*", Operation.ALL, Permission.DENY)
        await own.control.apply(CreateAcls((ACL, deny)), BROKER_ITSELF)
        decided = set()
        for principal in ("alice", "bob", "root", "carol"):
            for name in ("orders", "ordinary", "bills"):
                for operation in ("READ", "WRITE", "DESCRIBE"):
                    answer = await found.get(question(principal, name, operation))
                    wanted = run_through(
                        own.views.acls.decide(
                            f"User:{principal}", "*", Operation[operation], ResourceType.TOPIC, name
                        )
                    )
                    assert wanted is not None
                    assert (answer["allowed"], answer["decided_by"]) == (wanted.is_allowed, wanted.decided_by)
                    assert (answer["acl"] and answer["acl"]["name"]) == (
                        wanted.acl and wanted.acl.resource_name
                    )
                    assert answer["unknown"] == [] and answer["upstream"]["error"] == ""
                    decided.add(wanted.decided_by)
        assert decided == {"acl", "super-user", "no-acl-found", "no-acl-allows"}
        # A change at the gateway counts for the next question.
        await found.ask("POST", "acls", 201, WANTED | {"resource_type": "TOPIC", "name": "bil"})
        assert not (await found.get(question("bob", "bills")))["allowed"]


async def test_a_change_is_decided_by_what_the_cluster_says_now(tmp_path: Path) -> None:
    """And not by what the page has shown: others change the cluster too."""
    async with world(tmp_path, of_broker=(AUTHORIZER, OPEN, "super.users=User:ANONYMOUS")) as found:
        own = found.broker.server.control
        assert (await found.get("acls"))["items"] == (await found.get("scram-users"))["items"] == []
        await own.apply(CreateAcls((ACL,)), BROKER_ITSELF)
        same = WANTED | {"resource_type": "TOPIC", "name": "orders", "pattern_type": "LITERAL"}
        same |= {"principal": "User:alice", "permission": "ALLOW"}
        problem = await found.ask("POST", "acls", 409, same)
        await own.apply(DeleteAcls((filter_of(ACL),)), BROKER_ITSELF)
        await found.ask("DELETE", f"acls/{problem['id']}", 404)
        await own.apply(CreateAcls((ACL,)), BROKER_ITSELF)
        await found.ask("DELETE", f"acls/{problem['id']}", 204)
        assert list(own.image.acls) == []

        upsertion = upsertion_of("alice", "SCRAM-SHA-256", "secret", 4096, None)
        await own.apply(AlterUserScramCredentials((upsertion,)), BROKER_ITSELF)
        body = {"password": "a long secret", "iterations": 8192}
        await found.ask("PUT", "scram-users/SCRAM-SHA-256/alice", 200, body)
        await own.apply(
            AlterUserScramCredentials((deletion_of("alice", "SCRAM-SHA-256", None),)), BROKER_ITSELF
        )
        await found.ask("DELETE", "scram-users/SCRAM-SHA-256/alice", 404)
        await own.apply(AlterUserScramCredentials((upsertion,)), BROKER_ITSELF)
        await found.ask("DELETE", "scram-users/SCRAM-SHA-256/alice", 204)


@pytest.mark.parametrize("deleted", [0, 1])
async def test_an_acl_that_the_cluster_does_not_delete_is_an_error(tmp_path: Path, deleted: int) -> None:
    """The response is one of success, with an error for this ACL."""
    matching = DeleteAclsMatchingAcl(
        0 if deleted else ErrorCode.POLICY_VIOLATION,
        None if deleted else "a policy keeps it",
        ResourceType.TOPIC,
        "orders",
        PatternType.LITERAL,
        "User:alice",
        "*",
        Operation.READ,
        Permission.ALLOW,
    )
    async with fake_cluster(1) as cluster:
        (node,) = cluster.live
        node.versions |= {ApiKey.DESCRIBE_ACLS: (1, 3), ApiKey.DELETE_ACLS: (1, 3)}
        node.answers[ApiKey.DESCRIBE_ACLS] = acls
        node.answers[ApiKey.DELETE_ACLS] = lambda _request: DeleteAclsResponse(
            filter_results=[DeleteAclsFilterResult(matching_acls=[matching])]
        )
        async with running_gateway(tmp_path, node.port, CONSOLE) as gateway, rest_of(gateway) as http:
            (row,) = (await http.get("/api/v1/acls")).json()["items"]
            answer = await http.delete(f"/api/v1/acls/{row['id']}")
            notes = (await http.get("/api/v1/audit?kind=upstream")).json()["items"]
        if deleted:
            assert answer.status_code == 204 and len(notes) == 1
        else:
            assert answer.json()["code"] == "POLICY_VIOLATION" and notes == []
            assert "a policy keeps it" in answer.json()["detail"]


async def test_without_an_authorizer_nothing_is_decided(tmp_path: Path) -> None:
    async with world(tmp_path) as found:
        assert (await found.get(question("alice", "orders"), 409))["code"] == "SECURITY_DISABLED"


Rows = dict[str, str | None]
STANDARD = {"authorizer.class.name": AUTHORIZER.partition("=")[2]}


def configs(rows: Rows) -> DescribeConfigsResponse:
    """A setting without a value is set, and the node does not tell to what, as Kafka does."""
    told = [
        DescribeConfigsResourceResult(name, value, config_source=4, is_sensitive=value is None)
        for name, value in rows.items()
    ]
    return DescribeConfigsResponse(results=[DescribeConfigsResult(0, None, 4, "0", told)])


def acls(request: Any) -> DescribeAclsResponse:
    allowing = AclDescription("User:alice", "*", Operation.READ, Permission.ALLOW)
    return DescribeAclsResponse(
        resources=[DescribeAclsResource(ResourceType.TOPIC, "orders", PatternType.LITERAL, [allowing])]
    )


HIDDEN_USERS, HIDDEN_OPEN = {"super.users": None}, {"allow.everyone.if.no.acl.found": None}
EVERYTHING = ["authorizer.class.name", "super.users", "allow.everyone.if.no.acl.found"]


@pytest.mark.parametrize(
    ("rows", "allowed", "denied", "without"),
    [
        # What a node does not list is not set: Kafka's defaults hold.
        (STANDARD, [], (False, []), (False, [])),
        (STANDARD | HIDDEN_USERS, [], (False, ["super.users"]), (False, ["super.users"])),
        (STANDARD | HIDDEN_OPEN, [], (False, []), (False, ["allow.everyone.if.no.acl.found"])),
        (STANDARD | HIDDEN_USERS | HIDDEN_OPEN, [], (False, EVERYTHING[1:2]), (False, EVERYTHING[1:])),
        (STANDARD | {"super.users": "User:root; User:bob"}, [], (True, []), (True, [])),
        (STANDARD | {"allow.everyone.if.no.acl.found": "TRUE"}, [], (False, []), (True, [])),
        ({"authorizer.class.name": "com.example.Other"}, EVERYTHING[:1], (False, EVERYTHING[:1]), None),
        (None, EVERYTHING[:1], None, (False, ["super.users", EVERYTHING[0], EVERYTHING[2]])),
    ],
)
async def test_what_the_cluster_does_not_tell_is_named_where_it_matters(
    tmp_path: Path,
    rows: Rows | None,
    allowed: list[str],
    denied: tuple[bool, list[str]] | None,
    without: tuple[bool, list[str]] | None,
) -> None:
    """bob has no ACL; `without` is of a topic that no ACL is about. No rows: the node refuses to tell."""
    async with fake_cluster(1) as cluster:
        (node,) = cluster.live
        node.versions |= {ApiKey.DESCRIBE_ACLS: (1, 3), ApiKey.DESCRIBE_CONFIGS: (1, 4)}
        refusal = DescribeConfigsResult(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None, 4, "0")
        node.answers[ApiKey.DESCRIBE_ACLS] = acls
        node.answers[ApiKey.DESCRIBE_CONFIGS] = lambda _request: (
            DescribeConfigsResponse(results=[refusal]) if rows is None else configs(rows)
        )
        async with running_gateway(tmp_path, node.port, CONSOLE) as gateway, rest_of(gateway) as http:

            async def asked(principal: str, name: str) -> tuple[bool, list[str]]:
                answer = await http.get(f"/api/v1/{question(principal, name)}")
                assert answer.status_code == 200, answer.text
                return answer.json()["allowed"], answer.json()["unknown"]

            assert await asked("alice", "orders") == (True, allowed)
            if denied is not None:
                assert await asked("bob", "orders") == denied
            if without is not None:
                assert await asked("bob", "bills") == without


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

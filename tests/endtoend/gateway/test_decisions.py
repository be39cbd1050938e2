"""`/acls:resolve` of a gateway in front of Kafka with ACLs, compared with what the cluster itself decides."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import pytest
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic

from tests.endtoend.gateway.test_cluster_contents import AUTHORIZER, ask
from tests.support import kafka_tools
from tests.support.broker_process import USERS, within
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_cluster import KafkaCluster

pytestmark = kafka_tools.pytestmark

SUPER, OPEN = "super.users", "allow.everyone.if.no.acl.found"
OF_TOPICS: Final = (
    *("READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE"),
    *("DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
)
OF_CLUSTERS: Final = (
    *("CREATE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS"),
    *("ALTER_CONFIGS", "CLUSTER_ACTION", "IDEMPOTENT_WRITE"),
)
TOPICS: Final = ("orders", "ordinary", "own", "public", "free")

ACLS: Final = (
    ("alice", "ALLOW", "READ", "TOPIC", "orders", "LITERAL", "*"),
    ("alice", "ALLOW", "DELETE", "TOPIC", "orders", "LITERAL", "10.0.0.1"),
    ("alice", "DENY", "WRITE", "TOPIC", "ord", "PREFIXED", "*"),
    ("alice", "ALLOW", "ALL", "TOPIC", "own", "LITERAL", "*"),
    ("alice", "DENY", "DELETE", "TOPIC", "own", "LITERAL", "127.0.0.1"),
    ("*", "ALLOW", "DESCRIBE", "TOPIC", "pub", "PREFIXED", "*"),
    ("alice", "ALLOW", "ALTER_CONFIGS", "TOPIC", "public", "LITERAL", "127.0.0.1"),
    ("bob", "ALLOW", "WRITE", "TOPIC", "ordinary", "LITERAL", "*"),
    ("alice", "ALLOW", "ALTER", "CLUSTER", "kafka-cluster", "LITERAL", "*"),
)


class Guarded(NamedTuple):
    cluster: KafkaCluster
    gateway: GatewayProcess
    is_open: bool


@pytest.fixture(scope="module", params=[False, True], ids=["closed", "open"])
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A cluster in which ANONYMOUS is a super user; open: everyone may do what no ACL is about."""
    directory = tmp_path_factory.mktemp("decisions")
    settings = (*AUTHORIZER, *([f"{OPEN}=true"] if request.param else []))
    for name in ("kafka", "gateway"):
        (directory / name).mkdir()
    with (
        KafkaCluster(directory / "kafka", 1, *settings) as cluster,
        GatewayProcess(directory / "gateway", cluster.bootstrap(), nodes=1) as gateway,
    ):
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap()})
        for made in admin.create_topics([NewTopic(each, 1, 1) for each in TOPICS]).values():
            made.result(30)
        names = ("principal", "permission", "operation", "resource_type", "name", "pattern_type", "host")
        for acl in ACLS:
            wanted = dict(zip(names, acl, strict=True))
            ask(gateway, "POST", "acls", wanted | {"principal": f"User:{acl[0]}"})
        within(30, lambda: ask(gateway, "GET", "acls")["total"] == len(ACLS), "all ACLs")
        yield Guarded(cluster, gateway, request.param)


def admin_of(cluster: KafkaCluster, user: str) -> AdminClient:
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": user}
    servers = {"bootstrap.servers": cluster.bootstrap("SASL_PLAINTEXT")}
    return AdminClient(servers | login | {"sasl.password": USERS[user]})


def decided(guarded: Guarded, user: str) -> dict[tuple[str, str, str], bool]:
    """What the cluster itself tells a user: its operations on each topic that it may describe, and on the
    cluster.
    """
    admin = admin_of(guarded.cluster, user)
    topics = admin.describe_topics(TopicCollection(list(TOPICS)), include_authorized_operations=True)
    found: dict[tuple[str, str, str], bool] = {}
    for topic, answer in topics.items():
        try:
            allowed = set(answer.result(30).authorized_operations)
        except KafkaException:
            found["TOPIC", topic, "DESCRIBE"] = False
            continue
        found |= {("TOPIC", topic, each): AclOperation[each] in allowed for each in OF_TOPICS}
    described = admin.describe_cluster(include_authorized_operations=True).result(30)
    operations = described.authorized_operations
    if operations is None:  # who may not describe the cluster is told none
        return found | {("CLUSTER", "kafka-cluster", "DESCRIBE"): False}
    return found | {
        ("CLUSTER", "kafka-cluster", each): AclOperation[each] in set(operations) for each in OF_CLUSTERS
    }


def resolved(guarded: Guarded, principal: str, kind: str, name: str, operation: str) -> Any:
    question = {
        "principal": f"User:{principal}",
        "host": "127.0.0.1",
        "operation": operation,
        "resource_type": kind,
        "name": name,
    }
    return ask(guarded.gateway, "GET", f"acls:resolve?{urlencode(question)}")


@pytest.mark.parametrize("user", ["alice", "bob"])
def test_decisions_are_those_of_the_cluster(guarded: Guarded, user: str) -> None:
    """Neither of them is a super user. Where it counts what is not told, the answer says so."""
    known = decided(guarded, user)
    wrong, uncertain = {}, set()
    for question, is_allowed in known.items():
        answer = resolved(guarded, user, *question)
        if OPEN in answer["unknown"]:
            uncertain.add(is_allowed)
            assert (answer["allowed"], guarded.is_open) == (False, True)
        elif answer["allowed"] is not is_allowed:
            wrong[question] = answer
        assert (SUPER in answer["unknown"]) is not answer["allowed"]
    assert wrong == {}
    assert set(known.values()) == {True, False}
    assert uncertain == ({True} if guarded.is_open else set())


def test_a_super_user_is_one_that_the_cluster_does_not_tell(guarded: Guarded) -> None:
    answer = resolved(guarded, "ANONYMOUS", "TOPIC", "orders", "DELETE")
    assert (answer["allowed"], answer["unknown"]) == (False, [SUPER])


def test_the_settings_of_the_authorizer_are_told_without_their_values(guarded: Guarded) -> None:
    """`contents.access` counts on it: a setting that is not listed is not set."""
    page = ask(guarded.gateway, "GET", "upstream/nodes/1/configs?limit=1000")
    rows = {row["name"]: row["value"] for row in page["items"]}
    name, _, value = AUTHORIZER[0].partition("=")
    assert rows[name] == value
    assert (SUPER in rows, rows.get(SUPER)) == (True, None)
    assert (OPEN in rows, rows.get(OPEN)) == (guarded.is_open, None)

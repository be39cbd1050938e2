"""A gateway's REST in front of Kafka: topics, groups, records, transactions, ACLs and SCRAM users."""

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from tests.support import kafka_tools
from tests.support.broker_process import ask_console, within
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_cluster import KafkaCluster

pytestmark = kafka_tools.pytestmark

TOPIC = "contents"
AUTHORIZER = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
)


@pytest.fixture(scope="module")
def gateway(cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    settings = ("alerts.evaluation.interval.ms=1000", "gateway.upstream.views.max.age.ms=1000")
    with GatewayProcess(tmp_path_factory.mktemp("contents"), cluster.bootstrap(), *settings) as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster: KafkaCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap()})


@pytest.fixture(scope="module")
def topic(cluster: KafkaCluster, admin: AdminClient) -> str:
    """A topic of three partitions with ten records in each, and one in a transaction."""
    settings = {"retention.ms": "3600000"}
    admin.create_topics([NewTopic(TOPIC, 3, 2, config=settings)])[TOPIC].result(30)
    producer = Producer({"bootstrap.servers": cluster.bootstrap(), "compression.type": "lz4"})
    for number in range(30):
        producer.produce(TOPIC, f"value {number}", key=f"key {number}", partition=number % 3)
    assert producer.flush(30) == 0
    return TOPIC


def ask(gateway: GatewayProcess, method: str, path: str, body: Any = None) -> Any:
    return ask_console(gateway.console, method, f"/api/v1/{path}", body)


def refused(gateway: GatewayProcess, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
    with pytest.raises(HTTPError) as caught:
        ask(gateway, method, path, body)
    return caught.value.code, json.loads(caught.value.read())


def test_topics_are_those_of_the_cluster(gateway: GatewayProcess, admin: AdminClient, topic: str) -> None:
    def complete() -> Any:
        found = ask(gateway, "GET", "topics?limit=1000")
        row = next((each for each in found["items"] if each["name"] == topic), None)
        return found if row and row["records"] >= 30 and row["configs"] else None

    page = within(120, complete, "the topic with its records")
    assert (page["upstream"]["error"], page["upstream"]["refused"]) == ("", [])
    known = admin.list_topics(timeout=10).topics
    assert {each["name"] for each in page["items"]} >= {name for name in known if not name.startswith("__")}
    row = next(each for each in page["items"] if each["name"] == topic)
    assert (row["partitions"], row["internal"], row["configs"]) == (3, False, {"retention.ms": "3600000"})
    assert row["size_bytes"] > 0
    one = ask(gateway, "GET", f"topics/{topic}")
    for each in one["partition_list"]:
        there = known[topic].partitions[each["index"]]
        assert (each["leader"], each["replicas"]) == (there.leader, there.replicas)
        assert sorted(each["isr"]) == sorted(there.isrs) and each["size_bytes"] > 0
        assert each["end"] - each["start"] >= 10
    configs = {row["name"]: row for row in ask(gateway, "GET", f"topics/{topic}/configs?limit=1000")["items"]}
    assert configs["retention.ms"]["source"] == "topic" and configs["retention.ms"]["documentation"]
    node = ask(gateway, "GET", "upstream/nodes/1/configs?limit=1000")
    assert {row["name"]: row["value"] for row in node["items"]}["num.partitions"] == "1"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_with_members_offsets_and_lag(
    gateway: GatewayProcess, cluster: KafkaCluster, topic: str, protocol: str
) -> None:
    group = f"readers-{protocol}"
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap(),
            "group.id": group,
            "group.protocol": protocol,
            "client.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    within(120, lambda: consumer.poll(0.5), "a record")
    consumer.commit(offsets=[TopicPartition(topic, 0, 4), TopicPartition(topic, 1, 10)], asynchronous=False)

    def complete() -> Any:
        consumer.poll(0)
        found = ask(gateway, "GET", f"groups/{group}")
        return found if len(found["offsets"]) == 2 and found["consumers"] else None

    detail = within(120, complete, "the group with its offsets")
    assert (detail["group_type"], detail["lag"], detail["members"]) == (protocol, 6, 1)
    (member,) = detail["consumers"]
    assert member["client_id"] == "reader"
    assert [each["partition"] for each in member["assigned"]] == [0, 1, 2]
    assert [(each["committed"], each["end"], each["lag"]) for each in detail["offsets"]] == [
        (4, 10, 6),
        (10, 10, 0),
    ]

    def listed() -> Any:
        rows = {row["group_id"]: row for row in ask(gateway, "GET", "groups?limit=1000")["items"]}
        return group in rows and (rows[group]["lag"], rows[group]["state"]) == (6, "Stable")

    within(120, listed, "the group in the list")
    status, problem = refused(gateway, "POST", f"groups/{group}/offsets:reset", {"to": {"earliest": True}})
    assert (status, problem["code"]) == (409, "NON_EMPTY_GROUP") and problem["members"]
    consumer.close()
    within(120, lambda: ask(gateway, "GET", f"groups/{group}")["state"] == "Empty", "an empty group")
    rule = {"condition": "lag", "threshold": 5, "match": group}
    ask(gateway, "PUT", f"alert-rules/late-{protocol}", rule)

    def fires() -> Any:
        return [each for each in ask(gateway, "GET", "alerts")["items"] if each["rule"] == f"late-{protocol}"]

    (alert,) = within(120, fires, "the alert")
    assert (alert["state"], alert["value"]) == ("firing", 6)
    moved = ask(gateway, "POST", f"groups/{group}/offsets:reset", {"to": {"shift": -1}})
    assert [(each["from"], each["to"]) for each in moved["items"]] == [(4, 3), (10, 9)]
    within(120, lambda: ask(gateway, "GET", f"groups/{group}")["lag"] == 8, "the lag after the reset")
    ask(gateway, "DELETE", f"groups/{group}/offsets?topic={topic}")
    within(120, lambda: _is_gone_or_without_offsets(gateway, group), "no offsets")


def _is_gone_or_without_offsets(gateway: GatewayProcess, group: str) -> bool:
    try:
        return not ask(gateway, "GET", f"groups/{group}")["offsets"]
    except HTTPError as error:
        return error.code == 404


def test_records_are_read_searched_and_produced(gateway: GatewayProcess, topic: str) -> None:
    question: dict[str, Any] = {"from": {"earliest": True}, "limit": 100}
    page = ask(gateway, "POST", f"topics/{topic}/records:browse", question)
    assert sorted(each["value"]["text"] for each in page["items"]) >= sorted(
        f"value {number}" for number in range(30)
    )
    assert page["unreadable"] == []
    found = ask(gateway, "POST", f"topics/{topic}/records:browse", question | {"key": {"text": "key 7"}})
    assert [each["value"]["text"] for each in found["items"]] == ["value 7"]
    latest = ask(
        gateway, "POST", f"topics/{topic}/records:browse", {"from": {"latest": 1}, "partitions": [2]}
    )
    assert [each["partition"] for each in latest["items"]] == [2]


def test_topics_are_changed_by_the_cluster(gateway: GatewayProcess, admin: AdminClient) -> None:
    name = f"made-{time.time_ns()}"
    wanted = {"name": name, "partitions": 2, "replication_factor": 3, "configs": {"retention.ms": "60000"}}
    made = ask(gateway, "POST", "topics", wanted)
    assert (made["partitions"], made["replication_factor"]) == (2, 3)
    within(120, lambda: name in admin.list_topics(timeout=10).topics, "the topic at the brokers")
    made = ask(gateway, "POST", f"topics/{name}/records", {"key": {"text": "k"}, "value": {"text": "v"}})
    one = ask(gateway, "GET", f"topics/{name}/partitions/{made['partition']}/records/{made['offset']}")
    assert (one["key"]["text"], one["value"]["text"]) == ("k", "v")
    ask(gateway, "PUT", f"topics/{name}/partitions", {"count": 4})
    within(120, lambda: len(admin.list_topics(name, 10).topics[name].partitions) == 4, "four partitions")
    ask(gateway, "PATCH", f"topics/{name}/configs", {"ops": [{"key": "retention.ms", "value": "70000"}]})
    resource = ConfigResource(ConfigResource.Type.TOPIC, name)

    def retention() -> str:
        return str(admin.describe_configs([resource])[resource].result(10)["retention.ms"].value)

    within(120, lambda: retention() == "70000", "the setting")
    status, problem = refused(
        gateway, "PATCH", f"topics/{name}/configs", {"ops": [{"key": "retention.ms", "value": "soon"}]}
    )
    assert (status, problem["code"]) == (400, "INVALID_CONFIG")
    ask(gateway, "DELETE", f"topics/{name}")
    within(120, lambda: name not in admin.list_topics(timeout=10).topics, "no topic")
    rows = [
        row for row in ask(gateway, "GET", "audit?kind=upstream")["items"] if row["entity"] == f"topic {name}"
    ]
    assert [(row["actor"], row["key"]) for row in reversed(rows)] == [
        ("administrator", "created"),
        ("administrator", "partitions"),
        ("administrator", "retention.ms"),
        ("administrator", "deleted"),
    ]


def test_an_open_transaction_is_shown_and_aborted(
    gateway: GatewayProcess, cluster: KafkaCluster, admin: AdminClient
) -> None:
    topic = "in-doubt"
    admin.create_topics([NewTopic(topic, 1, 2)])[topic].result(30)
    settings = {
        "bootstrap.servers": cluster.bootstrap(),
        "transactional.id": "payer",
        "transaction.timeout.ms": 900_000,
        "linger.ms": 0,
    }
    producer = Producer(settings)
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, "in doubt", partition=0)
    assert producer.flush(30) == 0

    def is_open() -> Any:
        rows = {
            row["transactional_id"]: row for row in ask(gateway, "GET", "transactions?search=payer")["items"]
        }
        row = rows.get("payer")
        return row if row and row["state"] == "Ongoing" and row["holding_back"] == 1 else None

    row = within(120, is_open, "the open transaction")
    assert row["open_since"] is not None
    detail = ask(gateway, "GET", "transactions/payer")
    (partition,) = detail["partition_list"]
    assert (partition["topic"], partition["partition"], partition["holds_back"]) == (topic, 0, True)
    assert partition["first_offset"] == partition["last_stable_offset"] < partition["end"]
    body = {"producer_id": row["producer_id"], "producer_epoch": row["producer_epoch"]}
    ask(gateway, "POST", "transactions/payer:abort", body)
    within(
        30,
        lambda: ask(gateway, "GET", "transactions/payer")["state"] in ("CompleteAbort", "Empty"),
        "the abort",
    )


@pytest.fixture(scope="module")
def guarded(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[KafkaCluster, GatewayProcess, GatewayProcess]]:
    """A cluster with ACLs, a gateway that may do everything, and one that logs in as alice."""
    directory = tmp_path_factory.mktemp("guarded")
    for name in ("kafka", "admin", "alice"):
        (directory / name).mkdir()
    login = (
        "upstream.security.protocol=SASL_PLAINTEXT",
        "upstream.sasl.mechanism=PLAIN",
        "upstream.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="alice" password="alice-secret";',
    )
    age = "gateway.upstream.views.max.age.ms=1000"
    with (
        KafkaCluster(directory / "kafka", 1, *AUTHORIZER) as cluster,
        GatewayProcess(directory / "admin", cluster.bootstrap(), age, nodes=1) as free,
        GatewayProcess(
            directory / "alice", cluster.bootstrap("SASL_PLAINTEXT"), age, *login, nodes=1
        ) as alice,
    ):
        yield cluster, free, alice


def test_acls_and_scram_users(guarded: tuple[KafkaCluster, GatewayProcess, GatewayProcess]) -> None:
    _, free, _ = guarded
    wanted = {
        "resource_type": "TOPIC",
        "name": "orders",
        "principal": "User:bob",
        "operation": "READ",
        "permission": "ALLOW",
    }
    made = ask(free, "POST", "acls", wanted)
    assert (made["principal"], made["pattern_type"], made["host"]) == ("User:bob", "LITERAL", "*")

    def is_listed() -> bool:
        return made["id"] in [row["id"] for row in ask(free, "GET", "acls")["items"]]

    assert is_listed()
    ask(free, "DELETE", f"acls/{made['id']}")
    within(120, lambda: not is_listed(), "the ACL is gone")
    wanted = {"password": "a long secret", "iterations": 4097}
    ask(free, "PUT", "scram-users/SCRAM-SHA-256/carol", wanted)

    def of_carol() -> list[tuple[str, int]]:
        rows = ask(free, "GET", "scram-users?search=carol")["items"]
        return [(row["mechanism"], row["iterations"]) for row in rows]

    within(120, lambda: of_carol() == [("SCRAM-SHA-256", 4097)], "the user")
    ask(free, "DELETE", "scram-users/SCRAM-SHA-256/carol")
    within(120, lambda: not of_carol(), "no user")


def test_what_the_cluster_refuses_names_the_acl(
    guarded: tuple[KafkaCluster, GatewayProcess, GatewayProcess],
) -> None:
    cluster, free, alice = guarded
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap()})
    admin.create_topics([NewTopic("secret", 1, 1), NewTopic("open", 1, 1)])["open"].result(30)
    status, problem = refused(alice, "GET", "acls")
    assert (status, problem["code"]) == (403, "CLUSTER_AUTHORIZATION_FAILED")
    assert "allows DESCRIBE on CLUSTER kafka-cluster" in problem["detail"]
    assert ask(alice, "GET", "topics")["items"] == []

    def allow(operation: str, kind: str = "TOPIC", name: str = "open") -> None:
        acl = {"resource_type": kind, "name": name, "principal": "User:alice"}
        ask(free, "POST", "acls", acl | {"operation": operation, "permission": "ALLOW"})

    allow("DESCRIBE")

    def listed() -> Any:
        found = ask(alice, "GET", "topics")
        return found if [row["name"] for row in found["items"]] == ["open"] else None

    page = within(120, listed, "the topic that may be described")
    (row,) = page["items"]
    assert (row["size_bytes"], row["records"]) == (None, 0)
    wanted = {(each["api"], each["operation"], each["resource_type"]) for each in page["upstream"]["refused"]}
    assert wanted == {
        ("DescribeConfigs", "DESCRIBE_CONFIGS", "TOPIC"),
        ("DescribeLogDirs", "DESCRIBE", "CLUSTER"),
    }
    admin_producer = Producer({"bootstrap.servers": cluster.bootstrap()})
    admin_producer.produce("open", "x")
    assert admin_producer.flush(30) == 0
    status, problem = refused(alice, "POST", "topics/open/records:browse", {"from": {"earliest": True}})
    assert status == 403 and "allows READ on TOPIC open" in problem["detail"]
    status, problem = refused(alice, "POST", "topics/open/records", {"value": {"text": "x"}})
    assert status == 403 and "allows WRITE on TOPIC open" in problem["detail"]
    status, problem = refused(alice, "DELETE", "topics/open")
    assert status == 403 and "allows DELETE on TOPIC open" in problem["detail"]
    status, problem = refused(alice, "POST", "topics", {"name": "other"})
    assert status == 403 and "CREATE" in problem["detail"]
    allow("READ")
    page = within(
        30,
        lambda: ask(alice, "POST", "topics/open/records:browse", {"from": {"earliest": True}}),
        "the records",
    )
    assert [each["value"]["text"] for each in page["items"]] == ["x"]


def test_a_frozen_node_hangs_no_page(gateway: GatewayProcess, cluster: KafkaCluster, topic: str) -> None:
    """The page of before stays, with its age and the error; what the other nodes have is fresh again."""
    ask(gateway, "GET", "topics")
    with cluster.nodes[3].frozen():
        until = time.monotonic() + 25
        errors = []
        while time.monotonic() < until:
            begun = time.monotonic()
            found = ask(gateway, "GET", f"topics/{topic}")
            assert time.monotonic() - begun < 8
            assert found["partitions"] == 3
            errors.append(found["upstream"]["error"])
            time.sleep(0.5)
        assert any(errors)

    def complete() -> bool:
        found = ask(gateway, "GET", f"topics/{topic}")
        ends = [each["end"] for each in found["partition_list"]]
        return bool(found["upstream"]["error"] == "" and all(ends))

    within(120, complete, "a whole reading again")

"""What the gateway answers in part, in front of Kafka: requests about topics and configurations, and the
cluster's quotas, which it follows.
"""

import time
from collections.abc import Iterator
from typing import Final
from urllib.error import HTTPError

import pytest
import trio

from broker.common.errors import ErrorCode
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.support import kafka_tools
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_cluster import KafkaCluster
from tests.support.kafka_tools import CLIENT_METRICS, CONFIGS, TOPICS, run
from tests.support.wire import CLIENT_ID, connect

pytestmark = kafka_tools.pytestmark

NONE, EXCEEDED = ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED
FOLLOWED_WITHIN_S: Final = 2.0
CLIENT: Final = ("--entity-type", "clients", "--entity-name")


@pytest.fixture(scope="module")
def local(cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("local"), cluster.bootstrap()) as running:
        yield running


@pytest.fixture(scope="module")
def followed(cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    directory = tmp_path_factory.mktemp("followed")
    with GatewayProcess(directory, cluster.bootstrap(), "gateway.quotas=upstream") as running:
        yield running


def at(bootstrap: str, tool: str, *arguments: str) -> str:
    return run(tool, "--bootstrap-server", bootstrap, *arguments)


def test_client_metrics_are_the_gateways_and_topics_the_clusters(
    local: GatewayProcess, cluster: KafkaCluster
) -> None:
    alter = ("--alter", "--name", "all", "--metrics", "org.apache.kafka.producer.", "--interval", "30000")
    at(local.bootstrap, CLIENT_METRICS, *alter)
    assert at(local.bootstrap, CLIENT_METRICS, "--list") == "all\n"
    assert "interval.ms=30000" in at(local.bootstrap, CLIENT_METRICS, "--describe", "--name", "all")
    assert at(cluster.bootstrap(), CLIENT_METRICS, "--list").strip() == ""
    at(local.bootstrap, TOPICS, "--create", "--topic", "configured", "--partitions", "1")
    topic = ("--entity-type", "topics", "--entity-name", "configured")
    at(local.bootstrap, CONFIGS, "--alter", *topic, "--add-config", "retention.ms=12345")
    for bootstrap in (local.bootstrap, cluster.bootstrap()):
        assert "retention.ms=12345 " in at(bootstrap, CONFIGS, "--describe", *topic)
    broker = ("--entity-type", "brokers", "--entity-name", "2")
    assert "num.partitions=1 " in at(local.bootstrap, CONFIGS, "--describe", "--all", *broker)
    at(local.bootstrap, CLIENT_METRICS, "--delete", "--name", "all")
    assert at(local.bootstrap, CLIENT_METRICS, "--list").strip() == ""


async def test_mutations_beyond_the_quota_do_not_reach_the_cluster(
    local: GatewayProcess, cluster: KafkaCluster
) -> None:
    await trio.to_thread.run_sync(set_rate, local, 1.0)
    client = await connect(int(local.bootstrap.rpartition(":")[2]))
    default_window = 11  # the tokens of a bucket, at one a second
    wanted = [("first", default_window + 20), ("second", 1)]
    request = CreateTopicsRequest([CreatableTopic(name, count, -1) for name, count in wanted], 30_000)
    reply = await client.ask(request, 7)
    assert {each.name: each.error_code for each in reply.topics} == {"first": NONE, "second": EXCEEDED}
    assert 0 < reply.throttle_time_ms <= 20_000
    (created,) = (each for each in reply.topics if each.name == "first")
    assert created.num_partitions == default_window + 20 and created.topic_id != bytes(16)
    other = await connect(int(local.bootstrap.rpartition(":")[2]))
    extended = await other.ask(CreatePartitionsRequest([CreatePartitionsTopic("first", 40)], 30_000), 3)
    assert [each.error_code for each in extended.results] == [EXCEEDED]
    third = await connect(int(local.bootstrap.rpartition(":")[2]))
    doomed = [DeleteTopicState(None, created.topic_id), DeleteTopicState("missing")]
    deleted = await third.ask(DeleteTopicsRequest(topics=doomed, timeout_ms=30_000), 6)
    errors = {(each.name, each.topic_id): each.error_code for each in deleted.responses}
    assert errors[None, created.topic_id] == EXCEEDED
    assert errors["missing", bytes(16)] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topics = await trio.to_thread.run_sync(at, cluster.bootstrap(), TOPICS, "--list")
    assert "first" in topics.split() and "second" not in topics.split()
    await trio.to_thread.run_sync(set_rate, local, None)
    last = await connect(int(local.bootstrap.rpartition(":")[2]))
    deleted = await last.ask(DeleteTopicsRequest(topics=doomed[:1], timeout_ms=30_000), 6)
    assert [(each.name, each.error_code) for each in deleted.responses] == [("first", NONE)]


def set_rate(gateway: GatewayProcess, value: float | None) -> None:
    key = "controller_mutation_rate"
    change = ("--delete-config", key) if value is None else ("--add-config", f"{key}={value}")
    at(gateway.bootstrap, CONFIGS, "--alter", *CLIENT, CLIENT_ID, *change)


def holds(gateway: GatewayProcess, value: str) -> bool:
    """Whether the client `followed` has this limit, or with the empty text none."""
    exported = str(gateway.ask("GET", "/api/v1/client-quotas:export"))
    return value in exported if value else "followed" not in exported


def test_the_clusters_quotas_hold_at_the_gateway_within_two_seconds(
    followed: GatewayProcess, cluster: KafkaCluster
) -> None:
    for bootstrap, change in (
        (cluster.bootstrap(), ("--add-config", "producer_byte_rate=4096")),
        (followed.bootstrap, ("--add-config", "producer_byte_rate=8192")),
        (cluster.bootstrap(), ("--delete-config", "producer_byte_rate")),
    ):
        at(bootstrap, CONFIGS, "--alter", *CLIENT, "followed", *change)
        value = change[1].partition("=")[2]
        began = time.monotonic()
        while not holds(followed, value):
            assert time.monotonic() - began < FOLLOWED_WITHIN_S
            time.sleep(0.05)


def test_an_edit_at_the_console_is_refused(followed: GatewayProcess) -> None:
    with pytest.raises(HTTPError) as refused:
        followed.ask("PUT", "/api/v1/client-metrics/all", {"metrics": ["*"]})
    assert "kafka-client-metrics.sh" in refused.value.read().decode()
    edit = {"entity": {"user": "eve"}, "ops": [{"key": "producer_byte_rate", "value": 1}]}
    with pytest.raises(HTTPError) as refused:
        followed.ask("PATCH", "/api/v1/client-quotas", {"entries": [edit]})
    answer = refused.value.read().decode()
    assert "kafka-configs.sh" in answer and "POLICY_VIOLATION" in answer
    assert "eve" not in str(followed.ask("GET", "/api/v1/client-quotas:export"))


def test_the_clusters_subscriptions_are_followed(followed: GatewayProcess, cluster: KafkaCluster) -> None:
    alter = ("--alter", "--name", "seen", "--metrics", "org.apache.kafka.", "--interval", "20000")
    at(cluster.bootstrap(), CLIENT_METRICS, *alter)
    began = time.monotonic()
    while "seen" not in str(followed.ask("GET", "/api/v1/client-metrics")):
        assert time.monotonic() - began < FOLLOWED_WITHIN_S
        time.sleep(0.05)
    assert at(followed.bootstrap, CLIENT_METRICS, "--list") == "seen\n"
    at(followed.bootstrap, CLIENT_METRICS, "--delete", "--name", "seen")


def test_the_versions_are_those_of_the_cluster(local: GatewayProcess) -> None:
    output = run(kafka_tools.VERSIONS, "--bootstrap-server", local.bootstrap)
    for key, versions in (
        (ApiKey.CREATE_TOPICS, "2 to 7"),
        (ApiKey.DELETE_TOPICS, "1 to 6"),
        (ApiKey.CREATE_PARTITIONS, "0 to 3"),
        (ApiKey.DESCRIBE_CONFIGS, "1 to 4"),
        (ApiKey.LIST_CONFIG_RESOURCES, "0 to 1"),
    ):
        assert f"({int(key)}): {versions} [" in output

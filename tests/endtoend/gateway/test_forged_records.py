"""One forged record of `__weir_metadata` that makes an administrator, in every configuration that starts."""

import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from broker.controller.tokens import store
from broker.gateway.sharing.commits import Commit, write_commit
from broker.metadata.actor import Actor, ChangeOrigin, Role
from broker.metadata.changes import Change, ChangeKind
from tests.support import kafka_tools
from tests.support.broker_process import WEIR, within
from tests.support.gateway_process import GatewayProcess, set_rate
from tests.support.kafka_cluster import KafkaCluster
from tests.support.running_gateway import CLUSTER_KEY

pytestmark = kafka_tools.pytestmark

METADATA: Final = "__weir_metadata"
SHARES: Final = "__weir_shares"
SECRET: Final = "a secret that nobody has issued"
SCOPE: Final = "quota.scope=cluster"
ACL: Final = ("gateway.cluster.keys=", "gateway.cluster.protection=acl")
OTHER_KEY: Final = "another-key-of-all-gateways-of-the-tests"


def forged(row: int) -> bytes:
    stored = store(SECRET)
    value = json.dumps({"role": "ADMIN", "salt": stored.salt.hex(), "digest": stored.digest.hex()})
    actor = Actor("system", Role.ADMIN, "", ChangeOrigin.REST)
    return write_commit(
        Commit("c", "1", row, 1, actor, [Change(ChangeKind.ADMIN_TOKEN, "evil", "token", value)])
    )


def status(gateway: GatewayProcess) -> int:
    """Of a request with the forged token."""
    headers = {"Authorization": f"Bearer {SECRET}"}
    request = urllib.request.Request(f"http://{gateway.console}/api/v1/tokens", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


def write(bootstrap: str, topic: str, value: bytes, key: bytes = b"k") -> str | None:
    """Produce as any client does. Returns why the record was not written."""
    failures: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 10_000})
    producer.produce(topic, value, key, on_delivery=lambda error, _: failures.append(error))
    producer.flush(20)
    assert failures, "no answer"
    return None if failures[0] is None else failures[0].name()


def rows(gateway: GatewayProcess) -> int:
    return int(gateway.ask("GET", "/api/v1/audit?limit=1")["items"][0]["id"])


def refused(gateway: GatewayProcess) -> dict[str, float]:
    """Refused records by topic and reason."""
    page = gateway.ask("GET", "/metrics")
    lines = [line for line in page.splitlines() if line.startswith("weir_gateway_refused_records_total{")]
    return {
        labels.partition("{")[2]: float(value)
        for labels, _, value in (line.rpartition(" ") for line in lines)
        if float(value)
    }


@pytest.fixture
def log(cluster: KafkaCluster) -> Iterator[AdminClient]:
    """The gateways' topics are new, and gone afterwards."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap()})

    def remove() -> None:
        known = admin.list_topics(timeout=10).topics
        there = [topic for topic in (METADATA, SHARES) if topic in known]
        for future in (admin.delete_topics(there) if there else {}).values():
            future.result()
        within(20, lambda: not {METADATA, SHARES} & set(admin.list_topics(timeout=10).topics), "no topics")

    remove()
    yield admin
    remove()


def gateway_of(cluster: KafkaCluster, directory: Path, number: int, *settings: str) -> GatewayProcess:
    folder = directory / f"gateway-{number}"
    folder.mkdir(exist_ok=True)
    return GatewayProcess(
        folder, cluster.bootstrap(), SCOPE, f"node.id={number}", *settings, nodes=cluster.count
    )


def test_a_record_that_somebody_writes_to_the_cluster_makes_no_administrator(
    cluster: KafkaCluster, tmp_path: Path, log: AdminClient
) -> None:
    with gateway_of(cluster, tmp_path, 1) as one:
        set_rate(one, "before", 1_000)
        assert status(one) == 401
        for row in range(rows(one), rows(one) + 5):
            assert write(cluster.bootstrap(), METADATA, forged(row)) is None
        assert write(cluster.bootstrap(), METADATA, b"weir-signed 1 0123abcd x 1 1 00\n" + forged(9)) is None
        assert (
            write(cluster.bootstrap(), SHARES, b'{"version":1,"gateway":"ghost","number":1,"limits":[]}')
            is None
        )
        within(10, lambda: sum(refused(one).values()) == 7, "refused records")
        assert refused(one)[f'topic="{METADATA}",reason="unsigned"}}'] == 5
        set_rate(one, "after", 2_000)
        assert status(one) == 401
        with gateway_of(cluster, tmp_path, 2) as late:
            assert status(late) == 401
            within(10, lambda: rows(late) == rows(one), "the same rows")
            assert 'gateway="ghost"' not in late.ask("GET", "/metrics")


@pytest.mark.parametrize("settings", [(), ACL], ids=["key", "acl"])
@pytest.mark.parametrize("authentication", ["upstream", "gateway"])
def test_no_client_of_a_gateway_writes_or_reads_its_topics(
    cluster: KafkaCluster, tmp_path: Path, log: AdminClient, settings: tuple[str, ...], authentication: str
) -> None:
    own = (*settings, f"gateway.authentication={authentication}")
    with gateway_of(cluster, tmp_path, 1, *own) as one:
        set_rate(one, "before", 1_000)
        end = rows(one)
        assert write(one.bootstrap, METADATA, forged(end + 1)) == "TOPIC_AUTHORIZATION_FAILED"
        assert write(one.bootstrap, SHARES, b"{}") == "TOPIC_AUTHORIZATION_FAILED"
        # Kafka's own producer names topics by their ids, after it has asked for them.
        said = kafka_tools.call(
            "org.apache.kafka.tools.VerifiableProducer",
            *("--bootstrap-server", one.bootstrap, "--topic", METADATA, "--max-messages", "1"),
        )
        assert "TopicAuthorizationException" in said[1]
        consumer = Consumer({"bootstrap.servers": one.bootstrap, "group.id": "curious"})
        consumer.assign([TopicPartition(METADATA, 0, 0)])
        found = consumer.poll(20)
        assert found is not None and found.error().name() == "TOPIC_AUTHORIZATION_FAILED"
        consumer.close()
        _, read, _ = kafka_tools.call(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", one.bootstrap, "--topic", METADATA, "--from-beginning"),
            *("--timeout-ms", "5000"),
        )
        assert not read.strip()
        admin = AdminClient({"bootstrap.servers": one.bootstrap})
        retention = ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, METADATA, incremental_configs=[retention])
        attempts = [
            *admin.delete_topics([METADATA]).values(),
            *admin.create_partitions([NewPartitions(METADATA, 2)]).values(),
            *admin.incremental_alter_configs([resource]).values(),
            *admin.delete_records([TopicPartition(METADATA, 0, 1)]).values(),
        ]
        for future in attempts:
            with pytest.raises(KafkaException) as failed:
                future.result()
            assert failed.value.args[0].name() == "TOPIC_AUTHORIZATION_FAILED"
        # Other topics are as ever.
        assert write(one.bootstrap, f"ordinary-{authentication}-{len(settings)}", b"v") is None
        time.sleep(1)
        assert status(one) == 401 and rows(one) == end


def test_a_start_without_key_and_without_acls_is_refused(cluster: KafkaCluster, tmp_path: Path) -> None:
    one = gateway_of(cluster, tmp_path, 1, "gateway.cluster.keys=")
    one.start(wait=False)
    assert one.running.wait(60) == 1
    (line,) = one.log_lines
    assert "gateway.cluster.keys.location" in line and "gateway.cluster.protection=acl" in line


def sign(gateway: GatewayProcess, *arguments: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    overrides = [f"--override={setting}" for setting in gateway.settings]
    command = [WEIR, "sign-metadata", *arguments, *overrides]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=120)


def test_a_log_of_before_is_adopted_once(cluster: KafkaCluster, tmp_path: Path, log: AdminClient) -> None:
    with gateway_of(cluster, tmp_path, 1, *ACL) as old:
        set_rate(old, "kept", 1_234)
        last = rows(old)
        assert old.stop() == 0
    for number in (1, 2):
        again = gateway_of(cluster, tmp_path, number)
        again.start(wait=False)
        assert again.running.wait(60) == 1
        (said,) = [line for line in again.log_lines if line.startswith("weir: ")]
        assert "weir sign-metadata" in said
    declined = sign(again, given="n\n")
    assert declined.returncode == 1 and "nothing was signed" in declined.stderr
    assert "row 2: admin-token 'administrator'" in declined.stdout
    adopted = sign(again, given="y\n")
    assert adopted.returncode == 0, adopted.stderr
    assert "0 records" in sign(again).stdout
    assert CLUSTER_KEY not in declined.stdout + declined.stderr + adopted.stdout + adopted.stderr
    with gateway_of(cluster, tmp_path, 1) as one, gateway_of(cluster, tmp_path, 2) as other:
        for gateway in (one, other):
            within(20, lambda gateway=gateway: rows(gateway) >= last, "the rows of before")
            found = gateway.ask("GET", "/api/v1/client-quotas?search=kept")["items"]
            assert found[0]["limits"]["producer_byte_rate"]["value"] == 1_234
        assert write(cluster.bootstrap(), METADATA, forged(rows(one) + 1)) is None
        assert sign(one, "--yes").returncode == 0
        time.sleep(1)
        assert status(one) == status(other) == 401


def test_the_key_is_replaced_while_the_gateways_run(
    cluster: KafkaCluster, tmp_path: Path, log: AdminClient
) -> None:
    file = tmp_path / "keys"
    file.write_text(CLUSTER_KEY)
    settings = ("gateway.cluster.keys=", f"gateway.cluster.keys.location={file}")

    def turn(gateway: GatewayProcess, text: str) -> None:
        count = sum("keys of the gateways read again" in line for line in gateway.log_lines)
        file.write_text(text)
        within(
            10,
            lambda: sum("keys of the gateways read again" in each for each in gateway.log_lines) > count,
            "the new keys",
        )

    with gateway_of(cluster, tmp_path, 1, *settings) as one:
        set_rate(one, "first", 1)
        turn(one, f"{CLUSTER_KEY}\n{OTHER_KEY}\n")
        turn(one, f"{OTHER_KEY}\n{CLUSTER_KEY}\n")
        set_rate(one, "second", 2)
        assert sign(one).returncode == 0
        turn(one, OTHER_KEY)
        set_rate(one, "third", 3)
        with gateway_of(cluster, tmp_path, 2, *settings) as late:
            within(20, lambda: rows(late) >= rows(one), "the same rows")
            set_rate(late, "fourth", 4)
        assert not refused(one)
        config = json.dumps(one.ask("GET", "/api/v1/broker-configs?search=gateway.cluster"))
        for key in (CLUSTER_KEY, OTHER_KEY):
            assert key not in config and not any(key in line for line in one.log_lines)

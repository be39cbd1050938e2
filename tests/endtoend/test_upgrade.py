"""A broker of an earlier commit leaves its data to the present one, after a stop and after a kill.

The earlier commit's code is unpacked from this clone's history; a clone without it skips. Data of a newer
version ends the start with one line.
"""

import io
import sqlite3
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic

from broker.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from broker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from broker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.broker_process import WEIR, BrokerProcess, within
from tests.support.wire import connect

pytestmark = pytest.mark.endtoend

ROOT: Final = Path(__file__).parents[2]
BEFORE: Final = {
    "without transactions": "543db01169b40fcf83535f4dbe2abd1b7dce3b09",
    "with transactions": "903d1715ceb4eb6ce5d70fe765b9f551b29ab264",
}
"""Of three days and of some hours before this test was written."""

CODE: Final = ("broker", "webui", "templates", "pipeline")
TOPICS: Final = {"payments": 3, "clicks": 1}
SETTINGS: Final = {"retention.ms": "86400000", "flush.messages": "1"}
RECORDS: Final = 300
EVENTS: Final = "__weir_requests"
CLIENT_METRICS: Final = 16
BROKER: Final = 4
SCRAM: Final = "sasl.enabled.mechanisms=SCRAM-SHA-256,PLAIN"


NOT_NAMED_BEFORE: Final = ("min.insync.replicas",)
"""Defaults of all brokers that earlier versions did not describe as such."""


def code_of(commit: str, folder: Path) -> Path:
    """The code of an earlier commit, in this folder."""
    archive = subprocess.run(["git", "archive", commit, *CODE], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        pytest.skip(f"this clone has no commit {commit[:8]}: {archive.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as opened:
        opened.extractall(folder, filter="data")
    asked = [*_with(folder), sys.executable, "-c", "import broker; print(broker.__file__)"]
    imported = subprocess.run(asked, capture_output=True, text=True, check=True, cwd=folder.parent).stdout
    assert Path(imported.strip()).parent == folder / "broker"
    return folder


def _with(code: Path) -> tuple[str, ...]:
    """The start of a command whose `weir` is that code."""
    return ("env", f"PYTHONPATH={code}")


@pytest.mark.parametrize(
    ("version", "how"),
    [
        ("without transactions", "killed"),
        ("with transactions", "killed"),
        ("with transactions", "stopped"),
        pytest.param("without transactions", "stopped", marks=pytest.mark.slow),
    ],
)
async def test_everything_of_the_version_before_is_there(tmp_path: Path, version: str, how: str) -> None:
    code, data = code_of(BEFORE[version], tmp_path / "code"), tmp_path / "data"
    transfers: list[bytes] = []
    old = BrokerProcess(data, SCRAM, prefix=_with(code))
    with old:
        set_up(old)
        produced = produce(old)
        if version == "with transactions":
            transfers += in_transactions(old)
        commit(old, "billing", {("payments", 0): 17, ("clicks", 0): 250})
        await set_quotas_and_settings(old)
        events = within(10, lambda: read(old, EVENTS, 1), "the first events")
        expected = await state(old)
        if how == "killed":
            old.kill()
        else:
            assert old.stop() == 0

    new = BrokerProcess(data, SCRAM)
    new.plain, new.sasl, new.console = old.plain, old.sasl, old.console
    with new:
        assert await state(new) == expected
        for topic, values in produced.items():
            assert read(new, topic, TOPICS[topic]) == values
        assert read(new, "transfers", 1, committed=True)[0] == transfers
        assert committed(new, "billing") == {("payments", 0): 17, ("clicks", 0): 250}
        assert read(new, EVENTS, 1)[0][: len(events[0])] == events[0]
        assert [line for line in new.log_lines if " ERROR " in line or "Traceback" in line] == []
        log_in(new, "carol", "carol-secret")
        # What it wrote before an upgrade does not keep it from going on.
        more = produce(new)
        assert read(new, "clicks", 1)[0] == produced["clicks"][0] + more["clicks"][0]
        transfers += in_transactions(new)
        assert read(new, "transfers", 1, committed=True)[0] == transfers


def test_data_of_a_newer_version_end_the_start_with_one_line(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path):
        pass
    metadata = tmp_path / "weir-metadata.sqlite"
    with sqlite3.connect(metadata) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    content = metadata.read_bytes()
    command = [
        WEIR,
        "serve",
        f"--override=log.dirs={tmp_path}",
        "--override=listeners=PLAINTEXT://127.0.0.1:0",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.startswith("weir: ") and "format 99" in line and str(metadata) in line
    assert "start the version that wrote it, or restore a backup" in line
    assert metadata.read_bytes() == content


def set_up(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.plain})
    topics = [NewTopic(name, count, 1, config=SETTINGS) for name, count in TOPICS.items()]
    for future in admin.create_topics([*topics, NewTopic("transfers", 1, 1)]).values():
        future.result(10)
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4_096)
    user = UserScramCredentialUpsertion("carol", info, b"carol-secret")
    for made in admin.alter_user_scram_credentials([user]).values():
        made.result(10)


async def set_quotas_and_settings(broker: BrokerProcess) -> None:
    quotas = {
        (("user", "carol"), ("client-id", None)): ("producer_byte_rate", 1_234_567.0),
        (("client-id", "reports"),): ("consumer_byte_rate", 7_000_000.0),
        (("ip", "10.0.0.1"),): ("connection_creation_rate", 3.0),
    }
    entries = [
        RequestEntryData([EntityData(*part) for part in entity], [OpData(key, value, False)])
        for entity, (key, value) in quotas.items()
    ]
    resources = [
        AlterConfigsResource(CLIENT_METRICS, "all", [AlterableConfig("interval.ms", 0, "12000")]),
        AlterConfigsResource(BROKER, "", [AlterableConfig("num.io.threads", 0, "5")]),
    ]
    client = await connect(int(broker.plain.rpartition(":")[2]))
    altered = await client.ask(AlterClientQuotasRequest(entries, False), 1)
    assert [each.error_code for each in altered.entries] == [0] * len(entries)
    changed = await client.ask(IncrementalAlterConfigsRequest(resources), 1)
    assert [each.error_code for each in changed.responses] == [0] * len(resources)
    await client.stream.aclose()


async def state(broker: BrokerProcess) -> dict[str, Any]:
    """What an operator has set: topics with ids, settings, quotas, users, subscriptions."""
    admin = AdminClient({"bootstrap.servers": broker.plain})
    names = [*TOPICS, "transfers"]
    described = admin.describe_topics(confluent_kafka.TopicCollection(names))
    configs = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in names])
    users = admin.describe_user_scram_credentials().result(10)
    client = await connect(int(broker.plain.rpartition(":")[2]))
    quotas = await client.ask(DescribeClientQuotasRequest(None, False), 1)
    asked = [DescribeConfigsResource(CLIENT_METRICS, "all"), DescribeConfigsResource(BROKER, "")]
    settings = await client.ask(DescribeConfigsRequest(asked), 4)
    await client.stream.aclose()
    return {
        "topics": {
            name: (str(topic.topic_id), len(topic.partitions))
            for name, topic in ((name, future.result(10)) for name, future in described.items())
        },
        "configs": {
            resource.name: {
                key: future.result(10)[key].value for key in SETTINGS if not future.result(10)[key].is_default
            }
            for resource, future in configs.items()
        },
        "users": {
            name: [(info.mechanism, info.iterations) for info in user.scram_credential_infos]
            for name, user in users.items()
        },
        "quotas": sorted(
            (
                sorted((part.entity_type, part.entity_name or "") for part in entry.entity),
                sorted((value.key, value.value) for value in entry.values),
            )
            for entry in quotas.entries
        ),
        "settings": [
            (
                result.resource_name,
                {
                    each.name: each.value
                    for each in result.configs
                    if each.config_source != 5 and each.name not in NOT_NAMED_BEFORE
                },
            )
            for result in settings.results
        ],
    }


def produce(broker: BrokerProcess) -> dict[str, dict[int, list[bytes]]]:
    """What the broker has acknowledged, by topic and partition."""
    acknowledged: dict[str, dict[int, list[bytes]]] = {}

    def keep(error: Any, message: Any) -> None:
        assert error is None
        acknowledged.setdefault(message.topic(), {}).setdefault(message.partition(), []).append(
            message.value()
        )

    settings = {"enable.idempotence": True, "linger.ms": 1, "compression.type": "zstd"}
    producer = Producer({"bootstrap.servers": broker.plain, **settings})
    for number in range(RECORDS):
        for topic, partitions in TOPICS.items():
            value = f"{topic} {number}".encode()
            producer.produce(topic, value, partition=number % partitions, on_delivery=keep)
    assert producer.flush(20) == 0
    return acknowledged


def in_transactions(broker: BrokerProcess) -> list[bytes]:
    """Two committed records, which are the result, an aborted one, and one of a transaction that is left open
    until the next producer with this id.
    """
    producer = Producer({"bootstrap.servers": broker.plain, "transactional.id": "mover"})
    producer.init_transactions(20)
    for value in (b"committed 0", b"committed 1", b"aborted"):
        producer.begin_transaction()
        producer.produce("transfers", value, partition=0)
        producer.flush(20)
        if value == b"aborted":
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)
    producer.begin_transaction()
    producer.produce("transfers", b"open", partition=0)
    assert producer.flush(20) == 0
    return [b"committed 0", b"committed 1"]


def read(
    broker: BrokerProcess, topic: str, partitions: int, *, committed: bool = False
) -> dict[int, list[bytes]]:
    """The values of each partition from its beginning to its end."""
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.plain,
        "group.id": "reader",
        "enable.partition.eof": True,
        "isolation.level": "read_committed" if committed else "read_uncommitted",
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, each, 0) for each in range(partitions)])
    found: dict[int, list[bytes]] = {each: [] for each in range(partitions)}
    reading = set(found)
    while reading:
        message = consumer.poll(20)
        assert message is not None, f"{topic}: no record and no end came"
        if (error := message.error()) is None:
            found[message.partition()].append(message.value() or b"")
        else:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            reading.discard(message.partition())
    consumer.close()
    return found


def commit(broker: BrokerProcess, group: str, offsets: dict[tuple[str, int], int]) -> None:
    consumer = Consumer({"bootstrap.servers": broker.plain, "group.id": group})
    consumer.commit(
        offsets=[TopicPartition(*place, offset) for place, offset in offsets.items()], asynchronous=False
    )
    consumer.close()


def committed(broker: BrokerProcess, group: str) -> dict[tuple[str, int], int]:
    consumer = Consumer({"bootstrap.servers": broker.plain, "group.id": group})
    places = [TopicPartition(t, p) for t, count in TOPICS.items() for p in range(count)]
    found = consumer.committed(places, timeout=10)
    consumer.close()
    return {(place.topic, place.partition): place.offset for place in found if place.offset >= 0}


def log_in(broker: BrokerProcess, user: str, password: str) -> None:
    settings = {
        "bootstrap.servers": broker.sasl,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": user,
        "sasl.password": password,
    }
    assert "payments" in AdminClient(settings).list_topics(timeout=10).topics

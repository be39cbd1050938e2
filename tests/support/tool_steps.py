"""One step of tests/endtoend/tool_steps.txt at one broker: what Kafka's tool says, without what differs from
broker to broker, and the actions that are no tools.
"""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from time import monotonic
from typing import Any, Final

import trio
from confluent_kafka import Consumer, Producer

from tests.endtoend.answers.share_groups import heartbeat
from tests.support.broker_process import LOGIN_MODULE, USERS
from tests.support.kafka_answers import Side
from tests.support.tool_machine import Printed, ToolMachine

TIMEOUT_S: Final = 60

PACKAGE: Final = "org.apache.kafka.tools"
WHERE: Final = "--bootstrap-server"
CLASSES: Final = {
    "kafka-acls": "AclCommand",
    "kafka-broker-api-versions": "BrokerApiVersionsCommand",
    "kafka-client-compatibility-test": "ClientCompatibilityTest",
    "kafka-client-metrics": "ClientMetricsCommand",
    "kafka-cluster": "ClusterTool",
    "kafka-configs": "ConfigCommand",
    "kafka-console-consumer": "consumer.ConsoleConsumer",
    "kafka-console-producer": "ConsoleProducer",
    "kafka-console-share-consumer": "consumer.ConsoleShareConsumer",
    "kafka-consumer-groups": "consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "ConsumerPerformance",
    "kafka-delegation-tokens": "DelegationTokenCommand",
    "kafka-delete-records": "DeleteRecordsCommand",
    "kafka-dump-log": "DumpLogSegments",
    "kafka-e2e-latency": "EndToEndLatency",
    "kafka-features": "FeatureCommand",
    "kafka-get-offsets": "GetOffsetShell",
    "kafka-groups": "GroupsCommand",
    "kafka-leader-election": "LeaderElectionCommand",
    "kafka-log-dirs": "LogDirsCommand",
    "kafka-metadata-quorum": "MetadataQuorumCommand",
    "kafka-producer-perf-test": "ProducerPerformance",
    "kafka-reassign-partitions": "reassign.ReassignPartitionsCommand",
    "kafka-replica-verification": "ReplicaVerificationTool",
    "kafka-share-consumer-perf-test": "ShareConsumerPerformance",
    "kafka-share-groups": "consumer.group.ShareGroupCommand",
    "kafka-streams-application-reset": "StreamsResetter",
    "kafka-streams-groups": "streams.StreamsGroupCommand",
    "kafka-topics": "TopicCommand",
    "kafka-transactions": "TransactionsCommand",
    "kafka-verifiable-consumer": "VerifiableConsumer",
    "kafka-verifiable-producer": "VerifiableProducer",
    "kafka-verifiable-share-consumer": "VerifiableShareConsumer",
}
WITHOUT_ADDRESS: Final = frozenset({"kafka-dump-log", "kafka-replica-verification"})


@dataclass
class ToolBroker:
    """One of the two brokers, with the Java machine whose tools ask it, and with what actions have opened."""

    plain: str
    sasl: str
    logs: Path
    files: Path
    machine: ToolMachine
    opened: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.files.mkdir()
        for user in ("alice", "bob"):
            (self.files / user).write_text(
                "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
                f'sasl.jaas.config={LOGIN_MODULE} username="{user}" password="{USERS[user]}";\n'
            )

    def filled(self, text: str) -> str:
        names = {"broker": self.plain, "logins": self.sasl, "logs": self.logs, "files": self.files}
        return Template(text).substitute(names)

    def said(self, step: str) -> dict[str, Any]:
        """Have a tool do the step. Return its exit status, output and errors as two brokers have them in
        common.
        """
        printed = self.run(step)
        return {
            "status": printed.status,
            "output": self.comparable(printed.output),
            "errors": self.comparable(printed.errors),
        }

    def run(self, step: str) -> Printed:
        line, _, given = step.partition(" < ")
        user, _, command = line.rpartition(": ") if re.match(r"\w+: ", line) else ("", "", line)
        name, *words = shlex.split(command)
        if name not in WITHOUT_ADDRESS and user != "alone":
            login = ["--command-config", str(self.files / user)] if user else []
            words = [WHERE, self.sasl if user else self.plain, *login, *words]
        return self.machine.run(f"{PACKAGE}.{CLASSES[name]}", *map(self.filled, words), given=given)

    def act(self, action: str) -> None:
        name, _, rest = action.partition(" ")
        ACTIONS[name](self, *rest.split(" ", 1))

    def comparable(self, lines: Sequence[str]) -> list[str]:
        found = []
        for line in lines:
            for own, common in ((self.logs, "LOGS"), (self.files, "FILES")):
                line = line.replace(str(own), common)
            line = line.replace(self.plain, "BROKER").replace(self.sasl, "LOGINS")
            for pattern, common in OF_ONE_RUN:
                line = pattern.sub(common, line)
            if not NOISE.match(line):
                found.append(" ".join(line.split()))
        return sorted(found)


NOISE: Final = re.compile(r"\tat |\t\.\.\. \d+ more|SLF4J")
OF_ONE_RUN: Final = tuple(
    (re.compile(pattern), common)
    for pattern, common in (
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID"),
        (r"\b1[78]\d{11}\b", "TIME"),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d[.:,]\d+Z?)?", "TIME"),
        (r"\"avg_throughput\":[\d.E-]+", ""),
        (r" (crc|CreateTime): \w+|\"size\":\d+", ""),
        (r"\"offsets\":\[[\d,]+\]", ""),
        (r"(Valid states are): .*", r"\1"),
        (r"(SCRAM-SHA-512=\S+), (SCRAM-SHA-256=\S+)", r"\2, \1"),
        (r"(\d+ records sent), .*", r"\1"),
        (r"^(TIME, TIME, [\d.]+), [\d.]+, (\d+), .*", r"\1, \2"),
        (r"^(TIME, TIME, [\d.]+), [\d.]+, [\d.]+, (\d+), \d+$", r"\1, \2"),
        (r"^\d+\t[\d.]+$|(Avg latency|Percentiles): .*", "LATENCY"),
        (r"[\w/+]{22}(?= +/127)", "MEMBER"),
        (r"(tokenId : )[\w-]{22}", r"\1TOKEN"),
        (r"^[\w-]{22}\s+[\w+/]+==", "TOKEN"),
        (r"127\.0\.0\.1\s+\d{5}\b", "BROKER"),
        (r"(HighWatermark:|A{22})\s+\d+", r"\1"),
        (r"\d+ ms ago", "TIME"),
        (r"Epoch: \d+$", "EPOCH"),
        (r"(\d+\s+TIME\s+)\d+\b", r"\1"),
        (r"(only supports operations) .*", r"\1"),
        (r"(TopicId: |Cluster ID: |ClusterId: +|[dD]irectoryId\"?: \"?)[\w-]{22}", r"\1ID"),
    )
)
"""What a tool prints of one run: ids, times, rates, and the order of hash tables."""


def write_file(broker: ToolBroker, arguments: str, text: str) -> None:
    (broker.files / arguments).write_text(broker.filled(text) + "\n")


def join(broker: ToolBroker, protocol: str, rest: str) -> None:
    """Have a member in a group."""
    group, topic = rest.split()
    settings = {
        "bootstrap.servers": broker.plain,
        "group.id": group,
        "group.protocol": protocol,
        "client.id": "member",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    consumer = broker.opened[group] = Consumer(settings)
    consumer.subscribe([topic])
    deadline = monotonic() + TIMEOUT_S
    while not consumer.assignment():
        assert monotonic() < deadline, f"{group} has no member"
        consumer.poll(0.1)


def leave(broker: ToolBroker, group: str) -> None:
    broker.opened.pop(group).close()


def beat_share(broker: ToolBroker, group: str, topic: str, epoch: int) -> None:
    async def ask() -> None:
        side = Side(int(broker.plain.rpartition(":")[2]))
        body = heartbeat(group_id=group, subscribed_topic_names=[topic], member_epoch=epoch)
        answer = await side.ask("ShareGroupHeartbeat", body, 1)
        assert answer["error_code"] == 0, answer

    trio.run(ask)


def open_transaction(broker: ToolBroker, name: str, topic: str) -> None:
    """Have a producer with records of a transaction that goes on."""
    producer = broker.opened[name] = Producer(
        {"bootstrap.servers": broker.plain, "transactional.id": name, "log_level": 0}
    )
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"uncertain", partition=0)
    assert producer.flush(TIMEOUT_S) == 0


ACTIONS: Final[Mapping[str, Callable[..., None]]] = {
    "file": write_file,
    "join": join,
    "leave": leave,
    "share": lambda broker, group, topic: beat_share(broker, group, topic, 0),
    "unshare": lambda broker, group, topic: beat_share(broker, group, topic, -1),
    "open": open_transaction,
}

"""Kafka's tools say of Weir what they say of Kafka, step by step: their exit status, output and errors.

The steps are in tool_steps.txt, and what differs on purpose in tool_differences.py.
"""

import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from operator import methodcaller
from pathlib import Path
from time import sleep
from typing import Any, Final

import pytest

from tests.endtoend.tool_differences import DIFFERENT, OTHER_STATUS
from tests.support import kafka_tools
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_cluster import KafkaCluster
from tests.support.tool_machine import ToolMachine
from tests.support.tool_steps import ToolBroker

pytestmark = kafka_tools.pytestmark

STEPS: Final = Path(__file__).with_name("tool_steps.txt")
SETTINGS: Final = (
    "auto.create.topics.enable=false",
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS;User:alice",
    "delegation.token.secret.key=a-secret-key",
    "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "group.initial.rebalance.delay.ms=0",
    "group.consumer.min.heartbeat.interval.ms=500",
    "group.consumer.heartbeat.interval.ms=500",
    "group.share.max.session.timeout.ms=600000",
    "group.share.session.timeout.ms=600000",
    "message.max.bytes=12000000",
    "min.insync.replicas=1",
    "offsets.topic.num.partitions=3",
    "transaction.state.log.num.partitions=3",
)
OWN: Final = ("events.topics=",)
AGAIN: Final = 8
AGAIN_AFTER_S: Final = 0.25

READING: Final = re.compile(
    r"--describe|--list|--verify|--dry-run|get-offsets| list\b| describe\b|list-endpoints"
)
"""Steps that change nothing: Kafka's brokers learn of some changes after the answer to who made them."""


def steps() -> list[str]:
    lines = STEPS.read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[tuple[ToolBroker, ToolBroker]]:
    (tmp_path / "kafka").mkdir()
    with (
        KafkaCluster(tmp_path / "kafka", 1, *SETTINGS) as kafka,
        BrokerProcess(tmp_path / "weir", *SETTINGS, *OWN) as weir,
        ToolMachine() as one,
        ToolMachine() as other,
    ):
        yield (
            ToolBroker(weir.plain, weir.sasl, tmp_path / "weir", tmp_path / "of-weir", one),
            ToolBroker(
                *(kafka.bootstrap(), kafka.bootstrap("SASL_PLAINTEXT")),
                *(tmp_path / "kafka" / "data-1", tmp_path / "of-kafka", other),
            ),
        )


def test_the_tools_say_at_each_step_what_they_say_of_kafka(brokers: tuple[ToolBroker, ToolBroker]) -> None:
    assert set(DIFFERENT) <= set(steps())
    found = []
    with ThreadPoolExecutor(2) as pool:
        for step in steps():
            if step.startswith("@"):
                list(pool.map(methodcaller("act", step[1:]), brokers))
                continue
            for _ in range(AGAIN if READING.search(step) and step not in DIFFERENT else 1):
                weir, kafka = pool.map(methodcaller("said", step), brokers)
                if weir == kafka:
                    break
                sleep(AGAIN_AFTER_S)
            found += difference(step, weir, kafka)
    assert not found, "\n\n".join(found)


def difference(step: str, weir: Mapping[str, Any], kafka: Mapping[str, Any]) -> list[str]:
    """Return what differs without a reason, or a reason without a difference."""
    same_status = weir["status"] == kafka["status"]
    if (weir == kafka) == (step not in DIFFERENT) and same_status == (step not in OTHER_STATUS):
        return []
    if weir == kafka:
        return [f"{step}\nis as Kafka's, but: {DIFFERENT[step]}"]
    return [f"{step}\nWeir:  {weir}\nKafka: {kafka}"]

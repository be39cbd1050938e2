"""Weir answers what Kafka answers, message by message, in every version of every API.

Where an answer differs on purpose, its case says why.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Final

import pytest
import trio

from tests.endtoend.answers import (
    configs,
    groups,
    logins,
    members,
    quotas_and_users,
    records,
    sessions,
    share_groups,
    share_names,
    streams_groups,
    streams_walks,
    topics,
    transactions,
    zombies,
)
from tests.endtoend.answers.topics import COMPACTED, SHARED, TOPIC, create
from tests.support import kafka_tools
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_answers import Body, Case, Side, compare
from tests.support.kafka_cluster import KafkaCluster

pytestmark = kafka_tools.pytestmark

SETTINGS: Final = (
    "auto.create.topics.enable=false",
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
    "delegation.token.secret.key=a-secret-key",
    "group.initial.rebalance.delay.ms=0",
    "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "group.consumer.min.heartbeat.interval.ms=500",
    "group.consumer.heartbeat.interval.ms=500",
    "message.max.bytes=12000000",
    "min.insync.replicas=1",
    "group.consumer.assignment.interval.ms=0",
    "group.streams.initial.rebalance.delay.ms=0",
    "group.streams.assignment.interval.ms=0",
)
OWN: Final = ("events.topics=",)

AREAS: Final = (
    *(records, topics, configs, quotas_and_users, groups, transactions, share_groups),
    *(zombies, members, sessions),
)
STREAMS: Final = (streams_groups, streams_walks)


@dataclass(frozen=True)
class Ports:
    """Those of Kafka and of Weir."""

    plain: tuple[int, int]
    sasl: tuple[int, int]


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    directory = tmp_path_factory.mktemp("answers")
    (directory / "kafka").mkdir()
    with (
        KafkaCluster(directory / "kafka", 1, *SETTINGS) as kafka,
        BrokerProcess(directory / "weir", *SETTINGS, *OWN) as weir,
    ):
        found = Ports(
            (_port(kafka.bootstrap()), _port(weir.plain)),
            (_port(kafka.bootstrap("SASL_PLAINTEXT")), _port(weir.sasl)),
        )
        trio.run(_prepare, *found.plain)
        yield found


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


async def _prepare(*ports: int) -> None:
    """Create the topics, and wait until Kafka has each coordinator."""
    for port in ports:
        side = Side(port)
        for kind, key in ((0, "g"), (1, "t"), (2, "g:AAAAAAAAAAAAAAAAAAAAAQ:0")):
            body = {"key_type": kind, "coordinator_keys": [key]}
            await _until_it_succeeds(side, "FindCoordinator", body, 6)
        await _until_it_succeeds(side, "InitProducerId", {"transaction_timeout_ms": 1_000}, 4)
        for name, count in ((TOPIC, 2), (SHARED, 1)):
            await side.ask("CreateTopics", create(name, count), 6)
        compact = [{"name": "cleanup.policy", "value": "compact"}]
        await side.ask("CreateTopics", create(COMPACTED, configs=compact), 6)
        for each in logins.credentials():
            await side.ask("AlterUserScramCredentials", {"upsertions": [each]}, 0)
        await side.learn_topic_ids()


async def _until_it_succeeds(side: Side, api: str, body: Body, version: int) -> None:
    for _ in range(600):
        answer = await side.ask(api, body, version)
        if not any(each["error_code"] for each in answer.get("coordinators", [answer])):
            return
        await trio.sleep(0.1)
    raise AssertionError(answer)


@pytest.mark.parametrize("areas", [AREAS, STREAMS], ids=["all-else", "streams"])
def test_answers_are_kafkas(ports: Ports, areas: Sequence[ModuleType]) -> None:
    found = trio.run(_compared, [case for area in areas for case in area.CASES], *ports.plain)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", logins.LOGINS)
def test_a_login_without_requests_is_kafkas_byte_for_byte(ports: Ports, name: str) -> None:
    login = logins.LOGINS[name]
    kafka, weir = (trio.run(logins.answers, port, login) for port in ports.sasl)
    if login.differs:
        assert kafka != weir, login.differs
    else:
        assert kafka == weir


@pytest.mark.parametrize("walk", share_names.WALKS, ids=lambda each: each.__name__)
def test_share_fetch_responses_name_kafkas_partitions(ports: Ports, walk: share_names.Walk) -> None:
    kafka, weir = (trio.run(share_names.walked, walk, port) for port in ports.plain)
    assert weir == kafka


async def _compared(cases: Sequence[Case], *ports: int) -> list[str]:
    """Return what differs without a reason, and each reason without a difference."""
    kafka, weir = (Side(port) for port in ports)
    for side in (kafka, weir):
        await side.learn_topic_ids()
    found = []
    for case in cases:
        differences = await compare(case, kafka, weir)
        if case.differs and not differences:
            found.append(f"{case}\n  is as Kafka's, but: {case.differs}")
        elif differences and not case.differs:
            found.append("\n  ".join((str(case), *differences)))
    return found

"""Weir's dead letters are Kafka's, field by field: the same members do the same at both.

The timestamp of a dead letter is the time at which the broker writes it.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
import trio

from broker.records.build import NewRecord, build_batch
from broker.records.compression import Codec
from broker.records.walk import batches, records
from tests.support import kafka_tools
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_answers import Side, topic_id
from tests.support.kafka_cluster import KafkaCluster

pytestmark = kafka_tools.pytestmark

SETTINGS: Final = (
    "auto.create.topics.enable=false",
    "group.share.delivery.count.limit=2",
    "errors.deadletterqueue.auto.create.topics.enable=true",
    "num.partitions=2",
    "log.message.timestamp.type=LogAppendTime",
)
NAME: Final = "errors.deadletterqueue.topic.name"
COPIES: Final = "errors.deadletterqueue.copy.record.enable"
ENABLED: Final = {"errors.deadletterqueue.group.enable": "true"}
GAP, ACCEPT, RELEASE, REJECT = range(4)
TOPIC_TYPE, GROUP_TYPE = 2, 32
ARCHIVED: Final = 4
WITHIN_S: Final = 30

Acks = tuple[tuple[int, int, int], ...]
"""First and last offset, and the type of acknowledgement."""


@dataclass(frozen=True)
class Scenario:
    """A group that reads the topic `jobs-<name>`, which has ten records in the partition.

    `queue` is the group's, and has these settings; None: nobody creates it. For each of `acks` a member
    fetches, acknowledges, and closes its session. With `by_delivery` members acknowledge everything, the
    deliveries of a record by these types, until each record has had the last one. `letters` is the number of
    dead letters.
    """

    name: str
    letters: int
    acks: tuple[Acks, ...] = ()
    by_delivery: tuple[int, ...] = ()
    queue: str = ""
    settings: Mapping[str, str] | None = field(default_factory=lambda: ENABLED)
    partitions: int = 1
    copies: bool = True
    partition: int = 0
    codec: Codec = Codec.NONE

    @property
    def topic(self) -> str:
        return f"jobs-{self.name}"

    @property
    def dead_letters(self) -> str:
        return self.queue or f"dlq.{self.name}"


SCENARIOS: Final = (
    Scenario("rejected", 3, (((0, 0, ACCEPT), (1, 2, REJECT), (3, 3, GAP), (9, 9, REJECT)),)),
    Scenario("bare", 2, (((1, 2, REJECT),),), copies=False),
    Scenario("released", 10, by_delivery=(RELEASE, RELEASE)),
    Scenario("last", 10, by_delivery=(RELEASE, REJECT)),
    Scenario("closed", 10, ((), ())),
    Scenario("second", 2, (((4, 5, REJECT),),), partition=1, partitions=3),
    Scenario("fewer", 2, (((4, 5, REJECT),),), partition=1),
    Scenario("compressed", 3, (((2, 2, REJECT), (5, 6, REJECT)),), codec=Codec.ZSTD),
    Scenario("created", 1, (((0, 0, REJECT),),), settings=None, partition=1),
    Scenario("not-enabled", 0, (((0, 0, REJECT),),), settings={}),
    Scenario("prefix", 0, (((0, 0, REJECT),),), queue="letters"),
    Scenario("nothing", 0, (((0, 9, ACCEPT),),)),
    Scenario("compacted", 2, (((0, 1, REJECT),),), settings={**ENABLED, "cleanup.policy": "compact"}),
    Scenario(
        "keyless", 0, (((0, 1, REJECT),),), settings={**ENABLED, "cleanup.policy": "compact"}, copies=False
    ),
    Scenario("lz4", 1, (((0, 0, REJECT),),), settings={**ENABLED, "compression.type": "lz4"}),
)


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """The ports of Kafka and of Weir."""
    directory = tmp_path_factory.mktemp("letters")
    (directory / "kafka").mkdir()
    with (
        KafkaCluster(directory / "kafka", 1, *SETTINGS) as kafka,
        BrokerProcess(directory / "weir", *SETTINGS, "events.topics=") as weir,
    ):
        yield _port(kafka.bootstrap()), _port(weir.plain)


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_dead_letters_are_kafkas(ports: tuple[int, int], scenario: Scenario) -> None:
    kafka, weir = (trio.run(played, port, scenario) for port in ports)
    assert kafka == weir
    assert sum(map(len, weir["letters"].values())) == scenario.letters


async def played(port: int, scenario: Scenario) -> dict[str, Any]:
    """Return the group's dead letters by partition, the settings of their topic, and what is left."""
    side, group = Side(port), f"group-{scenario.name}"
    await _create(side, scenario.topic, 2, {})
    if scenario.settings is not None:
        await _create(side, scenario.dead_letters, scenario.partitions, scenario.settings)
        await _until_it_is_led(side, scenario)
    await _configure(side, group, scenario)
    await side.learn_topic_ids()
    await _produce(side, scenario)
    await _begin(side, group, scenario)
    began_ms = round(time.time() * 1000)
    fetched = await _consume(side, group, scenario)
    archived = await _until_archived(side, group, scenario)
    await side.learn_topic_ids()
    return {
        "fetched": fetched,
        "archived": archived,
        "settings": await _settings(side, scenario.dead_letters),
        "letters": await _letters(side, scenario, began_ms),
    }


async def _create(side: Side, name: str, partitions: int, settings: Mapping[str, str]) -> None:
    configs = [{"name": key, "value": value} for key, value in settings.items()]
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": configs}
    answer = await side.ask("CreateTopics", {"topics": [topic], "timeout_ms": 10_000}, 7)
    assert answer["topics"][0]["error_code"] == 0, answer


async def _until_it_is_led(side: Side, scenario: Scenario) -> None:
    """Wait until each partition of the queue has its leader: Kafka gives up dead letters for others."""
    with trio.fail_after(WITHIN_S):
        for index in range(scenario.partitions):
            while True:
                found = await _fetched(side, scenario.dead_letters, index)
                if not found["error_code"]:
                    break
                await trio.sleep(0.1)


async def _fetched(side: Side, topic: str, partition: int) -> Any:
    asked = {"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1_000_000}
    body = {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 1_000_000,
        "topics": [{"topic": topic, "partitions": [asked]}],
    }
    answer = await side.ask("Fetch", body, 12)
    (found,) = answer["responses"][0]["partitions"]
    return found


async def _configure(side: Side, group: str, scenario: Scenario) -> None:
    values = {NAME: scenario.dead_letters, COPIES: str(scenario.copies).lower()}
    configs = [{"name": key, "config_operation": 0, "value": value} for key, value in values.items()]
    resource = {"resource_type": GROUP_TYPE, "resource_name": group, "configs": configs}
    answer = await side.ask("IncrementalAlterConfigs", {"resources": [resource]}, 1)
    assert answer["responses"][0]["error_code"] == 0, answer


async def _produce(side: Side, scenario: Scenario) -> None:
    new = [
        NewRecord(b"key %d" % each, b"value %d" % each, 1_000 + each, (("own", b"header"),))
        for each in range(10)
    ]
    data = {"index": scenario.partition, "records": bytes(build_batch(new, codec=scenario.codec))}
    topics = [{"name": scenario.topic, "partition_data": [data]}]
    body = {"acks": -1, "timeout_ms": 10_000, "topic_data": topics}
    with trio.fail_after(WITHIN_S):
        while True:
            answer = await side.ask("Produce", body, 9)
            if not answer["responses"][0]["partition_responses"][0]["error_code"]:
                return
            await trio.sleep(0.1)


async def _begin(side: Side, group: str, scenario: Scenario) -> None:
    """Let the group start at offset 0, once the share coordinator is there."""
    partition = {"partition": scenario.partition, "state_epoch": 0, "start_offset": 0}
    topics = [{"topic_id": topic_id(scenario.topic), "partitions": [partition]}]
    key = {"key_type": 2, "coordinator_keys": [f"{group}:AAAAAAAAAAAAAAAAAAAAAQ:0"]}
    with trio.fail_after(WITHIN_S):
        while True:
            await side.ask("FindCoordinator", key, 6)
            body = {"group_id": group, "topics": topics}
            answer = await side.ask("InitializeShareGroupState", body, 0)
            if not answer["results"][0]["partitions"][0]["error_code"]:
                return
            await trio.sleep(0.1)


async def _consume(side: Side, group: str, scenario: Scenario) -> list[Any]:
    """Fetch and acknowledge in turn; return what was acquired each time, but for `by_delivery`: Kafka
    divides the ranges of released records otherwise.
    """
    acquired = []
    for number, acks in enumerate(scenario.acks):
        member = f"AAAAAAAAAAAAAAAAAAAA{number:02d}"
        acquired.append(await _acquired(side, group, scenario, member))
        await _acknowledge(side, group, scenario, member, acks)
    done = number = 0
    while scenario.by_delivery and done < 10:
        number += 1
        member = f"AAAAAAAAAAAAAAAAAAAA{number:02d}"
        ranges = await _acquired(side, group, scenario, member)
        acks = tuple(
            (each["first_offset"], each["last_offset"], scenario.by_delivery[each["delivery_count"] - 1])
            for each in ranges
        )
        await _acknowledge(side, group, scenario, member, acks)
        done += sum(
            each["last_offset"] - each["first_offset"] + 1
            for each in ranges
            if each["delivery_count"] == len(scenario.by_delivery)
        )
    return acquired


async def _acknowledge(side: Side, group: str, scenario: Scenario, member: str, acks: Acks) -> None:
    types = [
        {"first_offset": one, "last_offset": two, "acknowledge_types": [kind]} for one, two, kind in acks
    ]
    partition = {"partition_index": scenario.partition, "acknowledgement_batches": types}
    body = {
        "group_id": group,
        "member_id": member,
        "share_session_epoch": -1,
        "topics": [{"topic_id": topic_id(scenario.topic), "partitions": [partition]}] if acks else [],
    }
    answer = await side.ask("ShareAcknowledge", body, 1)
    assert answer["error_code"] == 0, answer
    for topic in answer["responses"]:
        assert [each["error_code"] for each in topic["partitions"]] == [0], answer


async def _acquired(side: Side, group: str, scenario: Scenario, member: str) -> Any:
    partition = {"partition_index": scenario.partition}
    body = {
        "group_id": group,
        "member_id": member,
        "share_session_epoch": 0,
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 1_000_000,
        "max_records": 100,
        "batch_size": 100,
        "topics": [{"topic_id": topic_id(scenario.topic), "partitions": [partition]}],
    }
    with trio.fail_after(WITHIN_S):
        while True:
            answer = await side.ask("ShareFetch", body, 1)
            assert answer["error_code"] == 0, answer
            (found,) = answer["responses"][0]["partitions"]
            if found["acquired_records"]:
                return found["acquired_records"]
            await trio.sleep(0.1)


async def _until_archived(side: Side, group: str, scenario: Scenario) -> list[int]:
    """Wait until no rejected record waits for its dead letter; return their offsets."""
    wanted = {
        offset
        for acks in scenario.acks
        for first, last, kind in acks
        if kind == REJECT
        for offset in range(first, last + 1)
    }
    partition = {"partition": scenario.partition, "leader_epoch": 0}
    topics = [{"topic_id": topic_id(scenario.topic), "partitions": [partition]}]
    with trio.fail_after(WITHIN_S):
        while True:
            answer = await side.ask("ReadShareGroupState", {"group_id": group, "topics": topics}, 0)
            (found,) = answer["results"][0]["partitions"]
            assert found["error_code"] == 0, answer
            archived = {
                offset
                for each in found["state_batches"]
                if each["delivery_state"] == ARCHIVED
                for offset in range(each["first_offset"], each["last_offset"] + 1)
            }
            done = {each for each in wanted if each in archived or each < found["start_offset"]}
            if done == wanted:
                return sorted(done)
            await trio.sleep(0.1)


async def _settings(side: Side, topic: str) -> list[Any]:
    resource = {"resource_type": TOPIC_TYPE, "resource_name": topic}
    answer = await side.ask("DescribeConfigs", {"resources": [resource]}, 4)
    (found,) = answer["results"]
    if found["error_code"]:
        return [found["error_code"]]
    own = [(each["name"], each["value"]) for each in found["configs"] if each["config_source"] == 1]
    metadata = await side.ask("Metadata", {"topics": [{"name": topic}]}, 12)
    return [sorted(own), len(metadata["topics"][0]["partitions"])]


async def _letters(side: Side, scenario: Scenario, began_ms: int) -> dict[int, list[Any]]:
    """Return key, value and headers of the dead letters in each partition of their topic."""
    name = scenario.dead_letters
    if name not in side.topic_ids:
        return {}
    found: dict[int, list[Any]] = {}
    with trio.move_on_after(WITHIN_S if scenario.letters else 1):
        while sum(map(len, found.values())) < max(scenario.letters, 1):
            for index in range(3):
                partition = await _fetched(side, name, index)
                if not partition["error_code"]:
                    found[index] = sorted(
                        (each.key, each.value, each.headers, began_ms <= each.timestamp + 1_000)
                        for batch in batches(bytes.fromhex(partition["records"] or ""))
                        for each in records(batch)
                    )
            await trio.sleep(0.1)
    return found

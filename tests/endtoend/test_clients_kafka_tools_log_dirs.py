"""A partition is moved to another log directory by Kafka's own tools, and is followed on its way."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import kafka_tools
from tests.support.broker_process import BrokerProcess, within
from tests.support.kafka_tools import CONFIGS, LOG_DIRS, TOPICS, ask, produce, refused

pytestmark = kafka_tools.pytestmark

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    where = tmp_path_factory.mktemp("data")
    with BrokerProcess(where, f"log.dirs={where / 'a'},{where / 'b'}") as process:
        yield process


def replicas(broker: BrokerProcess, topic: str) -> dict[str, list[dict[str, Any]]]:
    """What kafka-log-dirs says of each directory."""
    answer = ask(broker, LOG_DIRS, "--describe", "--topic-list", topic).splitlines()[-1]
    (described,) = json.loads(answer)["brokers"]
    assert [each["error"] for each in described["logDirs"]] == [None, None]
    return {Path(each["logDir"]).name: each["partitions"] for each in described["logDirs"]}


def plan(path: Path, topic: str, directory: Path | str) -> str:
    partition = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [str(directory)]}
    path.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    return str(path)


def test_a_partition_is_moved_under_its_throttle_and_the_move_is_followed(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    ask(broker, TOPICS, "--create", "--topic", "heavy")
    produce(broker, "heavy", 20_000)
    ((name, (before,)),) = [each for each in replicas(broker, "heavy").items() if each[1]]
    assert before["size"] > 2_000_000 and not before["isFuture"] and before["offsetLag"] == 0
    other = "b" if name == "a" else "a"
    moves = plan(tmp_path / "moves.json", "heavy", broker.directory / other)
    begun = ("--reassignment-json-file", moves, "--execute", "--replica-alter-log-dirs-throttle", "100000")
    output = ask(broker, REASSIGN, *begun)
    assert "Successfully started moving log directory" in output
    described = ask(broker, CONFIGS, "--describe", "--entity-type", "brokers", "--entity-name", "1")
    assert f"{THROTTLE}=100000" in described
    during = replicas(broker, "heavy")
    (future,) = during[other]
    assert future["isFuture"] and 0 < future["size"] < before["size"] and 0 < future["offsetLag"] <= 20_000
    assert "is still in progress" in ask(broker, REASSIGN, "--reassignment-json-file", moves, "--verify")
    ask(broker, REASSIGN, *begun[:-1], "100000000", "--additional")
    within(20, lambda: not list(broker.directory.glob(f"{name}/heavy-0")), "it has moved")
    verified = ask(broker, REASSIGN, "--reassignment-json-file", moves, "--verify")
    assert "Reassignment of replica heavy-0-1 completed successfully." in verified
    assert "Clearing broker-level throttles on broker 1" in verified
    after = replicas(broker, "heavy")
    assert after[name] == [] and [each["size"] for each in after[other]] == [before["size"]]
    described = ask(broker, CONFIGS, "--describe", "--entity-type", "brokers", "--entity-name", "1")
    assert f"{THROTTLE}=" not in described


def test_a_directory_that_is_not_ours_is_reported_by_the_tool(broker: BrokerProcess, tmp_path: Path) -> None:
    ask(broker, TOPICS, "--create", "--topic", "light")
    moves = plan(tmp_path / "moves.json", "light", "/nowhere")
    output = refused(broker, REASSIGN, "--reassignment-json-file", moves, "--execute")
    assert "LogDirNotFoundException" in output

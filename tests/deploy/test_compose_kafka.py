"""What compose.cluster.yaml tells Kafka's image is a configuration of Kafka.

The class that the image of Kafka starts with makes a configuration of the environment. Needs Java 17 and
`python -m benchmarks.install kafka`.
"""

import os
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from benchmarks.install import KAFKA_LIBS
from broker.common.version import KAFKA_VERSION
from tests.conventions.sources import ROOT
from tests.support import kafka_tools

pytestmark = kafka_tools.pytestmark


SERVICES: Final[dict[str, Any]] = yaml.safe_load((ROOT / "compose.cluster.yaml").read_text(encoding="utf-8"))[
    "services"
]
NODES: Final = ("kafka-1", "kafka-2", "kafka-3")
NAMES: Final = """\
public class Names {
    public static void main(String[] arguments) {
        scala.collection.immutable.Seq<String> names = kafka.server.KafkaConfig.configNames().toSeq();
        scala.jdk.javaapi.CollectionConverters.asJava(names).forEach(System.out::println);
    }
}
"""
JAVA: Final = ("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{KAFKA_LIBS}/*")


def environment(node: str) -> dict[str, str]:
    return {name: str(value) for name, value in SERVICES[node]["environment"].items()}


def set_up(directory: Path, given: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """Do what the image does before it starts Kafka: write a configuration, and format the data folder."""
    folders = {name: directory / name for name in ("default", "mounted", "final")}
    for folder in folders.values():
        folder.mkdir()
    (folders["default"] / "server.properties").touch()
    places = [f"--{name}-configs-dir={folder}" for name, folder in folders.items()]
    return subprocess.run(
        [*JAVA, "kafka.docker.KafkaDockerWrapper", "setup", *places],
        env=os.environ | given | {"KAFKA_LOG_DIRS": str(directory / "data")},
        capture_output=True,
        text=True,
        timeout=120,
    )


def properties(directory: Path) -> dict[str, str]:
    lines = (directory / "final" / "server.properties").read_text(encoding="utf-8").split("\n")
    return dict(line.split("=", 1) for line in lines if line)


@pytest.mark.parametrize("node", NODES)
def test_kafka_takes_the_environment(tmp_path: Path, node: str) -> None:
    given = environment(node)
    done = set_up(tmp_path, given)
    assert done.returncode == 0, done.stdout + done.stderr
    meta = (tmp_path / "data" / "meta.properties").read_text(encoding="utf-8")
    assert f"cluster.id={given['CLUSTER_ID']}" in meta and f"node.id={given['KAFKA_NODE_ID']}" in meta
    assert properties(tmp_path)["advertised.listeners"] == f"PLAINTEXT://{node}:9092"


def test_a_wrong_value_is_refused(tmp_path: Path) -> None:
    done = set_up(tmp_path, environment("kafka-1") | {"KAFKA_PROCESS_ROLES": "broker"})
    assert done.returncode != 0


def test_kafka_knows_every_name(tmp_path: Path) -> None:
    program = tmp_path / "Names.java"
    program.write_text(NAMES, encoding="utf-8")
    done = subprocess.run([*JAVA, str(program)], capture_output=True, text=True, timeout=120, check=True)
    known = set(done.stdout.split())
    assert len(known) > 200 and "no.such.name" not in known
    for node in NODES:
        names = {name for name in environment(node) if name != "CLUSTER_ID"}
        assert {name.removeprefix("KAFKA_").lower().replace("_", ".") for name in names} <= known


def test_the_image_is_not_newer_than_the_jars() -> None:
    """Those whose names and configuration are looked at here."""
    version = SERVICES["kafka-1"]["image"].partition("@")[0].rpartition(":")[2]
    assert _numbers(version) <= _numbers(KAFKA_VERSION)
    assert (KAFKA_LIBS / f"kafka_2.13-{KAFKA_VERSION}.jar").exists()


def _numbers(version: str) -> list[int]:
    return [int(each) for each in version.split(".")]

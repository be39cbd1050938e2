"""examples/gateway/compose.yaml: what Compose's schema allows, and a gateway that limits a cluster's clients.

Compose itself does not run here: the test runs the service's command line, with files and ports of its own.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.conventions.sources import ROOT
from tests.support import kafka_tools
from tests.support.broker_process import TOKEN, WEIR, BrokerProcess
from tests.support.gateway_process import free_range
from tests.support.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.endtoend

FILE: Final = ROOT / "examples" / "gateway" / "compose.yaml"
SERVICE: Final[dict[str, Any]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))["services"]["weir"]
IMAGE_SETTINGS: Final = ROOT / "deploy" / "image" / "server.properties"
CLUSTER: Final = re.compile(r"\$\{KAFKA:[^}]*\}")
PROGRAM: Final = ROOT / "examples" / "clients" / "throttled.py"


def test_compose_knows_every_key() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(FILE)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_it_has_ten_lines() -> None:
    lines = FILE.read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if not line.startswith("#")]) == 10


@pytest.mark.skipif(shutil.which("docker") is None, reason="needs the program docker")
def test_docker_compose_reads_it() -> None:
    command = ["docker", "compose", "--file", str(FILE), "config", "--format", "json"]
    if subprocess.run(["docker", "compose", "version"], capture_output=True).returncode:
        pytest.skip("docker has no Compose here")
    read = subprocess.run(
        command, env=os.environ | {"KAFKA": "kafka.example:9092"}, capture_output=True, text=True
    )
    assert read.returncode == 0, read.stderr
    assert "--override=upstream.bootstrap.servers=kafka.example:9092" in read.stdout
    assert subprocess.run(command, capture_output=True).returncode != 0  # without a cluster


def test_every_port_is_published_to_itself_and_to_this_machine_only() -> None:
    ports = dict(re.findall(r"^127\.0\.0\.1:([\d-]+):([\d-]+)$", "\n".join(SERVICE["ports"]), re.MULTILINE))
    assert len(ports) == len(SERVICE["ports"]) == 3
    assert all(outside == inside for outside, inside in ports.items())
    assert _settings()["gateway.port.range"] in ports


def _settings() -> dict[str, str]:
    return dict(each.removeprefix("--override=").split("=", 1) for each in SERVICE["command"])


@contextmanager
def _gateway(directory: Path, cluster: str) -> Iterator[tuple[str, str]]:
    """Run the service's command line. Yields where its clients connect, and its console."""
    block, *program = SERVICE["entrypoint"][1:]
    assert (SERVICE["entrypoint"][0], block) == ("env", "--block-signal=TERM")
    first = free_range(13)
    bootstrap, console = f"127.0.0.1:{first}", f"127.0.0.1:{first + 1}"
    own = {
        "listeners": f"PLAINTEXT://{bootstrap}",
        "advertised.listeners": f"PLAINTEXT://{bootstrap}",
        "console.listener": console,
        "log.dirs": str(directory / "data"),
    }
    image = dict(line.split("=", 1) for line in IMAGE_SETTINGS.read_text(encoding="utf-8").splitlines())
    assert image.keys() == own.keys()
    (directory / "server.properties").write_text("".join(f"{key}={value}\n" for key, value in own.items()))
    places = {"weir": str(WEIR), "/etc/weir/server.properties": str(directory / "server.properties")}
    overrides = (CLUSTER.sub(cluster, each) for each in SERVICE["command"])
    ports = f"gateway.port.range={first + 2}-{first + 11}"
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(places.get(word, word) for word in program),
                *(re.sub(r"gateway\.port\.range=31000-31009$", ports, each) for each in overrides),
            ],
            env=os.environ | {"WEIR_ADMIN_TOKEN": TOKEN},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith("REST:"):
                break
        else:
            pytest.fail((directory / "log").read_text())
        yield bootstrap, console
    finally:
        process.terminate()
        process.stdout.close()
        process.wait()


@contextmanager
def _cluster(kind: str, directory: Path) -> Iterator[str]:
    if kind == "kafka":
        with KafkaCluster(directory) as kafka:
            yield kafka.bootstrap()
    else:
        with BrokerProcess(directory) as broker:
            yield broker.plain


@pytest.mark.parametrize("kind", ["weir", pytest.param("kafka", marks=kafka_tools.pytestmark)])
def test_a_client_of_the_cluster_is_limited(tmp_path: Path, kind: str) -> None:
    """`weir` is a broker of ours as the cluster, for machines without Java."""
    for name in ("cluster", "gateway"):
        (tmp_path / name).mkdir()
    limit = [str(WEIR), "quotas", "set", "--client-id", "visitor", "producer_byte_rate=10000"]
    with _cluster(kind, tmp_path / "cluster") as cluster:
        with _gateway(tmp_path / "gateway", cluster) as (bootstrap, console):
            of_gateway = os.environ | {"WEIR_TOKEN": TOKEN, "WEIR_CONSOLE": f"http://{console}"}
            subprocess.run(limit, env=of_gateway, check=True, capture_output=True)
            limited = _send(bootstrap, "visitor")
            other = _send(bootstrap, "other")
        direct = _send(cluster, "visitor")
    assert re.fullmatch(r"throttled for \d+ ms\n", limited.stdout), limited.stderr
    assert other.returncode == direct.returncode == 1
    assert "not throttled" in other.stderr and "not throttled" in direct.stderr


def _send(bootstrap: str, client_id: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(PROGRAM), bootstrap, client_id], capture_output=True, text=True, timeout=60
    )

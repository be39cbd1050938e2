"""docs/migration.md: the quotas of a cluster become those of a gateway, and come back."""

import os
import subprocess
from pathlib import Path
from typing import Final

import yaml

from tests.support import kafka_tools
from tests.support.broker_process import TOKEN, WEIR, within
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_cluster import KafkaCluster
from tests.support.kafka_tools import CONFIGS, run

pytestmark = kafka_tools.pytestmark

ALICE: Final = ("--entity-type", "users", "--entity-name", "alice")
BOB: Final = ("--entity-type", "users", "--entity-name", "bob")
APP: Final = ("--entity-type", "clients", "--entity-name", "app")
RULES: Final = (
    (ALICE, "producer_byte_rate=1000000"),
    (("--entity-type", "users", "--entity-default"), "consumer_byte_rate=2000000"),
    ((*BOB, *APP), "request_percentage=12.5"),
    (("--entity-type", "clients", "--entity-default"), "controller_mutation_rate=5"),
    (("--entity-type", "ips", "--entity-name", "10.0.0.7"), "connection_creation_rate=20"),
)
EXPORTED: Final = [
    {"entity": {"user": "alice"}, "limits": {"producer_byte_rate": 1_000_000}},
    {"entity": {"user": None}, "limits": {"consumer_byte_rate": 2_000_000}},
    {"entity": {"user": "bob", "client-id": "app"}, "limits": {"request_percentage": 12.5}},
    {"entity": {"client-id": None}, "limits": {"controller_mutation_rate": 5}},
    {"entity": {"ip": "10.0.0.7"}, "limits": {"connection_creation_rate": 20}},
]


def weir(gateway: GatewayProcess, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = os.environ | {"WEIR_TOKEN": TOKEN, "WEIR_CONSOLE": f"http://{gateway.console}"}
    return subprocess.run(
        [WEIR, "quotas", *arguments], env=environment, capture_output=True, text=True, timeout=60
    )


def exported(gateway: GatewayProcess) -> list[object]:
    rules: list[object] = yaml.safe_load(weir(gateway, "export").stdout)["quotas"]
    return rules


def alter(bootstrap: str, entity: tuple[str, ...], *change: str) -> None:
    run(CONFIGS, "--bootstrap-server", bootstrap, "--alter", *entity, *change)


def by_entity(rules: list[object]) -> list[str]:
    return sorted(map(str, rules))


def test_quotas_move_to_a_gateway_and_back(tmp_path: Path) -> None:
    (tmp_path / "gateway").mkdir()
    file = tmp_path / "quotas.yaml"
    with KafkaCluster(tmp_path) as cluster:
        for entity, limit in RULES:
            alter(cluster.bootstrap(), entity, "--add-config", limit)

        follows = "gateway.quotas=upstream"
        with GatewayProcess(tmp_path / "gateway", cluster.bootstrap(), follows, nodes=1) as gateway:
            within(10, lambda: by_entity(exported(gateway)) == by_entity(EXPORTED), "the cluster's rules")
            file.write_text(weir(gateway, "export").stdout)
            assert gateway.stop() == 0

        for entity, limit in RULES:
            alter(cluster.bootstrap(), entity, "--delete-config", limit.partition("=")[0])
        # The gateway keeps what it followed, and from now on is the only one that has it.
        with GatewayProcess(tmp_path / "gateway", cluster.bootstrap(), nodes=1) as gateway:
            assert by_entity(exported(gateway)) == by_entity(EXPORTED)
            planned = weir(gateway, "plan", "--prune", str(file))
            assert (planned.returncode, planned.stdout) == (0, "Nothing to change.\n")
            changed = weir(gateway, "set", "--user", "alice", "producer_byte_rate=2000000")
            assert changed.returncode == 0, changed.stderr
            described = run(CONFIGS, "--bootstrap-server", gateway.bootstrap, "--describe", *ALICE)
            assert "producer_byte_rate=2000000" in described
            assert "producer_byte_rate" not in run(
                CONFIGS, "--bootstrap-server", cluster.bootstrap(), "--describe", *ALICE
            )
            assert gateway.stop() == 0

        # Back: the cluster has them again, by the same tool.
        for entity, limit in RULES:
            alter(cluster.bootstrap(), entity, "--add-config", limit)
        with GatewayProcess(tmp_path / "gateway", cluster.bootstrap(), follows, nodes=1) as gateway:
            within(10, lambda: by_entity(exported(gateway)) == by_entity(EXPORTED), "the cluster's rules")

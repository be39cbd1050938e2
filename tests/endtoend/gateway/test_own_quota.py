"""A quota of the cluster for the gateways' own user: they read of each other later, and none of them ends."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import trio

from broker.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from tests.support import kafka_tools
from tests.support.gateway_process import GatewayProcess, set_rate
from tests.support.kafka_cluster import KafkaCluster
from tests.support.wire import connect

pytestmark = kafka_tools.pytestmark

RATE = 100
"""Bytes per second, less than the reports of two gateways have."""

FOR_S = 15
WITHIN_S = 60


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("alone"), 1) as running:
        yield running


def limit_fetches(cluster: KafkaCluster, rate: int | None) -> None:
    """Set consumer_byte_rate of every user without one of its own, as of ANONYMOUS; None removes it."""
    (node,) = cluster.nodes.values()

    async def ask() -> int:
        client = await connect(node.ports["PLAINTEXT"])
        op = OpData("consumer_byte_rate", rate or 0, rate is None)
        entry = RequestEntryData([EntityData("user", None)], [op])
        (answer,) = (await client.ask(AlterClientQuotasRequest([entry], False), 1)).entries
        await client.stream.aclose()
        return int(answer.error_code)

    assert trio.run(ask) == 0


def rules(gateway: GatewayProcess) -> set[str | None]:
    return {each["entity"].get("client-id") for each in gateway.ask("GET", "/api/v1/client-quotas")["items"]}


def test_gateways_whose_user_has_a_quota_go_on(
    alone: KafkaCluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with ExitStack() as stack:
        gateways = []
        for number in (1, 2):
            directory: Path = tmp_path_factory.mktemp("gateway")
            settings = ("quota.scope=cluster", f"node.id={number}")
            process = GatewayProcess(directory, alone.bootstrap(), *settings, nodes=1)
            gateways.append(stack.enter_context(process))
        set_rate(gateways[0], "before", 1_000)
        limit_fetches(alone, RATE)
        ends = time.monotonic() + FOR_S
        while time.monotonic() < ends:
            assert all(each.running.poll() is None for each in gateways), gateways[0].log_lines[-10:]
            time.sleep(0.5)
        limit_fetches(alone, None)
        set_rate(gateways[0], "after", 1_000)
        ends = time.monotonic() + WITHIN_S
        while not rules(gateways[1]) >= {"before", "after"}:
            assert time.monotonic() < ends
            time.sleep(0.5)

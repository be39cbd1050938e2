"""The gateways' topics are deleted, at a cluster of its own: limits hold, and no rule is lost."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Final
from urllib.error import HTTPError

import pytest
from confluent_kafka.admin import AdminClient

from tests.support import kafka_tools
from tests.support.broker_process import within
from tests.support.gateway_process import GatewayProcess, set_rate
from tests.support.greedy_load import CLIENT_ID, GreedyLoad
from tests.support.kafka_cluster import KafkaCluster

pytestmark = kafka_tools.pytestmark

METADATA: Final = "__weir_metadata"
SHARES: Final = "__weir_shares"
RATE: Final = 2_000_000
TOLERANCE: Final = 0.05
SECONDS: Final = 30.0


@pytest.fixture
def gateways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[GatewayProcess]]:
    with KafkaCluster(tmp_path_factory.mktemp("kafka")) as cluster, ExitStack() as stack:
        found = []
        for number in range(2):
            directory = tmp_path_factory.mktemp("gateway")
            settings = ("quota.scope=cluster", f"node.id={number}")
            process = GatewayProcess(directory, cluster.bootstrap(), *settings, nodes=1)
            found.append(stack.enter_context(process))
        set_rate(found[0], CLIENT_ID, RATE)
        wait(lambda: [rate(each) for each in found] == [RATE, RATE])
        yield found


def wait(condition: Callable[[], bool]) -> None:
    within(SECONDS, condition, "the gateways agree")


def delete(gateway: GatewayProcess, topic: str) -> None:
    (upstream,) = [each for each in gateway.settings if each.startswith("upstream.bootstrap.servers=")]
    admin = AdminClient({"bootstrap.servers": upstream.partition("=")[2]})
    admin.delete_topics([topic], operation_timeout=30)[topic].result(30)


def rate(gateway: GatewayProcess) -> float | None:
    """The limit of the client id at this gateway's console."""
    path = f"/api/v1/client-quotas?search={CLIENT_ID}"
    for row in gateway.ask("GET", path)["items"]:
        return float(row["limits"]["producer_byte_rate"]["value"])
    return None


def has_line(gateway: GatewayProcess, text: str) -> bool:
    return any(text in line for line in gateway.log_lines)


def test_limits_hold_after_the_topic_of_reports_is_deleted(gateways: list[GatewayProcess]) -> None:
    with GreedyLoad("lost-topics", RATE, len(gateways)) as load:
        for number, gateway in enumerate(gateways):
            load.start(number, gateway.bootstrap, 2)
        load.rates(8)
        assert sum(load.rates(6)) == pytest.approx(1, abs=TOLERANCE)
        for _ in range(2):
            delete(gateways[0], SHARES)
            rates = load.rates(8)
            print(f"parts of the limit in the 8 s after the deletion: {rates}, together {sum(rates):.4f}")
            assert sum(rates) < 1 + TOLERANCE
            rates = load.rates(6)
            print(f"and in the next 6 s: {rates}, together {sum(rates):.4f}")
            assert sum(rates) == pytest.approx(1, abs=TOLERANCE) and min(rates) > 0.1
    for gateway in gateways:
        assert has_line(gateway, "the topic of reports has lost records")
        assert not has_line(gateway, "Traceback")


def test_rules_stay_and_changes_are_refused_after_the_metadata_is_deleted(
    gateways: list[GatewayProcess],
) -> None:
    delete(gateways[0], METADATA)
    for gateway in gateways:
        wait(lambda gateway=gateway: has_line(gateway, "cannot follow the metadata of the cluster"))
    for gateway in gateways:
        assert rate(gateway) == RATE
        with pytest.raises(HTTPError) as refusal:
            set_rate(gateway, CLIENT_ID, 2 * RATE)
        with refusal.value as answer:
            assert answer.code == 503, answer.read()
        assert rate(gateway) == RATE
        assert not has_line(gateway, "Traceback")
    # What an operator does then: gateways with empty metadata files make a new log.
    for gateway in gateways:
        assert gateway.stop() == 0
    for gateway in gateways:
        (gateway.directory / "data").rename(gateway.directory / "before")
        gateway.start()
    set_rate(gateways[1], CLIENT_ID, 2 * RATE)
    wait(lambda: [rate(each) for each in gateways] == [2 * RATE, 2 * RATE])

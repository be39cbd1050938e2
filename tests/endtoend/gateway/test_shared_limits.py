"""Three gateways that share a limit, in front of a real cluster: the sum of what passes, and a kill -9."""

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support import kafka_tools
from tests.support.gateway_process import GatewayProcess, set_rate
from tests.support.greedy_load import CLIENT_ID, GreedyLoad
from tests.support.kafka_cluster import KafkaCluster

pytestmark = kafka_tools.pytestmark

RATE = 2_000_000
PRODUCERS = (4, 2, 1)
"""At each gateway. With a quarter of the limit in equal parts, the shares are 0.51, 0.30 and 0.19."""

TOLERANCE = 0.05

LOST_S = 5.0
"""The time until the shares of a killed gateway are free."""

LOOK_S = 0.5
"""What reading and asking may take on top of it."""


@pytest.fixture
def gateways(
    cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[GatewayProcess]]:
    with ExitStack() as stack:
        found = []
        for number in range(len(PRODUCERS)):
            directory = tmp_path_factory.mktemp("gateway")
            settings = ("quota.scope=cluster", f"node.id={number}")
            process = GatewayProcess(directory, cluster.bootstrap(), *settings, nodes=cluster.count)
            found.append(stack.enter_context(process))
        set_rate(found[0], CLIENT_ID, RATE)
        yield found


def shares(gateway: GatewayProcess) -> dict[str, float]:
    """The share of each gateway in the limit, by the node id that its own id begins with."""
    rows = gateway.ask("GET", f"/api/v1/gateway-shares?search={CLIENT_ID}")["items"]
    return {row["gateway_id"].partition("-")[0]: row["share"] / row["limit"] for row in rows}


def test_three_gateways_hold_one_limit_and_a_killed_one_gives_its_share_back(
    gateways: list[GatewayProcess],
) -> None:
    with GreedyLoad("shared-limits", RATE, len(gateways)) as load:
        for number, (gateway, count) in enumerate(zip(gateways, PRODUCERS, strict=True)):
            load.start(number, gateway.bootstrap, count)
        time.sleep(8)
        rates = load.rates(12)
        print(f"parts of the limit over 12 s: {rates}, together {sum(rates):.4f}")
        assert sum(rates) == pytest.approx(1, abs=TOLERANCE)
        assert rates[0] > rates[1] > rates[2] > 0.1
        assert sorted(shares(gateways[1])) == ["0", "1", "2"]
        gateways[0].kill()
        killed = time.monotonic()
        while "0" in shares(gateways[1]):
            assert time.monotonic() - killed < LOST_S + LOOK_S
            time.sleep(0.05)
        print(f"its share was free after {time.monotonic() - killed:.2f} s")
        # A producer's connection can be throttled for some seconds when its share rises.
        time.sleep(max(killed + 7 - time.monotonic(), 0))
        assert sum(shares(gateways[1]).values()) == pytest.approx(1, abs=TOLERANCE)
        rates = load.rates(10)
        print(f"parts of the limit of the others over 10 s: {rates}, together {sum(rates):.4f}")
        assert rates[0] == 0
        assert sum(rates) == pytest.approx(1, abs=TOLERANCE)
    for gateway in gateways[1:]:
        assert not [line for line in gateway.log_lines if "reports of gateways" in line]

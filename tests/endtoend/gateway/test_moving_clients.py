"""Thirty producers of one user that move between three gateways before a real cluster: the sum of what the
brokers append is the user's limit.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import pytest

from tests.support import kafka_tools
from tests.support.broker_process import within
from tests.support.gateway_process import GatewayProcess, upstream_security
from tests.support.kafka_cluster import KafkaCluster
from tests.support.moving_load import LogEnd, MovingLoad
from tests.support.real_clients import Target, create

pytestmark = kafka_tools.pytestmark

LISTENER: Final = "SASL_PLAINTEXT"
TOPIC: Final = "moving-clients"
PARTITIONS: Final = 3
LIMIT: Final = 3_000_000
PRODUCERS: Final = 30
TOLERANCE: Final = 0.05
STEADY_S: Final = 5.0
MEASURED_S: Final = 30.0


@pytest.fixture
def gateways(
    cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[GatewayProcess]]:
    with ExitStack() as stack:
        found = []
        for number in (1, 2, 3):
            process = GatewayProcess(
                tmp_path_factory.mktemp("gateway"),
                cluster.bootstrap(LISTENER),
                f"upstream.security.protocol={LISTENER}",
                *upstream_security(LISTENER),
                "quota.scope=cluster",
                f"node.id={number}",
                listener=LISTENER,
                nodes=cluster.count,
            )
            found.append(stack.enter_context(process))
        yield found


def test_thirty_clients_that_move_have_one_limit(
    cluster: KafkaCluster, gateways: list[GatewayProcess]
) -> None:
    create(Target(cluster.bootstrap()), TOPIC, PARTITIONS)
    op = {"key": "producer_byte_rate", "value": LIMIT}
    gateways[0].ask(
        "PATCH", "/api/v1/client-quotas", {"entries": [{"entity": {"user": "alice"}, "ops": [op]}]}
    )
    targets = [Target(each.bootstrap, LISTENER, "PLAIN") for each in gateways]
    end = LogEnd(cluster.bootstrap(), TOPIC, PARTITIONS)
    with MovingLoad(TOPIC, targets, PRODUCERS) as load:
        within(60, lambda: load.acknowledging == PRODUCERS, "every producer has begun")
        # The allowance of the first ten seconds is used up, and demand is steady from then on.
        end.rate(10 + STEADY_S)
        moved = load.moves
        parts = [end.rate(MEASURED_S / 3) / LIMIT for _ in range(3)]
        moved = load.moves - moved
    mean = sum(parts) / len(parts)
    print(f"parts of the limit in {MEASURED_S:.0f} s: {parts}, mean {mean:.4f}, with {moved} moves")
    assert moved > 2 * PRODUCERS
    assert mean == pytest.approx(1, abs=TOLERANCE)
    for gateway in gateways:
        assert not [line for line in gateway.log_lines if "reports of gateways" in line]

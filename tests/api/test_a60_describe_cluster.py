"""DescribeCluster."""

import pytest

from broker.common.errors import ErrorCode
from broker.protocol.messages.describe_cluster import DescribeClusterRequest
from tests.api.harness import Harness


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_there_is_one_broker_and_it_is_the_controller(harness: Harness, version: int) -> None:
    reply = await harness.ask(DescribeClusterRequest(), version)
    assert (reply.error_code, reply.cluster_id) == (ErrorCode.NONE, harness.control.image.cluster_id)
    assert reply.controller_id == 1
    assert [(each.broker_id, each.host, each.port) for each in reply.brokers] == [(1, "broker.example", 9092)]


async def test_the_answer_is_kept(harness: Harness) -> None:
    asking = await harness.put(DescribeClusterRequest())
    assert asking.outcome.cacheable  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("endpoint_type", "error"),
    [
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (1, ErrorCode.NONE),
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
async def test_only_brokers_can_be_asked_for(harness: Harness, endpoint_type: int, error: ErrorCode) -> None:
    reply = await harness.ask(DescribeClusterRequest(endpoint_type=endpoint_type))
    assert reply.error_code == error

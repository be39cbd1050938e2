"""Gateways that follow the quotas of one cluster and have one metadata log: each change is written once."""

from typing import Any

import pytest
import trio

from broker.controller.commands import ResourceType
from broker.gateway.upstream_quotas import UpstreamQuotas
from broker.protocol.messages.client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from broker.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from broker.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tests.gateway.sharing.test_metadata_log import ALICE, BOB, RATE, Gateway
from tests.gateway.sharing.test_metadata_log import start as start
from tests.gateway.sharing.test_metadata_log import stores as stores
from tests.gateway.sharing.test_metadata_log import topic as topic

SUBSCRIPTION_SOURCE = 7


class Cluster:
    """An `UpstreamClient`. It takes `takes_s` for a response, which has what there was at the request."""

    def __init__(self) -> None:
        self.limits: dict[Any, dict[str, float]] = {ALICE: {RATE: 1_000.0}}
        self.subscriptions: dict[str, dict[str, str]] = {}
        self.takes_s = 0.001

    async def request(self, _node: int | None, message: Any, _version: Any = None, *, lane: str) -> Any:
        answer = self._answer(message)
        await trio.sleep(self.takes_s)
        return answer

    def _answer(self, message: Any) -> Any:
        if isinstance(message, DescribeClientQuotasRequest):
            entries = [
                EntryData(
                    [EntityData(*pair) for pair in pairs], [ValueData(*each) for each in limits.items()]
                )
                for pairs, limits in self.limits.items()
            ]
            return DescribeClientQuotasResponse(entries=entries)
        if isinstance(message, ListConfigResourcesRequest):
            return ListConfigResourcesResponse(0, 0, [ConfigResource(name) for name in self.subscriptions])
        results = []
        for each in message.resources:
            own = self.subscriptions[each.resource_name]
            configs = [
                DescribeConfigsResourceResult(key, value, False, SUBSCRIPTION_SOURCE)
                for key, value in own.items()
            ]
            name = each.resource_name
            results.append(DescribeConfigsResult(0, None, ResourceType.CLIENT_METRICS, name, configs))
        return DescribeConfigsResponse(results=results)


def follower(gateway: Gateway, cluster: Cluster) -> UpstreamQuotas:
    return UpstreamQuotas(cluster, gateway.control, lambda: True, telemetry=True)  # type: ignore[arg-type]


def written(gateway: Gateway) -> list[tuple[str, str, str | None]]:
    return [(row.entity, row.key, row.new) for row in gateway.rows()]


ALICES = '[["user","alice"]]'


async def test_each_change_of_the_cluster_is_one_record(autojump_clock, start, topic, nursery, caplog):
    gateways, cluster = start("a", "b", "c"), Cluster()
    for gateway in gateways:
        nursery.start_soon(follower(gateway, cluster).run)
        await trio.sleep(0.3)
    await trio.sleep(5)
    assert len(topic.entries) == 1
    cluster.limits = {ALICE: {RATE: 2_000.0}, BOB: {RATE: 5.0}}
    cluster.subscriptions = {"all": {"metrics": "*"}}
    await trio.sleep(5)
    assert len(topic.entries) == 3
    cluster.limits, cluster.subscriptions = {}, {}
    await trio.sleep(5)
    assert len(topic.entries) == 5
    for gateway in gateways:
        assert written(gateway) == [
            (ALICES, RATE, "1000"),
            (ALICES, RATE, "2000"),
            ('[["user","bob"]]', RATE, "5"),
            ("all", "metrics", "*"),
            (ALICES, RATE, None),
            ('[["user","bob"]]', RATE, None),
            ("all", "metrics", None),
        ]
    assert caplog.records == []


async def test_of_gateways_that_read_at_the_same_moment_one_writes(autojump_clock, start, nursery, caplog):
    gateways, cluster = start("a", "b", "c"), Cluster()
    cluster.subscriptions = {"all": {"metrics": "*"}}
    for gateway in gateways:
        nursery.start_soon(follower(gateway, cluster).run)
    await trio.sleep(5)
    for gateway in gateways:
        assert gateway.rate(ALICE) == 1_000
        assert written(gateway) == [(ALICES, RATE, "1000"), ("all", "metrics", "*")]
    assert caplog.records == []


@pytest.mark.parametrize("takes_s", [0.05, 0.5])
async def test_limits_read_before_anothers_change_are_not_written(autojump_clock, start, nursery, takes_s):
    (first, second), cluster = start("a", "b"), Cluster()
    slow, quick = Cluster(), follower(second, cluster)
    await quick.follow()
    slow.takes_s = takes_s
    nursery.start_soon(follower(first, slow).follow)
    await trio.sleep(takes_s / 2)
    cluster.limits = {ALICE: {RATE: 2_000.0}}
    await quick.follow()
    await trio.sleep(5)
    for gateway in (first, second):
        assert gateway.rate(ALICE) == 2_000
        assert written(gateway) == [(ALICES, RATE, "1000"), (ALICES, RATE, "2000")]


async def test_a_difference_that_another_gateway_left_is_written_at_the_next_reading(autojump_clock, start):
    """Both change alice at once, to different limits: what the last reading says holds at last."""
    (first, second), cluster = start("a", "b"), Cluster()
    other = Cluster()
    other.limits = {ALICE: {RATE: 7.0}}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follower(first, cluster).follow)
        nursery.start_soon(follower(second, other).follow)
    await trio.sleep(1)
    assert first.rate(ALICE) == second.rate(ALICE)
    await follower(first, cluster).follow()
    await trio.sleep(1)
    assert first.rate(ALICE) == second.rate(ALICE) == 1_000

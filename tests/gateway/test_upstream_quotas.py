"""With gateway.quotas=upstream, the gateway follows the quotas and subscriptions of the cluster."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from broker.common.errors import ErrorCode
from broker.common.temporary_limits import TemporaryLimit
from broker.controller.commands import (
    AlterClientQuotas,
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    IncrementalAlterConfigs,
    OpType,
    QuotaAlteration,
    QuotaOp,
    ResourceType,
    TemporaryOp,
    Undo,
)
from broker.gateway.upstream_quotas import READ_ONLY
from broker.metadata.actor import COMMAND_LINE
from broker.metadata.changes import AuditFilter
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
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
from broker.protocol.messages.list_config_resources import ConfigResource as ListedResource
from broker.protocol.messages.list_config_resources import ListConfigResourcesResponse
from tests.support.gateway_upstream import Upstream, gateway_upstream
from tests.support.running_gateway import RunningGateway

ALICE = (("user", "alice"),)
DEFAULT = (("client-id", None),)
CLIENT_METRICS = ResourceType.CLIENT_METRICS
SOURCE, DEFAULT_SOURCE = 7, 5


class Quotas:
    """What the cluster has; a test changes it."""

    def __init__(self, upstream: Upstream) -> None:
        self.limits: dict[Any, dict[str, float]] = {ALICE: {"producer_byte_rate": 1000.0}}
        self.subscriptions: dict[str, dict[str, str]] = {}
        self.error = 0
        upstream.node.answers |= {
            ApiKey.DESCRIBE_CLIENT_QUOTAS: self._quotas,
            ApiKey.LIST_CONFIG_RESOURCES: self._listed,
            ApiKey.DESCRIBE_CONFIGS: self._described,
        }

    def _quotas(self, _request: Any) -> DescribeClientQuotasResponse:
        if self.error:
            return DescribeClientQuotasResponse(0, self.error, "no", None)
        entries = [
            EntryData([EntityData(*pair) for pair in pairs], [ValueData(*each) for each in limits.items()])
            for pairs, limits in self.limits.items()
        ]
        return DescribeClientQuotasResponse(entries=entries)

    def _listed(self, _request: Any) -> ListConfigResourcesResponse:
        return ListConfigResourcesResponse(0, 0, [ListedResource(name) for name in self.subscriptions])

    def _described(self, request: Any) -> DescribeConfigsResponse:
        results = []
        for each in request.resources:
            own = self.subscriptions[each.resource_name]
            configs = [DescribeConfigsResourceResult(key, value, False, SOURCE) for key, value in own.items()]
            configs.append(DescribeConfigsResourceResult("match", "", False, DEFAULT_SOURCE))
            results.append(DescribeConfigsResult(0, None, CLIENT_METRICS, each.resource_name, configs))
        return DescribeConfigsResponse(results=results)


class Followed:
    """A gateway in front of a cluster with quotas."""

    def __init__(self, gateway: RunningGateway, upstream: Upstream, quotas: Quotas) -> None:
        self.gateway = gateway
        self.upstream = upstream
        self.quotas = quotas
        self.control = gateway.server.control

    @property
    def limits(self) -> dict[Any, dict[str, float]]:
        return {
            pairs: {key: limit.value for key, limit in entry.limits.items()}
            for pairs, entry in self.control.image.quotas.items()
        }

    @property
    def subscriptions(self) -> dict[str, dict[str, str]]:
        return {name: dict(entry.configs) for name, entry in self.control.image.client_metrics.items()}

    async def follow(self) -> None:
        assert self.gateway.server.followed is not None
        await self.gateway.server.followed.follow()


@asynccontextmanager
async def following(tmp_path: Path, *overrides: str) -> AsyncIterator[Followed]:
    async with gateway_upstream(tmp_path, "gateway.quotas=upstream", *overrides) as (gateway, upstream):
        yield Followed(gateway, upstream, Quotas(upstream))


async def test_limits_are_added_changed_and_removed(mock_clock: MockClock, tmp_path: Path) -> None:
    async with following(tmp_path) as at:
        await at.follow()
        assert at.limits == at.quotas.limits
        at.quotas.limits = {
            ALICE: {"producer_byte_rate": 2000.0, "request_percentage": 50.0},
            DEFAULT: {"controller_mutation_rate": 3.0},
            (("user", "bob"), ("client-id", "b")): {"consumer_byte_rate": 1e12},
            (("ip", "127.0.0.1"),): {"connection_creation_rate": 5.0},
        }
        await at.follow()
        assert at.limits == at.quotas.limits
        assert at.gateway.server.quotas.mutation.active
        version = at.control.image.version
        await at.follow()
        assert at.control.image.version == version
        at.quotas.limits = {ALICE: {"request_percentage": 50.0}}
        await at.follow()
        assert at.limits == at.quotas.limits
        assert not at.gateway.server.quotas.mutation.active


async def test_a_change_of_the_cluster_holds_a_second_later(mock_clock: MockClock, tmp_path: Path) -> None:
    async with following(tmp_path) as at:
        changed = trio.Event()
        at.control.subscribe(lambda _old, _new, _delta: changed.set())
        mock_clock.jump(0.999)
        for _ in range(200):
            await trio.lowlevel.checkpoint()
        assert not changed.is_set()
        mock_clock.jump(0.001)
        await changed.wait()
        assert at.limits == at.quotas.limits
        assert trio.current_time() == 1


async def test_the_audit_names_the_cluster(tmp_path: Path) -> None:
    async with following(tmp_path) as at:
        await at.follow()
        (row,) = await at.gateway.server.views.metadata.audit(AuditFilter(kind="client-quota"))
        assert (row.actor, row.origin, row.new) == ("upstream cluster", "upstream", "1000")


async def test_subscriptions_are_followed(mock_clock: MockClock, tmp_path: Path) -> None:
    async with following(tmp_path) as at:
        at.quotas.subscriptions = {
            "all": {"metrics": "*", "interval.ms": "1000"},
            "some": {"metrics": "org.apache.kafka.producer.", "match": "client_id=a.*"},
        }
        await at.follow()
        assert at.subscriptions == at.quotas.subscriptions
        at.quotas.subscriptions = {"all": {"metrics": "*"}}
        await at.follow()
        assert at.subscriptions == {"all": {"metrics": "*"}}
        at.quotas.subscriptions = {}
        await at.follow()
        assert at.subscriptions == {}


async def test_a_cluster_before_client_metrics_has_quotas(mock_clock: MockClock, tmp_path: Path) -> None:
    async with following(tmp_path) as at:
        del at.upstream.node.versions[ApiKey.LIST_CONFIG_RESOURCES]
        await at.follow()
        assert at.limits == at.quotas.limits


def quota_edit(shadow: bool | None = None, **ops: float | None) -> AlterClientQuotas:
    made = tuple(QuotaOp(key, value) for key, value in ops.items())
    return AlterClientQuotas((QuotaAlteration(ALICE, made, shadow=shadow),))


async def test_edits_at_the_console_are_refused_except_of_shadow_mode(tmp_path: Path) -> None:
    async with following(tmp_path) as at:
        at.quotas.subscriptions = {"all": {"metrics": "*"}}
        await at.follow()
        before = at.control.image.version
        refusal = (ErrorCode.POLICY_VIOLATION, READ_ONLY)
        (outcome,) = await at.control.apply(quota_edit(producer_byte_rate=5.0), COMMAND_LINE)
        assert (outcome.error, outcome.message, outcome.entity) == (*refusal, ALICE)
        op = ConfigOp("interval.ms", OpType.SET, "1000")
        resources = (ConfigResource(CLIENT_METRICS, "all"), ConfigResource(ResourceType.BROKER, ""))
        change = ConfigOp("quota.max.throttle.ms", OpType.SET, "5000")
        command = IncrementalAlterConfigs(
            (ConfigAlteration(resources[0], (op,)), ConfigAlteration(resources[1], (change,)))
        )
        first, second = await at.control.apply(command, COMMAND_LINE)
        assert (first.error, first.message, first.resource) == (*refusal, resources[0])
        assert second.ok and second.resource == resources[1]
        rows = list(await at.gateway.server.views.metadata.audit(AuditFilter(kind="client-quota")))
        undone = await at.control.apply(Undo(rows[0].seq), COMMAND_LINE)
        assert (undone.error, undone.message) == refusal
        assert at.control.image.version == before + 1
        (outcome,) = await at.control.apply(quota_edit(shadow=True), COMMAND_LINE)
        assert outcome.ok
        at.quotas.limits[ALICE] = {"producer_byte_rate": 3000.0}
        await at.follow()
        assert at.control.image.quotas[ALICE].shadow and at.limits == at.quotas.limits


async def test_a_temporary_limit_lies_over_what_the_cluster_says(tmp_path: Path) -> None:
    async with following(tmp_path) as at:
        at.quotas.limits[ALICE] = {"producer_byte_rate": 1000.0}
        await at.follow()
        limit = TemporaryLimit(5000.0, until_ms=at.control.wall_ms() + 3_600_000)
        times = (TemporaryOp("producer_byte_rate", limit),)
        command = AlterClientQuotas((QuotaAlteration(ALICE, (), temporary=times),))
        (outcome,) = await at.control.apply(command, COMMAND_LINE)
        assert outcome.ok
        at.quotas.limits[ALICE] = {"producer_byte_rate": 3000.0}
        await at.follow()
        version = at.control.image.version
        await at.follow()
        entry = at.control.image.quotas[ALICE]
        assert entry.limits["producer_byte_rate"].value == 5000.0
        assert entry.permanent["producer_byte_rate"].value == 3000.0
        assert at.control.image.version == version


async def test_clients_requests_about_quotas_go_to_the_cluster(tmp_path: Path) -> None:
    async with following(tmp_path) as at:
        at.upstream.node.answers[ApiKey.ALTER_CLIENT_QUOTAS] = lambda _: AlterClientQuotasResponse(13)
        client = await at.gateway.connect()
        assert (await client.ask(AlterClientQuotasRequest(), 1)).throttle_time_ms == 13
        reply = await client.ask(DescribeClientQuotasRequest(), 1)
        assert [(each.entity[0].entity_name, each.values[0].value) for each in reply.entries] == [
            ("alice", 1000.0)
        ]


async def test_a_quota_that_the_gateway_cannot_apply_is_left_out_with_one_log_line(
    mock_clock: MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with following(tmp_path) as at:
        at.quotas.limits = {
            ALICE: {"producer_byte_rate": 1.0, "later_rate": 2.0},
            (("galaxy", "m31"),): {"producer_byte_rate": 1.0},
        }
        for _ in range(3):
            await at.follow()
        assert at.limits == {ALICE: {"producer_byte_rate": 1.0}}
        reasons = [each.reason for each in caplog.records if "cannot apply a quota" in each.message]  # type: ignore[attr-defined]
        assert len(reasons) == 2
        assert any("later_rate" in each for each in reasons) and any("galaxy" in each for each in reasons)


async def test_the_last_limits_hold_while_the_cluster_cannot_be_read(
    mock_clock: MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with following(tmp_path) as at:
        await at.follow()
        at.quotas.error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        limits, at.quotas.limits = at.quotas.limits, {}
        for _ in range(3):
            await at.follow()
        assert at.limits == limits
        at.quotas.error = 0
        await at.follow()
        assert at.limits == {}
        lines = [each.message for each in caplog.records if "upstream cluster's quotas" in each.message]
        assert lines == [
            "cannot read the upstream cluster's quotas: the last ones hold",
            "the upstream cluster's quotas can be read again",
        ]


async def test_the_last_limits_hold_after_a_restart(tmp_path: Path) -> None:
    async with following(tmp_path) as at:
        await at.follow()
        limits = at.quotas.limits
    async with following(tmp_path) as at:
        at.upstream.node.answers_nothing = True
        assert at.limits == limits


async def test_quotas_of_another_cluster_are_not_followed(mock_clock: MockClock, tmp_path: Path) -> None:
    async with gateway_upstream(
        tmp_path, "gateway.quotas=upstream", "upstream.cluster.id=another", finds_cluster=False
    ) as (gateway, upstream):
        Quotas(upstream)
        for _ in range(5):
            mock_clock.jump(1)
            for _ in range(100):
                await trio.lowlevel.checkpoint()
        assert gateway.server.cluster.is_refused
        assert not upstream.requests_of(ApiKey.DESCRIBE_CLIENT_QUOTAS)
        assert gateway.server.control.image.quotas == {}

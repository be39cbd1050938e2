"""The upstream cluster's client quotas and client metrics subscriptions, which the gateway follows.

With `gateway.quotas=upstream`, clients' requests that read or change them are forwarded, so that
`kafka-configs.sh` on the cluster rules. The gateway reads both once a second and applies what has changed;
the console shows them and refuses edits, except of shadow mode and temporary limits, which a cluster does not
have. While the cluster cannot be read, the last ones hold, also after a restart. (KIP-546, KIP-714)

With quota.scope=cluster the gateways that follow the same cluster have one metadata log. Each change names
the version that was in force before the cluster was read, so the first gateway to write it is the only one:
at the others it is there already, or the version differs, and they read again.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import trio
from msgspec.structs import replace

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import SliceTimer, Steps
from broker.controller.client_quotas import plan_client_quotas
from broker.controller.commands import (
    UPSTREAM_CLUSTER,
    AlterClientQuotas,
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    IncrementalAlterConfigs,
    OpType,
    QuotaAlteration,
    QuotaOp,
    QuotaOutcome,
    ResourceOutcome,
    ResourceType,
)
from broker.controller.configs import plan_alter_configs
from broker.controller.control import Control
from broker.controller.describe import ConfigSource
from broker.controller.plan import Plan, Situation
from broker.gateway.upstream.client import UpstreamClient
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.protocol.messages.client_quotas import DescribeClientQuotasRequest, EntryData
from broker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from broker.protocol.messages.list_config_resources import ListConfigResourcesRequest
from broker.quotas.client_quota_requests import validate_alteration
from broker.quotas.entity import EntityPairs

logger = logging.getLogger(__name__)

INTERVAL_S: Final = 1.0
LANE: Final = "quotas"
ONLY_CLIENT_METRICS: Final = 0
"""The version of ListConfigResources that lists nothing else; brokers know it since Kafka 3.7."""

ALREADY_CHANGED: Final = ErrorCode.INVALID_UPDATE_VERSION
"""Another gateway has changed it since the cluster was read. The next read finds what is left to change."""

READ_ONLY: Final = (
    "The gateway follows the upstream cluster (gateway.quotas=upstream): make this change there, with "
    "kafka-configs.sh or kafka-client-metrics.sh."
)

Limits = dict[EntityPairs, dict[str, float]]
Subscriptions = dict[str, dict[str, str]]


class UpstreamQuotas:
    """`may_read` returns whether the cluster is the expected one. With `telemetry`, follows client metrics
    subscriptions too. Once built, `control` refuses other changes of what is followed.
    """

    def __init__(
        self, client: UpstreamClient, control: Control, may_read: Callable[[], bool], *, telemetry: bool
    ) -> None:
        self._client = client
        self._control = control
        self._may_read = may_read
        self._telemetry = telemetry
        self._is_failing = False
        self._refused: set[str] = set()
        control.add_planner(AlterClientQuotas, _plan_quotas)
        if telemetry:
            control.add_planner(IncrementalAlterConfigs, _plan_configs)

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            if self._may_read():
                await self.follow()
            await trio.sleep(INTERVAL_S)

    async def follow(self) -> None:
        """Read once, and apply what has changed. Logs the first failure, and the end of failing."""
        try:
            refused = await self._follow_quotas()
            if self._telemetry:
                refused |= await self._follow_subscriptions()
        except UpstreamError as error:
            if not self._is_failing:
                logger.warning(
                    "cannot read the upstream cluster's quotas: the last ones hold",
                    extra={"reason": str(error)},
                )
            self._is_failing = True
            return
        if self._is_failing:
            logger.info("the upstream cluster's quotas can be read again")
        self._is_failing = False
        for reason in sorted(refused - self._refused):
            logger.warning("cannot apply a quota of the upstream cluster", extra={"reason": reason})
        self._refused = refused

    async def _follow_quotas(self) -> set[str]:
        """Return why some cannot be applied. Raises UpstreamError."""
        quotas = self._control.image.quotas
        response = await self._client.request(None, DescribeClientQuotasRequest(), lane=LANE)
        if response.error_code or response.entries is None:
            raise _refused("DescribeClientQuotas", response.error_code, response.error_message)
        refused: set[str] = set()
        wanted = await self._limits(response.entries, refused)
        alterations = []
        timer = SliceTimer()
        for pairs in [*wanted, *(pairs for pairs in quotas if pairs not in wanted)]:
            entry = quotas.get(pairs)
            known = {} if entry is None else {key: limit.value for key, limit in entry.permanent.items()}
            ops = tuple(_ops(known, wanted.get(pairs, {})))
            if ops:
                version = 0 if entry is None else entry.version
                alterations.append(QuotaAlteration(pairs, ops, version))
            if timer.is_over():
                await trio.lowlevel.checkpoint()
        if alterations:
            command = AlterClientQuotas(tuple(alterations))
            for outcome in await self._control.apply(command, UPSTREAM_CLUSTER):
                if not outcome.ok and outcome.error != ALREADY_CHANGED:
                    refused.add(f"{dict(outcome.entity)}: {outcome.message}")
        return refused

    async def _limits(self, entries: list[EntryData], refused: set[str]) -> Limits:
        """Return the limits that the gateway can apply."""
        prefix = self._control.config.connections.ipv6_prefix_length
        limits: Limits = {}
        timer = SliceTimer()
        for entry in entries:
            pairs = tuple((each.entity_type, each.entity_name) for each in entry.entity)
            for each in entry.values:
                try:
                    entity = validate_alteration(pairs, [(each.key, each.value)], prefix)
                except ApiError as error:
                    refused.add(f"{dict(pairs)}: {each.key}={each.value}: {error.message}")
                else:
                    limits.setdefault(entity.pairs, {})[each.key] = each.value
            if timer.is_over():
                await trio.lowlevel.checkpoint()
        return limits

    async def _follow_subscriptions(self) -> set[str]:
        """Return why some cannot be applied. Raises UpstreamError."""
        known = self._control.image.client_metrics
        wanted = await self._subscriptions()
        changed = [
            ConfigAlteration(
                ConfigResource(ResourceType.CLIENT_METRICS, name),
                tuple(ConfigOp(key, OpType.SET, value) for key, value in wanted.get(name, {}).items()),
                known[name].version if name in known else 0,
            )
            for name in {**wanted, **known}
            if name not in known or known[name].configs != wanted.get(name)
        ]
        if not changed:
            return set()
        command = IncrementalAlterConfigs(tuple(changed), replaces=True)
        outcomes = await self._control.apply(command, UPSTREAM_CLUSTER)
        refused = [each for each in outcomes if not each.ok and each.error != ALREADY_CHANGED]
        return {f"{each.resource.name}: {each.message}" for each in refused}

    async def _subscriptions(self) -> Subscriptions:
        """Return the settings of each subscription; none if the cluster does not know any."""
        request = ListConfigResourcesRequest()
        try:
            listed = await self._client.request(None, request, ONLY_CLIENT_METRICS, lane=LANE)
        except UpstreamError as error:
            if error.reason is Reason.VERSION:
                return {}
            raise
        if listed.error_code:
            raise _refused("ListConfigResources", listed.error_code, None)
        names = [each.resource_name for each in listed.config_resources]
        if not names:
            return {}
        resources = [DescribeConfigsResource(ResourceType.CLIENT_METRICS, name, None) for name in names]
        described = await self._client.request(None, DescribeConfigsRequest(resources), lane=LANE)
        found: Subscriptions = {}
        for result in described.results:
            if result.error_code:
                raise _refused("DescribeConfigs", result.error_code, result.error_message)
            found[result.resource_name] = {
                each.name: each.value or ""
                for each in result.configs
                if each.config_source == ConfigSource.CLIENT_METRICS
            }
        return {name: configs for name, configs in found.items() if configs}


def _ops(known: Mapping[str, float], wanted: Mapping[str, float]) -> Iterator[QuotaOp]:
    for key, value in wanted.items():
        if known.get(key) != value:
            yield QuotaOp(key, value)
    for key in known:
        if key not in wanted:
            yield QuotaOp(key, None)


def _refused(api: str, code: int, message: str | None) -> UpstreamError:
    return UpstreamError(Reason.PROTOCOL, f"{api}: error {code}{f' ({message})' if message else ''}")


def _plan_quotas(command: AlterClientQuotas, at: Situation) -> Steps[Plan[list[QuotaOutcome]]]:
    """Plan the cluster's changes, and of others those of shadow mode and temporary limits only."""
    if at.actor == UPSTREAM_CLUSTER:
        return (yield from plan_client_quotas(command, at))
    own = tuple(each for each in command.entries if not each.ops)
    plan = yield from plan_client_quotas(replace(command, entries=own), at)
    planned = iter(plan.result)
    outcomes = [
        QuotaOutcome(ErrorCode.POLICY_VIOLATION, READ_ONLY, each.entity) if each.ops else next(planned)
        for each in command.entries
    ]
    return replace(plan, result=outcomes)


def _plan_configs(command: IncrementalAlterConfigs, at: Situation) -> Steps[Plan[list[ResourceOutcome]]]:
    """Plan the cluster's changes, and of others those of no client metrics."""
    if at.actor == UPSTREAM_CLUSTER:
        return (yield from plan_alter_configs(command, at))

    def is_followed(alteration: ConfigAlteration) -> bool:
        return alteration.resource.type == ResourceType.CLIENT_METRICS

    own = tuple(each for each in command.resources if not is_followed(each))
    plan = yield from plan_alter_configs(replace(command, resources=own), at)
    planned = iter(plan.result)
    outcomes = [
        ResourceOutcome(ErrorCode.POLICY_VIOLATION, READ_ONLY, each.resource)
        if is_followed(each)
        else next(planned)
        for each in command.resources
    ]
    return replace(plan, result=outcomes)

"""The facade of all client quotas, and the use of each rule: read by handlers and the console, updated from
the metadata image.

Built by the composition root. Handlers test `quotas.produce_active` before a call; the reapers of the network
package empty each manager's `throttled`; server.listeners calls `draft` and `switch` for the rules
of each change.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

import msgspec

from broker.common.slices import Steps
from broker.config.sections.quotas import BrokerQuotaConfig
from broker.metrics.rate import INT_MAX, Window
from broker.quotas.bandwidth import RateQuotaManager, RateSensor, SharedRateSensor
from broker.quotas.broker_quota import RULES, BrokerQuota
from broker.quotas.bucket import BucketQuotaManager
from broker.quotas.entity import Entity, Governing
from broker.quotas.guarded_callback import GuardedCallback
from broker.quotas.kinds import CLIENT_KEYS, KEY_OF, QuotaKind
from broker.quotas.manager import CLIENT_QUOTA_WINDOW, QuotaManager, RuleDraft
from broker.quotas.mutation import MutationQuotaManager, MutationSensor
from broker.quotas.remote_use import NO_REMOTE_USE, NOTHING, RemoteUse, SensorUse
from broker.quotas.request import RequestQuotaManager
from broker.quotas.throttle_compliance import ThrottleCompliance
from broker.quotas.throttled import MutedRow, Throttle, Throttleable, ThrottledChannels

Drafts = dict[QuotaKind, RuleDraft]

Throttler = QuotaManager[RateSensor] | QuotaManager[MutationSensor] | BrokerQuota
"""An object that throttles channels for its kind of quota."""

NO_NODE: Final = -1
"""Stands for the upstream node of a connection until that is known. (Kafka: Node.noNode)"""


class ClientQuotas:
    """The quota managers by kind, and the clients' throttle compliance.

    `window` is quota.window.*, `mutation_window` controller.quota.window.*. `longest_throttle_ms` is
    quota.max.throttle.ms (None: no limit). `paced`: see `bandwidth`. With `burst_ms` the byte rate quotas are
    token buckets (`bucket`) and not paced; request time is. `shared`: several gateways share each limit, so
    its clients are always paced unless they have token buckets. `callback`, if given, decides in place of the
    rules. `broker` is the quota of the whole broker. `produce_active` and `fetch_active` say whether any
    quota, the broker's or a client's, applies to Produce and Fetch.
    """

    def __init__(
        self,
        window: Window = CLIENT_QUOTA_WINDOW,
        mutation_window: Window = CLIENT_QUOTA_WINDOW,
        longest_throttle_ms: int | None = None,
        *,
        paced: bool = True,
        burst_ms: int | None = None,
        shared: bool = False,
        callback: GuardedCallback | None = None,
    ) -> None:
        self.throttle_compliance = ThrottleCompliance()
        rate: Callable[..., RateQuotaManager] = partial(RateQuotaManager, paced=paced)
        if burst_ms is not None:
            rate = partial(BucketQuotaManager, burst_ms=burst_ms)
        elif shared:
            rate = partial(RateQuotaManager, paced=True, build=partial(SharedRateSensor, window=window))
        self.callback = callback
        self.produce = rate(QuotaKind.PRODUCE, window, longest_throttle_ms, callback=callback)
        self.fetch = rate(QuotaKind.FETCH, window, longest_throttle_ms, callback=callback)
        self.request = RequestQuotaManager(
            window,
            callback=callback,
            paced=paced or shared or burst_ms is not None,
            build=partial(SharedRateSensor, window=window) if shared else None,
        )
        self.mutation = MutationQuotaManager(mutation_window, callback=callback)
        self.managers: dict[QuotaKind, QuotaManager[RateSensor] | QuotaManager[MutationSensor]] = {
            manager.kind: manager for manager in (self.produce, self.fetch, self.request, self.mutation)
        }
        self.broker = BrokerQuota(window)
        self._throttlers: dict[QuotaKind, Throttler] = {**self.managers, **dict.fromkeys(RULES, self.broker)}
        self._nodes: dict[int, NodeQuotas] = {}
        self._note_active()

    def at_node(self, node: int) -> "NodeQuotas":
        """Return the quotas of one upstream node. They remain when the node leaves, since connections may
        have them; their sensors expire.
        """
        quotas = self._nodes.get(node)
        if quotas is None:
            quotas = self._nodes[node] = NodeQuotas(self, node)
        return quotas

    def set_longest_throttle(self, longest_ms: int | None) -> None:
        """Apply a changed quota.max.throttle.ms. Channels throttled now keep their throttle time."""
        for whole in (self.produce, self.fetch):
            for manager in (whole, *whole.parts.values()):
                manager.limit_throttles(longest_ms)

    def configure_broker(self, config: BrokerQuotaConfig, now_ms: int) -> None:
        """Apply a changed quota of the whole broker; see `BrokerQuota.configure`."""
        self.broker.configure(config, now_ms)
        self._note_active()

    def apply(self, entity: Entity, key: str, value: float | None, now_ms: int | None = None) -> None:
        """Set one limit of a user, a client id or both from `now_ms` on, or remove it (None).

        Usage and debt are kept. The limit applies to the next request, and throttled clients wait for the
        rest of their debt under it. Limits of addresses are ignored: `connections` applies them.
        """
        if entity.ip is None:
            manager = self.managers[CLIENT_KEYS[key].kind]
            manager.set_bound(entity.user, entity.client_id, value, now_ms)
            self._note_active()

    def draft(
        self, limits: Iterable[tuple[Entity, str, float | None]], shadows: Iterable[tuple[Entity, bool]]
    ) -> Steps[Drafts]:
        """Build the drafts of limits and shadow marks that take effect together, shadow marks first. Nothing
        changes before `switch`.
        """
        drafts: Drafts = {}
        for kind, manager in self.managers.items():
            drafts[kind] = manager.draft()
            yield
        for entity, is_shadow in shadows:
            for draft in drafts.values():
                draft.set_shadow((entity.user, entity.client_id), is_shadow=is_shadow)
            yield
        for entity, key, value in limits:
            drafts[CLIENT_KEYS[key].kind].set_bound((entity.user, entity.client_id), value)
            yield
        return drafts

    def switch(self, drafts: Drafts, now_ms: int | None) -> Steps[None]:
        """Apply `drafts` for all clients in the first step, as of `now_ms`. The following steps update the
        sensors that no request has used meanwhile; the caller must finish them before the next change.
        """
        for kind, draft in drafts.items():
            self.managers[kind].switch(draft, now_ms)
        self._note_active()
        for manager in self.managers.values():
            yield from manager.catch_up()

    def set_shadow(self, entity: Entity, *, is_shadow: bool, now_ms: int | None = None) -> None:
        """Set whether limits of a user, a client id or both are only measured and counted, not enforced."""
        for manager in self.managers.values():
            manager.set_shadow(entity.user, entity.client_id, is_shadow=is_shadow, now_ms=now_ms)

    def update_cluster_metadata(
        self, cluster_id: str, node_id: int, partitions: Mapping[str, int], now_ms: int | None = None
    ) -> bool:
        """Pass the topics to the callback, with the number of `partitions` by topic. If its limits changed,
        refresh them and return True.
        """
        if self.callback is None or not self.callback.cluster_changed(cluster_id, node_id, partitions):
            return False
        for manager in self.managers.values():
            manager.sweep(now_ms)
        return True

    def record_produce(self, user: str, client_id: str | None, nbytes: int, now_ms: int) -> Throttle | None:
        """Count a Produce request of `nbytes`. Return a throttle if it violates the client's quota."""
        return self.produce.record(user, client_id, nbytes, now_ms)

    def record_fetch(self, user: str, client_id: str | None, nbytes: int, now_ms: int) -> Throttle | None:
        """Count a Fetch response of `nbytes`. On a throttle, send an empty response and `unrecord_fetch`."""
        return self.fetch.record(user, client_id, nbytes, now_ms)

    def unrecord_fetch(self, user: str, client_id: str | None, nbytes: int, now_ms: int) -> None:
        self.fetch.unrecord(user, client_id, nbytes, now_ms)

    def fetch_max_bytes(self, user: str, client_id: str | None, now_ms: int) -> int:
        """Return the most bytes that a fetch may return without a certain throttle."""
        return int(min(self.fetch.max_value_in_window(user, client_id, now_ms), INT_MAX))

    def throttle(self, channel: Throttleable, token: object, throttle: Throttle, now_ms: int) -> None:
        """Throttle `channel`; the manager's `throttled` returns `token` when the throttle ends."""
        self._throttlers[throttle.kind].throttle(channel, token, throttle, now_ms)

    def prolong(self, channel: Throttleable, throttle: Throttle, now_ms: int) -> bool:
        """Extend a throttle of the same kind to the later end. Return False if the channel has none."""
        return self._throttlers[throttle.kind].prolong(channel, throttle, now_ms)

    def extend(self, channel: Throttleable, extra_ms: int) -> None:
        """Extend every throttle of the channel by `extra_ms`."""
        for channels in self.throttled_channels():
            channels.extend(channel, extra_ms)

    def forget(self, channel: Throttleable) -> None:
        """Remove a closed channel."""
        for channels in self.throttled_channels():
            channels.forget(channel)
        self.throttle_compliance.forget(channel)

    def throttled_channels(self) -> list[ThrottledChannels]:
        """Return the throttled channels of every kind of quota, the broker's last."""
        return [*(manager.throttled for manager in self.managers.values()), self.broker.throttled]

    def rows(self, now_ms: int) -> list[MutedRow]:
        """Return a row for each throttled channel of every kind, the longest remaining time first."""
        return sorted(self.each_row(now_ms), key=lambda row: -row.remaining_ms)

    def each_row(self, now_ms: int) -> Iterator[MutedRow]:
        """Return the rows in no order, each built when taken. Includes channels unmuted in the meantime."""
        in_force = [each for channels in self.throttled_channels() for each in channels.all()]
        return (each.row(now_ms, self.throttle_compliance.obeys(each.channel)) for each in in_force)

    def expire(self, now_ms: int) -> Steps[int]:
        """Remove sensors idle for more than an hour and return their number. Call about every 30 seconds."""
        count = 0
        for manager in self.managers.values():
            count += yield from manager.expire(now_ms)
        return count

    def _note_active(self) -> None:
        self.produce_active = self.produce.active or self.broker.active
        self.fetch_active = self.fetch.active or self.broker.active


class NodeQuotas:
    """The quotas of what clients exchange with one upstream `node`, if they hold at each node as Kafka's do
    at each broker (quota.scope=broker); see `QuotaManager.part`. `broker`, the quota of the whole gateway, is
    the same for all nodes.
    """

    def __init__(self, quotas: ClientQuotas, node: int) -> None:
        self.node = node
        self.produce = quotas.produce.part(node)
        self.fetch = quotas.fetch.part(node)
        self.request = quotas.request.part(node)
        self.broker = quotas.broker


class RuleUse(msgspec.Struct, frozen=True):
    """Present use of one rule.

    `observed` is in the key's unit. Under a default rule each client has the limit for itself, so it is the
    busiest client's rate, and if limits hold at each upstream node, its rate at the `node` that it uses most.
    `throttled` counts the channels that the rule throttles. `gateway` is the other gateway whose use it is,
    "" for this one's or a sum.
    """

    entity: Governing
    key: str
    observed: float
    throttled: int
    node: int | None = None
    gateway: str = ""


class _Busiest:
    """The highest use of each rule by clients that share one limit."""

    def __init__(self) -> None:
        self._found: dict[Governing, tuple[float, int | None]] = {}

    def add(self, rule: Governing, observed: float, node: int | None = None) -> None:
        most = self._found.get(rule)
        if most is None or observed > most[0]:
            self._found[rule] = (max(observed, 0.0), node)

    def add_others(self, clients: Iterable[SensorUse]) -> None:
        """Add `clients` that use their limits only at other gateways."""
        for each in clients:
            self.add(each.rule, each.observed)

    def uses(self, key: str, throttled: Mapping[Governing, int]) -> Iterator[RuleUse]:
        for rule, (observed, node) in self._found.items():
            yield RuleUse(rule, key, observed, throttled.get(rule, 0), node)


def rule_use(
    quotas: ClientQuotas, now_ms: int, remote: RemoteUse = NO_REMOTE_USE
) -> Iterator[RuleUse | None]:
    """Yield the use of every rule with a sensor, here or at another gateway. None between the rules marks
    that time has passed.
    """
    for kind, manager in quotas.managers.items():
        key = KEY_OF[kind]
        others = remote.get(key, NOTHING)
        throttled: Counter[Governing] = Counter(others.throttled)
        for each in manager.throttled.all():
            throttled[each.rule] += 1
            yield None
        busiest, only_there = _Busiest(), dict(others.shared)
        for sensor in manager.sensors():
            yield None
            if sensor.rule is not None:
                there = only_there.pop((sensor.user, sensor.client_id), None)
                observed = sensor.observed(now_ms) + (0.0 if there is None else there.observed)
                busiest.add(sensor.rule, observed, sensor.node)
        busiest.add_others(only_there.values())
        yield from busiest.uses(key, throttled)


def rule_use_of(
    quotas: ClientQuotas, entity: Entity, now_ms: int, remote: RemoteUse = NO_REMOTE_USE
) -> Iterator[RuleUse]:
    """Yield the use of one entity of users and client ids, reading its own sensors only."""
    for kind, manager in quotas.managers.items():
        others = remote.get(KEY_OF[kind], NOTHING)
        only_there = {each.clients: each for each in others.shared.values() if each.rule == entity}
        busiest = _Busiest()
        for sensor in manager.sensors_under((entity.user, entity.client_id)):
            there = only_there.pop((sensor.user, sensor.client_id), None)
            busiest.add(
                entity, sensor.observed(now_ms) + (0.0 if there is None else there.observed), sensor.node
            )
        busiest.add_others(only_there.values())
        throttled = sum(1 for each in manager.throttled.all() if each.rule == entity)
        yield from busiest.uses(KEY_OF[kind], {entity: throttled + others.throttled[entity]})

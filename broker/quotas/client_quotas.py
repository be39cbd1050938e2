"""All client quotas behind one door: what handlers ask, what the metadata image sets, what the console reads.

Built by the composition root. Handlers test `quotas.produce_active` before they call; the reapers of the
network room empty `throttled` of each manager; a change of the metadata image is `apply`d rule by rule.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from broker.config.sections.broker_quotas import BrokerQuotaConfig
from broker.metrics.quota import INT_MAX
from broker.metrics.window import Window
from broker.quotas.bandwidth import RateQuotaManager, RateSensor
from broker.quotas.broker_quota import RULES, BrokerQuota
from broker.quotas.bucket import BucketQuotaManager
from broker.quotas.entity import Entity
from broker.quotas.guarded import GuardedCallback
from broker.quotas.kinds import CLIENT_KEYS, QuotaKind
from broker.quotas.manager import CLIENT_QUOTA_WINDOW, QuotaManager, RuleDraft
from broker.quotas.mutation import MutationQuotaManager, MutationSensor
from broker.quotas.request import RequestQuotaManager
from broker.quotas.throttle_compliance import ThrottleCompliance
from broker.quotas.throttled import Throttleable, ThrottledChannels, ThrottledRow
from broker.quotas.verdict import Throttle
from broker.steps import Steps

Drafts = dict[QuotaKind, RuleDraft]

Holder = QuotaManager[RateSensor] | QuotaManager[MutationSensor] | BrokerQuota
"""Whatever holds a channel for a throttle of its kind."""


class ClientQuotas:
    """The managers by kind, and what is known of how clients take a throttle.

    `window` is quota.window.*, `mutation_window` controller.quota.window.*; `longest_throttle_ms` is
    quota.max.throttle.ms, None for as long as the formula says; `paced`: see `pacing`; `burst_ms`:
    bandwidth is a `bucket` of so much, and not paced; `callback` decides in the place of the rules where
    there is one. `broker` is the quota of all clients together. While `produce_active` is False neither it
    nor a client's quota is for Produce requests; `fetch_active` the same.
    """

    __slots__ = (
        *(
            "_holders",
            "broker",
            "callback",
            "fetch",
            "fetch_active",
            "managers",
            "mutation",
            "throttle_compliance",
        ),
        *("produce", "produce_active", "request"),
    )

    def __init__(
        self,
        window: Window = CLIENT_QUOTA_WINDOW,
        mutation_window: Window = CLIENT_QUOTA_WINDOW,
        longest_throttle_ms: int | None = None,
        *,
        paced: bool = True,
        burst_ms: int | None = None,
        callback: GuardedCallback | None = None,
    ) -> None:
        self.throttle_compliance = ThrottleCompliance()
        rate: Callable[..., RateQuotaManager] = (
            partial(RateQuotaManager, paced=paced)
            if burst_ms is None
            else partial(BucketQuotaManager, burst_ms=burst_ms)
        )
        self.callback = callback
        self.produce = rate(QuotaKind.PRODUCE, window, longest_throttle_ms, callback=callback)
        self.fetch = rate(QuotaKind.FETCH, window, longest_throttle_ms, callback=callback)
        self.request = RequestQuotaManager(window, callback=callback)
        self.mutation = MutationQuotaManager(mutation_window, callback=callback)
        self.managers: dict[QuotaKind, QuotaManager[RateSensor] | QuotaManager[MutationSensor]] = {
            manager.kind: manager for manager in (self.produce, self.fetch, self.request, self.mutation)
        }
        self.broker = BrokerQuota(window)
        self._holders: dict[QuotaKind, Holder] = {**self.managers, **dict.fromkeys(RULES, self.broker)}
        self._note_active()

    def set_longest_throttle(self, longest_ms: int | None) -> None:
        """quota.max.throttle.ms has changed; channels that are held now stay held as they were told."""
        for manager in (self.produce, self.fetch):
            manager.longest_ms = INT_MAX if longest_ms is None else longest_ms

    def configure_broker(self, config: BrokerQuotaConfig, now_ms: int) -> None:
        """The quota of the whole broker is this one from now on; see `BrokerQuota.configure`."""
        self.broker.configure(config, now_ms)
        self._note_active()

    def apply(self, entity: Entity, key: str, value: float | None, now_ms: int | None = None) -> None:
        """Sets one limit of a user, a client-id or both from `now_ms` on, or removes it (None).

        Usage and debt are kept; the next request obeys, and who is held waits for what is left of his debt
        under the new limit. An address is limited in its connections and not here: nothing happens.
        """
        if entity.ip is None:
            manager = self.managers[CLIENT_KEYS[key].kind]
            manager.set_bound(entity.user, entity.client_id, value, now_ms)
            self._note_active()

    def draft(
        self, limits: Iterable[tuple[Entity, str, float | None]], shadows: Iterable[tuple[Entity, bool]]
    ) -> Steps[Drafts]:
        """Limits and marks of shadow mode, in this order, that are to hold from the same moment on. Nothing
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
        """All of `drafts` holds for everybody from the first step on, as of `now_ms`. The steps after it
        bring what nobody uses meanwhile up to date; they are to be finished before the next change.
        """
        for kind, draft in drafts.items():
            self.managers[kind].switch(draft, now_ms)
        self._note_active()
        for manager in self.managers.values():
            yield from manager.catch_up()

    def set_shadow(self, entity: Entity, *, is_shadow: bool, now_ms: int | None = None) -> None:
        """Whether the limits of a user, a client-id or both are measured and counted, and not enforced."""
        for manager in self.managers.values():
            manager.set_shadow(entity.user, entity.client_id, is_shadow=is_shadow, now_ms=now_ms)

    def update_cluster_metadata(
        self, cluster_id: str, node_id: int, partitions: Mapping[str, int], now_ms: int | None = None
    ) -> bool:
        """Tells the callback which topics there are, and swept if limits became others by that: whether they
        did. `partitions` is their number by topic.
        """
        if self.callback is None or not self.callback.cluster_changed(cluster_id, node_id, partitions):
            return False
        for manager in self.managers.values():
            manager.sweep(now_ms)
        return True

    def record_produce(self, user: str, client_id: str | None, nbytes: int, now_ms: int) -> Throttle | None:
        """Counts a produce request of `nbytes`; the throttle if that breaks the client's quota."""
        return self.produce.record(user, client_id, nbytes, now_ms)

    def record_fetch(self, user: str, client_id: str | None, nbytes: int, now_ms: int) -> Throttle | None:
        """Counts a fetch response of `nbytes`. On a throttle answer empty, and `unrecord_fetch` the same."""
        return self.fetch.record(user, client_id, nbytes, now_ms)

    def unrecord_fetch(self, user: str, client_id: str | None, nbytes: int, now_ms: int) -> None:
        self.fetch.unrecord(user, client_id, nbytes, now_ms)

    def fetch_max_bytes(self, user: str, client_id: str | None, now_ms: int) -> int:
        """The most that a fetch may return without a certain throttle; a fetch is cut to it beforehand."""
        return int(min(self.fetch.max_value_in_window(user, client_id, now_ms), INT_MAX))

    def throttle(self, channel: Throttleable, token: object, throttle: Throttle, now_ms: int) -> None:
        """Holds `channel`; its manager's `throttled` gives `token` back when the time is over."""
        self._holders[throttle.kind].throttle(channel, token, throttle, now_ms)

    def prolong(self, channel: Throttleable, throttle: Throttle, now_ms: int) -> bool:
        """Whether `channel` is held for this kind of quota already; then it is, until the later end."""
        return self._holders[throttle.kind].prolong(channel, throttle, now_ms)

    def extend(self, channel: Throttleable, extra_ms: int) -> None:
        """Whatever holds the channel holds it for so much longer."""
        for held in self.held_channels():
            held.extend(channel, extra_ms)

    def forget(self, channel: Throttleable) -> None:
        """The channel is closed."""
        for held in self.held_channels():
            held.forget(channel)
        self.throttle_compliance.forget(channel)

    def held_channels(self) -> list[ThrottledChannels]:
        """Those of every kind of quota, the broker's last."""
        return [*(manager.throttled for manager in self.managers.values()), self.broker.throttled]

    def rows(self, now_ms: int) -> list[ThrottledRow]:
        """Everyone who is held at this moment, of every kind, the longest wait first."""
        return sorted(self.each_row(now_ms), key=lambda row: -row.remaining_ms)

    def each_row(self, now_ms: int) -> Iterator[ThrottledRow]:
        """The same in no order, made as they are taken: who is freed meanwhile is still among them."""
        everyone = [held for channels in self.held_channels() for held in channels.held()]
        return (held.row(now_ms, self.throttle_compliance.obeys(held.channel)) for held in everyone)

    def expire(self, now_ms: int) -> int:
        """Forgets sensors that were idle for more than an hour; how many. Due every half minute or so."""
        return sum(manager.expire(now_ms) for manager in self.managers.values())

    def _note_active(self) -> None:
        self.produce_active = self.produce.active or self.broker.active
        self.fetch_active = self.fetch.active or self.broker.active

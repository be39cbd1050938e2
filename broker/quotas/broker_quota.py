"""The quota of the whole broker, for all clients together. (AutoMQ: BrokerQuotaManager)

Four rates with one sensor each: bytes of Produce requests, bytes of Fetch responses, bytes of fetches that
read from disk, and Produce and Fetch requests. Called by the Produce and Fetch handlers after the client's
own quota, while `active`. Exempt clients are neither counted nor throttled.

The throttle time is Kafka's formula, limited to the length of all windows, which is AutoMQ's bound.
"""

from collections.abc import Collection, Mapping
from sys import float_info
from typing import Final, Protocol

import msgspec

from broker.config.sections.quotas import BrokerQuotaConfig
from broker.metrics.rate import INT_MAX, Window, bounded_throttle_time_ms
from broker.quotas.entity import BrokerWide
from broker.quotas.kinds import QuotaKind
from broker.quotas.manager import CLIENT_QUOTA_WINDOW
from broker.quotas.throttled import BrokerThrottle, Throttle, Throttleable, ThrottledChannels, longer
from broker.quotas.usage import ClientSensor

INTERNAL_CLIENT_PREFIX: Final = "__automq_client_"
"""Client ids with this prefix are exempt. (AutoMQ: INTERNAL_CLIENT_ID_PREFIX)"""

UNLIMITED: Final = float_info.max

RULES: Final[Mapping[QuotaKind, BrokerWide]] = {
    QuotaKind.BROKER_PRODUCE: BrokerWide("broker.quota.produce.bytes", "produce bytes"),
    QuotaKind.BROKER_FETCH: BrokerWide("broker.quota.fetch.bytes", "fetch bytes"),
    QuotaKind.BROKER_SLOW_FETCH: BrokerWide("broker.quota.slow.fetch.bytes", "slow fetch bytes"),
    QuotaKind.BROKER_REQUEST_RATE: BrokerWide("broker.quota.request.rate", "request rate"),
}
"""The rule that a throttle of each kind names."""

MAX_KNOWN: Final = 16_384
"""Clients whose exemption is cached. Clients choose their ids, so the cache is bounded."""


class QuotaClient(Protocol):
    """The connection that sent a request."""

    principal: str
    listener: str


class BrokerQuotaUse(msgspec.Struct, frozen=True):
    """Use of one of the four rates: `observed` and `bound` in bytes/s or requests/s (None: unlimited), the
    channels `throttled` now, the number of `throttles` since the quota was enabled, and their total duration.
    """

    kind: QuotaKind
    key: str
    observed: float
    bound: float | None
    throttled: int
    throttles: int
    throttle_ms: int


class BrokerQuotaSensor(ClientSensor):
    """A rate of the broker and its limit; `total_ms` is the total duration of its throttles."""

    __slots__ = ("total_ms",)

    def __init__(self, rule: BrokerWide, bound: float, window: Window) -> None:
        super().__init__(None, None, 0, window)
        self.total_ms = 0
        self.set_bound(bound, rule)

    def note_throttle(self, throttle_ms: int, now_ms: int) -> None:
        super().note_throttle(throttle_ms, now_ms)
        self.total_ms += throttle_ms


class BrokerQuota:
    """The four rates and their limits. While `active` is False callers skip the quota.
    `measures_slow_fetches` says whether callers must find out if a fetch read from disk. `throttled` has the
    channels of all four kinds.
    """

    def __init__(self, window: Window = CLIENT_QUOTA_WINDOW) -> None:
        self.active = False
        self.measures_slow_fetches = False
        self.throttled = ThrottledChannels()
        self._window = window
        self._longest_ms = min(window.samples * window.window_ms, INT_MAX)
        self._bounds = dict.fromkeys(RULES, UNLIMITED)
        self._users: Collection[str] = ()
        self._client_ids: Collection[str] = ()
        self._listeners: Collection[str] = ()
        self._exempt: dict[tuple[str, str | None, str], bool] = {}
        self._sensors = self._fresh()

    def configure(self, config: BrokerQuotaConfig, now_ms: int) -> None:
        """Apply new limits from the next request on. Usage is kept, except that disabling the quota clears
        it, as in AutoMQ. Throttle times of throttled channels are recalculated for the new limits.
        """
        self._bounds = {
            QuotaKind.BROKER_PRODUCE: config.produce_bytes,
            QuotaKind.BROKER_FETCH: config.fetch_bytes,
            QuotaKind.BROKER_SLOW_FETCH: config.slow_fetch_bytes,
            QuotaKind.BROKER_REQUEST_RATE: config.request_rate,
        }
        changed = {kind for kind, bound in self._bounds.items() if bound != self._sensors[kind].bound}
        self._users = frozenset(config.white_list_users)
        self._client_ids = frozenset(config.white_list_client_ids)
        self._listeners = frozenset({name.upper() for name in config.white_list_listeners})
        self._exempt.clear()
        self.active = config.quota_enabled
        self.measures_slow_fetches = self.active and config.slow_fetch_bytes < UNLIMITED
        if not self.active:
            self._sensors = self._fresh()
        for kind, sensor in self._sensors.items():
            sensor.set_bound(self._bounds[kind], RULES[kind])
        for throttled in self.throttled.all():
            kind, channel = throttled.throttle.kind, throttled.channel
            if not self.active or self.is_exempt(channel.principal, channel.client_id, channel.listener):
                self.throttled.end_early(throttled)
            elif kind in changed:
                assert isinstance(throttled.throttle, BrokerThrottle)
                end_ms = throttled.throttle.end_ms(self._bounds[kind], self._longest_ms)
                if end_ms > now_ms:
                    self.throttled.extend(channel, end_ms - throttled.end_ms)
                else:
                    self.throttled.end_early(throttled)

    def is_exempt(self, principal: str, client_id: str | None, listener: str) -> bool:
        """Return whether the client is on a white list or has the internal prefix."""
        key = (principal, client_id, listener)
        known = self._exempt.get(key)
        if known is None:
            name = client_id or ""
            known = (
                name.startswith(INTERNAL_CLIENT_PREFIX)
                or principal in self._users
                or name in self._client_ids
                or listener in self._listeners
            )
            if len(self._exempt) >= MAX_KNOWN:
                self._exempt.clear()
            self._exempt[key] = known
        return known

    def record_produce(
        self, client: QuotaClient, client_id: str | None, nbytes: int, now_ms: int
    ) -> Throttle | None:
        """Count a Produce request of `nbytes`, acks=0 included. Return the longest resulting throttle."""
        if self.is_exempt(client.principal, client_id, client.listener):
            return None
        return longer(
            self._record(QuotaKind.BROKER_PRODUCE, nbytes, now_ms),
            self._record(QuotaKind.BROKER_REQUEST_RATE, 1, now_ms),
        )

    def record_fetch(
        self, client: QuotaClient, client_id: str | None, nbytes: int, now_ms: int, *, is_slow: bool
    ) -> Throttle | None:
        """Count a Fetch response of `nbytes`; `is_slow`: parts of it are not in memory. Return the longest
        resulting throttle. If the response is sent empty for any throttle, the caller passes the same values
        to `unrecord_fetch`.
        """
        if self.is_exempt(client.principal, client_id, client.listener):
            return None
        throttle = self._record(QuotaKind.BROKER_FETCH, nbytes, now_ms)
        if is_slow:
            throttle = longer(throttle, self._record(QuotaKind.BROKER_SLOW_FETCH, nbytes, now_ms))
        return longer(throttle, self._record(QuotaKind.BROKER_REQUEST_RATE, 1, now_ms))

    def unrecord_fetch(
        self, client: QuotaClient, client_id: str | None, nbytes: int, now_ms: int, *, is_slow: bool
    ) -> None:
        """Subtract the bytes of a fetch whose response is empty. The request itself remains counted."""
        if self.is_exempt(client.principal, client_id, client.listener):
            return
        self._sensors[QuotaKind.BROKER_FETCH].rate.record(-nbytes, now_ms)
        if is_slow:
            self._sensors[QuotaKind.BROKER_SLOW_FETCH].rate.record(-nbytes, now_ms)

    def fetch_max_bytes(self, client: QuotaClient, client_id: str | None) -> float:
        """Return the limit of a fetch: one second's worth, as in AutoMQ, or the largest float without a
        limit.
        """
        if self.is_exempt(client.principal, client_id, client.listener):
            return UNLIMITED
        return self._bounds[QuotaKind.BROKER_FETCH]

    def throttle(self, channel: Throttleable, token: object, throttle: Throttle, now_ms: int) -> None:
        """Throttle `channel` before its response is enqueued (KIP-219)."""
        throttle.sensor.note_throttle(throttle.throttle_ms, now_ms)
        self.throttled.add(channel, token, throttle, now_ms)

    def prolong(self, channel: Throttleable, throttle: Throttle, now_ms: int) -> bool:
        """Extend the throttle of `channel` to the later end. Return False if it is not throttled."""
        if not self.throttled.prolong(channel, throttle, now_ms):
            return False
        throttle.sensor.note_throttle(throttle.throttle_ms, now_ms)
        return True

    def mean_throttle_ms(self, kind: QuotaKind, now_ms: int) -> float:
        """Return the mean throttle time of the last minute, 0 without a throttle."""
        return self._sensors[kind].throttle_time.measure_or_zero(now_ms)

    def use(self, now_ms: int) -> list[BrokerQuotaUse]:
        """Return the current use of all four rates. Changes nothing."""
        kinds = [each.throttle.kind for each in self.throttled.all()]
        return [
            BrokerQuotaUse(
                kind,
                RULES[kind].key,
                sensor.observed(now_ms),
                None if sensor.bound >= UNLIMITED else sensor.bound,
                kinds.count(kind),
                sensor.throttles,
                sensor.total_ms,
            )
            for kind, sensor in self._sensors.items()
        ]

    def _fresh(self) -> dict[QuotaKind, BrokerQuotaSensor]:
        return {
            kind: BrokerQuotaSensor(rule, self._bounds[kind], self._window) for kind, rule in RULES.items()
        }

    def _record(self, kind: QuotaKind, value: float, now_ms: int) -> Throttle | None:
        sensor = self._sensors[kind]
        rate = sensor.rate
        rate.record(value, now_ms)
        if sensor.bound >= UNLIMITED:
            return None
        observed = rate.measure(now_ms)
        if observed <= sensor.bound:
            return None
        window_ms = rate.window_size_ms(now_ms)
        wait_ms = bounded_throttle_time_ms(observed, sensor.bound, window_ms, self._longest_ms)
        if wait_ms <= 0:
            return None
        return BrokerThrottle(kind, wait_ms, RULES[kind], observed, sensor.bound, sensor, window_ms, now_ms)

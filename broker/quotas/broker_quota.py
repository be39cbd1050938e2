"""The quota of the whole broker: all clients together. (AutoMQ: BrokerQuotaManager)

Four rates, one sensor each: bytes of Produce requests, bytes of Fetch responses, bytes of those fetches that
need the disk, and Produce and Fetch requests. Called by the Produce and Fetch handlers after the client's own
quota, while `active`. A client that is exempt is neither counted nor throttled.

The wait is Kafka's formula and never longer than all windows together, which is AutoMQ's bound.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import isnan
from sys import float_info
from typing import Final, Protocol

from broker.config.sections.broker_quotas import BrokerQuotaConfig
from broker.metrics.quota import INT_MAX, bounded_throttle_time_ms
from broker.metrics.window import Window
from broker.quotas.entity import BrokerWide
from broker.quotas.kinds import QuotaKind
from broker.quotas.manager import CLIENT_QUOTA_WINDOW
from broker.quotas.throttled import Throttleable, ThrottledChannels
from broker.quotas.usage import ClientSensor
from broker.quotas.verdict import Throttle

INTERNAL_CLIENT_PREFIX: Final = "__automq_client_"
"""Client ids that begin so are never limited. (AutoMQ: INTERNAL_CLIENT_ID_PREFIX)"""

UNLIMITED: Final = float_info.max

RULES: Final[Mapping[QuotaKind, BrokerWide]] = {
    QuotaKind.BROKER_PRODUCE: BrokerWide("broker.quota.produce.bytes", "produce bytes"),
    QuotaKind.BROKER_FETCH: BrokerWide("broker.quota.fetch.bytes", "fetch bytes"),
    QuotaKind.BROKER_SLOW_FETCH: BrokerWide("broker.quota.slow.fetch.bytes", "slow fetch bytes"),
    QuotaKind.BROKER_REQUEST_RATE: BrokerWide("broker.quota.request.rate", "request rate"),
}
"""What a throttle of each kind names as its rule."""

MOST_KNOWN: Final = 16_384
"""Clients whose exemption is remembered; they choose their ids, so there must be a bound."""


class Client(Protocol):
    """Whose request it is."""

    principal: str
    listener: str


@dataclass(frozen=True, slots=True)
class BrokerQuotaUse:
    """One of the four rates: `observed` and `bound` in bytes/s or requests/s (None: unlimited), `throttled`
    channels held for it now, `throttles` in all since it was enabled, `throttle_ms` their total.
    """

    kind: QuotaKind
    key: str
    observed: float
    bound: float | None
    throttled: int
    throttles: int
    throttle_ms: int


@dataclass(frozen=True, slots=True)
class BrokerThrottle(Throttle):
    """`observed` was measured at `at_ms`, over `window_ms`."""

    window_ms: int
    at_ms: int

    def end_ms(self, bound: float, longest_ms: int) -> int:
        """When it would end with this limit."""
        return self.at_ms + bounded_throttle_time_ms(self.observed, bound, self.window_ms, longest_ms)


class BrokerQuotaSensor(ClientSensor):
    """A rate of the broker and its limit; `total_ms` is how long its throttles were in all."""

    __slots__ = ("total_ms",)

    def __init__(self, rule: BrokerWide, bound: float, window: Window) -> None:
        super().__init__(None, None, 0, window)
        self.total_ms = 0
        self.set_bound(bound, rule)

    def note_throttle(self, throttle_ms: int, now_ms: int) -> None:
        super().note_throttle(throttle_ms, now_ms)
        self.total_ms += throttle_ms


class BrokerQuota:
    """While `active` is False nothing is recorded, and callers do not call. `measures_slow_fetches` is
    whether it matters where a fetch was read from. `throttled` holds the channels of all four kinds.
    """

    __slots__ = (
        *("_bounds", "_client_ids", "_exempt", "_listeners", "_longest_ms", "_sensors", "_users", "_window"),
        *("active", "measures_slow_fetches", "throttled"),
    )

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
        """The limits are these from the next request on. Usage is kept, and forgotten when the quota is
        disabled, as in AutoMQ. What is held waits as long as it would have been told to under the new limit:
        `throttled.next_deadline()` is to be asked again.
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
        self._listeners = frozenset(name.upper() for name in config.white_list_listeners)
        self._exempt.clear()
        self.active = config.quota_enabled
        self.measures_slow_fetches = self.active and config.slow_fetch_bytes < UNLIMITED
        if not self.active:
            self._sensors = self._fresh()
        for kind, sensor in self._sensors.items():
            sensor.set_bound(self._bounds[kind], RULES[kind])
        for held in self.throttled.held():
            kind, channel = held.throttle.kind, held.channel
            if not self.active or self.is_exempt(channel.principal, channel.client_id, channel.listener):
                self.throttled.end_early(held)
            elif kind in changed:
                assert isinstance(held.throttle, BrokerThrottle)
                end_ms = held.throttle.end_ms(self._bounds[kind], self._longest_ms)
                if end_ms > now_ms:
                    self.throttled.extend(channel, end_ms - held.end_ms)
                else:
                    self.throttled.end_early(held)

    def is_exempt(self, principal: str, client_id: str | None, listener: str) -> bool:
        """Whether a client is on one of the white lists, or one of the broker's own."""
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
            if len(self._exempt) >= MOST_KNOWN:
                self._exempt.clear()
            self._exempt[key] = known
        return known

    def record_produce(
        self, client: Client, client_id: str | None, nbytes: int, now_ms: int
    ) -> Throttle | None:
        """Counts a Produce request of `nbytes`, acks=0 included; the longest throttle that follows."""
        if self.is_exempt(client.principal, client_id, client.listener):
            return None
        return longer(
            self._record(QuotaKind.BROKER_PRODUCE, nbytes, now_ms),
            self._record(QuotaKind.BROKER_REQUEST_RATE, 1, now_ms),
        )

    def record_fetch(
        self, client: Client, client_id: str | None, nbytes: int, now_ms: int, *, is_slow: bool
    ) -> Throttle | None:
        """Counts a Fetch response of `nbytes`; `is_slow`: some of it is not in memory. The longest throttle
        that follows. Where the answer is then sent empty, for this throttle or another, `unrecord_fetch` the
        same.
        """
        if self.is_exempt(client.principal, client_id, client.listener):
            return None
        throttle = self._record(QuotaKind.BROKER_FETCH, nbytes, now_ms)
        if is_slow:
            throttle = longer(throttle, self._record(QuotaKind.BROKER_SLOW_FETCH, nbytes, now_ms))
        return longer(throttle, self._record(QuotaKind.BROKER_REQUEST_RATE, 1, now_ms))

    def unrecord_fetch(
        self, client: Client, client_id: str | None, nbytes: int, now_ms: int, *, is_slow: bool
    ) -> None:
        """Takes back the bytes of a fetch that is answered empty; that it was a request stays."""
        if self.is_exempt(client.principal, client_id, client.listener):
            return
        self._sensors[QuotaKind.BROKER_FETCH].rate.record(-nbytes, now_ms)
        if is_slow:
            self._sensors[QuotaKind.BROKER_SLOW_FETCH].rate.record(-nbytes, now_ms)

    def fetch_max_bytes(self, client: Client, client_id: str | None) -> float:
        """A fetch is cut to one second's worth beforehand, as in AutoMQ; the largest float without a
        limit.
        """
        if self.is_exempt(client.principal, client_id, client.listener):
            return UNLIMITED
        return self._bounds[QuotaKind.BROKER_FETCH]

    def throttle(self, channel: Throttleable, token: object, throttle: Throttle, now_ms: int) -> None:
        """Holds `channel` for a throttle of this quota, before the reply is enqueued (KIP-219)."""
        throttle.sensor.note_throttle(throttle.throttle_ms, now_ms)
        self.throttled.add(channel, token, throttle, now_ms)

    def prolong(self, channel: Throttleable, throttle: Throttle, now_ms: int) -> bool:
        """Whether `channel` was held already: then it is held until the later of both ends."""
        if not self.throttled.prolong(channel, throttle, now_ms):
            return False
        throttle.sensor.note_throttle(throttle.throttle_ms, now_ms)
        return True

    def mean_throttle_ms(self, kind: QuotaKind, now_ms: int) -> float:
        """The mean of the throttles of the last minute; 0 without any."""
        mean = self._sensors[kind].throttle_time.measure(now_ms)
        return 0.0 if isnan(mean) else mean

    def use(self, now_ms: int) -> list[BrokerQuotaUse]:
        """All four rates as they are now. Looking changes nothing."""
        held = [each.throttle.kind for each in self.throttled.held()]
        return [
            BrokerQuotaUse(
                kind,
                RULES[kind].key,
                sensor.observed(now_ms),
                None if sensor.bound >= UNLIMITED else sensor.bound,
                held.count(kind),
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


def longer(first: Throttle | None, second: Throttle | None) -> Throttle | None:
    """The throttle that counts for a request; of equals the first."""
    if first is None:
        return second
    return second if second is not None and second.throttle_ms > first.throttle_ms else first

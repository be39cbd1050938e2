"""Throttles, and the channels that they mute, ordered by their end. (Kafka: ThrottledChannel, its DelayQueue)

A `Throttle` is the verdict of a violated quota. The managers create it; it goes with the response to the
network package, which mutes the channel, and to the console, which shows the reason.

One collection of throttled channels per kind of quota. Filled when a response carries a throttle, emptied by
the reaper of that kind in the network package, read by the console. Independent of sockets: a channel is any
object, compared by identity.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final, Protocol

import msgspec

from broker.metrics.rate import bounded_throttle_time_ms, java_round
from broker.quotas.entity import Governing
from broker.quotas.kinds import QuotaKind
from broker.quotas.usage import ClientSensor

STALE: Final = 256
"""Outdated entries that the queue may contain beyond the number of throttled channels."""


@dataclass(frozen=True, slots=True)
class Throttle:
    """A throttle of `throttle_ms` (at least 1): `observed` exceeds `bound`, which `rule` sets.

    `observed` and `bound` are in the kind's unit: bytes/s, percent of one thread, tokens left and
    partitions/s for mutations.
    """

    kind: QuotaKind
    throttle_ms: int
    rule: Governing
    observed: float
    bound: float
    sensor: ClientSensor = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class BrokerThrottle(Throttle):
    """A throttle by the whole broker's quota. `observed` was measured at `at_ms` over `window_ms`."""

    window_ms: int
    at_ms: int

    def end_ms(self, bound: float, longest_ms: int) -> int:
        """Return when the throttle would end with this limit."""
        return self.at_ms + bounded_throttle_time_ms(self.observed, bound, self.window_ms, longest_ms)


def longer(first: Throttle | None, second: Throttle | None) -> Throttle | None:
    """Return the throttle that applies to a request that violates two quotas: the longer one, the first of
    equals. KafkaApis prefers the request quota's to an equal one of bytes.
    """
    if first is None:
        return second
    return second if second is not None and second.throttle_ms > first.throttle_ms else first


class Throttleable(Protocol):
    """The attributes of a connection that the console shows. `throttles` counts its throttles so far."""

    id: str
    client_id: str | None
    principal: str
    address: str
    listener: str
    throttles: int


class MutedRow(msgspec.Struct, frozen=True):
    """One throttled channel as the console shows it.

    `entity` and `bound` are the present limit; `observed` and `throttle_ms` are those of the response. After
    a change of the limit `throttle_ms` is the whole duration of the throttle. `since_ms` is its age, `count`
    the number of throttles so far; `obeys`: see `throttle_compliance`; `node`: see `ClientSensor`.
    """

    connection_id: str
    client_id: str
    principal: str
    address: str
    quota_type: QuotaKind
    entity: Governing
    observed: float
    bound: float
    throttle_ms: int
    remaining_ms: int
    since_ms: int
    count: int
    obeys: bool | None = None
    node: int | None = None


class ThrottledChannel:
    """One throttle in force. The channel is muted until `end_ms`.

    The throttle is a debt, repaid at `bound` until `due_ms`, which can be fractional after a change of the
    bound. `rule` and `sensor` are the client's present ones.
    """

    __slots__ = (
        "bound",
        "channel",
        "due_ms",
        "end_ms",
        "extra_ms",
        "rule",
        "sensor",
        "serial",
        "since_ms",
        "start_ms",
        "throttle",
        "throttle_ms",
        "token",
    )

    def __init__(self, channel: Throttleable, token: object, throttle: Throttle, now_ms: int) -> None:
        self.channel = channel
        self.token = token
        self.throttle = throttle
        self.throttle_ms = throttle.throttle_ms
        self.start_ms = self.since_ms = now_ms
        self.end_ms = now_ms + throttle.throttle_ms
        self.due_ms: float = self.end_ms
        self.extra_ms = 0
        self.bound = throttle.bound
        self.rule: Governing = throttle.rule
        self.sensor: ClientSensor = throttle.sensor
        self.serial = 0

    def row(self, now_ms: int, obeys: bool | None = None) -> MutedRow:
        channel, throttle = self.channel, self.throttle
        return MutedRow(
            connection_id=channel.id,
            client_id=channel.client_id or "",
            principal=channel.principal,
            address=channel.address,
            quota_type=throttle.kind,
            entity=self.rule,
            observed=throttle.observed,
            bound=self.bound,
            throttle_ms=self.throttle_ms,
            remaining_ms=max(self.end_ms - now_ms, 0),
            since_ms=now_ms - self.start_ms,
            count=channel.throttles,
            obeys=obeys,
            node=self.sensor.node,
        )


class ThrottledChannels:
    """The throttled channels of one kind of quota.

    Every channel is unmuted exactly once per throttle, by `pop_expired`, or removed by `forget` after it
    closed.
    """

    def __init__(self) -> None:
        self.on_deadline: Callable[[int], None] = lambda _end_ms: None
        """Called with each end of a throttle, in ms, also with one that was moved."""
        self._queue: list[tuple[int, int, ThrottledChannel]] = []
        self._by_channel: dict[int, ThrottledChannel] = {}
        self._serial = 0

    def add(self, channel: Throttleable, token: object, throttle: Throttle, now_ms: int) -> None:
        """Throttle `channel` from now on; `pop_expired` returns `token` at the end.

        A channel has one throttle per kind at a time, since it is muted meanwhile.
        """
        channel.throttles += 1
        self._insert(ThrottledChannel(channel, token, throttle, now_ms))

    def prolong(self, channel: Throttleable, throttle: Throttle, now_ms: int) -> bool:
        """Extend the throttle of `channel` to the later of the two ends. Return False if it has none.

        For connections whose requests may violate a quota several times at once.
        """
        throttled = self._by_channel.get(id(channel))
        if throttled is None:
            return False
        if now_ms + throttle.throttle_ms > throttled.end_ms:
            prolonged = ThrottledChannel(channel, throttled.token, throttle, now_ms)
            prolonged.start_ms = throttled.start_ms
            self._insert(prolonged)
        return True

    def end_early(self, throttled: ThrottledChannel) -> None:
        """End a throttle whose reason no longer applies; `pop_expired` returns its channel next."""
        throttled.end_ms = 0
        self._queue_up(throttled)

    def change_bound(
        self, throttled: ThrottledChannel, bound: float, rule: Governing, now_ms: int | None, longest_ms: int
    ) -> None:
        """Repay the debt at `bound`, which `rule` sets, from `now_ms` on (None: since the end was last set),
        and end the throttle when it is repaid. Changes nothing if the bound is the same or the throttle is
        due.

        A throttle that becomes longer lasts at most `longest_ms` in total.
        """
        throttled.rule = rule
        if bound == throttled.bound:
            return
        since_ms = throttled.since_ms if now_ms is None else max(now_ms, throttled.since_ms)
        left_ms = throttled.due_ms - since_ms
        if left_ms > 0 and throttled.end_ms:
            due_ms = since_ms + left_ms * throttled.bound / bound
            if due_ms > throttled.due_ms:
                due_ms = max(min(due_ms, throttled.start_ms + longest_ms), throttled.due_ms)
            throttled.since_ms = since_ms
            self._move(throttled, due_ms)
        throttled.bound = bound

    def cut(self, throttled: ThrottledChannel, due_ms: float) -> None:
        """End the throttle at `due_ms` at the latest."""
        if due_ms < throttled.due_ms and throttled.end_ms:
            self._move(throttled, due_ms)

    def extend(self, channel: Throttleable, extra_ms: int) -> None:
        """Extend the throttle of a channel, if it has one, by `extra_ms`."""
        throttled = self._by_channel.get(id(channel))
        if throttled is not None:
            throttled.extra_ms += extra_ms
            throttled.end_ms += extra_ms
            self._queue_up(throttled)

    def all(self) -> list[ThrottledChannel]:
        """Return all throttles in the order in which they began."""
        return list(self._by_channel.values())

    def pop_expired(self, now_ms: int) -> object | None:
        """Remove the channel that has been due for longest and return its token; None if none is due."""
        queue = self._queue
        while queue and queue[0][0] <= now_ms:
            _, serial, throttled = heappop(queue)
            if serial == throttled.serial and self._release(throttled):
                return throttled.token
        return None

    def expired(self, now_ms: int) -> list[object]:
        """Remove all channels that are due and return their tokens in the order of their ends."""
        due: list[object] = []
        while (token := self.pop_expired(now_ms)) is not None:
            due.append(token)
        return due

    def forget(self, channel: Throttleable) -> None:
        """Remove a closed channel, if it is throttled. Its token is not returned."""
        self._by_channel.pop(id(channel), None)

    def next_deadline(self) -> int | None:
        """Return when `pop_expired` next returns a token, or None without throttled channels."""
        queue = self._queue
        while queue and not self._is_in_force(queue[0]):
            heappop(queue)
        return queue[0][0] if queue else None

    def rows(self, now_ms: int) -> list[MutedRow]:
        """Return a row for each throttled channel, the longest remaining time first."""
        return sorted(
            (throttled.row(now_ms) for throttled in self._by_channel.values()),
            key=lambda row: -row.remaining_ms,
        )

    def __len__(self) -> int:
        """Return the number of throttled channels. (Kafka: queue-size)"""
        return len(self._by_channel)

    def _insert(self, throttled: ThrottledChannel) -> None:
        self._by_channel[id(throttled.channel)] = throttled
        self._queue_up(throttled)

    def _move(self, throttled: ThrottledChannel, due_ms: float) -> None:
        throttled.due_ms = due_ms
        end_ms = java_round(due_ms)
        throttled.throttle_ms = end_ms - throttled.start_ms
        if throttled.end_ms != end_ms + throttled.extra_ms:
            throttled.end_ms = end_ms + throttled.extra_ms
            self._queue_up(throttled)

    def _queue_up(self, throttled: ThrottledChannel) -> None:
        """Enqueue `throttled`, which invalidates its former entry."""
        self._serial += 1
        throttled.serial = self._serial
        queue = self._queue
        heappush(queue, (throttled.end_ms, self._serial, throttled))
        if len(queue) > 2 * len(self._by_channel) + STALE:
            queue[:] = [entry for entry in queue if self._is_in_force(entry)]
            heapify(queue)
        self.on_deadline(throttled.end_ms)

    def _is_in_force(self, entry: tuple[int, int, ThrottledChannel]) -> bool:
        _, serial, throttled = entry
        return serial == throttled.serial and self._by_channel.get(id(throttled.channel)) is throttled

    def _release(self, throttled: ThrottledChannel) -> bool:
        """Return whether `throttled` was in force: its channel may be closed and its id reused."""
        key = id(throttled.channel)
        if self._by_channel.get(key) is not throttled:
            return False
        del self._by_channel[key]
        return True

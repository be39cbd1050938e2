"""The channels that are held for a broken quota, first to be freed first. (Kafka: ThrottledChannel and its
DelayQueue)

One for each kind of quota. Filled when a reply carries a throttle, emptied by the reaper of that kind in the
network room, read by the console. Knows no socket: a channel is whatever the caller holds, told apart by
identity.
"""

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Protocol

from broker.quotas.entity import Governing
from broker.quotas.kinds import QuotaKind
from broker.quotas.verdict import Throttle


class Throttleable(Protocol):
    """The facts of a connection that the console shows. `throttles` counts how often it was held."""

    id: str
    client_id: str | None
    principal: str
    address: str
    throttles: int


@dataclass(frozen=True, slots=True)
class ThrottledRow:
    """One held channel as the console shows it.

    `since_ms` is how long it has been held, `count` how often so far; `obeys`: see `obedience`.
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


class Held:
    """One throttle in force. `end_ms` is the moment from which the channel may be read again."""

    __slots__ = ("channel", "end_ms", "start_ms", "throttle", "token")

    def __init__(self, channel: Throttleable, token: object, throttle: Throttle, now_ms: int) -> None:
        self.channel = channel
        self.token = token
        self.throttle = throttle
        self.start_ms = now_ms
        self.end_ms = now_ms + throttle.throttle_ms

    def row(self, now_ms: int, obeys: bool | None = None) -> ThrottledRow:
        channel, throttle = self.channel, self.throttle
        return ThrottledRow(
            connection_id=channel.id,
            client_id=channel.client_id or "",
            principal=channel.principal,
            address=channel.address,
            quota_type=throttle.kind,
            entity=throttle.rule,
            observed=throttle.observed,
            bound=throttle.bound,
            throttle_ms=throttle.throttle_ms,
            remaining_ms=max(self.end_ms - now_ms, 0),
            since_ms=now_ms - self.start_ms,
            count=channel.throttles,
            obeys=obeys,
        )


class ThrottledChannels:
    """Every channel is freed exactly once per throttle: by `pop_expired`, or by `forget` when it has gone."""

    __slots__ = ("_held", "_queue", "_serial")

    def __init__(self) -> None:
        self._queue: list[tuple[int, int, Held]] = []
        self._held: dict[int, Held] = {}
        self._serial = 0

    def add(self, channel: Throttleable, token: object, throttle: Throttle, now_ms: int) -> None:
        """Holds `channel` from now on; `token` is what the caller gets back when it ends.

        A channel is held once at a time, since it sends nothing while it is held.
        """
        channel.throttles += 1
        self._hold(Held(channel, token, throttle, now_ms))

    def prolong(self, channel: Throttleable, throttle: Throttle, now_ms: int) -> bool:
        """Whether `channel` is held already; if so, until the later of the two ends, as one hold.

        For connections that may have broken a quota with several requests at once.
        """
        held = self._held.get(id(channel))
        if held is None:
            return False
        if now_ms + throttle.throttle_ms > held.end_ms:
            longer = Held(channel, held.token, throttle, now_ms)
            longer.start_ms = held.start_ms
            self._hold(longer)
        return True

    def end_early(self, held: Held) -> None:
        """The reason is gone: the channel is due now, and is the next that `pop_expired` returns."""
        held.end_ms = 0
        self._serial += 1
        heappush(self._queue, (0, self._serial, held))

    def extend(self, channel: Throttleable, extra_ms: int) -> None:
        """A channel is held for so much longer, as one hold, if it is held at all."""
        held = self._held.get(id(channel))
        if held is not None:
            longer = Held(channel, held.token, held.throttle, held.start_ms)
            longer.end_ms = held.end_ms + extra_ms
            self._hold(longer)

    def held(self) -> list[Held]:
        """Everything that is held, in the order in which it began."""
        return list(self._held.values())

    def pop_expired(self, now_ms: int) -> object | None:
        """The token of the channel that is due for longest, which is no longer held; None if none is due."""
        queue = self._queue
        while queue and queue[0][0] <= now_ms:
            held = heappop(queue)[2]
            if self._release(held):
                return held.token
        return None

    def expired(self, now_ms: int) -> list[object]:
        """The tokens of all channels that are due, which are no longer held, in the order of their ends."""
        due: list[object] = []
        while (token := self.pop_expired(now_ms)) is not None:
            due.append(token)
        return due

    def forget(self, channel: Throttleable) -> None:
        """The channel is closed: it is not held and will not be returned. Nothing if it is not held."""
        self._held.pop(id(channel), None)

    def next_deadline(self) -> int | None:
        """When `pop_expired` will next have something; None while nothing is held."""
        queue = self._queue
        while queue and self._held.get(id(queue[0][2].channel)) is not queue[0][2]:
            heappop(queue)
        return queue[0][0] if queue else None

    def rows(self, now_ms: int) -> list[ThrottledRow]:
        """All held channels, the one with the longest wait first."""
        return sorted((held.row(now_ms) for held in self._held.values()), key=lambda row: -row.remaining_ms)

    def __len__(self) -> int:
        """How many are held. (Kafka: queue-size)"""
        return len(self._held)

    def _hold(self, held: Held) -> None:
        self._serial += 1
        self._held[id(held.channel)] = held
        heappush(self._queue, (held.end_ms, self._serial, held))

    def _release(self, held: Held) -> bool:
        """Whether it was still held: a channel may be gone, and its identity another's."""
        key = id(held.channel)
        if self._held.get(key) is not held:
            return False
        del self._held[key]
        return True

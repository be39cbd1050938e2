"""The channels that are held for a broken quota, first to be freed first. (Kafka: ThrottledChannel and its
DelayQueue)

One for each kind of quota. Filled when a reply carries a throttle, emptied by the reaper of that kind in the
network room, read by the console. Knows no socket: a channel is whatever the caller holds, told apart by
identity.
"""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final, Protocol

from broker.metrics.quota import java_round
from broker.quotas.entity import Governing
from broker.quotas.kinds import QuotaKind
from broker.quotas.usage import ClientSensor
from broker.quotas.verdict import Throttle

STALE: Final = 256
"""Entries of the queue that may stand for a former end, beside as many as there are channels."""


class Throttleable(Protocol):
    """The facts of a connection that the console shows. `throttles` counts how often it was held."""

    id: str
    client_id: str | None
    principal: str
    address: str
    listener: str
    throttles: int


@dataclass(frozen=True, slots=True)
class ThrottledRow:
    """One held channel as the console shows it.

    `entity` and `bound` are the limit that holds it now, `observed` and `throttle_ms` what the client was
    told; once the limit has changed, `throttle_ms` is the whole time for which it is held. `since_ms` is how
    long it has been held, `count` how often so far; `obeys`: see `throttle_compliance`.
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
    """One throttle in force. `end_ms` is the moment from which the channel may be read again.

    What it waits for is a debt, repaid at `bound` until `due_ms`, which is no whole number where the bound
    has changed. `rule` and `sensor` are what governs the client now.
    """

    __slots__ = (
        *("bound", "channel", "due_ms", "end_ms", "extra_ms", "rule", "sensor", "serial", "since_ms"),
        *("start_ms", "throttle", "throttle_ms", "token"),
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

    def row(self, now_ms: int, obeys: bool | None = None) -> ThrottledRow:
        channel, throttle = self.channel, self.throttle
        return ThrottledRow(
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
        )


class ThrottledChannels:
    """Every channel is freed exactly once per throttle: by `pop_expired`, or by `forget` when it has gone.

    `on_change` is called after ends were moved: `next_deadline` may be earlier.
    """

    __slots__ = ("_held", "_queue", "_serial", "on_change")

    def __init__(self) -> None:
        self.on_change: Callable[[], None] = _nobody
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
        self._queue_up(held)

    def change_bound(
        self, held: Held, bound: float, rule: Governing, now_ms: int | None, longest_ms: int
    ) -> None:
        """From `now_ms` on (None: the moment of which its end was told) the debt is repaid at `bound`, which
        `rule` sets, and the hold ends when it is repaid. Nothing moves where the bound is the same, or the
        hold is due.

        A hold that becomes longer lasts for `longest_ms` altogether at most.
        """
        held.rule = rule
        if bound == held.bound:
            return
        since_ms = held.since_ms if now_ms is None else max(now_ms, held.since_ms)
        left_ms = held.due_ms - since_ms
        if left_ms > 0 and held.end_ms:
            due_ms = since_ms + left_ms * held.bound / bound
            if due_ms > held.due_ms:
                due_ms = max(min(due_ms, held.start_ms + longest_ms), held.due_ms)
            held.since_ms = since_ms
            self._move(held, due_ms)
        held.bound = bound

    def cut(self, held: Held, due_ms: float) -> None:
        """The hold ends at `due_ms` at the latest."""
        if due_ms < held.due_ms and held.end_ms:
            self._move(held, due_ms)

    def extend(self, channel: Throttleable, extra_ms: int) -> None:
        """A channel is held for so much longer, as one hold, if it is held at all."""
        held = self._held.get(id(channel))
        if held is not None:
            held.extra_ms += extra_ms
            held.end_ms += extra_ms
            self._queue_up(held)

    def held(self) -> list[Held]:
        """Everything that is held, in the order in which it began."""
        return list(self._held.values())

    def pop_expired(self, now_ms: int) -> object | None:
        """The token of the channel that is due for longest, which is no longer held; None if none is due."""
        queue = self._queue
        while queue and queue[0][0] <= now_ms:
            _, serial, held = heappop(queue)
            if serial == held.serial and self._release(held):
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
        while queue and not self._is_in_force(queue[0]):
            heappop(queue)
        return queue[0][0] if queue else None

    def rows(self, now_ms: int) -> list[ThrottledRow]:
        """All held channels, the one with the longest wait first."""
        return sorted((held.row(now_ms) for held in self._held.values()), key=lambda row: -row.remaining_ms)

    def __len__(self) -> int:
        """How many are held. (Kafka: queue-size)"""
        return len(self._held)

    def _hold(self, held: Held) -> None:
        self._held[id(held.channel)] = held
        self._queue_up(held)

    def _move(self, held: Held, due_ms: float) -> None:
        held.due_ms = due_ms
        end_ms = java_round(due_ms)
        held.throttle_ms = end_ms - held.start_ms
        if held.end_ms != end_ms + held.extra_ms:
            held.end_ms = end_ms + held.extra_ms
            self._queue_up(held)

    def _queue_up(self, held: Held) -> None:
        """Its former place in the queue, if it has one, stands for nothing from here on."""
        self._serial += 1
        held.serial = self._serial
        queue = self._queue
        heappush(queue, (held.end_ms, self._serial, held))
        if len(queue) > 2 * len(self._held) + STALE:
            queue[:] = [entry for entry in queue if self._is_in_force(entry)]
            heapify(queue)

    def _is_in_force(self, entry: tuple[int, int, Held]) -> bool:
        _, serial, held = entry
        return serial == held.serial and self._held.get(id(held.channel)) is held

    def _release(self, held: Held) -> bool:
        """Whether it was still held: a channel may be gone, and its identity another's."""
        key = id(held.channel)
        if self._held.get(key) is not held:
            return False
        del self._held[key]
        return True


def _nobody() -> None:
    """Nobody wants to know."""

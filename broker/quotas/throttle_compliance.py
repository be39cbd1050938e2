"""Detects whether clients honour `throttle_time_ms`, from the arrival of their next request.

The network package reports every throttle, and the number of the client's unread bytes at the times that this
module requests. Read by the console and the metrics. Independent of sockets and clocks.

A compliant client (Java, kafka-python) sends nothing between the response and the end of the throttle. What
was in flight arrives at the beginning, so the first check follows a grace period. Bytes that arrive between
that check and the end were sent despite the throttle.

This does not detect a client that sends within a millisecond and keeps few requests in flight: it checks like
a compliant client with few requests in flight. Such a client sends the next request when its wait is over,
which is when the broker responds to the request that waited. So if several throttles in a row end with unread
bytes, and the connection has no verdict yet, its throttle is extended slightly. A compliant client regards
itself as unthrottled then and is seen to send; and when its next throttle begins, nothing of it is in
flight, so no grace period is necessary. No throttle is ever shortened for this.
"""

from collections.abc import Callable, Iterator
from enum import Enum
from heapq import heappop, heappush
from typing import Final, NamedTuple

from broker.quotas.throttled import Throttleable

MIN_THROTTLE_MS: Final = 40
"""The shortest throttle that allows a verdict: the grace period must exceed most round trips."""

MAX_GRACE_MS: Final = 250
MIN_MARGIN_MS: Final = 5
MAX_MARGIN_MS: Final = 20
"""The last check is this long before the end of a throttle: a tenth of it within these limits, since the
clocks of client and broker differ.
"""

MAX_GAP_MS: Final = 50
"""A throttle that begins within this time after another is for a request that waited for its end."""

MIN_IN_A_ROW: Final = 3
"""Throttles in a row that end with unread bytes before one is extended."""

EXTRA_MS: Final = 25
CHECK_AFTER_MS: Final = 20
"""The extension, and the time of the check within it: what a client needs to react to the end."""

MAX_EXTENDED: Final = 16
"""Extended throttles per connection. A connection without a verdict by then stays without one."""

HISTORY: Final = 8
"""Observations that count. Older ones expire, since a client can be replaced by a compliant one."""

MAX_CLIENTS: Final = 1_024


class ComplianceRecord:
    """The last observations of one connection or client. `waited` and `sent_early` count all of them."""

    __slots__ = ("_recent", "sent_early", "waited")

    def __init__(self) -> None:
        self.waited = 0
        self.sent_early = 0
        self._recent = 0

    def note(self, *, early: bool) -> None:
        if early:
            self.sent_early += 1
        else:
            self.waited += 1
        self._recent = (self._recent << 1 | early) & ((1 << HISTORY) - 1)

    @property
    def obeys(self) -> bool | None:
        """The verdict on the last eight observations.

        False: at least two, and at least half of them, were sent early. True: at least two observations, and
        at most one in eight early. None: too few observations, or mixed ones.
        """
        seen = min(self.waited + self.sent_early, HISTORY)
        early = self._recent.bit_count()
        if early >= 2 and early * 2 >= seen:
            return False
        return True if seen >= 2 and early * HISTORY <= seen else None


class ClientRecord(NamedTuple):
    principal: str
    client_id: str
    record: ComplianceRecord


class Observations(NamedTuple):
    """The verdict on a connection, and the number of observations since the last `take_observations`."""

    obeys: bool | None
    waited: int
    sent_early: int


class _Check(Enum):
    """The purpose of the next check of a throttle."""

    GRACE = 1
    LAST = 2
    AFTER = 3


class WatchedChannel(ComplianceRecord):
    """A connection that was throttled at least once. Only `ThrottleCompliance` changes it."""

    __slots__ = (
        "bytes",
        "channel",
        "end_ms",
        "extended",
        "in_a_row",
        "is_extended",
        "next",
        "reported",
        "sent_nothing",
        "serial",
        "throttle_ms",
    )

    def __init__(self, channel: Throttleable) -> None:
        super().__init__()
        self.channel = channel
        self.serial = 0
        self.throttle_ms = 0
        self.end_ms = 0
        self.next = _Check.GRACE
        self.bytes = 0
        """Unread bytes at a time after which a compliant client sends no more."""
        self.in_a_row = 0
        """Consecutive throttles that ended with unread bytes, each begun at the end of the one before."""
        self.extended = 0
        self.is_extended = False
        """Whether the last throttle was extended, and how many were."""
        self.sent_nothing = False
        """Whether nothing was sent in the last throttle. The time of the next request decides what it means.
        """
        self.reported = (0, 0)
        """The values of `waited` and `sent_early` at the last `Observations`."""


class ThrottleCompliance:
    """Verdicts on open connections, and on the most recently observed clients by (principal, client id)."""

    def __init__(self) -> None:
        self._watched: dict[int, WatchedChannel] = {}
        self._clients: dict[tuple[str, str], ComplianceRecord] = {}
        self._checks: list[tuple[int, int, WatchedChannel]] = []
        self._serial = 0
        self.on_deadline: Callable[[int], None] = lambda _due_ms: None
        """Called with the time of each check, in ms."""

    def throttled(self, channel: Throttleable, throttle_ms: int, now_ms: int, *, waiting: int) -> None:
        """Handle a throttle whose response is about to be written. `waiting` is the number of the client's
        unread bytes.
        """
        watch = self._watched.get(id(channel))
        if watch is None:
            if throttle_ms < MIN_THROTTLE_MS:
                return
            watch = self._watched[id(channel)] = WatchedChannel(channel)
        since_ms = now_ms - watch.end_ms
        if watch.sent_nothing and since_ms <= watch.throttle_ms:
            # At its rate, the client would have sent within that throttle too if it did not wait.
            self._note(watch, early=False)
        watch.sent_nothing = False
        if since_ms > MAX_GAP_MS:
            watch.in_a_row = 0
        is_settled = watch.is_extended and since_ms <= MAX_GAP_MS
        watch.is_extended = False
        self._serial += 1
        watch.serial = self._serial
        watch.throttle_ms, watch.end_ms = throttle_ms, now_ms + throttle_ms
        if throttle_ms < MIN_THROTTLE_MS:
            return
        if is_settled:
            self._schedule_last_check(watch, waiting)
        else:
            watch.next = _Check.GRACE
            self._schedule_check(watch, now_ms + min(throttle_ms // 2, MAX_GRACE_MS))

    def next_deadline(self) -> int | None:
        """Return when `pop_due` next returns a connection."""
        checks = self._checks
        while checks and checks[0][1] != checks[0][2].serial:
            heappop(checks)
        return checks[0][0] if checks else None

    def pop_due(self, now_ms: int) -> WatchedChannel | None:
        """Return a connection to check now. The caller passes the result to `checked`."""
        due_ms = self.next_deadline()
        return heappop(self._checks)[2] if due_ms is not None and due_ms <= now_ms else None

    def checked(self, watch: WatchedChannel, now_ms: int, *, waiting: int) -> int:
        """Return the milliseconds by which to extend the throttle. `waiting` is the number of the client's
        unread bytes. A check after the end of the throttle is ignored.
        """
        if now_ms >= watch.end_ms:
            watch.in_a_row = 0
            return 0
        match watch.next:
            case _Check.GRACE:
                self._schedule_last_check(watch, waiting)
            case _Check.LAST:
                return self._check_last(watch, waiting)
            case _Check.AFTER:
                if waiting > watch.bytes:
                    self._note(watch, early=False)
        return 0

    def released(self, watch: WatchedChannel) -> None:
        """Handle a due check of a connection whose throttle ended because its limit was raised."""
        watch.in_a_row = 0

    def forget(self, channel: Throttleable) -> None:
        """Remove a closed connection. Its observations remain with its client."""
        watch = self._watched.pop(id(channel), None)
        if watch is not None:
            watch.serial = -1

    def obeys(self, channel: Throttleable) -> bool | None:
        """Return the verdict on this connection, or else the one on its client."""
        watch = self._watched.get(id(channel))
        verdict = None if watch is None else watch.obeys
        if verdict is None:
            record = self._clients.get((channel.principal, channel.client_id or ""))
            verdict = None if record is None else record.obeys
        return verdict

    def take_observations(self, channel: Throttleable) -> Observations:
        """Return the verdict, and the observations since the last call."""
        obeys = self.obeys(channel)
        watch = self._watched.get(id(channel))
        if watch is None:
            return Observations(obeys, 0, 0)
        waited, sent_early = watch.reported
        watch.reported = watch.waited, watch.sent_early
        return Observations(obeys, watch.waited - waited, watch.sent_early - sent_early)

    def clients(self) -> Iterator[ClientRecord]:
        """Yield the clients with observations."""
        for (principal, client_id), record in self._clients.items():
            yield ClientRecord(principal, client_id, record)

    def _check_last(self, watch: WatchedChannel, waiting: int) -> int:
        if not waiting:
            watch.in_a_row = 0
            watch.sent_nothing = True
            return 0
        watch.in_a_row += 1
        was_sent = waiting > watch.bytes
        if was_sent:
            self._note(watch, early=True)
        if watch.in_a_row <= MIN_IN_A_ROW or watch.obeys is not None or watch.extended >= MAX_EXTENDED:
            return 0
        watch.extended += 1
        watch.is_extended = True
        if not was_sent:
            watch.next = _Check.AFTER
            self._schedule_check(watch, watch.end_ms + CHECK_AFTER_MS)
        watch.end_ms += EXTRA_MS
        return EXTRA_MS

    def _schedule_last_check(self, watch: WatchedChannel, waiting: int) -> None:
        watch.bytes, watch.next = waiting, _Check.LAST
        margin_ms = max(min(watch.throttle_ms // 10, MAX_MARGIN_MS), MIN_MARGIN_MS)
        self._schedule_check(watch, watch.end_ms - margin_ms)

    def _schedule_check(self, watch: WatchedChannel, due_ms: int) -> None:
        heappush(self._checks, (due_ms, watch.serial, watch))
        self.on_deadline(due_ms)

    def _note(self, watch: WatchedChannel, *, early: bool) -> None:
        watch.note(early=early)
        key = (watch.channel.principal, watch.channel.client_id or "")
        record = self._clients.pop(key, None) or ComplianceRecord()
        if len(self._clients) >= MAX_CLIENTS:
            del self._clients[next(iter(self._clients))]
        self._clients[key] = record
        record.note(early=early)

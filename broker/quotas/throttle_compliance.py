"""Whether clients wait as `throttle_time_ms` tells them to, judged by when their next request arrives.

Told of every throttle by the network room, which also counts the bytes of the client that wait to be read, at
the moments that this room asks for. Read by the console and the metrics. Knows no socket and no clock.

A client that obeys (Java, kafka-python) sends nothing between the answer and the end of the throttle. What it
had sent before it knew arrives at the beginning, so the first look comes after a grace, and what arrives
between that and the end was sent in spite of the answer.

That does not show a client that sends on within a millisecond and has no more than a few requests on their
way: it looks like one that obeys, keeps a few on their way too, and sends the next one whenever its wait is
over, which is when the broker answers the one that had waited. So where several throttles in a row end with
bytes waiting, and nothing is known of the connection yet, it is held a moment longer than it was told. Who
obeys is free then, and is seen to send; and when the next throttle begins nothing of such a client is on its
way, so that no grace is needed. Nobody is ever let go before its time for this.
"""

from collections.abc import Iterator
from enum import Enum
from heapq import heappop, heappush
from typing import Final, NamedTuple

from broker.quotas.throttled import Throttleable

LEAST_MS: Final = 40
"""The shortest throttle that tells anything, for a grace is to be longer than most round trips."""

LONGEST_GRACE_MS: Final = 250
LEAST_MARGIN_MS: Final = 5
LONGEST_MARGIN_MS: Final = 20
"""How long before its end a throttle is looked at, a tenth of it between these: clocks of clients are not the
broker's.
"""

AT_ONCE_MS: Final = 50
"""A throttle that begins so soon after another was for a request that had waited for its end."""

UNTOUCHED: Final = 3
"""Throttles in a row that end with bytes waiting, before one is made longer."""

EXTRA_MS: Final = 25
LOOK_AFTER_MS: Final = 20
"""By how much, and when within it the last look comes: what a client needs to notice that it is free."""

MOST_EXTENDED: Final = 16
"""Throttles of one connection that are made longer; who is not known by then stays unknown."""

HISTORY: Final = 8
"""Observations that count; older ones are forgotten, for a client can be replaced by a better one."""

MAX_CLIENTS: Final = 1_024


class Record:
    """The last observations of one connection or one client. `waited` and `sent_early` count all of them."""

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
        """No: at least two and at least half of the last eight sent early. Yes: at least two, and one in
        eight at most. None: too few, or of both kinds, as with a client that asks now and then only.
        """
        seen = min(self.waited + self.sent_early, HISTORY)
        early = self._recent.bit_count()
        if early >= 2 and early * 2 >= seen:
            return False
        return True if seen >= 2 and early * HISTORY <= seen else None


class ClientRecord(NamedTuple):
    principal: str
    client_id: str
    record: Record


class Seen(NamedTuple):
    """What is known of a connection, and how many throttles showed it since somebody asked last."""

    obeys: bool | None
    waited: int
    sent_early: int


class _Next(Enum):
    """What the next look at a throttle is for."""

    GRACE = 1
    LAST = 2
    AFTER = 3


class Watch(Record):
    """A connection that was throttled at least once. Only `ThrottleCompliance` changes it."""

    __slots__ = (
        *(
            "bytes",
            "channel",
            "end_ms",
            "extended",
            "in_a_row",
            "is_extended",
            "kept_still",
            "next",
            "serial",
        ),
        *("throttle_ms", "told"),
    )

    def __init__(self, channel: Throttleable) -> None:
        super().__init__()
        self.channel = channel
        self.serial = 0
        self.throttle_ms = 0
        self.end_ms = 0
        self.next = _Next.GRACE
        self.bytes = 0
        """Those that waited at a moment from which on no others should come."""
        self.in_a_row = 0
        """Throttles so far that ended with bytes waiting, each begun with the end of the one before."""
        self.extended = 0
        self.is_extended = False
        """Whether the last throttle was made longer, and how many were."""
        self.kept_still = False
        """Whether nothing was sent in the last throttle. When the next request comes says what that means."""
        self.told = (0, 0)
        """How much of `waited` and `sent_early` the last `Seen` knew."""


class ThrottleCompliance:
    """What is known of connections that are open, and of clients by (principal, client id), those of which
    something was seen last.
    """

    __slots__ = ("_clients", "_looks", "_serial", "_watches")

    def __init__(self) -> None:
        self._watches: dict[int, Watch] = {}
        self._clients: dict[tuple[str, str], Record] = {}
        self._looks: list[tuple[int, int, Watch]] = []
        self._serial = 0

    def throttled(self, channel: Throttleable, throttle_ms: int, now_ms: int, *, waiting: int) -> None:
        """A throttle begins with an answer that is about to be written; `waiting`: bytes of the client that
        are there already.
        """
        watch = self._watches.get(id(channel))
        if watch is None:
            if throttle_ms < LEAST_MS:
                return
            watch = self._watches[id(channel)] = Watch(channel)
        since_ms = now_ms - watch.end_ms
        if watch.kept_still and since_ms <= watch.throttle_ms:
            # Who sends so often would have sent within that throttle too, had it not waited.
            self._note(watch, early=False)
        watch.kept_still = False
        if since_ms > AT_ONCE_MS:
            watch.in_a_row = 0
        is_settled = watch.is_extended and since_ms <= AT_ONCE_MS
        watch.is_extended = False
        self._serial += 1
        watch.serial = self._serial
        watch.throttle_ms, watch.end_ms = throttle_ms, now_ms + throttle_ms
        if throttle_ms < LEAST_MS:
            return
        if is_settled:
            self._await_last(watch, waiting)
        else:
            watch.next = _Next.GRACE
            self._look_at(watch, now_ms + min(throttle_ms // 2, LONGEST_GRACE_MS))

    def next_deadline(self) -> int | None:
        """When `pop_due` will next have something."""
        looks = self._looks
        while looks and looks[0][1] != looks[0][2].serial:
            heappop(looks)
        return looks[0][0] if looks else None

    def pop_due(self, now_ms: int) -> Watch | None:
        """A connection that is to be looked at now; `looked` must be told what was seen."""
        due_ms = self.next_deadline()
        return heappop(self._looks)[2] if due_ms is not None and due_ms <= now_ms else None

    def looked(self, watch: Watch, now_ms: int, *, waiting: int) -> int:
        """For how many milliseconds beyond its end the throttle is to last; `waiting`: bytes of the
        client that are there. A look that comes when the throttle is over sees nothing that counts.
        """
        if now_ms >= watch.end_ms:
            watch.in_a_row = 0
            return 0
        match watch.next:
            case _Next.GRACE:
                self._await_last(watch, waiting)
            case _Next.LAST:
                return self._is_nearly_over(watch, waiting)
            case _Next.AFTER:
                if waiting > watch.bytes:
                    self._note(watch, early=False)
        return 0

    def released(self, watch: Watch) -> None:
        """Instead of `looked`: the connection is not held any longer, because its limit was raised."""
        watch.in_a_row = 0

    def forget(self, channel: Throttleable) -> None:
        """The connection is closed. What it has shown stays with its client."""
        watch = self._watches.pop(id(channel), None)
        if watch is not None:
            watch.serial = -1

    def obeys(self, channel: Throttleable) -> bool | None:
        """What this connection shows, or else what its client has shown before."""
        watch = self._watches.get(id(channel))
        verdict = None if watch is None else watch.obeys
        if verdict is None:
            record = self._clients.get((channel.principal, channel.client_id or ""))
            verdict = None if record is None else record.obeys
        return verdict

    def take_seen(self, channel: Throttleable) -> Seen:
        """For the one who writes it down: what is told here is not told again."""
        obeys = self.obeys(channel)
        watch = self._watches.get(id(channel))
        if watch is None:
            return Seen(obeys, 0, 0)
        waited, sent_early = watch.told
        watch.told = watch.waited, watch.sent_early
        return Seen(obeys, watch.waited - waited, watch.sent_early - sent_early)

    def clients(self) -> Iterator[ClientRecord]:
        """Of whom something was seen."""
        for (principal, client_id), record in self._clients.items():
            yield ClientRecord(principal, client_id, record)

    def _is_nearly_over(self, watch: Watch, waiting: int) -> int:
        if not waiting:
            watch.in_a_row = 0
            watch.kept_still = True
            return 0
        watch.in_a_row += 1
        was_sent = waiting > watch.bytes
        if was_sent:
            self._note(watch, early=True)
        if watch.in_a_row <= UNTOUCHED or watch.obeys is not None or watch.extended >= MOST_EXTENDED:
            return 0
        watch.extended += 1
        watch.is_extended = True
        if not was_sent:
            watch.next = _Next.AFTER
            self._look_at(watch, watch.end_ms + LOOK_AFTER_MS)
        watch.end_ms += EXTRA_MS
        return EXTRA_MS

    def _await_last(self, watch: Watch, waiting: int) -> None:
        watch.bytes, watch.next = waiting, _Next.LAST
        margin_ms = max(min(watch.throttle_ms // 10, LONGEST_MARGIN_MS), LEAST_MARGIN_MS)
        self._look_at(watch, watch.end_ms - margin_ms)

    def _look_at(self, watch: Watch, due_ms: int) -> None:
        heappush(self._looks, (due_ms, watch.serial, watch))

    def _note(self, watch: Watch, *, early: bool) -> None:
        watch.note(early=early)
        key = (watch.channel.principal, watch.channel.client_id or "")
        record = self._clients.pop(key, None) or Record()
        if len(self._clients) >= MAX_CLIENTS:
            del self._clients[next(iter(self._clients))]
        self._clients[key] = record
        record.note(early=early)

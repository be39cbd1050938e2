"""Whether clients wait as `throttle_time_ms` tells them to, judged by when their next request arrives.

Told of every throttle by the network room, which also looks whether bytes of the client wait to be read, at
the two moments that this room asks for. Read by the console and the metrics. Knows no socket and no clock.

A client that obeys (Java, kafka-python) sends nothing between the answer and the end of the throttle. What it
had sent before it knew arrives at the beginning, so the first look comes after a grace, and only what arrives
between the two looks was sent in spite of the answer.

That does not show a client that sends on within a millisecond, nor one that has many requests on their way:
both look like a client that obeys and keeps a few, and that sends the next one whenever its wait is over,
which is when the broker answers the one that had waited. So where several throttles in a row end with bytes
waiting, and nothing is known of the connection yet, the next ones are ended a little before their time, and
what that gives the quota takes from the next. A client that obeys is told to wait again before its wait is
over, is never free to send, and has soon nothing left that waits. What arrives all the same was sent in spite
of the answers, and so were more requests than any client keeps on their way.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Final, NamedTuple

from broker.quotas.throttled import Throttleable

LEAST_MS: Final = 40
"""The shortest throttle that tells anything by itself, for a grace is to be longer than most round trips."""

LONGEST_GRACE_MS: Final = 250
LEAST_MARGIN_MS: Final = 5
LONGEST_MARGIN_MS: Final = 20
"""How long before its end a throttle is looked at for the last time, a tenth of it between these: clocks of
clients are not the broker's.
"""

AT_ONCE_MS: Final = 50
"""A throttle that begins so soon after another was for a request that had waited for its end."""

UNTOUCHED: Final = 3
"""Throttles in a row that end with bytes waiting, before one is ended early."""

MOST_ON_THEIR_WAY: Final = 16
"""More than this many requests that had waited, with no time to send between, were not all sent before the
first answer: clients that obey keep 5 at most (max.in.flight.requests.per.connection with idempotence).
"""

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


class Watch(Record):
    """A connection that was throttled at least once. Only `Obedience` changes it."""

    __slots__ = (
        *("channel", "end_ms", "in_a_row", "is_last", "kept_still", "serial", "throttle_ms", "unfree"),
        "was_there",
    )

    def __init__(self, channel: Throttleable) -> None:
        super().__init__()
        self.channel = channel
        self.serial = 0
        self.throttle_ms = 0
        self.end_ms = 0
        self.was_there = False
        """Whether bytes waited at a moment from which on no others should come."""
        self.is_last = False
        """Whether the next look is the last one."""
        self.in_a_row = 0
        """Throttles so far that ended with bytes waiting, each begun with the end of the one before."""
        self.unfree = 0
        """How many of them were ended early, so that there was no time to send between."""
        self.kept_still = False
        """Whether nothing was sent in the last throttle. When the next request comes says what that means."""

    def break_off(self) -> None:
        """No row of throttles goes on."""
        self.in_a_row = self.unfree = 0


class Obedience:
    """What is known of connections that are open, and of clients by (principal, client id), those of which
    something was seen last.
    """

    __slots__ = ("_clients", "_looks", "_serial", "_watches")

    def __init__(self) -> None:
        self._watches: dict[int, Watch] = {}
        self._clients: dict[tuple[str, str], Record] = {}
        self._looks: list[tuple[int, int, Watch]] = []
        self._serial = 0

    def throttled(self, channel: Throttleable, throttle_ms: int, now_ms: int, *, waiting: bool) -> None:
        """A throttle begins with an answer that is about to be written; `waiting`: bytes of the client are
        there already.
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
            watch.break_off()
        self._serial += 1
        watch.serial = self._serial
        watch.throttle_ms, watch.end_ms = throttle_ms, now_ms + throttle_ms
        if throttle_ms < LEAST_MS:
            if watch.unfree and throttle_ms > 2 * LEAST_MARGIN_MS:
                self._await_last(watch, was_there=True)
        elif watch.unfree and not waiting:
            self._await_last(watch, was_there=False)
        else:
            watch.is_last = False
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

    def looked(self, watch: Watch, now_ms: int, *, waiting: bool) -> bool:
        """`waiting`: bytes of the client are there. Whether the throttle is to end now, before its time. A
        look that comes when it is over sees nothing that counts.
        """
        if now_ms >= watch.end_ms:
            watch.break_off()
        elif not watch.is_last:
            self._await_last(watch, was_there=waiting)
        elif not waiting:
            watch.break_off()
            watch.kept_still = True
        else:
            return self._sent(watch, now_ms)
        return False

    def released(self, watch: Watch) -> None:
        """Instead of `looked`: the connection is not held any longer, because its limit was raised."""
        watch.break_off()

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

    def clients(self) -> Iterator[ClientRecord]:
        """Of whom something was seen."""
        for (principal, client_id), record in self._clients.items():
            yield ClientRecord(principal, client_id, record)

    def _sent(self, watch: Watch, now_ms: int) -> bool:
        """The throttle is nearly over, and bytes wait. Whether it is to end now."""
        watch.in_a_row += 1
        if not watch.was_there or watch.unfree >= MOST_ON_THEIR_WAY:
            self._note(watch, early=True)
        if watch.in_a_row <= UNTOUCHED or watch.obeys is not None:
            watch.unfree = 0
            return False
        watch.unfree += 1
        watch.end_ms = now_ms
        return True

    def _await_last(self, watch: Watch, *, was_there: bool) -> None:
        watch.was_there, watch.is_last = was_there, True
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

"""Whose request is next: every visitor of the console stands in a line of its own.

Asked by http.asgi before every request. All visitors together have the turns of http.rate_limit. A visitor
who asks for more at once than any browser or tool does is a flood, and gets one turn a second until its line
has emptied; nobody else notices, and least of all the Kafka clients, who share the thread.
"""

from enum import Enum
from typing import Final

import trio

from webui.http.rate_limit import CHANGES_PER_S, HEALTH_BURST, HEALTH_PER_S, LONGEST_WAIT_S, RateLimit

MOST_AT_ONCE: Final = 32
"""Requests of one visitor that have not begun to be answered: a browser has six connections to a host, a tool
that applies a plan asks for ten or twenty things at once."""

FLOOD_TURN_S: Final = 1.0
"""Three thousandths of the thread: then it is one of a hundred client requests that hardly ever meets one."""

FLOOD_WAIT_S: Final = 60.0
"""A refusal is an invitation to ask again, so it is not given early."""


class Kind(Enum):
    """What a request takes a turn for."""

    PAGE = "page"
    CHANGE = "change"
    """Changing quotas, by a client that may change them."""
    HEALTH = "health"


class Turn:
    """What one request has to wait for: so many seconds, and then its answer, or the refusal where it is not
    `granted`. `done` as soon as its answer has begun, however often.
    """

    __slots__ = ("_line", "_lines", "granted", "wait_s")

    def __init__(self, lines: "FairQueue", line: "_Waiting", wait_s: float, granted: bool) -> None:
        self._lines = lines
        self._line: _Waiting | None = line
        self.wait_s = wait_s
        self.granted = granted

    def done(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            self._lines.leave(line)


class _Waiting:
    """One visitor's requests that have not begun to be answered; as a flood it has its next turn then."""

    __slots__ = ("count", "identity", "next_at")

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.count = 0
        self.next_at = 0.0


class FairQueue:
    """`pace` is what all visitors have together, `changes` what they have for changing quotas, and `health`
    what they have for health checks.
    """

    __slots__ = ("_lines", "changes", "health", "pace")

    def __init__(self) -> None:
        self._lines: dict[str, _Waiting] = {}
        self.pace = RateLimit()
        self.changes = RateLimit(CHANGES_PER_S, burst=CHANGES_PER_S)
        self.health = RateLimit(HEALTH_PER_S, HEALTH_BURST)

    def __len__(self) -> int:
        """Visitors with a request in hand."""
        return len(self._lines)

    def turn(self, identity: str) -> Turn:
        """The next turn of this visitor. The waiting is the caller's."""
        return self._turn(identity, self.pace)

    def turn_for_change(self, identity: str) -> Turn:
        """The same for a request that changes quotas, of a visitor who may do that."""
        return self._turn(identity, self.changes)

    def turn_for_health(self, identity: str) -> Turn:
        """The same for a health check: a flood of other requests must not make a broker look dead."""
        return self._turn(identity, self.health)

    def _turn(self, identity: str, pace: RateLimit) -> Turn:
        line = self._lines.get(identity)
        if line is None:
            line = self._lines[identity] = _Waiting(identity)
        line.count += 1
        if line.count > MOST_AT_ONCE:
            now = trio.current_time()
            at = max(line.next_at, now + FLOOD_TURN_S)
            if at - now > FLOOD_WAIT_S:
                return Turn(self, line, FLOOD_WAIT_S, granted=False)
            line.next_at = at + FLOOD_TURN_S
            return Turn(self, line, at - now, granted=True)
        wait_s = pace.take()
        if wait_s is None:
            return Turn(self, line, LONGEST_WAIT_S, granted=False)
        return Turn(self, line, wait_s, granted=True)

    def leave(self, line: _Waiting) -> None:
        line.count -= 1
        if line.count == 0:
            del self._lines[line.identity]

"""One log line per burst of refused connections.

Filled by the acceptors of the network package and emptied by their reaper. A burst is logged with its count
`BURST_MS` after its first refusal; later refusals start the next burst. Clients choose their addresses, so
beyond `MAX_BURSTS` at a time they are counted together. Independent of the log and of clocks.
"""

from dataclasses import dataclass
from typing import Final

BURST_MS: Final = 1_000
MAX_BURSTS: Final = 100
OTHERS: Final = "other addresses"


@dataclass(slots=True)
class Burst:
    """Connections of one address on one listener, refused by the same rule. `bound` is the rule's value."""

    listener: str
    address: str
    rule: str
    bound: float
    due_ms: int
    count: int = 0


class Rejections:
    """The current bursts, the oldest first."""

    __slots__ = ("_bursts",)

    def __init__(self) -> None:
        self._bursts: dict[tuple[str, str, str], Burst] = {}

    def note(self, listener: str, address: str, rule: str, bound: float, now_ms: int) -> None:
        """Count a refused connection."""
        burst = self._bursts.get((listener, address, rule))
        if burst is None:
            if len(self._bursts) >= MAX_BURSTS:
                address = OTHERS
            key = (listener, address, rule)
            burst = self._bursts.setdefault(key, Burst(listener, address, rule, bound, now_ms + BURST_MS))
        burst.count += 1

    def next_deadline(self) -> int | None:
        """Return when the first burst is due to be logged."""
        return next((burst.due_ms for burst in self._bursts.values()), None)

    def due(self, now_ms: int) -> list[Burst]:
        """Remove and return the bursts that are due."""
        over = [key for key, burst in self._bursts.items() if burst.due_ms <= now_ms]
        return [self._bursts.pop(key) for key in over]

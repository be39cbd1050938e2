"""One line in the log for a burst of refused connections, however many they are.

Filled by the network room's gates, emptied by their reaper: a burst is told about `BURST_MS` after its first
refusal, with the count; what comes later is the next burst. Addresses are not the broker's choice, so beyond
`MOST_BURSTS` at a time they are counted together. Knows no log and no clock.
"""

from dataclasses import dataclass
from typing import Final

BURST_MS: Final = 1_000
MOST_BURSTS: Final = 100
OTHERS: Final = "other addresses"


@dataclass(slots=True)
class Burst:
    """Connections of one address on one listener that broke the same rule. `bound` is the rule's value."""

    listener: str
    address: str
    rule: str
    bound: float
    due_ms: int
    count: int = 0


class Rejections:
    """The bursts that are going on, the oldest first."""

    __slots__ = ("_bursts",)

    def __init__(self) -> None:
        self._bursts: dict[tuple[str, str, str], Burst] = {}

    def note(self, listener: str, address: str, rule: str, bound: float, now_ms: int) -> None:
        """One connection was refused."""
        burst = self._bursts.get((listener, address, rule))
        if burst is None:
            if len(self._bursts) >= MOST_BURSTS:
                address = OTHERS
            key = (listener, address, rule)
            burst = self._bursts.setdefault(key, Burst(listener, address, rule, bound, now_ms + BURST_MS))
        burst.count += 1

    def next_deadline(self) -> int | None:
        """When the first of them is to be told about."""
        return next((burst.due_ms for burst in self._bursts.values()), None)

    def due(self, now_ms: int) -> list[Burst]:
        """Takes the bursts that are over."""
        over = [key for key, burst in self._bursts.items() if burst.due_ms <= now_ms]
        return [self._bursts.pop(key) for key in over]

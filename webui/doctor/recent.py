"""What was refused in the last five minutes: totals of the broker's, looked at again and again.

Fed by webui.live.broadcaster with every look at the broker. Pure: the caller brings the time.
"""

from collections import deque
from collections.abc import Mapping
from typing import Final

SPAN_MS: Final = 300_000
EVERY_MS: Final = 10_000


class Recent:
    """How much each of some totals has grown in the last `SPAN_MS`, to ten seconds."""

    __slots__ = ("_looks",)

    def __init__(self) -> None:
        self._looks: deque[tuple[int, Mapping[str, int]]] = deque(maxlen=SPAN_MS // EVERY_MS + 1)

    def is_due(self, now_ms: int) -> bool:
        return not self._looks or now_ms - self._looks[-1][0] >= EVERY_MS

    def add(self, totals: Mapping[str, int], now_ms: int) -> None:
        self._looks.append((now_ms, totals))

    def growth(self, totals: Mapping[str, int], now_ms: int) -> dict[str, int]:
        """Up to `totals`, which are of now. A total that was not there has grown from 0."""
        then = next((then for at_ms, then in self._looks if now_ms - at_ms <= SPAN_MS), None)
        if then is None:
            return dict.fromkeys(totals, 0)
        return {name: total - then.get(name, 0) for name, total in totals.items()}

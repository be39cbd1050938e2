"""Growth of the broker's totals (such as rejected connections) over the last five minutes.

webui.live.broadcaster adds the samples. Pure: the caller passes the time.
"""

from collections import deque
from collections.abc import Mapping
from typing import Final

SPAN_MS: Final = 300_000
EVERY_MS: Final = 10_000


class Recent:
    """The growth of named totals over the last `SPAN_MS`, with a resolution of ten seconds."""

    __slots__ = ("_looks",)

    def __init__(self) -> None:
        self._looks: deque[tuple[int, Mapping[str, int]]] = deque(maxlen=SPAN_MS // EVERY_MS + 1)

    def is_due(self, now_ms: int) -> bool:
        return not self._looks or now_ms - self._looks[-1][0] >= EVERY_MS

    def add(self, totals: Mapping[str, int], now_ms: int) -> None:
        self._looks.append((now_ms, totals))

    def growth(self, totals: Mapping[str, int], now_ms: int) -> dict[str, int]:
        """Return the growth up to the current `totals`. A total without an older sample grows from 0."""
        then = next((then for at_ms, then in self._looks if now_ms - at_ms <= SPAN_MS), None)
        if then is None:
            return dict.fromkeys(totals, 0)
        return {name: total - then.get(name, 0) for name, total in totals.items()}

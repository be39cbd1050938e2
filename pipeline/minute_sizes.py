"""Estimates how many events the minutes of a batch have. For `run`.

Gold is recomputed from all events of a minute, so a small batch that changes a busy minute has much to do. To
count the events would cost more than the estimate saves.
"""

from collections.abc import Set as AbstractSet


class MinuteSizes:
    """The minutes of the last batch of one topic, and about how many events they have; for one thread."""

    def __init__(self) -> None:
        self._minutes: AbstractSet[int] = frozenset()
        self._events = 0

    def after(self, minutes: AbstractSet[int], events: int) -> int:
        """Note a batch; return about how many events its minutes have, those of earlier batches included.

        The events of earlier batches count in equal parts for each minute of the last one. A repeated batch
        counts twice.
        """
        shared = len(minutes & self._minutes)
        earlier = self._events * shared // len(self._minutes) if shared else 0
        self._minutes, self._events = frozenset(minutes), events + earlier
        return self._events

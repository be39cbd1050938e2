"""Reads for a replica under the leader's replication throttle. (Kafka: readFromLog, DelayedFetch)

Created by `api.fetch_replica`. A throttled partition returns no records, only its errors and its high
watermark, and appends to it do not complete a delayed fetch.
"""

from collections.abc import Callable, Sequence

from broker.errors import ApiError, ErrorCode
from broker.services.fetching import NOTHING, Found, Reading, Wanted, is_refused


class ReplicaReading(Reading):
    """A replica's fetch.

    `is_marked(topic, partition)`: whether the partition is subject to the throttle; `is_exceeded()`: whether
    the throttle is exceeded now.
    """

    __slots__ = ("_is_exceeded", "_is_marked")

    def __init__(
        self,
        wanted: Sequence[Wanted],
        max_bytes: int,
        is_marked: Callable[[str, int], bool],
        is_exceeded: Callable[[], bool],
    ) -> None:
        super().__init__(wanted, max_bytes)
        self._is_marked = is_marked
        self._is_exceeded = is_exceeded

    def read(self, some: Sequence[Wanted] | None = None) -> int:
        throttled = self._throttled() if some is None else set()
        if not throttled:
            return super().read(some)
        everything = self.wanted
        self.wanted = [each for each in everything if each not in throttled]
        try:
            size = super().read()
        finally:
            self.wanted = everything
        read = iter(self.found)
        self.found = [_without_records(each) if each in throttled else next(read) for each in everything]
        # The fetch may wait for a throttled partition.
        self.stop_waiting = any(each.error and not is_refused(each.wanted) for each in self.found)
        return size

    def has_more(self) -> bool:
        throttled = self._throttled()
        return any(
            each.log is not None and each.log.high_watermark > each.offset
            for each in self.wanted
            if each not in throttled
        )

    def _throttled(self) -> set[Wanted]:
        marked = {
            each
            for each in self.wanted
            if each.log is not None and not each.error and self._is_marked(each.log.topic, each.partition)
        }
        return marked if marked and self._is_exceeded() else set()


def _without_records(wanted: Wanted) -> Found:
    log = wanted.log
    assert log is not None
    log.metrics.reads += 1
    try:
        log.read(wanted.offset, 0, min_one_batch=False)
    except ApiError as error:
        return Found(wanted, error.code, -1, log.log_start_offset, NOTHING)
    return Found(wanted, ErrorCode.NONE, log.high_watermark, log.log_start_offset, NOTHING)

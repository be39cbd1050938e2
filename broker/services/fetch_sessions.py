"""Incremental fetch sessions: a client names its partitions once and then only sends changes.

Called by `api.a01_fetch`. Pure; time is an argument. A session is independent of connections: the client
sends its id and the next epoch. (KIP-227, FetchSession)
"""

from collections import OrderedDict
from typing import Final

from broker.errors import ApiError, ErrorCode
from broker.services.fetching import Found, Wanted

NO_SESSION: Final = 0
FINAL_EPOCH: Final = -1
FIRST_EPOCH: Final = 0
EVICTION_MS: Final = 120_000
"""Idle time after which a new session may evict one (Kafka: min.incremental.fetch.session.eviction.ms)."""

MAX_PARTITIONS: Final = 100_000
"""Maximum partitions of all sessions together, of about 450 bytes each.

Clients beyond the limit get no session.
"""

PartitionKey = tuple[str, bytes, int]


class CachedPartition:
    """One partition of a session, and the values last sent to the client."""

    __slots__ = ("high_watermark", "log_start_offset", "wanted")

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.high_watermark = -1
        self.log_start_offset = -1

    def is_news(self, found: Found) -> bool:
        """Return whether the response must include this partition, and store the values.

        Errors are always included.
        """
        if found.error:
            self.high_watermark = -1
            return True
        changed = (
            len(found.records) > 0
            or found.high_watermark != self.high_watermark
            or found.log_start_offset != self.log_start_offset
        )
        self.high_watermark = found.high_watermark
        self.log_start_offset = found.log_start_offset
        return changed


class FetchSession:
    """The partitions that one client fetches, in fetch order.

    `counted` is the number included in the cache's total.
    """

    __slots__ = ("counted", "epoch", "id", "last_used_ms", "partitions", "uses_topic_ids")

    def __init__(self, session_id: int, uses_topic_ids: bool, now_ms: int) -> None:
        self.id = session_id
        self.epoch = 1
        self.counted = 0
        self.uses_topic_ids = uses_topic_ids
        self.last_used_ms = now_ms
        self.partitions: OrderedDict[PartitionKey, CachedPartition] = OrderedDict()

    def want(self, key: PartitionKey, wanted: Wanted) -> None:
        known = self.partitions.get(key)
        if known is None:
            self.partitions[key] = CachedPartition(wanted)
        else:
            known.wanted = wanted

    def forget(self, key: PartitionKey) -> None:
        self.partitions.pop(key, None)

    def wanted(self) -> list[Wanted]:
        return [remembered.wanted for remembered in self.partitions.values()]

    def news(self, found: list[Found]) -> list[Found]:
        """Return the results that the response must include.

        Partitions with records move to the end of the order, so that a busy partition does not starve those
        after it.
        """
        included = []
        for each in found:
            wanted = each.wanted
            key = (wanted.topic, wanted.topic_id, wanted.partition)
            remembered = self.partitions.get(key)
            if remembered is None:
                continue
            if remembered.is_news(each):
                included.append(each)
                if len(each.records) > 0:
                    self.partitions.move_to_end(key)
        return included

    def untold(self, found: list[Found]) -> None:
        """Undo `news` for a throttled response: include its partitions again, and restore their order."""
        for each in reversed(found):
            wanted = each.wanted
            key = (wanted.topic, wanted.topic_id, wanted.partition)
            remembered = self.partitions.get(key)
            if remembered is not None:
                remembered.high_watermark = -1
                if len(each.records) > 0:
                    self.partitions.move_to_end(key, last=False)


class FetchSessions:
    """The session cache, with at most `max.incremental.fetch.session.cache.slots` sessions."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._next_id = 1
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def create(self, *, partitions: int = 1, uses_topic_ids: bool, now_ms: int) -> FetchSession | None:
        """Return a new session at epoch 1, or None.

        None if the slots or the partition limit are taken by recently used sessions; the client continues
        without one.
        """
        if self._slots <= 0:
            return None
        while len(self._sessions) >= self._slots or self._partitions + partitions > MAX_PARTITIONS:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_ms - oldest.last_used_ms < EVICTION_MS:
                return None
            self.close(oldest.id)
        session = FetchSession(self._next_id, uses_topic_ids, now_ms)
        self._next_id = self._next_id % 0x7FFFFFFF + 1
        self._sessions[session.id] = session
        return session

    def resume(self, session_id: int, epoch: int, *, uses_topic_ids: bool, now_ms: int) -> FetchSession:
        """Return the session at its next epoch. Raises ApiError as Kafka's FetchManager does."""
        session = self._sessions.get(session_id)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.uses_topic_ids != uses_topic_ids:
            raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        if session.epoch != epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        session.epoch = epoch % 0x7FFFFFFF + 1
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session_id)
        return session

    def recount(self, session: FetchSession) -> None:
        """Update the partition count after a change.

        Raises ApiError FETCH_SESSION_ID_NOT_FOUND if the limit is exceeded: the session is closed, and its
        client continues without one.
        """
        if self._sessions.get(session.id) is not session:
            return  # closed while a large request was being read
        grown = len(session.partitions) - session.counted
        session.counted += grown
        self._partitions += grown
        if grown > 0 and self._partitions > MAX_PARTITIONS:
            self.close(session.id)
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def size_of(self, session_id: int) -> int:
        """Return the session's number of partitions; 0 for an unknown session."""
        session = self._sessions.get(session_id)
        return 0 if session is None else session.counted

    def close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= session.counted

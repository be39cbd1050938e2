"""Incremental fetch sessions: a client names its partitions once and then only sends changes.

Called by `api.a01_fetch`. Time is an argument, ids are random. A session is independent of connections: the
client sends its id and the next epoch. (KIP-227, FetchSession)
"""

import secrets
from collections import OrderedDict, deque
from collections.abc import Generator
from typing import Any, Final

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Steps
from broker.partitions.fetching import FetchedPartition, RequestedPartition
from broker.protocol.dismantle import AT_ONCE, dismantle
from broker.protocol.schema import Struct

NO_SESSION: Final = 0
FINAL_EPOCH: Final = -1
FIRST_EPOCH: Final = 0
EVICTION_MS: Final = 120_000
"""Idle time after which a new session may evict one (Kafka: min.incremental.fetch.session.eviction.ms)."""

MAX_PARTITIONS: Final = 100_000
"""Maximum partitions of all sessions together, of about 450 bytes each.

Clients beyond the limit get no session.
"""

FREED_WITH_A_SESSION: Final = 4
"""Pieces of discarded objects that are freed when a session is closed; a small session is one."""

_FREED: Final = object()

MAX_ID: Final = 0x7FFFFFFF

PartitionKey = tuple[str, bytes, int]


class CachedPartition:
    """One partition of a session, and the values last sent to the client."""

    __slots__ = ("high_watermark", "log_start_offset", "requested")

    def __init__(self, requested: RequestedPartition) -> None:
        self.requested = requested
        self.high_watermark = -1
        self.log_start_offset = -1

    def maybe_update_response_data(self, found: FetchedPartition) -> bool:
        """Return whether the response must include this partition, and store the values.

        Errors are always included. (Kafka: CachedPartition.maybeUpdateResponseData)
        """
        if found.error:
            self.high_watermark = -1
            return True
        changed = self.changes(len(found.records), found.high_watermark, found.log_start_offset)
        self.high_watermark = found.high_watermark
        self.log_start_offset = found.log_start_offset
        return changed

    def changes(self, size: int, high_watermark: int, log_start_offset: int) -> bool:
        """Return whether these values, with `size` bytes of records, must be sent to the client."""
        return size > 0 or high_watermark != self.high_watermark or log_start_offset != self.log_start_offset


class FetchSession:
    """The partitions that one client fetches, in fetch order.

    `counted` is the number included in the cache's total. `unsent` are results of the last response that were
    not sent: the next fetch includes their partitions again (`undo_response_data`).
    """

    __slots__ = ("counted", "epoch", "id", "last_used_ms", "partitions", "unsent", "uses_topic_ids")

    def __init__(self, session_id: int, uses_topic_ids: bool, now_ms: int) -> None:
        self.id = session_id
        self.epoch = 1
        self.counted = 0
        self.uses_topic_ids = uses_topic_ids
        self.last_used_ms = now_ms
        self.partitions: OrderedDict[PartitionKey, CachedPartition] = OrderedDict()
        self.unsent: list[FetchedPartition] = []

    def add(self, key: PartitionKey, requested: RequestedPartition) -> None:
        known = self.partitions.get(key)
        if known is None:
            self.partitions[key] = CachedPartition(requested)
        else:
            known.requested = requested

    def forget(self, key: PartitionKey) -> None:
        self.partitions.pop(key, None)

    def requested(self) -> list[RequestedPartition]:
        return [remembered.requested for remembered in self.partitions.values()]

    def update_response_data(self, found: list[FetchedPartition]) -> list[FetchedPartition]:
        """Return the results that the response must include, and store their values.

        Partitions with records move to the end of the order, so that a busy partition does not starve those
        after it. (Kafka: IncrementalFetchContext.updateAndGenerateResponseData)
        """
        included = []
        for each in found:
            requested = each.requested
            key = (requested.topic, requested.topic_id, requested.partition)
            remembered = self.partitions.get(key)
            if remembered is None:
                continue
            if remembered.maybe_update_response_data(each):
                included.append(each)
                if len(each.records) > 0:
                    self.partitions.move_to_end(key)
        return included

    def note_sent(
        self, cached: CachedPartition, size: int, high_watermark: int, log_start_offset: int
    ) -> None:
        """Note the values of one partition that a response includes, with `size` bytes of records."""
        cached.high_watermark = high_watermark
        cached.log_start_offset = log_start_offset
        if size:
            requested = cached.requested
            self.partitions.move_to_end((requested.topic, requested.topic_id, requested.partition))

    def undo_sent(self, cached: CachedPartition, size: int) -> None:
        """Undo `note_sent` for a throttled response. Called in reverse order, it restores the order."""
        cached.high_watermark = -1
        if size:
            requested = cached.requested
            self.partitions.move_to_end(
                (requested.topic, requested.topic_id, requested.partition), last=False
            )

    def undo_response_data(self, found: list[FetchedPartition]) -> None:
        """Undo `update_response_data` for a throttled response: the next one includes the partitions again,
        in their former order.
        """
        for each in reversed(found):
            requested = each.requested
            key = (requested.topic, requested.topic_id, requested.partition)
            remembered = self.partitions.get(key)
            if remembered is not None:
                self.undo_sent(remembered, len(each.records))


class FetchSessions:
    """The session cache, with at most `max.incremental.fetch.session.cache.slots` sessions."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._partitions = 0
        self._discarded: deque[Generator[None, None, None]] = deque()

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
            self._remove(oldest.id)
        self._free_some()
        session = FetchSession(self._new_id(), uses_topic_ids, now_ms)
        self._sessions[session.id] = session
        return session

    def _new_id(self) -> int:
        """Return a random id, as Kafka does.

        After a restart clients come with the ids of before. If ids were counted, a client could get into the
        new session of another and fetch its partitions.
        """
        while True:
            session_id = secrets.randbelow(MAX_ID) + 1
            if session_id not in self._sessions:
                return session_id

    def resume(self, session_id: int, epoch: int, *, uses_topic_ids: bool, now_ms: int) -> FetchSession:
        """Return the session at its next epoch. Raises ApiError as Kafka's FetchManager does."""
        session = self._sessions.get(session_id)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.uses_topic_ids != uses_topic_ids:
            raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        if session.epoch != epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        self.advance(session, now_ms)
        return session

    def usual(self, session_id: int, epoch: int, *, uses_topic_ids: bool) -> FetchSession | None:
        """Return the session if `resume` would, and if no result of its last response is unsent."""
        session = self._sessions.get(session_id)
        if session is None or session.uses_topic_ids != uses_topic_ids or session.epoch != epoch:
            return None
        return None if session.unsent else session

    def advance(self, session: FetchSession, now_ms: int) -> None:
        """Expect the session's next epoch."""
        session.epoch = session.epoch % 0x7FFFFFFF + 1
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session.id)

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
        """Return the session's number of partitions, or of unsent ones; 0 for an unknown session."""
        session = self._sessions.get(session_id)
        return 0 if session is None else max(session.counted, len(session.unsent))

    def close(self, session_id: int) -> None:
        self._remove(session_id)
        self._free_some()

    def discard(self, large: Struct | list[Any] | OrderedDict[Any, Any]) -> None:
        """Free a message or container that is used no longer: some with each closed session, and the rest
        with the next large fetch. Freeing 90,000 objects at once would take 10 ms.
        """
        self._discarded.append(_emptied(large) if isinstance(large, OrderedDict) else dismantle(large))

    def freed(self) -> Steps[None]:
        """Free everything that is discarded."""
        while self._discarded:
            yield from self._discarded.popleft()

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= session.counted
            self.discard(session.partitions)
            self.discard(session.unsent)
            session.partitions, session.unsent = OrderedDict(), []

    def _free_some(self) -> None:
        for _ in range(FREED_WITH_A_SESSION):
            if self._discarded and next(self._discarded[0], _FREED) is _FREED:
                self._discarded.popleft()


def _emptied(items: OrderedDict[Any, Any]) -> Generator[None, None, None]:
    while items:
        for _ in range(min(AT_ONCE, len(items))):
            items.popitem()
        yield

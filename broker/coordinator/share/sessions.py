"""Share sessions: a member names its partitions once and then only sends changes. (Kafka: ShareSessionCache,
SharePartitionManager.newContext)

Called by the handlers of ShareFetch and ShareAcknowledge. Pure. A session belongs to a member of a group and
to the connection that has opened it: it ends with either.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from broker.common.errors import ApiError, ErrorCode
from broker.coordinator.share.states import SharePartitionKey

FINAL_EPOCH: Final = -1
FIRST_EPOCH: Final = 0

MAX_PARTITIONS: Final = 100_000
"""Maximum partitions of all sessions together; ours."""

MAX_OF_A_SESSION: Final = 2_000
"""Maximum partitions of one session; ours. A waiting fetch looks at all of them after each append."""


class MemberKey(NamedTuple):
    """A member of a share group."""

    group_id: str
    member_id: str


class Told(NamedTuple):
    """A partition in a response: with an error, with records, or with neither."""

    key: SharePartitionKey
    has_error: bool = False
    has_records: bool = False


class ShareSession:
    """The partitions of one member. `epoch` is the next request's.

    `partitions` says of each whether the next response names it even if it has no records. `last_response` is
    applied when the member sends its next request: until then a quota can still take its records.
    `known_topics` has the ids that existed when the member named them.
    """

    __slots__ = ("connection", "epoch", "key", "known_topics", "last_response", "partitions")

    def __init__(self, key: MemberKey, connection: str) -> None:
        self.key = key
        self.connection = connection
        self.epoch = FIRST_EPOCH + 1
        self.partitions: dict[SharePartitionKey, bool] = {}
        self.known_topics: set[bytes] = set()
        self.last_response: Sequence[Told] = ()

    def apply_last_response(self) -> None:
        """Name a partition again after an error, and put those with records last. (Kafka:
        CachedSharePartition, ShareSessionContext.PartitionIterator)
        """
        for told in self.last_response:
            if told.key not in self.partitions:
                continue
            if told.has_records:
                del self.partitions[told.key]
            self.partitions[told.key] = told.has_error
        self.last_response = ()

    def rotated(self, epoch: int) -> list[SharePartitionKey]:
        """Return the partitions, beginning with another one at each epoch of a request, so that none starves.
        (Kafka: PartitionRotateStrategy)
        """
        partitions = list(self.partitions)
        at = -epoch % len(partitions) if partitions else 0
        return partitions[at:] + partitions[:at]


class ShareSessions:
    """At most `group.share.max.share.sessions` sessions."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sessions: dict[MemberKey, ShareSession] = {}
        self._by_connection: dict[str, dict[MemberKey, None]] = {}
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, key: MemberKey, connection: str, partitions: Iterable[SharePartitionKey]) -> ShareSession:
        """Return a new session in place of the member's earlier one.

        Raises ApiError SHARE_SESSION_LIMIT_REACHED; the earlier one is closed then, too.
        """
        self.close(key)
        session = ShareSession(key, connection)
        wanted = dict.fromkeys(partitions, False)
        too_many = len(wanted) > MAX_OF_A_SESSION or self._partitions + len(wanted) > MAX_PARTITIONS
        if too_many or len(self._sessions) >= self._limit:
            raise ApiError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        self._sessions[key] = session
        self._by_connection.setdefault(connection, {})[key] = None
        session.partitions = wanted
        self._partitions += len(wanted)
        return session

    def find(self, key: MemberKey) -> ShareSession:
        """Return the member's session, whatever its epoch. Raises ApiError SHARE_SESSION_NOT_FOUND."""
        session = self._sessions.get(key)
        if session is None:
            raise ApiError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session

    def resume(self, key: MemberKey, epoch: int) -> ShareSession:
        """Return the session after its last response, and expect its next epoch.

        Raises ApiError: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
        """
        session = self.find(key)
        if session.epoch != epoch:
            raise ApiError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.epoch = epoch % 0x7FFFFFFF + 1
        session.apply_last_response()
        return session

    def update(
        self,
        session: ShareSession,
        added: Iterable[SharePartitionKey],
        forgotten: Iterable[SharePartitionKey],
    ) -> None:
        """Change the partitions. Raises ApiError SHARE_SESSION_LIMIT_REACHED; the session is closed then."""
        before = len(session.partitions)
        for key in added:
            session.partitions.setdefault(key, True)
        for key in forgotten:
            session.partitions.pop(key, None)
        grown = len(session.partitions) - before
        self._partitions += grown
        too_many = len(session.partitions) > MAX_OF_A_SESSION or self._partitions > MAX_PARTITIONS
        if grown > 0 and too_many:
            self.close(session.key)
            raise ApiError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)

    def close(self, key: MemberKey) -> ShareSession | None:
        """Close and return the member's session, if it has one."""
        session = self._sessions.pop(key, None)
        if session is not None:
            self._partitions -= len(session.partitions)
            others = self._by_connection[session.connection]
            del others[key]
            if not others:
                del self._by_connection[session.connection]
        return session

    def disconnected(self, connection: str) -> list[ShareSession]:
        """Close and return the sessions that a closed connection has opened."""
        keys = list(self._by_connection.get(connection, ()))
        return [session for key in keys if (session := self.close(key)) is not None]

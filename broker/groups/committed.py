"""One committed offset, as it is kept, recorded and fetched. Knows nothing of groups."""

from typing import NamedTuple

NO_EPOCH = -1


class CommittedOffset(NamedTuple):
    """`leader_epoch` is -1 where the client gave none; `expire_ms` is set only by commits that bring a
    retention.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int | None = None

    def is_expired(self, wall_ms: int, retention_ms: int, kept_since_ms: int) -> bool:
        """Whether it has outlived the retention, counted from `kept_since_ms` unless it brought its own."""
        if self.expire_ms is not None:
            return wall_ms >= self.expire_ms
        return wall_ms - kept_since_ms >= retention_ms


Offsets = dict[str, dict[int, CommittedOffset]]
"""Committed offsets of one group by topic and partition."""

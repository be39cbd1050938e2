"""A committed offset as it is stored, recorded and fetched."""

from typing import NamedTuple

NO_EPOCH = -1


class CommittedOffset(NamedTuple):
    """A committed offset.

    `leader_epoch` is -1 if the client sent none; `expire_ms` is set only by commits with their own retention.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int | None = None

    def is_expired(self, wall_ms: int, retention_ms: int, kept_since_ms: int) -> bool:
        """Return whether the offset has expired.

        Its own expiry applies, or `retention_ms` counted from `kept_since_ms`.
        """
        if self.expire_ms is not None:
            return wall_ms >= self.expire_ms
        return wall_ms - kept_since_ms >= retention_ms


Offsets = dict[str, dict[int, CommittedOffset]]
"""Committed offsets of one group by topic and partition."""

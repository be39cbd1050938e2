"""The interface by which handlers change the states of a group's share partitions. `server.parts` implements
it.

A call returns once its change is recorded and the states are durable.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from broker.common.errors import ApiError, ErrorCode
from broker.coordinator.group.share.states import ShareStateSummary

SharePartition = tuple[bytes, int]
"""Topic id and index."""


class ShareStateResult(NamedTuple):
    """The outcome of a change: `error` if it failed as a whole, else an error for each part that failed."""

    error: ErrorCode
    message: str | None = None
    partitions: Mapping[SharePartition, ApiError] = {}
    topics: Mapping[bytes, ApiError] = {}


class ShareGroupStates(Protocol):
    """The states of the groups' share partitions, by group id and topic id of 16 bytes."""

    def summary(self, group_id: str, topic_id: bytes, partition: int) -> ShareStateSummary | None:
        """Return what is known of a state; None if it is not initialized."""

    async def alter(
        self, group_id: str, offsets: Mapping[bytes, tuple[str, Mapping[int, int]]]
    ) -> ShareStateResult:
        """Begin states anew at start offsets: by topic id the topic's name, and offsets by partition."""

    async def delete(self, group_id: str, topic_ids: Collection[bytes]) -> ShareStateResult:
        """Delete the states of topics. One without a state is UNKNOWN_TOPIC_OR_PARTITION."""

    async def delete_all(self, group_id: str) -> ShareStateResult:
        """Delete all states of a group, which is deleted next."""

"""The states of share partitions, as the group coordinator uses and the handlers change them.

A share partition is a partition of a topic as one group reads it. Its state says what the group has
acknowledged, and is kept by `coordinator.share.persister` (Kafka: Persister). What handlers change,
`server.parts` implements: a call returns once its change is recorded and the states are durable.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from broker.common.errors import ApiError, ErrorCode


class ShareStateSummary(NamedTuple):
    """`start_offset` is -1 until the partition's leader has chosen it."""

    start_offset: int
    state_epoch: int
    leader_epoch: int


class ShareStates(Protocol):
    """The states by group id, topic id of 16 bytes, and partition."""

    async def initialize(self, group_id: str, topic_id: bytes, partition: int, start_offset: int) -> None:
        """Begin a state, or begin it anew. It is durable on return. Raises ApiError.

        With a `start_offset` of -1, the partition's leader chooses it by the group's
        `share.auto.offset.reset`.
        """

    def summary(self, group_id: str, topic_id: bytes, partition: int) -> ShareStateSummary | None:
        """Return what is known of a state; None if it is not initialized."""

    async def delete(self, group_id: str, topic_id: bytes, partition: int) -> None:
        """Delete a state. It need not exist. Raises ApiError."""


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

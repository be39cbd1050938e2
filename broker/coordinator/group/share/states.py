"""The states of share partitions, as the coordinator uses them.

A share partition is a partition of a topic as one group reads it. Its state says what the group has
acknowledged, and is kept by `broker.coordinator.share.persister`. (Kafka: Persister)
"""

from typing import NamedTuple, Protocol


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

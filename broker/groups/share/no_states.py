"""States of a broker without share partitions: none can be initialized."""

from broker.errors import ApiError, ErrorCode
from broker.groups.share.states import ShareStateSummary


class NoStates:
    """Refuses every state, so that share groups have members but no partitions."""

    async def initialize(self, group_id: str, topic_id: bytes, partition: int, start_offset: int) -> None:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def summary(self, _group_id: str, _topic_id: bytes, _partition: int) -> ShareStateSummary | None:
        return None

    async def delete(self, group_id: str, topic_id: bytes, partition: int) -> None:
        """There is nothing to delete."""

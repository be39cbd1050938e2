"""The states of share partitions in memory, in place of `broker.coordinator.share`."""

import trio
from trio.testing import wait_all_tasks_blocked

from broker.common.errors import ApiError, ErrorCode
from broker.coordinator.share.states import ShareStateSummary
from broker.server.parts.share_groups import ShareGroupStateService

Key = tuple[str, bytes, int]


class FakeShareStates:
    """`starts` are the start offsets of the states, `complete` the numbers of their complete records; `calls`
    are all calls in order.

    The calls of `refused` fail. While `gate` is set to an event, calls wait for it.
    """

    def __init__(self) -> None:
        self.starts: dict[Key, int] = {}
        self.epochs: dict[Key, int] = {}
        self.complete: dict[Key, int] = {}
        self.calls: list[tuple[str, str, bytes, int]] = []
        self.refused: dict[tuple[bytes, int], ErrorCode] = {}
        self.gate: trio.Event | None = None

    async def initialize(self, group_id: str, topic_id: bytes, partition: int, start_offset: int) -> None:
        await self._call("initialize", group_id, topic_id, partition)
        key = group_id, topic_id, partition
        self.starts[key] = start_offset
        self.epochs[key] = self.epochs.get(key, 0) + 1

    def summary(self, group_id: str, topic_id: bytes, partition: int) -> ShareStateSummary | None:
        key = group_id, topic_id, partition
        if key not in self.starts:
            return None
        return ShareStateSummary(self.starts[key], self.epochs.get(key, 1), 0, self.complete.get(key, -1))

    async def delete(self, group_id: str, topic_id: bytes, partition: int) -> None:
        await self._call("delete", group_id, topic_id, partition)
        self.starts.pop((group_id, topic_id, partition), None)

    async def _call(self, name: str, group_id: str, topic_id: bytes, partition: int) -> None:
        self.calls.append((name, group_id, topic_id, partition))
        if self.gate is not None:
            await self.gate.wait()
        if (topic_id, partition) in self.refused:
            raise ApiError(self.refused[topic_id, partition], "refused")


async def run_pending(states: ShareGroupStateService, now_ms: int) -> None:
    """Initialize and delete the states that are due, as the broker's task does."""
    states.begin(now_ms)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(states.run)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

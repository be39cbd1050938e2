"""The task that writes dead letters sleeps until something is due, and tries a failed queue again in time."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.common.errors import ApiError, ErrorCode
from broker.coordinator.share.dead_letters import DeadLetterSettings
from broker.coordinator.share.share_partition import Span, UndeliveredRange
from broker.coordinator.share.share_partitions import ShareSettings
from broker.coordinator.share.states import SharePartitionKey
from broker.network.clock import TrioClock
from broker.server.parts.dead_letters import DeadLetterQueues

KEY = SharePartitionKey("readers", bytes(16), 0)
QUEUE = "dlq.x"


class FakeShare:
    """A share partition with records that wait until they are archived."""

    def __init__(self) -> None:
        self.waiting = [UndeliveredRange(0, 4, 1, True)]
        self.archived: list[Span] = []

    def get(self, _key: SharePartitionKey) -> "FakeShare":
        return self

    def settings_of(self, _group: str) -> ShareSettings:
        return ShareSettings(dead_letters=DeadLetterSettings(QUEUE))

    def undelivered(self) -> list[UndeliveredRange]:
        return self.waiting

    def archive(self, _key: SharePartitionKey, _share: Any, spans: Iterable[Span]) -> None:
        self.archived += spans
        self.waiting = []


class OfflineQueue:
    """A topic with one partition that cannot be opened; `asked` has the times at which it was."""

    count = 1

    def __init__(self) -> None:
        self.asked: list[float] = []

    def log(self, _index: int) -> None:
        self.asked.append(trio.current_time())
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "offline")


async def test_a_queue_that_cannot_be_written_is_tried_again_in_time(mock_clock: MockClock) -> None:
    share, hosted = FakeShare(), OfflineQueue()
    topic = SimpleNamespace(configs={"errors.deadletterqueue.group.enable": "true"})
    control: Any = SimpleNamespace(image=SimpleNamespace(topics={QUEUE: topic}))
    partitions: Any = SimpleNamespace(by_name={QUEUE: hosted}, by_id={KEY.topic_id: None})
    unexpected: list[Exception] = []
    queues = DeadLetterQueues(
        control,
        partitions,
        share,  # type: ignore[arg-type]
        TrioClock(),
        lambda _log: None,
        lambda: None,
        lambda _group, error: unexpected.append(error),
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(queues.run)
        await wait_all_tasks_blocked()
        assert hosted.asked == []
        mock_clock.autojump_threshold = 0
        began = trio.current_time()
        queues._share.on_undelivered(KEY)
        await trio.sleep(60)
        assert [round(at - began, 3) for at in hosted.asked] == [0, 1, 3, 7, 15]
        assert share.archived == [Span(0, 4)]
        assert queues.writer.counts_of("readers").failed == 1
        queues._share.on_undelivered(KEY)
        await trio.sleep(60)
        assert len(hosted.asked) == 5
        nursery.cancel_scope.cancel()
    assert unexpected == []

"""The task that writes the dead letters of share groups: creates their queues, and tries again what failed.
(KIP-1191; Kafka: DefaultShareGroupDLQManager)

`coordinator.share.share_partitions` says which share partitions have records for it, and
`coordinator.share.dead_letters` writes some at a time, so that each share partition has its turn. What waits
here is in the stored state of the share partitions: a shutdown leaves it to the next start.
"""

import logging
import math
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
import trio

from broker.common.clock import Clock
from broker.common.errors import ApiError, ErrorCode
from broker.common.slice_runner import run_slices
from broker.config.sections.topics import DEAD_LETTER_QUEUE
from broker.controller.commands import BROKER_ITSELF, CreateTopics, NewTopic
from broker.controller.control import Control
from broker.coordinator.share.dead_letters import RETRIED, DeadLetterSettings, DeadLetterWriter, has_queue
from broker.coordinator.share.share_partition import SharePartition, Span
from broker.coordinator.share.share_partitions import SharePartitions
from broker.coordinator.share.states import SharePartitionKey
from broker.log.partition import PartitionLog
from broker.partitions.partitions import Partitions

logger = logging.getLogger(__name__)

DEAD_LETTERS: Final = "share-dead-letters"
"""The name of the task."""

ATTEMPTS: Final = 5
RETRY_MS: Final = 1_000
"""Time before the second attempt, and twice as long before each further one, as in Kafka."""


class _Waiting(msgspec.Struct):
    """A share partition whose dead letters are written from `due_ms` on, after `failed` attempts."""

    due_ms: int = 0
    failed: int = 0


class DeadLetterQueues:
    """The share partitions that have dead letters to write, one object per broker.

    `grown` is called with each log that has grown, `deliver` once its records are archived: it makes the
    handlers take completed requests. `on_failure` is called with a group id and an unexpected exception.
    """

    def __init__(
        self,
        control: Control,
        partitions: Partitions,
        share: SharePartitions,
        clock: Clock,
        grown: Callable[[PartitionLog], None],
        deliver: Callable[[], None],
        on_failure: Callable[[str, Exception], None],
    ) -> None:
        self._control = control
        self._partitions = partitions
        self._share = share
        self._clock = clock
        self._deliver = deliver
        self._on_failure = on_failure
        self.writer = DeadLetterWriter(partitions, clock, self._archive, grown)
        self._waiting: dict[SharePartitionKey, _Waiting] = {}
        self._wake = trio.Event()
        share.on_undelivered = self._add

    def _add(self, key: SharePartitionKey) -> None:
        self._waiting.setdefault(key, _Waiting())
        self._wake.set()

    def next_deadline(self) -> int | None:
        """Return the monotonic time in ms from which on `write_due` has something to do, None without any."""
        return min((each.due_ms for each in self._waiting.values()), default=None)

    async def run(self) -> None:
        """Write dead letters until cancelled. The next start writes what is left then."""
        while True:
            deadline = self.next_deadline()
            left_s = math.inf if deadline is None else max(deadline - self._clock.ms(), 0) / 1000
            with trio.move_on_after(left_s):
                await self._wake.wait()
            self._wake = trio.Event()
            await self.write_due()

    async def write_due(self) -> None:
        """Write some dead letters of each share partition that is due, with pauses for other tasks."""
        now_ms = self._clock.ms()
        for key in [key for key, waiting in self._waiting.items() if waiting.due_ms <= now_ms]:
            await self._write(key, self._waiting[key])
            await trio.lowlevel.checkpoint()

    async def _write(self, key: SharePartitionKey, waiting: _Waiting) -> None:
        share = self._with_undelivered(key)
        if share is not None:
            try:
                settings = self._share.settings_of(key.group_id).dead_letters
                queue = await self._queue(key, settings)
                await run_slices(self.writer.write(key, share, queue, copies=settings.copies))
                waiting.failed = waiting.due_ms = 0
            except ApiError as error:
                self._failed(key, share, waiting, error)
            except Exception as error:  # noqa: BLE001 - reported; other share partitions go on
                self._on_failure(key.group_id, error)
                self._failed(key, share, waiting, ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
        if self._with_undelivered(key) is None:  # the share partition may have been read anew meanwhile
            del self._waiting[key]

    def _with_undelivered(self, key: SharePartitionKey) -> SharePartition | None:
        """Return the share partition if its topic exists and it has records that wait."""
        share = self._share.get(key) if key.topic_id in self._partitions.by_id else None
        return share if share is not None and share.undelivered() else None

    def _archive(self, key: SharePartitionKey, share: SharePartition, spans: Iterable[Span]) -> None:
        self._share.archive(key, share, spans)
        self._deliver()

    async def _queue(self, key: SharePartitionKey, settings: DeadLetterSettings) -> PartitionLog:
        """Return the log for the dead letters of a share partition; create its topic if it is missing.

        Raises ApiError: INVALID_CONFIG, those of CreateTopics, and KAFKA_STORAGE_ERROR.
        """
        if not has_queue(settings, self._control.image.topics):
            await self._create(settings.topic)
        hosted = self._partitions.by_name.get(settings.topic)
        log = None if hosted is None else hosted.log(key.partition % hosted.count)
        if log is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {settings.topic}")
        return log

    async def _create(self, name: str) -> None:
        """Create a dead letter queue; nobody is charged. Raises ApiError."""
        topic = NewTopic(
            name, configs=((DEAD_LETTER_QUEUE.key, "true"), ("message.timestamp.type", "CreateTime"))
        )
        (outcome,) = await self._control.apply(CreateTopics((topic,)), BROKER_ITSELF)
        if outcome.error:
            raise ApiError(outcome.error, outcome.message)

    def _failed(
        self, key: SharePartitionKey, share: SharePartition, waiting: _Waiting, error: ApiError
    ) -> None:
        """Try again later, or archive the records without dead letters."""
        waiting.failed += 1
        if error.code in RETRIED and waiting.failed < ATTEMPTS:
            waiting.due_ms = self._clock.ms() + RETRY_MS * 2 ** (waiting.failed - 1)
            return
        if error.code == ErrorCode.KAFKA_STORAGE_ERROR:
            self.writer.counts_of(key.group_id).failed += 1
        lost = share.undelivered()
        logger.warning(
            "records are archived without dead letters",
            extra={
                "group": key.group_id,
                "records": sum(each.last - each.first + 1 for each in lost),
                "reason": str(error),
            },
        )
        waiting.failed = waiting.due_ms = 0
        self._archive(key, share, [Span(each.first, each.last) for each in lost])

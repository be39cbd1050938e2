"""The logs of a coordinator's topic, one for each partition: opened, read at the start, found by key.

Used by `group_service`, `transaction_service` and `share.persister`, each the only writer of its topic.
(Kafka: CoordinatorRuntime, CoordinatorLoader)
"""

from collections.abc import Callable, Iterable, Iterator
from logging import Logger
from typing import Final, Generic, Protocol, TypeVar

from broker.common.errors import ApiError, BrokerBug, ErrorCode
from broker.coordinator.group.java_hash import java_hash
from broker.log.partition import PartitionLog
from broker.partitions.partitions import HostedTopic, Partitions
from broker.records.header import header_at
from broker.records.stored_fields import UnreadableRecord
from broker.records.walk import batches

CHUNK: Final = 4 * 1024 * 1024
"""Bytes per read."""


class CoordinatorLog(Protocol):
    """What a coordinator keeps of one partition."""

    log: PartitionLog

    def read(self) -> None:
        """Read the log from its start. Blocks. Raises ApiError KAFKA_STORAGE_ERROR."""


Log = TypeVar("Log", bound=CoordinatorLog)
Value = TypeVar("Value")


class TopicLogs(Generic[Log]):
    """`by_index` has the logs that were used. `make` makes one; `what` is unavailable, by the line in
    `logger`, if one cannot be read.
    """

    def __init__(
        self,
        topic: str,
        partitions: Partitions,
        make: Callable[[PartitionLog], Log],
        logger: Logger,
        what: str,
    ) -> None:
        self.by_index: dict[int, Log] = {}
        self.is_unreadable = False
        self._topic = topic
        self._partitions = partitions
        self._make = make
        self._logger = logger
        self._what = what

    @property
    def is_available(self) -> bool:
        """Whether the topic can be used.

        It does not exist before the first FindCoordinator; an unreadable topic must not look as if nothing
        was ever written.
        """
        return self._topic in self._partitions.by_name and not self.is_unreadable

    def read(self, *, opened_only: bool = False) -> Iterator[Log]:
        """Read and yield all logs, or those with files that are open, once, before the first request. Blocks.

        Ends at a log that cannot be read, with an error line: the topic is then unreadable.
        """
        topic = self._partitions.by_name.get(self._topic)
        if topic is None:
            return
        indexes = [log.index for log in topic.open_logs.values()] if opened_only else range(topic.count)
        for index in indexes:
            try:
                log = self.at(topic, index)
                log.read()
            except ApiError as error:
                self._logger.error("%s are unavailable until the next start: %s", self._what, error)
                self.is_unreadable = True
                return
            yield log

    def replay(self, written: Iterable[tuple[bytes, Value]], apply: Callable[[bytes, Value], None]) -> None:
        """Pass records that were read to `apply`. Skips one that is unreadable, with an error line."""
        for key, value in written:
            try:
                apply(key, value)
            except UnreadableRecord as error:
                self._logger.error("skipping an unreadable record of %s: %s", self._topic, error)

    def of(self, key: str) -> Log:
        """Return the log of the key's partition. Raises ApiError."""
        topic = self.hosted()
        return self.at(topic, coordinator_partition(key, topic.count))

    def hosted(self) -> HostedTopic:
        """Return the topic. Raises ApiError NOT_COORDINATOR if it does not exist."""
        topic = self._partitions.by_name.get(self._topic)
        if topic is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        return topic

    def at(self, topic: HostedTopic, index: int) -> Log:
        """Return a partition's log; a recreated log starts over. Raises ApiError."""
        log = topic.log(index)
        if log is None:
            raise BrokerBug(f"{self._topic} has no partition {index}")
        known = self.by_index.get(index)
        if known is None or known.log is not log:
            known = self.by_index[index] = self._make(log)
        return known


def read_batches(log: PartitionLog, read: Callable[[memoryview], None], logger: Logger) -> None:
    """Pass each batch of a log to `read`. Blocks.

    Skips an unreadable batch with an error line; skips damaged ranges and gaps, which the log has reported.
    Raises ApiError KAFKA_STORAGE_ERROR.
    """
    offset = log.log_start_offset
    chunk: bytes | None = None
    while offset < log.high_watermark and chunk != b"":
        chunk = log.read(log.past_gap(offset), CHUNK, min_one_batch=True).read()
        for batch in batches(chunk):
            offset = header_at(batch).last_offset + 1
            try:
                read(batch)
            except (ApiError, UnreadableRecord) as error:
                logger.error("skipping an unreadable batch of %s: %s", log.topic, error)


def coordinator_partition(key: str, count: int) -> int:
    """Return `abs(key.hashCode()) % count`.

    The mapping matches Kafka's, so that Kafka's tools find each group in a data directory. (Kafka:
    partitionFor)
    """
    value = java_hash(key)
    if value == -0x80000000:  # abs() of the least int overflows in Java; Kafka takes 0 there
        return 0
    return abs(value) % count

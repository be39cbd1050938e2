"""The partitions hosted by this broker, by topic name and id.

Binds the metadata image to the log store: a topic appears here with the image, its logs are opened on first
use. Handlers look up, stage and read here; only the services of a coordinator depend on both sides. (Kafka:
the partition registry of ReplicaManager)
"""

import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple

from broker.common.errors import ApiError
from broker.common.slices import Steps, run_through
from broker.config.sections.topics import TopicSettings, topic_settings
from broker.log.background_jobs import Flush
from broker.log.partition import PartitionLog
from broker.log.staged import FailedAppend
from broker.log.store import LogStore
from broker.metadata.image import Image, Topic

logger = logging.getLogger(__name__)

NO_LEADER: Final = -1
"""Leader of an offline partition."""

LEADER_EPOCH: Final = 0
"""One broker leads every partition permanently, so the epoch is constant."""


_NONE_OFFLINE: Final[frozenset[int]] = frozenset()


class TopicTraffic(NamedTuple):
    """Traffic of a topic. `appends` and `reads` count per partition and include the failed ones."""

    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    appends: int = 0
    failed_appends: int = 0
    reads: int = 0
    failed_reads: int = 0

    def __add__(self, other: object) -> "TopicTraffic":
        """Add field by field, unlike other tuples."""
        assert isinstance(other, TopicTraffic)
        return TopicTraffic(*(one + two for one, two in zip(self, other, strict=True)))


class HostedTopic:
    """A topic and its logs that are on disk or in use. `name` and `topic_id` (16 bytes) never change."""

    __slots__ = ("_store", "count", "failed_appends", "name", "open_logs", "settings", "topic_id")

    def __init__(self, topic: Topic, store: LogStore, settings: TopicSettings) -> None:
        self.name = topic.name
        self.topic_id = topic.topic_id
        self.count = topic.partitions
        self._store = store
        self.settings = settings
        self.open_logs: dict[int, PartitionLog] = {}
        """By partition; only this class changes it."""
        self.failed_appends = 0
        """Rejected batches; batches that could not be written are counted in their logs' traffic."""

    def log(self, index: int) -> PartitionLog | None:
        """Return one partition's log, opened or created on demand; None if the topic has no such partition.

        Raises ApiError KAFKA_STORAGE_ERROR.
        """
        log = self.open_logs.get(index)
        if log is None and 0 <= index < self.count:
            log = self.open_logs[index] = self._store.create_partition(
                self.name, self.topic_id, index, self.settings
            )
        return log

    def open_existing(self) -> Steps[None]:
        """Open the logs that exist on disk, so that retention and sizes include them before their first use.

        Skips a log that cannot be opened; its first user gets the error.
        """
        for index in range(self.count):
            if self._store.partition(self.name, index) is not None:
                with contextlib.suppress(ApiError):
                    self.log(index)
            yield

    def give_up(self) -> None:
        """Mark missing partitions of an existing topic as offline if a log directory cannot be read."""
        for index in range(self.count):
            self._store.mark_missing_offline(self.name, self.topic_id, index, self.settings)
        run_through(self.open_existing())

    def restore_absent(self) -> None:
        """Recreate partitions of an existing topic whose folders are missing.

        They continue at their last offset.
        """
        try:
            gone = self._store.restore_absent(self.name, self.topic_id, self.count, self.settings)
        except ApiError as error:
            logger.error("a partition cannot be created", extra={"topic": self.name, "reason": str(error)})
            return
        for each in gone:
            logger.error("the folder of a partition is missing", extra=each._asdict())
        if gone:
            run_through(self.open_existing())

    def makes_log(self, index: int) -> bool:
        """Return whether `log` would create files, which takes a millisecond or more."""
        return index not in self.open_logs and 0 <= index < self.count

    def traffic(self) -> "Steps[TopicTraffic]":
        """Return the traffic of all partitions since startup."""
        messages_in = bytes_in = bytes_out = appends = reads = failed_reads = 0
        failed = self.failed_appends
        for log in list(self.open_logs.values()):
            yield
            metrics = log.metrics
            messages_in += log.messages_in
            bytes_in += log.bytes_in
            bytes_out += metrics.bytes_out
            appends += metrics.appends
            failed += metrics.failed_appends
            reads += metrics.reads
            failed_reads += metrics.failed_reads
        return TopicTraffic(messages_in, bytes_in, bytes_out, failed + appends, failed, reads, failed_reads)

    def update(self, topic: Topic, settings: TopicSettings) -> Steps[None]:
        """Apply added partitions and changed settings."""
        self.count = topic.partitions
        self.settings = settings
        for log in list(self.open_logs.values()):
            log.adopt(settings)
            yield


class Partitions:
    """The hosted topics of one broker. `defaults` returns the current default topic settings."""

    def __init__(self, store: LogStore, defaults: Callable[[], TopicSettings]) -> None:
        self.store = store
        self.overdue: Final = store.overdue
        self._defaults = defaults
        self.by_name: dict[str, HostedTopic] = {}
        self.by_id: dict[bytes, HostedTopic] = {}
        self.failed_appends = 0
        """Batches that could not be written, each answered with KAFKA_STORAGE_ERROR."""
        self._failing: dict[PartitionLog, int] = {}
        self.gone = TopicTraffic()
        """Traffic of deleted topics."""
        self.went_offline = 0
        """Number of times a partition went offline.

        A response built in slices meanwhile may report it as healthy.
        """
        self._offline_listeners: list[Callable[[], None]] = []
        store.on_offline(self._log_offline)

    def begin(self, image: Image) -> None:
        """Apply the image at startup, when all of its topics already exist."""
        self.on_metadata_update(image, image.topics)
        if self.store.directories.first_offline is not None:
            for topic in self.by_name.values():
                topic.give_up()
        for topic in self.by_name.values():
            topic.restore_absent()

    def commit(self) -> None:
        """Write everything that is staged, one write per partition.

        Failures are in the `error` of each append.
        """
        failed = self.store.commit()
        if failed or self._failing:
            self._log_failures(failed)

    def _log_failures(self, failed: Sequence[FailedAppend[PartitionLog]]) -> None:
        """Log when a partition's writes start to fail and when they succeed again, once each."""
        for each in failed:
            partition = each.partition
            self.failed_appends += len(each.staged)
            partition.metrics.failed_appends += len(each.staged)
            if partition not in self._failing:
                self._failing[partition] = partition.high_watermark
                logger.error(
                    "a partition cannot be written", extra=_place(partition) | {"reason": str(each.error)}
                )
        for partition, end in list(self._failing.items()):
            if partition.high_watermark > end:
                logger.warning("a partition is writable again", extra=_place(partition))
                del self._failing[partition]
            elif partition.deleted:
                del self._failing[partition]

    def _log_offline(self, log: PartitionLog) -> None:
        logger.error(
            "a partition is offline", extra=_place(log) | {"path": log.directory, "reason": str(log.offline)}
        )
        self.went_offline += 1
        for listener in self._offline_listeners:
            listener()

    def on_offline(self, listener: Callable[[], None]) -> None:
        """Call `listener` when a partition goes offline, to invalidate cached responses."""
        self._offline_listeners.append(listener)

    def offline(self, topic: str) -> Collection[int]:
        """Return the topic's partitions that are unusable until the next start."""
        offline = self.store.offline
        if not offline:
            return _NONE_OFFLINE
        return {log.index for log in offline if log.topic == topic and log.adopted}

    def is_offline(self, name: str, index: int) -> bool:
        """Return whether a partition is unusable until the next start; False if its log is not open."""
        topic = self.by_name.get(name)
        log = None if topic is None else topic.open_logs.get(index)
        return log is not None and log.offline is not None

    def overdue_flushes(self) -> Sequence[Flush]:
        """Return the flushes that must finish before the last commit may be acknowledged (flush.messages)."""
        return self.store.overdue_flushes()

    def log(self, name: str, index: int) -> PartitionLog | None:
        topic = self.by_name.get(name)
        return None if topic is None else topic.log(index)

    def end_offset(self, name: str, index: int) -> int | None:
        """Return the high watermark of a partition, None if it is unknown. Opens no log."""
        topic = self.by_name.get(name)
        if topic is None or not 0 <= index < topic.count:
            return None
        log = topic.open_logs.get(index)
        if log is not None:
            return log.high_watermark
        return 0 if self.store.partition(name, index) is None else None

    def start_offset(self, name: str, index: int) -> int | None:
        """Return the log start offset of a partition, None if it is unknown. Opens no log."""
        topic = self.by_name.get(name)
        if topic is None or not 0 <= index < topic.count:
            return None
        log = topic.open_logs.get(index)
        if log is not None:
            return log.log_start_offset
        return 0 if self.store.partition(name, index) is None else None

    def on_metadata_update(self, image: Image, names: Iterable[str]) -> list[PartitionLog]:
        """Apply the image to these topics and return the logs of deleted topics.

        The caller completes the waiters on those logs.
        """
        names = list(names)
        gone: list[PartitionLog] = []
        run_through(self.delete_in_steps(image, names, gone.append))
        run_through(self.host_in_steps(image, names))
        return gone

    def delete_in_steps(
        self, image: Image, names: Iterable[str], on_delete: Callable[[PartitionLog], None]
    ) -> Steps[None]:
        """Delete the topics that are missing from the image or have another id there.

        Each topic disappears at once; `on_delete` is called with its logs, whose waiters it can complete.
        """
        is_deleting = False
        for name in names:
            topic, known = image.topics.get(name), self.by_name.get(name)
            yield
            if known is None or (topic is not None and topic.topic_id == known.topic_id):
                continue
            is_deleting = True
            self.gone += run_through(known.traffic())
            del self.by_name[name], self.by_id[known.topic_id]
            # A request in slices may still hold the topic: it must not create logs again.
            count, known.count = known.count, 0
            for index in range(count):
                self.store.delete_partition(name, index)
                log = known.open_logs.get(index)
                if log is not None:
                    on_delete(log)
                yield
        if is_deleting:
            yield from self.store.forget_deleted()

    def host_in_steps(self, image: Image, names: Iterable[str]) -> Steps[None]:
        """Create and update topics from the image.

        Skips a topic whose name is taken until the other one is deleted.
        """
        for name in names:
            topic, known = image.topics.get(name), self.by_name.get(name)
            yield
            if topic is None:
                continue
            settings = topic_settings(self._defaults(), topic.configs)
            if known is None:
                known = HostedTopic(topic, self.store, settings)
                self.by_name[name] = self.by_id[topic.topic_id] = known
                yield from known.open_existing()
            elif known.topic_id == topic.topic_id:
                yield from known.update(topic, settings)


def _place(log: PartitionLog) -> dict[str, str]:
    return {"partition": f"{log.topic}-{log.index}"}

"""Which partitions this broker hosts, by name and by id. (Kafka: the bookkeeping half of ReplicaManager)

Binds the metadata image to the log store: a topic appears here when the image says so, its logs are opened
when somebody first asks. Handlers look up, stage and read here; nobody below `services` knows both sides.
"""

import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from broker.config.sections.topics import TopicSettings
from broker.config.topic import topic_settings
from broker.errors import ApiError
from broker.log.background_jobs import Flush
from broker.log.partition import PartitionLog
from broker.log.segmented import SegmentedLog
from broker.log.staged import FailedAppend
from broker.log.store import LogStore
from broker.metadata.image import Image, Topic
from broker.steps import Steps, finished

logger = logging.getLogger(__name__)

NO_LEADER: Final = -1
"""Of a partition that is offline."""

LEADER_EPOCH: Final = 0
"""One broker leads every partition for ever, so the epoch never moves."""


AT_ONCE: Final = 32
"""Partitions that are looked at between two pauses."""
TRAFFIC_AT_ONCE: Final = 16
"""Partitions whose traffic is added without a pause; each takes two microseconds."""

_NONE_OFFLINE: Final[frozenset[int]] = frozenset()


class TopicTraffic(NamedTuple):
    """What went into a topic and out of it; `appends` and `reads` are those of single partitions, the failed
    ones included.
    """

    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    appends: int = 0
    failed_appends: int = 0
    reads: int = 0
    failed_reads: int = 0

    def __add__(self, other: object) -> "TopicTraffic":
        """Both together; unlike what other tuples do."""
        assert isinstance(other, TopicTraffic)
        return TopicTraffic(*(one + two for one, two in zip(self, other, strict=True)))


class HostedTopic:
    """A topic and those of its logs that are on the disk or have been asked for. `name` and `topic_id` (16
    bytes) never change.
    """

    __slots__ = ("_logs", "_store", "count", "failed_appends", "name", "settings", "topic_id")

    def __init__(self, topic: Topic, store: LogStore, settings: TopicSettings) -> None:
        self.name = topic.name
        self.topic_id = topic.topic_id
        self.count = topic.partitions
        self._store = store
        self.settings = settings
        self._logs: dict[int, PartitionLog] = {}
        self.failed_appends = 0
        """Batches that were refused; those that could not be written are in their logs' traffic."""

    def log(self, index: int) -> PartitionLog | None:
        """The log of one partition, opened or made now if need be; None if the topic has no such partition.

        Raises ApiError KAFKA_STORAGE_ERROR where the disk refuses.
        """
        log = self._logs.get(index)
        if log is None and 0 <= index < self.count:
            log = self._logs[index] = self._store.create_partition(
                self.name, self.topic_id, index, self.settings
            )
        return log

    def take_up(self) -> None:
        """Takes up the logs that are on the disk already, so that retention and sizes see them before anybody
        asks. One that the disk refuses is left to who asks first.
        """
        finished(self.take_up_in_steps())

    def take_up_in_steps(self) -> Steps[None]:
        """The same; stops after every few partitions."""
        for index in range(self.count):
            if self._store.partition(self.name, index) is not None:
                with contextlib.suppress(ApiError):
                    self.log(index)
            if index % AT_ONCE == AT_ONCE - 1:
                yield

    def give_up(self) -> None:
        """The topic is an old one: those of its partitions that are not to be found are offline, if there is
        a directory that cannot be read.
        """
        for index in range(self.count):
            self._store.give_up(self.name, self.topic_id, index, self.settings)
        self.take_up()

    def restore_absent(self) -> None:
        """The topic is an old one: its partitions whose folders are gone go on where their records ended."""
        try:
            gone = self._store.restore_absent(self.name, self.topic_id, self.count, self.settings)
        except ApiError as error:
            logger.error("a partition cannot be made", extra={"topic": self.name, "reason": str(error)})
            return
        for each in gone:
            logger.error("the folder of a partition is missing", extra=each._asdict())
        if gone:
            self.take_up()

    def makes_log(self, index: int) -> bool:
        """Whether `log` would make one now, which takes a millisecond or more: files are created."""
        return index not in self._logs and 0 <= index < self.count

    def opened_log(self, index: int) -> PartitionLog | None:
        """The log of one partition, if there is one yet. Touches no disk."""
        return self._logs.get(index)

    def opened(self) -> Iterator[PartitionLog]:
        """The logs that there are so far."""
        return iter(self._logs.values())

    def logs(self) -> Iterator[PartitionLog]:
        """Every partition's log, all of them opened."""
        for index in range(self.count):
            log = self.log(index)
            assert log is not None
            yield log

    def traffic(self) -> "TopicTraffic":
        """Of all partitions together, since the broker began."""
        return finished(self.traffic_in_steps())

    def traffic_in_steps(self) -> "Steps[TopicTraffic]":
        """`traffic`, some partitions after the others."""
        messages_in = bytes_in = bytes_out = appends = reads = failed_reads = 0
        failed = self.failed_appends
        for number, log in enumerate(list(self._logs.values())):
            if number % TRAFFIC_AT_ONCE == 0:
                yield
            traffic = log.traffic
            messages_in += log.messages_in
            bytes_in += log.bytes_in
            bytes_out += traffic.bytes_out
            appends += traffic.appends
            failed += traffic.failed_appends
            reads += traffic.reads
            failed_reads += traffic.failed_reads
        return TopicTraffic(messages_in, bytes_in, bytes_out, failed + appends, failed, reads, failed_reads)

    def update(self, topic: Topic, settings: TopicSettings) -> Steps[None]:
        """Partitions were added or settings changed. Stops after every few partitions."""
        self.count = topic.partitions
        self.settings = settings
        for number, log in enumerate(list(self._logs.values())):
            log.adopt(settings)
            if number % AT_ONCE == AT_ONCE - 1:
                yield


class Partitions:
    """The hosted topics of one broker. `defaults` answers the topic settings that hold now."""

    def __init__(self, store: LogStore, defaults: Callable[[], TopicSettings]) -> None:
        self.store = store
        self._defaults = defaults
        self.by_name: dict[str, HostedTopic] = {}
        self.by_id: dict[bytes, HostedTopic] = {}
        self.failed_appends = 0
        """Batches that could not be written, each answered with KAFKA_STORAGE_ERROR."""
        self._failing: dict[PartitionLog, int] = {}
        self._gone = TopicTraffic()
        self.went_offline = 0
        """How often a partition has: an answer that was made in slices meanwhile may call it healthy."""
        self.offline_changed: Callable[[], None] = _nobody
        """Called when a partition goes offline: kept answers that call it healthy are wrong."""
        store.on_offline(self._tell_offline)

    def begin(self, image: Image) -> None:
        """Makes this what the image says at the start: all of its topics are old ones."""
        self.follow(image, image.topics)
        if self.store.directories.lost is not None:
            for topic in self.by_name.values():
                topic.give_up()
        for topic in self.by_name.values():
            topic.restore_absent()

    def commit(self) -> None:
        """Writes everything that is staged, one write per partition; what fails says so in its `error`."""
        failed = self.store.commit()
        if failed or self._failing:
            self._tell_of_failures(failed)

    def _tell_of_failures(self, failed: Sequence[FailedAppend]) -> None:
        """Two lines for each partition and time of trouble, not one for each append: when writing fails, and
        when it goes on.
        """
        for partition, staged, error in failed:
            self.failed_appends += len(staged)
            partition.traffic.failed_appends += len(staged)
            if partition not in self._failing:
                self._failing[partition] = partition.high_watermark
                logger.error(
                    "a partition cannot be written", extra=_place(partition) | {"reason": str(error)}
                )
        for partition, end in list(self._failing.items()):
            if partition.high_watermark > end:
                logger.warning("a partition is written again", extra=_place(partition))
                del self._failing[partition]
            elif partition.deleted:
                del self._failing[partition]

    def _tell_offline(self, log: SegmentedLog) -> None:
        logger.error(
            "a partition is offline", extra=_place(log) | {"path": log.directory, "reason": str(log.offline)}
        )
        self.went_offline += 1
        self.offline_changed()

    def offline(self, topic: str) -> Collection[int]:
        """The partitions of a topic that cannot be used until the next start."""
        offline = self.store.offline
        if not offline:
            return _NONE_OFFLINE
        return {log.index for log in offline if log.topic == topic and log.adopted}

    def overdue_flushes(self) -> Sequence[Flush]:
        """What must be on the disk before what was just committed may be acknowledged (flush.messages)."""
        return self.store.overdue_flushes() if self.store.has_overdue_flushes else ()

    @property
    def gone(self) -> TopicTraffic:
        """Of the topics that are deleted."""
        return self._gone

    def log(self, name: str, index: int) -> PartitionLog | None:
        topic = self.by_name.get(name)
        return None if topic is None else topic.log(index)

    def follow(self, image: Image, names: Iterable[str]) -> list[PartitionLog]:
        """Makes this what the image says; the logs that went with deleted topics, so that who waits on them
        can be told.
        """
        names = list(names)
        gone: list[PartitionLog] = []
        finished(self.delete_in_steps(image, names, gone.append))
        finished(self.host_in_steps(image, names))
        return gone

    def delete_in_steps(
        self, image: Image, names: Iterable[str], tell: Callable[[PartitionLog], None]
    ) -> Steps[None]:
        """Lets go of the topics that the image does not have, or has under another id. Each topic is gone at
        once; `tell` is called with its logs, so that who waits on them can be told. Stops after every few
        partitions.
        """
        is_deleting = False
        for name in names:
            topic, known = image.topics.get(name), self.by_name.get(name)
            yield
            if known is None or (topic is not None and topic.topic_id == known.topic_id):
                continue
            is_deleting = True
            self._gone = self._gone + known.traffic()
            del self.by_name[name], self.by_id[known.topic_id]
            for index in range(known.count):
                self.store.delete_partition(name, index)
                log = known.opened_log(index)
                if log is not None:
                    tell(log)
                yield
        if is_deleting:
            self.store.forget_deleted()

    def host_in_steps(self, image: Image, names: Iterable[str]) -> Steps[None]:
        """Makes the topics of the image what it says. One whose place another topic has is left alone until
        that is deleted.
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
                yield from known.take_up_in_steps()
            elif known.topic_id == topic.topic_id:
                yield from known.update(topic, settings)


def _nobody() -> None:
    return


def _place(log: SegmentedLog) -> dict[str, str]:
    return {"partition": f"{log.topic}-{log.index}"}

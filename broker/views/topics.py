"""Topics with the contents of their partitions, the progress of groups, and transactions. Part of
`console.Views`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec.structs import replace

from broker.common.errors import ProtocolViolation
from broker.common.slices import SLICE, Steps, freed, run_through, sorted_in_steps
from broker.config.sections.share_groups import DEAD_LETTER_TOPIC
from broker.controller.rows.topics import (
    CommittedRow,
    CompactionRow,
    DeadLettersRow,
    GroupDetail,
    GroupRow,
    MemberRow,
    PartitionRow,
    TopicCounts,
    TopicGroupRow,
    TopicRow,
    TransactionDetail,
    TransactionPartition,
    TransactionRow,
)
from broker.coordinator.group.messages import CONSUMER as CONSUMER_TYPE
from broker.coordinator.group.messages import SHARE, STREAMS, CommittedOffset
from broker.coordinator.group_service import GroupService
from broker.coordinator.share.dead_letters import DeadLetterCounts
from broker.coordinator.transaction.state import DECIDED, NAMES, TopicPartition, Transaction, TransactionState
from broker.coordinator.transaction_service import TransactionService
from broker.log.cleaner.manager import CleanerManager
from broker.log.partition import PartitionLog
from broker.metadata.image import Image, Topic
from broker.partitions.partitions import HostedTopic, Partitions
from broker.protocol.codec import decode_data_in_slices
from broker.views.streams_groups import streams_group, streams_members

CONSUMER = "consumer"
VERSION_BYTES = 2


OPEN: Final = DECIDED | {TransactionState.ONGOING}


class TopicViews:
    """The topics of a server without logs: they are empty, and there are no groups and no transactions."""

    def __init__(self, image: Callable[[], Image]) -> None:
        self._image = image

    def each_topic(self) -> Iterator[TopicRow | None]:
        """Yield the topics by name, built lazily, and None after work that produced no row."""
        for name, topic in sorted(self._image().topics.items()):
            yield (yield from self._row(name, topic))

    def has_topic(self, name: str) -> bool:
        return name in self._image().topics

    def topic_id(self, name: str) -> bytes | None:
        """Return the topic's id, None if there is no such topic."""
        topic = self._image().topics.get(name)
        return None if topic is None else topic.topic_id

    def topic(self, name: str) -> TopicRow | None:
        topic = self._image().topics.get(name)
        return None if topic is None else run_through(self._row(name, topic))

    def _row(self, name: str, topic: Topic) -> Steps[TopicRow]:
        yield from ()
        return TopicRow(
            name,
            topic.topic_id,
            topic.partitions,
            topic.internal,
            0,
            0,
            tuple(sorted(topic.configs.items())),
            topic.version,
        )

    def offline_partitions(self) -> int:
        return 0

    def missing_offsets(self) -> int:
        return 0

    def topics_of_groups(self) -> Iterator[Iterable[str] | None] | None:
        """Yield the topics that each group has read, and None after work that produced none. None: the groups
        are not known yet.
        """
        return iter(())

    def groups_of_topic(self, topic: str) -> Steps[list[TopicGroupRow]]:
        """Return the groups that have read a topic, in no order."""
        yield from ()
        return []

    def partitions(self, topic: str) -> Iterator[PartitionRow]:
        """Yield rows by index, built lazily; none for an unknown topic."""
        return iter(())

    def group_count(self) -> int:
        return 0

    def each_group(self) -> Iterator[GroupRow | None]:
        """Yield the groups in no order, built lazily, and None after work that produced no row."""
        return iter(())

    def has_group(self, group_id: str) -> bool:
        return False

    def group(self, group_id: str) -> Steps[GroupDetail | None]:
        yield from ()
        return None

    def each_transaction(self) -> Iterator[TransactionRow | None]:
        """Yield the transactional ids in no order, built lazily, and None after work that produced no row."""
        return iter(())

    def transaction(self, transactional_id: str) -> Steps[TransactionDetail | None]:
        yield from ()
        return None


class LogViews(TopicViews):
    """The topics, groups and transactions in the broker's own logs."""

    def __init__(
        self,
        image: Callable[[], Image],
        partitions: Partitions,
        groups: GroupService,
        cleaner: CleanerManager,
        transactions: TransactionService,
        dead_letters: Mapping[str, DeadLetterCounts],
    ) -> None:
        """`dead_letters` are by group id."""
        super().__init__(image)
        self._dead_letters = dead_letters
        self._transactions = transactions
        self._cleaner = cleaner
        self._partitions = partitions
        self._groups = groups

    def offline_partitions(self) -> int:
        return len(self._partitions.store.offline)

    def missing_offsets(self) -> int:
        return sum(log.missing for log in self._partitions.store.gapped)

    def _row(self, name: str, topic: Topic) -> Steps[TopicRow]:
        hosted = self._partitions.by_name.get(name)
        row = yield from super()._row(name, topic)
        return row if hosted is None else (yield from _with_contents(row, hosted))

    def topics_of_groups(self) -> Iterator[Iterable[str] | None]:
        return topics_of_groups(self._groups)

    def groups_of_topic(self, topic: str) -> Steps[list[TopicGroupRow]]:
        return groups_of_topic(self._groups, self._partitions, topic)

    def partitions(self, topic: str) -> Iterator[PartitionRow]:
        return partition_rows(self._partitions, topic, self._cleaner)

    def group_count(self) -> int:
        return len(self._groups.coordinator)

    def each_group(self) -> Iterator[GroupRow | None]:
        return group_rows(self._groups)

    def has_group(self, group_id: str) -> bool:
        return group_id in self._groups.coordinator

    def group(self, group_id: str) -> Steps[GroupDetail | None]:
        configs = self._image().group_configs.get(group_id, {})
        queue, counts = configs.get(DEAD_LETTER_TOPIC.key, "").strip(), self._dead_letters.get(group_id)
        dead_letters = None
        if queue or counts is not None:
            dead_letters = DeadLettersRow(queue, 0 if counts is None else counts.records)
        return group_detail(self._groups, self._partitions, group_id, dead_letters)

    def each_transaction(self) -> Iterator[TransactionRow | None]:
        return transaction_rows(self._transactions, self._partitions)

    def transaction(self, transactional_id: str) -> Steps[TransactionDetail | None]:
        return transaction_detail(self._transactions, self._partitions, transactional_id)


def _with_contents(row: TopicRow, topic: HostedTopic) -> Steps[TopicRow]:
    settings = topic.settings
    size = records = records_in = bytes_in = bytes_out = last_write_ms = 0
    for number, log in enumerate(list(topic.open_logs.values()), 1):
        if number % SLICE == 0:
            yield
        log_size = log.size
        size += log_size
        records += log.high_watermark - log.log_start_offset
        records_in += log.messages_in
        bytes_in += log_size - log.bytes_before
        bytes_out += log.metrics.bytes_out
        last_write_ms = max(last_write_ms, log.last_append_ms or 0)
    return replace(
        row,
        size_bytes=size,
        records=records,
        cleanup=",".join(settings.cleanup_policy),
        retention_ms=max(settings.retention_ms, -1),
        retention_bytes=max(settings.retention_bytes, -1),
        last_write_ms=last_write_ms or None,
        counts=TopicCounts(records_in, bytes_in, bytes_out),
    )


def partition_rows(
    partitions: Partitions, topic: str, cleaner: CleanerManager | None = None
) -> Iterator[PartitionRow]:
    """Yield the partitions; none for an unknown topic. Opens no log."""
    hosted = partitions.by_name.get(topic)
    for index in range(0 if hosted is None else hosted.count):
        log = None if hosted is None else hosted.open_logs.get(index)
        if log is None:
            yield PartitionRow(index, 0, 0, 0, 0)
        else:
            yield PartitionRow(
                index,
                log.log_start_offset,
                log.high_watermark,
                log.size,
                len(log.segments),
                "" if log.offline is None else str(log.offline),
                log.missing,
                _compaction(log, cleaner) if cleaner is not None and log.settings.compacts else None,
            )


def _compaction(log: PartitionLog, cleaner: CleanerManager) -> CompactionRow:
    dirty, closed = cleaner.dirty_bytes(log), sum(each.size for each in log.segments[:-1])
    run = cleaner.runs.get(log)
    percent = 100 * dirty // closed if closed else 0
    cleaned_to, failure = cleaner.checkpoint(log) or 0, cleaner.uncleanable.get(log, "")
    if run is None:
        return CompactionRow(dirty, percent, cleaned_to, failure=failure)
    stats = run.stats
    return CompactionRow(
        dirty, percent, cleaned_to, stats.bytes_read, stats.bytes_written, failure, run.ended_wall_ms
    )


def group_rows(groups: GroupService) -> Iterator[GroupRow | None]:
    """Yield the groups that exist at the call, and None after work that produced no row."""
    for some in groups.coordinator.listed_in_pieces():
        for group in some:
            lag, lost = yield from groups.lag(group.group_id)
            yield GroupRow(
                group.group_id,
                group.state,
                group.protocol_type,
                group.members,
                lag,
                group.group_type,
                lost=lost,
            )
        yield None


def topics_of_groups(groups: GroupService) -> Iterator[Iterable[str] | None]:
    """Yield the topics with a position of each group, and None after work that produced none."""
    for some in groups.coordinator.listed_in_pieces():
        for group in some:
            yield groups.topics(group.group_id)
        yield None


def groups_of_topic(groups: GroupService, partitions: Partitions, topic: str) -> Steps[list[TopicGroupRow]]:
    """Return the groups with a position in a topic."""
    found: list[TopicGroupRow] = []
    for some in groups.coordinator.listed_in_pieces():
        for group in some:
            if topic not in groups.topics(group.group_id):
                continue
            positions = yield from groups.positions(group.group_id)
            lag = 0
            for index, committed in list(positions.get(topic, {}).items()):
                end = partitions.end_offset(topic, index)
                lag += 0 if end is None else max(end - committed.offset, 0)
                yield
            found.append(TopicGroupRow(group.group_id, group.state, group.group_type, group.members, lag))
        yield
    return found


def group_detail(
    groups: GroupService, partitions: Partitions, group_id: str, dead_letters: DeadLettersRow | None = None
) -> Steps[GroupDetail | None]:
    """Return a group with its members and offsets, None if there is none."""
    found = groups.coordinator.overview(group_id)
    if found is None:
        return None
    members: list[MemberRow] = []
    streams = None
    if found.group_type == CONSUMER_TYPE:
        consumers = groups.coordinator.consumer.described(group_id)
        protocol_type, assignor = CONSUMER, consumers.assignor
        for consumer in consumers.members:
            assigned = yield from _named(consumer.assigned, partitions)
            members.append(
                MemberRow(
                    consumer.member_id,
                    consumer.instance_id,
                    consumer.client_id,
                    consumer.client_host,
                    assigned,
                )
            )
            yield
    elif found.group_type == SHARE:
        sharers = groups.coordinator.share.described(group_id)
        protocol_type, assignor = SHARE, sharers.assignor
        for sharer in sharers.members:
            assigned = yield from _named(sharer.assigned, partitions)
            members.append(MemberRow(sharer.member_id, None, sharer.client_id, sharer.client_host, assigned))
            yield
    elif found.group_type == STREAMS:
        threads = yield from groups.coordinator.streams.described(group_id)
        protocol_type, assignor = STREAMS, threads.assignor
        streams = yield from streams_group(threads)
        members = yield from streams_members(threads, partitions)
    else:
        described = groups.coordinator.classic.described(group_id, missing_is_error=True)
        protocol_type, assignor = described.protocol_type, described.protocol
        for each in described.members:
            assigned = (yield from assigned_partitions(each.assignment)) if protocol_type == CONSUMER else ()
            members.append(
                MemberRow(each.member_id, each.instance_id, each.client_id, each.client_host, assigned)
            )
            yield
    offsets = yield from _offsets((yield from groups.positions(group_id)), partitions)
    lag, lost = sum(each.lag or 0 for each in offsets), sum(each.lost or 0 for each in offsets)
    row = GroupRow(group_id, found.state, protocol_type, len(members), lag, found.group_type, lost=lost)
    return GroupDetail(row, assignor, tuple(members), tuple(offsets), streams, dead_letters)


def _offsets(
    committed: Mapping[str, Mapping[int, CommittedOffset]], partitions: Partitions
) -> Steps[list[CommittedRow]]:
    rows: list[CommittedRow] = []
    for topic in (yield from sorted_in_steps(committed)):
        for index, offset in sorted(committed.get(topic, {}).items()):
            end = partitions.end_offset(topic, index)
            lag = None if end is None else max(end - offset.offset, 0)
            start = partitions.start_offset(topic, index)
            lost = None if start is None else max(start - offset.offset, 0)
            rows.append(CommittedRow(topic, index, offset.offset, end, lag, lost))
            yield
    return rows


def _named(
    assignment: Mapping[bytes, frozenset[int]], partitions: Partitions
) -> Steps[tuple[tuple[str, int], ...]]:
    found: list[tuple[str, int]] = []
    for topic_id, indexes in assignment.items():
        hosted = partitions.by_id.get(topic_id)
        if hosted is not None:
            found += ((hosted.name, index) for index in sorted(indexes))
        yield
    return tuple(found)


def assigned_partitions(data: bytes) -> Steps[tuple[tuple[str, int], ...]]:
    """Return the partitions of a ConsumerProtocolAssignment, none when `data` is not one: the leader of the
    group wrote it, and the broker does not validate it.
    """
    decode = decode_data_in_slices("consumer_protocol_assignment", 0)
    try:
        assignment: Any = yield from decode(data, VERSION_BYTES)
    except ProtocolViolation:
        return ()
    found: list[tuple[str, int]] = []
    for each in assignment.assigned_partitions:
        found += ((each.topic, partition) for partition in each.partitions)
        yield
    yield from freed(assignment.assigned_partitions)
    return tuple(found)


def transaction_rows(
    transactions: TransactionService, partitions: Partitions
) -> Iterator[TransactionRow | None]:
    """Yield the transactional ids in no order, and None after work that produced no row. Opens no log: a
    partition whose log is not open has no record of a transaction.
    """
    for transaction in transactions.coordinator.transactions():
        held = yield from _held_back(transaction, partitions)
        yield _transaction_row(transaction, sum(each.holds_back for each in held))


def transaction_detail(
    transactions: TransactionService, partitions: Partitions, transactional_id: str
) -> Steps[TransactionDetail | None]:
    """Return one transactional id with its partitions; None if there is none."""
    transaction = transactions.coordinator.get(transactional_id)
    if transaction is None:
        return None
    held = yield from _held_back(transaction, partitions)
    return TransactionDetail(
        _transaction_row(transaction, sum(each.holds_back for each in held)), tuple(held)
    )


def _transaction_row(transaction: Transaction, holding_back: int) -> TransactionRow:
    data, client = transaction.data, transaction.client
    return TransactionRow(
        transaction.transactional_id,
        NAMES[data.state],
        data.producer_id,
        data.producer_epoch,
        data.timeout_ms,
        len(data.partitions),
        holding_back,
        *(("", "", "") if client is None else client),
        data.started_ms if data.state in OPEN else None,
        data.updated_ms,
    )


def _held_back(transaction: Transaction, partitions: Partitions) -> Steps[list[TransactionPartition]]:
    held = []
    for each in sorted(transaction.data.partitions):
        held.append(_transaction_partition(each, transaction.data.producer_id, partitions))
        yield
    return held


def _transaction_partition(
    place: TopicPartition, producer_id: int, partitions: Partitions
) -> TransactionPartition:
    topic, index = place
    hosted = partitions.by_name.get(topic)
    log = None if hosted is None else hosted.open_logs.get(index)
    if log is None:
        return TransactionPartition(topic, index, None, 0, 0, False)
    producer = log.producers.get(producer_id)
    first = None if producer is None or producer.first_offset < 0 else producer.first_offset
    stable, end = log.last_stable_offset, log.high_watermark
    return TransactionPartition(topic, index, first, stable, end, first is not None and first <= stable < end)

"""The log that all gateways of a cluster append to and read: a topic of the upstream cluster, one partition.

`task` and `metadata_log` use it. Created at first use, compacted and with the cluster's default replication
factor. Producers wait for all in-sync replicas; whether an acknowledged record survives the failure of a
broker is decided by `min.insync.replicas`, as for every topic.
"""

import logging
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import trio

from broker.common.clock import Clock
from broker.common.errors import ApiError, ErrorCode
from broker.gateway.upstream.client import UpstreamClient, create_topic, describe_topic
from broker.gateway.upstream.errors import UpstreamError, WeirUpstreamError, name_of
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from broker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.records.build import NewRecord, build_batch
from broker.records.compression import Codec
from broker.records.header import header_at
from broker.records.walk import batches, records

logger = logging.getLogger(__name__)

METADATA_TOPIC: Final = "__weir_metadata"
SHARES_TOPIC: Final = "__weir_shares"

PRODUCE_VERSION: Final = 9
FETCH_VERSION: Final = 11
LIST_OFFSETS_VERSION: Final = 5
"""Versions that name topics and are in Kafka 2.8 and later."""

TIMEOUT_MS: Final = 10_000
MAX_WAIT_MS: Final = 2_000
FETCH_BYTES: Final = 1_048_576
EARLIEST: Final = -2
LATEST: Final = -1
COMPRESSED_FROM: Final = 1_024

READ_AT_ONCE: Final = 16_384
"""Bytes of records without compression that are read on the event loop; ours. More are read in a thread."""

MAX_ENTRIES: Final = 10_000
"""Records of a page; ours. Reading goes on behind them."""

TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class LogUnavailable(Exception):  # noqa: N818 - describes the log
    """The log could not be read, or it is not known whether a record was appended."""


class LogLost(LogUnavailable):
    """The topic has lost records that were read: it ends before them, or is another one of the same name."""


class LogRefused(LogUnavailable):
    """The upstream cluster is Weir itself, whose topics are its own."""


class RecordTooLarge(Exception):  # noqa: N818 - describes the record
    """The topic does not take so large a record; it was not appended."""


class TopicLogRecord(NamedTuple):
    """One record; `value` None removes those before it with the same key."""

    offset: int
    key: bytes
    value: bytes | None


class TopicLogPage(NamedTuple):
    """Records in the order of the log. Reading goes on at `next_offset`."""

    entries: tuple[TopicLogRecord, ...]
    next_offset: int


class TopicLog:
    """Every reader sees the same records in the same order, and no record that a later read does not have.

    `configs` are the topic's settings at its creation, beside its compaction; `created` is called then.
    `timeout_ms` limits a request, and a Fetch may wait for records for half of it; without it, the client's
    limit holds.
    """

    def __init__(
        self,
        name: str,
        client: UpstreamClient,
        clock: Clock,
        configs: dict[str, str] | None = None,
        timeout_ms: int | None = None,
        created: Callable[[], None] = lambda: None,
    ) -> None:
        self._name = name
        self._client = client
        self._clock = clock
        self._configs = {"cleanup.policy": "compact", **(configs or {})}
        self._timeout_ms = timeout_ms
        self._wait_ms = MAX_WAIT_MS if timeout_ms is None else min(MAX_WAIT_MS, timeout_ms // 2)
        self._created = created
        self._leader: int | None = None
        self._id = bytes(16)
        self._is_another = False

    async def append(self, key: bytes, value: bytes | None) -> None:
        """Append one record and wait until no failure of a broker can lose it. Raises LogUnavailable: the
        record is in the log, or will be, or never; and RecordTooLarge.
        """
        record = NewRecord(key, value, self._clock.wall_ms())
        codec = Codec.GZIP if value is not None and len(value) >= COMPRESSED_FROM else Codec.NONE
        data = PartitionProduceData(0, build_batch([record], codec=codec))
        topic = TopicProduceData(self._name, partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[topic])
        response = await self._ask_leader(request, PRODUCE_VERSION, "append")
        code = self._only("Produce", response.responses, "partition_responses").error_code
        if code in TOO_LARGE:
            raise RecordTooLarge(f"{len(value or b'')} bytes: {ErrorCode(code).name}")
        self._check("Produce", code)

    async def read(self, offset: int) -> TopicLogPage:
        """Return records from `offset` on; if it is below the first record, from there. Waits for a record,
        but only for some seconds, and for as long as the cluster throttles the gateway's user. Raises
        LogUnavailable, and LogLost, for another topic until `offset` is 0.
        """
        partition = FetchPartition(fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=self._wait_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            topics=[FetchTopic(self._name, partitions=[partition])],
        )
        response = await self._ask_leader(request, FETCH_VERSION, "read")
        self._is_another = self._is_another and offset > 0
        if self._is_another:
            raise LogLost(f"{self._name} is another topic: it has lost records")
        if response.error_code:
            self._check("Fetch", response.error_code)
        if not response.responses and response.throttle_time_ms > 0:
            # A quota of the gateway's user is exceeded: the broker gives it no records this time. (KIP-219)
            await trio.sleep(min(response.throttle_time_ms, TIMEOUT_MS) / 1_000)
            return TopicLogPage((), offset)
        found = self._only("Fetch", response.responses)
        if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            first = await self._offset(EARLIEST)
            if offset >= first:
                raise LogLost(f"{self._name} ends before offset {offset}: it has lost records")
            return TopicLogPage((), first)
        self._check("Fetch", found.error_code)
        data = bytes(found.records or b"")
        if len(data) <= READ_AT_ONCE and not _is_compressed(data):
            return read_page(data, offset)
        # A megabyte can have half a million records, which take more than a second.
        return await trio.to_thread.run_sync(read_page, data, offset)

    async def end(self) -> int:
        """Return an offset that is not below that of any record whose append has returned. Raises
        LogUnavailable.
        """
        return await self._offset(LATEST)

    async def _offset(self, timestamp: int) -> int:
        partition = ListOffsetsPartition(timestamp=timestamp)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(self._name, [partition])])
        response = await self._ask_leader(request, LIST_OFFSETS_VERSION, "offsets")
        found = self._only("ListOffsets", response.topics)
        self._check("ListOffsets", found.error_code)
        return int(found.offset)

    async def _ask_leader(self, request: Any, version: int, lane: str) -> Any:
        """Send a request to the leader. Appends, reads and questions for offsets have a connection each: a
        fetch waits for records, and what comes behind it waits too.
        """
        try:
            leader = self._leader
            if leader is None:
                leader = self._leader = await self._find_leader()
            name = f"{self._name} {lane}"
            return await self._client.request(
                leader, request, version, lane=name, timeout_ms=self._timeout_ms
            )
        except WeirUpstreamError as error:
            raise LogRefused(str(error)) from error
        except UpstreamError as error:
            self._leader = None
            raise LogUnavailable(str(error)) from error

    async def _find_leader(self) -> int:
        """Return the leader's node id; create the topic if it is missing. Raises UpstreamError."""
        found = await describe_topic(self._client, self._name)
        if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            await self._create()
            found = await describe_topic(self._client, self._name)
        self._check("Metadata", found.error_code)
        if len(found.partitions) != 1:
            raise LogUnavailable(f"{self._name} has {len(found.partitions)} partitions, and one is needed")
        self._check("Metadata", found.partitions[0].error_code)
        if any(found.topic_id):
            self._is_another |= any(self._id) and found.topic_id != self._id
            self._id = found.topic_id
        return int(found.partitions[0].leader_id)

    async def _create(self) -> None:
        code = await create_topic(self._client, self._name, 1, self._configs.items())
        if code != ErrorCode.TOPIC_ALREADY_EXISTS:
            self._check("CreateTopics", code)
        self._created()

    def _only(self, api: str, topics: list[Any], partitions: str = "partitions") -> Any:
        """Return what a response has of the partition. Raises LogUnavailable if it has nothing."""
        for topic in topics:
            for found in getattr(topic, partitions):
                return found
        self._leader = None
        raise LogUnavailable(f"{api} of {self._name}: the response has no partition")

    def _check(self, api: str, code: int) -> None:
        if code:
            self._leader = None
            raise LogUnavailable(f"{api} of {self._name}: {name_of(code)}")


def read_page(data: bytes, offset: int) -> TopicLogPage:
    """Return the records from `offset` on, at most `MAX_ENTRIES`; batches may begin before it. Skips a batch
    that cannot be read: every gateway does, and none waits for it for ever. Raises LogUnavailable.
    """
    entries: list[TopicLogRecord] = []
    next_offset = offset
    try:
        for batch in batches(data):
            header = header_at(batch)
            if not header.is_control and not _read_batch(batch, offset, entries):
                return TopicLogPage(tuple(entries), entries[-1].offset + 1)
            next_offset = max(next_offset, header.last_offset + 1)
    except ApiError as error:
        raise LogUnavailable(f"unreadable records: {error}") from error
    return TopicLogPage(tuple(entries), next_offset)


def _read_batch(batch: memoryview, offset: int, entries: list[TopicLogRecord]) -> bool:
    """Add the records of a batch from `offset` on. Returns whether there was room for all of them."""
    try:
        for record in records(batch):
            if record.offset >= offset:
                if len(entries) == MAX_ENTRIES:
                    return False
                entries.append(TopicLogRecord(record.offset, record.key or b"", record.value))
    except ApiError as error:
        last = header_at(batch).last_offset
        logger.warning("unreadable records are skipped", extra={"last_offset": last, "reason": str(error)})
    return True


def _is_compressed(data: bytes) -> bool:
    """Return whether a batch is compressed, or not one."""
    try:
        return any(header_at(batch).codec for batch in batches(data))
    except ApiError:
        return True

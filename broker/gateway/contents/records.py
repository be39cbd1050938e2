"""Reads and produces records of the upstream cluster for an operator. Run by `Control` as operations.

A reading decodes what Fetch returns as a broker decodes its own log (`partitions.record_reader`), within the
same limits. A fetch waits in the thread that would decompress a batch.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import trio

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices
from broker.controller.control import Control
from broker.controller.plan import Done, Situation
from broker.controller.topic_records import (
    BrowseRecords,
    FoundRecords,
    ProducedRecord,
    ProduceRecord,
    RunSlices,
    Start,
    StartKind,
    no_partition,
    partition_for_key,
    produced_at,
    read_limits,
    reading_notes,
    refuse_internal,
    selected,
)
from broker.gateway.contents.asking import Asking, unavailable
from broker.gateway.contents.refusals import Notes, error_of
from broker.gateway.contents.topics import EARLIEST, LATEST, offsets_of
from broker.gateway.own_topics import is_secret
from broker.gateway.upstream.errors import UpstreamError
from broker.metadata.actor import Role
from broker.partitions.record_reader import Range, read_records
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.records.build import NewRecord, build_batch

LANE: Final = "records"
FETCH_VERSION: Final = 12
PRODUCE_VERSION: Final = 12
"""The last versions that name topics."""

ACKS: Final = -1
PRODUCE_TIMEOUT_MS: Final = 10_000

THROTTLED_MS: Final = 5_000
"""How long one fetch may be held back by a quota of the gateway's user; ours."""

HELD_BACK: Final = "A quota that the upstream cluster has for the gateway's user holds Fetch back for {} ms."


class FetchedLog:
    """A partition at its leader. A `record_reader.ReadableLog`. `refused` is why the cluster refuses it."""

    def __init__(self, fetch: Callable[[int, int], Awaitable[bytes]], log_start_offset: int) -> None:
        self._fetch = fetch
        self.log_start_offset = log_start_offset

    def past_gap(self, offset: int) -> int:
        return offset

    def chunk(self, offset: int, max_bytes: int) -> Slices[bytes]:
        work = _Fetching(self._fetch, offset, max_bytes)
        yield work
        return work.records


class _Fetching:
    """A fetch as the work of a thread, which waits for it."""

    def __init__(self, fetch: Callable[[int, int], Awaitable[bytes]], offset: int, max_bytes: int) -> None:
        self._fetch = fetch
        self._offset = offset
        self._max_bytes = max_bytes
        self.records = b""

    def run(self) -> None:
        self.records = trio.from_thread.run(self._fetch, self._offset, self._max_bytes)


class UpstreamRecords:
    """The operations. `now_ms` is monotonic."""

    def __init__(
        self, asking: Asking, run: RunSlices, now_ms: Callable[[], int], wall_ms: Callable[[], int]
    ) -> None:
        self._asking = asking
        self._run = run
        self._now_ms = now_ms
        self._wall_ms = wall_ms
        self._turn = 0

    def register(self, control: Control) -> None:
        control.add_operation(BrowseRecords, self.browse)
        control.add_operation(ProduceRecord, self.produce)

    async def browse(self, command: BrowseRecords, at: Situation) -> Done[FoundRecords]:
        """Run BrowseRecords."""
        limits = read_limits(command, at)
        topic = command.topic
        if is_secret(topic):
            text = f"{topic} has the gateways' secrets: nobody reads it here."
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, text)
        refused: list[ApiError] = []
        try:
            leaders = await self._leaders(topic)
            ranges = await self._ranges(command, leaders, refused)
        except UpstreamError as error:
            raise unavailable(error) from error
        newest = command.start.kind is StartKind.LATEST
        found = await self._run(read_records(ranges, command.wanted, limits, self._now_ms, newest=newest))
        if refused:
            raise refused[0]
        return Done(found, reading_notes(command, found))

    async def produce(self, command: ProduceRecord, at: Situation) -> Done[ProducedRecord]:
        """Run ProduceRecord. Waits for all in-sync replicas."""
        at.require(Role.EDITOR, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        topic, wall_ms = command.topic, self._wall_ms()
        refuse_internal(topic)
        try:
            leaders = await self._leaders(topic)
        except UpstreamError as error:
            raise unavailable(error) from error
        index = self._partition_of(command, len(leaders))
        leader = leaders.get(index)
        if leader is None:
            raise no_partition(topic, index, len(leaders))
        record = NewRecord(command.key, command.value, wall_ms, command.headers)
        data = PartitionProduceData(index, bytes(build_batch([record])))
        topic_data = [TopicProduceData(topic, partition_data=[data])]
        request = ProduceRequest(None, ACKS, PRODUCE_TIMEOUT_MS, topic_data)
        response = await self._asking.change(leader, request, at_most=PRODUCE_VERSION, lane=LANE)
        (answered,) = response.responses
        (written,) = answered.partition_responses
        if written.error_code:
            raise error_of(ApiKey.PRODUCE, written.error_code, topic, written.error_message)
        return produced_at(topic, ProducedRecord(index, written.base_offset, wall_ms))

    def _partition_of(self, command: ProduceRecord, count: int) -> int:
        if command.partition is not None:
            return command.partition
        if command.key is not None:
            return partition_for_key(command.key, count)
        self._turn += 1
        return self._turn % count

    async def _leaders(self, topic: str) -> dict[int, int]:
        """Return the leader of each partition, -1 without one. Raises UpstreamError, ApiError."""
        request = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        response = await self._asking.ask(None, request)
        found = next((each for each in response.topics if each.name == topic), None)
        if found is None or found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or not found.partitions:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic {topic} does not exist.")
        if found.error_code:
            raise error_of(ApiKey.METADATA, found.error_code, topic)
        return {each.partition_index: each.leader_id for each in found.partitions}

    async def _ranges(
        self, command: BrowseRecords, leaders: Mapping[int, int], refused: list[ApiError]
    ) -> list[Range]:
        topic, notes = command.topic, Notes()
        indexes = selected(command, len(leaders))
        led = {(topic, index): leaders.get(index, -1) for index in indexes}
        firsts = await offsets_of(self._asking, notes, led, EARLIEST)
        ends = await offsets_of(self._asking, notes, led, LATEST)
        timed = {}
        if command.start.kind is StartKind.TIMESTAMP and not command.positions:
            timed = await offsets_of(self._asking, notes, led, command.start.value)
        positions = dict(command.positions)
        ranges = []
        for index in indexes:
            place = topic, index
            if place not in firsts or place not in ends:
                text = "; ".join(notes.errors) or f"{topic}-{index} has no leader that answers."
                raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, text)
            first, end = firsts[place], ends[place]
            start = positions.get(index, _start(command.start, first, end, timed.get(place)))
            log = FetchedLog(self._fetch_of(leaders[index], topic, index, refused), first)
            ranges.append(Range(index, log, min(max(start, first), end), end))
        return ranges

    def _fetch_of(
        self, leader: int, topic: str, index: int, refused: list[ApiError]
    ) -> Callable[[int, int], Awaitable[bytes]]:
        async def fetch(offset: int, max_bytes: int) -> bytes:
            """Raises ApiError, and adds it to `refused` if the cluster refuses Fetch, or holds it back."""
            partition = FetchPartition(index, fetch_offset=offset, partition_max_bytes=max_bytes)
            request = FetchRequest(max_bytes=max_bytes, topics=[FetchTopic(topic, partitions=[partition])])
            waited_ms = 0
            while True:
                try:
                    response: Any = await self._asking.ask(leader, request, at_most=FETCH_VERSION, lane=LANE)
                except UpstreamError as error:
                    raise unavailable(error) from error
                if response.error_code:
                    raise error_of(ApiKey.FETCH, response.error_code, topic)
                throttle_ms = response.throttle_time_ms
                if response.responses or throttle_ms <= 0:
                    break
                # A broker gives no records to a user whose quota is exceeded. (KIP-219)
                waited_ms += throttle_ms
                if waited_ms > THROTTLED_MS:
                    refused.append(ApiError(ErrorCode.BROKER_NOT_AVAILABLE, HELD_BACK.format(throttle_ms)))
                    raise refused[-1]
                await trio.sleep(throttle_ms / 1_000)
            for answered in response.responses:
                for found in answered.partitions:
                    if found.error_code:
                        failure = error_of(ApiKey.FETCH, found.error_code, topic)
                        if found.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                            refused.append(failure)
                        raise failure
                    return bytes(found.records or b"")
            return b""

        return fetch


def _start(start: Start, first: int, end: int, timed: int | None) -> int:
    match start.kind:
        case StartKind.EARLIEST:
            return first
        case StartKind.LATEST:
            return end - start.value
        case StartKind.OFFSET:
            return start.value
    return end if timed is None else timed

"""The upstream cluster's topics: partitions with leaders and replicas, offsets, sizes and own settings."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple
from zlib import crc32

import trio

from broker.common.errors import ErrorCode
from broker.common.slice_runner import run_slices
from broker.common.slices import SLICE, Steps, sorted_in_steps
from broker.controller.commands import ResourceType
from broker.controller.describe import ConfigSource
from broker.controller.rows.topics import PartitionRow, TopicCounts, TopicRow
from broker.gateway.contents.asking import Asking
from broker.gateway.contents.refusals import Notes, error_of
from broker.gateway.upstream.errors import UpstreamError, name_of
from broker.metadata.image import is_internal
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from broker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from broker.protocol.messages.log_dirs import DescribeLogDirsRequest
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

EARLIEST: Final = -2
LATEST: Final = -1
"""Timestamps of ListOffsets: the log start offset, and the high watermark."""

UNKNOWN: Final = -1
"""An offset or a size that was not read."""

LISTED_AT_ONCE: Final = 1_000
"""Partitions of one ListOffsets, which is encoded in one piece; ours."""

CONFIGURED_AT_ONCE: Final = 500
"""Topics of one DescribeConfigs; a topic has about forty settings."""

CLEANUP: Final = "cleanup.policy"
RETENTION_MS: Final = "retention.ms"
RETENTION_BYTES: Final = "retention.bytes"
IN_FORCE: Final = (CLEANUP, RETENTION_MS, RETENTION_BYTES)
"""The settings of which a topic's row has the values in force."""

NodePartitions = list[tuple[int, dict[str, list[int]]]]
"""Partitions by topic, for a request to their leader; a leader of many has several."""

Positions = dict[tuple[str, int], int]
"""Offsets, or leaders, by topic and partition."""

Put = Callable[[str, int, int], None]
"""Takes the offset of a partition: topic, index, offset."""


class TopicContents(NamedTuple):
    """A topic, and of each partition what `PartitionRow` has."""

    row: TopicRow
    errors: list[str]
    leaders: "array[int]"
    replicas: list[tuple[int, ...]]
    isr: list[tuple[int, ...]]
    starts: "array[int]"
    ends: "array[int]"
    sizes: "array[int]"

    def partitions(self) -> Iterator[PartitionRow]:
        for index, error in enumerate(self.errors):
            size = self.sizes[index]
            yield PartitionRow(
                index,
                max(self.starts[index], 0),
                max(self.ends[index], 0),
                None if size == UNKNOWN else size,
                0,
                error,
                leader=self.leaders[index],
                replicas=self.replicas[index],
                isr=self.isr[index],
            )


class _Found:
    """A topic that is being read."""

    def __init__(self, topic: Any) -> None:
        self.name: str = topic.name
        self.topic_id = bytes(topic.topic_id)
        self.is_internal = topic.is_internal or is_internal(self.name)
        self.count = len(topic.partitions)
        self.errors = ["no metadata"] * self.count
        self.leaders = array("i", [-1]) * self.count
        self.replicas: list[tuple[int, ...]] = [()] * self.count
        self.isr: list[tuple[int, ...]] = [()] * self.count
        unread = array("q", [UNKNOWN]) * self.count
        self.starts, self.ends, self.sizes = unread[:], unread[:], unread[:]
        self.configs: tuple[tuple[str, str], ...] = ()
        self.settings: dict[str, str] = {}
        """Those of IN_FORCE, as far as they were read."""

    def add(self, partitions: Iterable[Any], known: dict[tuple[int, ...], tuple[int, ...]]) -> Steps[None]:
        """Take what Metadata says. `known` has the tuples of node ids that exist already: most partitions
        share some.
        """
        for number, each in enumerate(partitions):
            index = each.partition_index
            if 0 <= index < self.count:
                self.errors[index] = name_of(each.error_code) if each.leader_id < 0 else ""
                self.leaders[index] = each.leader_id
                replicas, isr = tuple(each.replica_nodes), tuple(each.isr_nodes)
                self.replicas[index] = known.setdefault(replicas, replicas)
                self.isr[index] = known.setdefault(isr, isr)
            if number % SLICE == 0:
                yield

    def add_sizes(self, node: int, partitions: Iterable[Any]) -> Steps[None]:
        """Take the sizes of the replicas that this node leads."""
        for number, each in enumerate(partitions):
            index = each.partition_index
            is_led = 0 <= index < self.count and self.leaders[index] == node
            if is_led and not each.is_future_key:
                self.sizes[index] = max(each.partition_size, 0)
            if number % SLICE == 0:
                yield

    def contents(self) -> Steps[TopicContents]:
        records = size = records_in = 0
        is_counted = is_sized = False
        for at in range(self.count):
            if UNKNOWN not in (self.starts[at], self.ends[at]):
                is_counted = True
                records_in += self.ends[at]
                records += max(self.ends[at] - self.starts[at], 0)
            if self.sizes[at] != UNKNOWN:
                is_sized = True
                size += self.sizes[at]
            if at % SLICE == 0:
                yield
        row = TopicRow(
            self.name,
            self.topic_id,
            self.count,
            self.is_internal,
            size if is_sized else None,
            records if is_counted else None,
            self.configs,
            version_of(self.topic_id, self.count, self.configs),
            self.settings.get(CLEANUP),
            _limit(self.settings.get(RETENTION_MS)),
            _limit(self.settings.get(RETENTION_BYTES)),
            counts=TopicCounts(records_in) if is_counted else None,
        )
        return TopicContents(
            row, self.errors, self.leaders, self.replicas, self.isr, self.starts, self.ends, self.sizes
        )


def _limit(value: str | None) -> int | None:
    """Return a setting of which -1 is none, None if it was not read."""
    return max(int(value), -1) if value is not None and value.lstrip("-").isdecimal() else None


def version_of(topic_id: bytes, partitions: int, configs: Iterable[tuple[str, str]]) -> int:
    """Return a number that changes with the topic: a cluster has no version of topics."""
    return crc32(repr((topic_id, partitions, tuple(configs))).encode())


async def read_topics(
    asking: Asking, notes: Notes, names: Iterable[str] | None = None
) -> dict[str, TopicContents]:
    """Return the topics, or those with these names, by name. Raises UpstreamError."""
    wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(wanted, allow_auto_topic_creation=False)
    found = await asking.take(None, request, lambda metadata: _take_topics(metadata, notes))
    ordered = await run_slices(sorted_in_steps(found))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_read_offsets, asking, notes, found)
        nursery.start_soon(_read_sizes, asking, notes, found)
        nursery.start_soon(_read_configs, asking, notes, found, ordered)
    return await run_slices(_contents(found, ordered))


def _take_topics(metadata: Any, notes: Notes) -> Steps[dict[str, _Found]]:
    found: dict[str, _Found] = {}
    known: dict[tuple[int, ...], tuple[int, ...]] = {}
    for topic in metadata.topics:
        yield
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            continue
        if not notes.note(ApiKey.METADATA, topic.error_code, topic.name or "") and topic.name:
            each = found[topic.name] = _Found(topic)
            yield from each.add(topic.partitions, known)
    return found


def _contents(found: Mapping[str, _Found], names: Iterable[str]) -> Steps[dict[str, TopicContents]]:
    contents: dict[str, TopicContents] = {}
    for name in names:
        contents[name] = yield from found[name].contents()
        yield
    return contents


async def read_partition_counts(asking: Asking, names: Iterable[str]) -> dict[str, int]:
    """Return the number of partitions of each topic that exists. Raises UpstreamError, ApiError."""
    wanted = [MetadataRequestTopic(name=name) for name in names]

    def counts(metadata: Any) -> Steps[dict[str, int]]:
        found: dict[str, int] = {}
        for topic in metadata.topics:
            yield
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            if topic.error_code:
                raise error_of(ApiKey.METADATA, topic.error_code, topic.name or "")
            found[topic.name or ""] = len(topic.partitions)
        return found

    return await asking.take(None, MetadataRequest(wanted, allow_auto_topic_creation=False), counts)


def led_by(partitions: Iterable[tuple[str, int, int]]) -> Steps[NodePartitions]:
    """Return the partitions, given as (topic, index, leader), by leader."""
    led: NodePartitions = []
    last: dict[int, tuple[dict[str, list[int]], list[int]]] = {}
    for number, (topic, index, leader) in enumerate(partitions):
        if number % SLICE == 0:
            yield
        if leader < 0:
            continue
        topics, count = last.get(leader, ({}, [LISTED_AT_ONCE]))
        if count[0] == LISTED_AT_ONCE:
            topics, count = last[leader] = ({}, [0])
            led.append((leader, topics))
        topics.setdefault(topic, []).append(index)
        count[0] += 1
    return led


async def list_offsets(
    asking: Asking, notes: Notes, led: NodePartitions, timestamp: int, put: Put, *, committed: bool = False
) -> None:
    """Read an offset of each partition that has one: of LATEST, with `committed`, the last stable one. Notes
    what fails.
    """

    def take(response: Any) -> Steps[None]:
        for topic in response.topics:
            for number, each in enumerate(topic.partitions):
                if not notes.note(ApiKey.LIST_OFFSETS, each.error_code, topic.name) and each.offset >= 0:
                    put(topic.name, each.partition_index, each.offset)
                if number % SLICE == 0:
                    yield

    def request(topics: Mapping[str, list[int]]) -> ListOffsetsRequest:
        wanted = [
            ListOffsetsTopic(topic, [ListOffsetsPartition(index, timestamp=timestamp) for index in indexes])
            for topic, indexes in topics.items()
        ]
        return ListOffsetsRequest(-1, int(committed), wanted)

    await ask_leaders(asking, notes, led, request, take)


async def ask_leaders(
    asking: Asking,
    notes: Notes,
    led: NodePartitions,
    request: Callable[[Mapping[str, list[int]]], Any],
    take: Callable[[Any], Steps[None]],
) -> None:
    """Ask each leader about its partitions, with one request after the other. Notes the leaders that fail,
    and asks those nothing more.
    """
    by_leader: dict[int, list[Mapping[str, list[int]]]] = {}
    for leader, topics in led:
        by_leader.setdefault(leader, []).append(topics)

    async def ask(leader: int) -> None:
        try:
            for topics in by_leader[leader]:
                await asking.take(leader, request(topics), take)
        except UpstreamError as error:
            notes.failed(error)

    async with trio.open_nursery() as nursery:
        for leader in by_leader:
            nursery.start_soon(ask, leader)


async def offsets_of(
    asking: Asking, notes: Notes, leaders: Positions, timestamp: int, *, committed: bool = False
) -> Positions:
    """Return an offset of each partition of `leaders`, as `list_offsets` reads it."""
    found: Positions = {}

    def put(topic: str, index: int, offset: int) -> None:
        found[topic, index] = offset

    led = await run_slices(led_by((*place, leader) for place, leader in leaders.items()))
    await list_offsets(asking, notes, led, timestamp, put, committed=committed)
    return found


async def _read_offsets(asking: Asking, notes: Notes, found: Mapping[str, _Found]) -> None:
    led = await run_slices(
        led_by(
            (each.name, index, leader) for each in found.values() for index, leader in enumerate(each.leaders)
        )
    )

    def put_in(offsets: Callable[[_Found], "array[int]"]) -> Put:
        def put(name: str, index: int, offset: int) -> None:
            topic = found.get(name)
            if topic is not None and 0 <= index < topic.count:
                offsets(topic)[index] = offset

        return put

    await list_offsets(asking, notes, led, EARLIEST, put_in(lambda topic: topic.starts))
    await list_offsets(asking, notes, led, LATEST, put_in(lambda topic: topic.ends))


async def _read_sizes(asking: Asking, notes: Notes, found: Mapping[str, _Found]) -> None:
    """Read the sizes of the leaders' replicas."""
    nodes: set[int] = set()
    for topic in found.values():
        nodes.update(topic.leaders)
    nodes.discard(-1)

    def take_of(node: int) -> Callable[[Any], Steps[None]]:
        def take(response: Any) -> Steps[None]:
            if notes.note(ApiKey.DESCRIBE_LOG_DIRS, response.error_code):
                return
            for directory in response.results:
                if notes.note(ApiKey.DESCRIBE_LOG_DIRS, directory.error_code, directory.log_dir):
                    continue
                for each in directory.topics:
                    yield
                    topic = found.get(each.name)
                    if topic is not None:
                        yield from topic.add_sizes(node, each.partitions)

        return take

    await asking.take_each(dict.fromkeys(sorted(nodes), DescribeLogDirsRequest(None)), take_of, notes)


async def _read_configs(asking: Asking, notes: Notes, found: Mapping[str, _Found], names: list[str]) -> None:
    """Read the topics' own settings."""

    def take(response: Any) -> Steps[None]:
        for each in response.results:
            yield
            topic = found.get(each.resource_name)
            key = ApiKey.DESCRIBE_CONFIGS
            if notes.note(key, each.error_code, each.resource_name, each.error_message) or topic is None:
                continue
            own = []
            for config in each.configs:
                yield
                if config.name in IN_FORCE and config.value is not None:
                    topic.settings[config.name] = config.value
                if config.config_source == ConfigSource.DYNAMIC_TOPIC:
                    own.append((config.name, config.value or ""))
            topic.configs = tuple(sorted(own))

    for at in range(0, len(names), CONFIGURED_AT_ONCE):
        some = names[at : at + CONFIGURED_AT_ONCE]
        resources = [DescribeConfigsResource(ResourceType.TOPIC, name, None) for name in some]
        try:
            await asking.take(None, DescribeConfigsRequest(resources), take)
        except UpstreamError as error:
            notes.failed(error)
            return

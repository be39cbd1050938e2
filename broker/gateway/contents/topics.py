"""The upstream cluster's topics: partitions with leaders and replicas, offsets, sizes and own settings."""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple
from zlib import crc32

import trio

from broker.common.errors import ErrorCode
from broker.common.slices import SliceTimer
from broker.controller.commands import ResourceType
from broker.controller.describe import ConfigSource
from broker.controller.rows.topics import PartitionRow, TopicRow
from broker.gateway.contents.asking import Asking
from broker.gateway.contents.refusals import Notes, error_of
from broker.gateway.upstream.errors import UpstreamError, name_of
from broker.metadata.image import is_internal
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from broker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from broker.protocol.messages.log_dirs import DescribeLogDirsRequest
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

EARLIEST: Final = -2
LATEST: Final = -1
"""Timestamps of ListOffsets: the log start offset, and the high watermark."""

UNKNOWN: Final = -1
"""An offset or a size that was not read."""

CONFIGURED_AT_ONCE: Final = 500
"""Topics of one DescribeConfigs; a topic has about forty settings."""

NodeTopics = dict[int, dict[str, list[int]]]
"""Partitions by leader and topic."""


class TopicContents(NamedTuple):
    """A topic, and of each partition what `PartitionRow` has."""

    row: TopicRow
    errors: tuple[str, ...]
    leaders: "array[int]"
    replicas: tuple[tuple[int, ...], ...]
    isr: tuple[tuple[int, ...], ...]
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
    """A topic that is being read. Partitions that a response leaves out or adds do not matter."""

    def __init__(self, topic: Any, known: dict[tuple[int, ...], tuple[int, ...]]) -> None:
        """`known` has the tuples of node ids that exist already: most partitions share some."""
        by_index = {each.partition_index: each for each in topic.partitions}
        count = max(by_index, default=-1) + 1
        partitions = [by_index.get(index) for index in range(min(count, len(topic.partitions)))]

        def nodes(ids: Iterable[int]) -> tuple[int, ...]:
            found = tuple(ids)
            return known.setdefault(found, found)

        self.topic = topic
        self.errors = tuple(
            "no metadata" if each is None else name_of(each.error_code) if each.leader_id < 0 else ""
            for each in partitions
        )
        self.leaders = array("i", [-1 if each is None else each.leader_id for each in partitions])
        self.replicas = tuple(() if each is None else nodes(each.replica_nodes) for each in partitions)
        self.isr = tuple(() if each is None else nodes(each.isr_nodes) for each in partitions)
        unread = array("q", [UNKNOWN]) * len(partitions)
        self.starts, self.ends, self.sizes = unread[:], unread[:], unread[:]
        self.configs: tuple[tuple[str, str], ...] = ()

    def add_sizes(self, node: int, partitions: Iterable[Any]) -> None:
        """Take the sizes of the replicas that are led by this node, which tells them."""
        for each in partitions:
            index = each.partition_index
            is_led = 0 <= index < len(self.errors) and self.leaders[index] == node
            if is_led and not each.is_future_key:
                self.sizes[index] = max(each.partition_size, 0)

    def contents(self) -> TopicContents:
        name = self.topic.name or ""
        offsets = list(zip(self.starts, self.ends, strict=True))
        records = sum(end - start for start, end in offsets if start != UNKNOWN and end != UNKNOWN)
        is_sized = any(size != UNKNOWN for size in self.sizes)
        row = TopicRow(
            name,
            bytes(self.topic.topic_id),
            len(self.errors),
            self.topic.is_internal or is_internal(name),
            sum(size for size in self.sizes if size != UNKNOWN) if is_sized else None,
            records if any(UNKNOWN not in pair for pair in offsets) else None,
            self.configs,
            version_of(self.topic.topic_id, len(self.errors), self.configs),
        )
        return TopicContents(
            row, self.errors, self.leaders, self.replicas, self.isr, self.starts, self.ends, self.sizes
        )


def version_of(topic_id: bytes, partitions: int, configs: Iterable[tuple[str, str]]) -> int:
    """Return a number that changes with the topic: a cluster has no version of topics."""
    return crc32(repr((bytes(topic_id), partitions, tuple(configs))).encode())


async def read_topics(
    asking: Asking, notes: Notes, names: Iterable[str] | None = None
) -> dict[str, TopicContents]:
    """Return the topics, or those with these names, by name. Raises UpstreamError."""
    wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(wanted, allow_auto_topic_creation=False)
    metadata: MetadataResponse = await asking.ask(None, request)
    found: dict[str, _Found] = {}
    known: dict[tuple[int, ...], tuple[int, ...]] = {}
    timer = SliceTimer()
    for topic in metadata.topics:
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            continue
        if not notes.note(ApiKey.METADATA, topic.error_code, topic.name or "") and topic.name:
            found[topic.name] = _Found(topic, known)
        if timer.is_over():
            await trio.lowlevel.checkpoint()
    led = led_by(
        (name, index, leader) for name, each in found.items() for index, leader in enumerate(each.leaders)
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_read_offsets, asking, notes, led, found)
        nursery.start_soon(_read_sizes, asking, notes, found)
        nursery.start_soon(_read_configs, asking, notes, found)
    rows: dict[str, TopicContents] = {}
    for name in sorted(found):
        rows[name] = found[name].contents()
        if timer.is_over():
            await trio.lowlevel.checkpoint()
    return rows


async def read_partition_counts(asking: Asking, names: Iterable[str]) -> dict[str, int]:
    """Return the number of partitions of each topic that exists. Raises UpstreamError, ApiError."""
    wanted = [MetadataRequestTopic(name=name) for name in names]
    metadata = await asking.ask(None, MetadataRequest(wanted, allow_auto_topic_creation=False))
    found: dict[str, int] = {}
    for topic in metadata.topics:
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            continue
        if topic.error_code:
            raise error_of(ApiKey.METADATA, topic.error_code, topic.name or "")
        found[topic.name or ""] = len(topic.partitions)
    return found


def led_by(partitions: Iterable[tuple[str, int, int]]) -> NodeTopics:
    """Return the partitions, given as (topic, index, leader), by leader."""
    led: NodeTopics = {}
    for topic, index, leader in partitions:
        if leader >= 0:
            led.setdefault(leader, {}).setdefault(topic, []).append(index)
    return led


async def list_offsets(
    asking: Asking, notes: Notes, led: NodeTopics, timestamp: int, *, committed: bool = False
) -> dict[tuple[str, int], int]:
    """Return an offset of each partition that has one: of LATEST, with `committed`, the last stable one.
    Notes what fails.
    """
    requests = {
        node: ListOffsetsRequest(
            -1,
            int(committed),
            topics=[
                ListOffsetsTopic(
                    topic, [ListOffsetsPartition(index, timestamp=timestamp) for index in indexes]
                )
                for topic, indexes in topics.items()
            ],
        )
        for node, topics in led.items()
    }
    found: dict[tuple[str, int], int] = {}
    timer = SliceTimer()
    for response in (await asking.ask_each(requests, notes)).values():
        for topic in response.topics:
            for each in topic.partitions:
                if not notes.note(ApiKey.LIST_OFFSETS, each.error_code, topic.name) and each.offset >= 0:
                    found[topic.name, each.partition_index] = each.offset
            if timer.is_over():
                await trio.lowlevel.checkpoint()
    return found


async def _read_offsets(asking: Asking, notes: Notes, led: NodeTopics, found: Mapping[str, _Found]) -> None:
    for timestamp in (EARLIEST, LATEST):
        for (name, index), offset in (await list_offsets(asking, notes, led, timestamp)).items():
            topic = found.get(name)
            if topic is not None and 0 <= index < len(topic.errors):
                (topic.starts if timestamp == EARLIEST else topic.ends)[index] = offset


async def _read_sizes(asking: Asking, notes: Notes, found: Mapping[str, _Found]) -> None:
    """Read the sizes of the leaders' replicas."""
    nodes = {leader for topic in found.values() for leader in topic.leaders if leader >= 0}
    responses = await asking.ask_each(dict.fromkeys(sorted(nodes), DescribeLogDirsRequest(None)), notes)
    timer = SliceTimer()
    for node, response in responses.items():
        if notes.note(ApiKey.DESCRIBE_LOG_DIRS, response.error_code):
            continue
        for directory in response.results:
            if notes.note(ApiKey.DESCRIBE_LOG_DIRS, directory.error_code, directory.log_dir):
                continue
            for each in directory.topics:
                topic = found.get(each.name)
                if topic is not None:
                    topic.add_sizes(node, each.partitions)
                if timer.is_over():
                    await trio.lowlevel.checkpoint()


async def _read_configs(asking: Asking, notes: Notes, found: Mapping[str, _Found]) -> None:
    """Read the topics' own settings."""
    names = sorted(found)
    timer = SliceTimer()
    for at in range(0, len(names), CONFIGURED_AT_ONCE):
        resources = [
            DescribeConfigsResource(ResourceType.TOPIC, name, None)
            for name in names[at : at + CONFIGURED_AT_ONCE]
        ]
        try:
            response = await asking.ask(None, DescribeConfigsRequest(resources))
        except UpstreamError as error:
            notes.failed(error)
            return
        for each in response.results:
            topic = found.get(each.resource_name)
            if notes.note(ApiKey.DESCRIBE_CONFIGS, each.error_code, each.resource_name, each.error_message):
                continue
            if topic is not None:
                own = (
                    config for config in each.configs if config.config_source == ConfigSource.DYNAMIC_TOPIC
                )
                topic.configs = tuple(sorted((config.name, config.value or "") for config in own))
            if timer.is_over():
                await trio.lowlevel.checkpoint()

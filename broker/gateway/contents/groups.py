"""The upstream cluster's groups of all types: members, committed offsets and lag."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import trio

from broker.api.requests.pacing import pieces
from broker.common.errors import ErrorCode
from broker.common.slice_runner import run_slices
from broker.common.slices import SliceTimer
from broker.controller.rows.topics import CommittedRow, GroupDetail, GroupRow, MemberRow
from broker.coordinator.group.messages import CONSUMER as CONSUMER_TYPE
from broker.coordinator.group.messages import SHARE, STREAMS
from broker.gateway.contents.asking import Asking
from broker.gateway.contents.refusals import Notes, error_of
from broker.gateway.contents.streams_groups import streams_group, streams_member
from broker.gateway.contents.topics import LATEST, led_by, list_offsets
from broker.gateway.upstream.errors import UpstreamError
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from broker.protocol.messages.describe_groups import DescribeGroupsRequest
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.list_groups import ListGroupsRequest
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from broker.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from broker.protocol.messages.share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from broker.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from broker.views.topics import CONSUMER, assigned_partitions

DESCRIBED_AT_ONCE: Final = 100
"""Groups of one request."""

TOPICS_AT_ONCE: Final = 1_000
"""Topics of one Metadata request."""

CLASSIC: Final = "classic"

OFFSET_FETCH_VERSION: Final = 9
"""The last version that names topics."""

GROUP_KEY: Final = 0
TRANSACTION_KEY: Final = 1
"""Types of the keys of FindCoordinator."""

DESCRIBE: Final[Mapping[str, Callable[[list[str]], Any]]] = {
    CLASSIC: DescribeGroupsRequest,
    CONSUMER_TYPE: ConsumerGroupDescribeRequest,
    SHARE: ShareGroupDescribeRequest,
    STREAMS: StreamsGroupDescribeRequest,
}

Positions = dict[tuple[str, int], int]
"""Offsets by topic and partition."""


class Listed(NamedTuple):
    """A group as its coordinator lists it."""

    node_id: int
    group_type: str
    protocol_type: str
    state: str


async def read_groups(asking: Asking, notes: Notes) -> dict[str, GroupRow]:
    """Return all groups by id. Raises UpstreamError."""
    listed = dict(_listed(await asking.ask_all(ListGroupsRequest(), notes), notes))
    details = await _read_details(asking, notes, listed)
    return {group_id: detail.group for group_id, detail in details.items()}


async def read_group(asking: Asking, notes: Notes, group_id: str) -> GroupDetail | None:
    """Return one group, None if there is none. Raises UpstreamError, and ApiError for what is refused."""
    node_id = await find_coordinator(asking, group_id, GROUP_KEY)
    response = await asking.ask(node_id, ListGroupsRequest())
    if response.error_code:
        raise error_of(ApiKey.LIST_GROUPS, response.error_code, group_id)
    listed = dict(_listed({node_id: response}, notes)).get(group_id)
    if listed is None:
        return None
    return (await _read_details(asking, notes, {group_id: listed}))[group_id]


async def find_coordinator(asking: Asking, name: str, kind: int) -> int:
    """Return the node that coordinates a group or a transactional id. Raises UpstreamError, ApiError."""
    response = await asking.ask(None, FindCoordinatorRequest(name, kind, [name]))
    found = response.coordinators[0] if response.coordinators else response
    if found.error_code:
        raise error_of(ApiKey.FIND_COORDINATOR, found.error_code, name, found.error_message)
    return int(found.node_id)


def _listed(responses: Mapping[int, Any], notes: Notes) -> Iterator[tuple[str, Listed]]:
    for node_id, response in responses.items():
        if notes.note(ApiKey.LIST_GROUPS, response.error_code):
            continue
        for each in response.groups:
            group_type = each.group_type.lower() or CLASSIC
            yield each.group_id, Listed(node_id, group_type, each.protocol_type, each.group_state)


async def _read_details(asking: Asking, notes: Notes, listed: Mapping[str, Listed]) -> dict[str, GroupDetail]:
    described: dict[str, tuple[str, str, tuple[MemberRow, ...], Any]] = {}
    positions: dict[str, Positions] = {}
    ids: dict[tuple[int, str], list[str]] = {}
    for group_id, each in listed.items():
        ids.setdefault((each.node_id, each.group_type), []).append(group_id)
    async with trio.open_nursery() as nursery:
        for (node_id, group_type), of_node in ids.items():
            for some in pieces(of_node, DESCRIBED_AT_ONCE):
                if group_type in DESCRIBE:
                    nursery.start_soon(_describe, asking, notes, node_id, group_type, list(some), described)
                nursery.start_soon(_fetch, asking, notes, node_id, group_type, list(some), positions)
    ends = await _read_ends(asking, notes, {place for each in positions.values() for place in each})
    found: dict[str, GroupDetail] = {}
    timer = SliceTimer()
    for group_id in sorted(listed):
        offsets = tuple(
            _committed(*place, offset, ends.get(place))
            for place, offset in sorted(positions.get(group_id, {}).items())
        )
        each = listed[group_id]
        state, assignor, members, streams = described.get(group_id, (each.state, "", (), None))
        lag = sum(row.lag or 0 for row in offsets) if offsets else None
        row = GroupRow(group_id, state, _protocol(each), len(members), lag, each.group_type)
        found[group_id] = GroupDetail(row, assignor, members, offsets, streams)
        if timer.is_over():
            await trio.lowlevel.checkpoint()
    return found


def _protocol(listed: Listed) -> str:
    by_type = {CONSUMER_TYPE: CONSUMER, SHARE: SHARE, STREAMS: STREAMS}
    return listed.protocol_type or by_type.get(listed.group_type, "")


def _committed(topic: str, index: int, offset: int, end: int | None) -> CommittedRow:
    return CommittedRow(topic, index, offset, end, None if end is None else max(end - offset, 0))


async def _describe(
    asking: Asking,
    notes: Notes,
    node_id: int,
    group_type: str,
    group_ids: list[str],
    described: dict[str, tuple[str, str, tuple[MemberRow, ...], Any]],
) -> None:
    message = DESCRIBE[group_type](group_ids)
    try:
        response = await asking.ask(node_id, message)
    except UpstreamError as error:
        notes.failed(error)
        return
    timer = SliceTimer()
    for group in response.groups:
        gone = group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        if gone or notes.note(message.API_KEY, group.error_code, group.group_id, group.error_message):
            continue
        streams = streams_group(group) if group_type == STREAMS else None
        members = []
        for each in group.members:
            members.append(await _member(group_type, group, each))
            if timer.is_over():
                await trio.lowlevel.checkpoint()
        assignor = group.protocol_data if group_type == CLASSIC else group.assignor_name or ""
        described[group.group_id] = (group.group_state, assignor, tuple(members), streams)


async def _member(group_type: str, group: Any, member: Any) -> MemberRow:
    if group_type == STREAMS:
        return streams_member(group, member)
    if group_type == CLASSIC:
        instance_id = member.group_instance_id
        is_consumer = group.protocol_type == CONSUMER
        assigned = await run_slices(assigned_partitions(member.member_assignment)) if is_consumer else ()
    else:
        instance_id = None if group_type == SHARE else member.instance_id
        assigned = tuple(
            (each.topic_name, index)
            for each in member.assignment.topic_partitions
            for index in sorted(each.partitions)
        )
    return MemberRow(member.member_id, instance_id, member.client_id, member.client_host, assigned)


async def _fetch(
    asking: Asking,
    notes: Notes,
    node_id: int,
    group_type: str,
    group_ids: list[str],
    positions: dict[str, Positions],
) -> None:
    """Read the committed offsets of groups, or where the share partitions of share groups start."""
    if group_type == SHARE:
        share_groups = [DescribeShareGroupOffsetsRequestGroup(each, None) for each in group_ids]
        message: Any = DescribeShareGroupOffsetsRequest(share_groups)
        at_most = None
    else:
        groups = [OffsetFetchRequestGroup(each, topics=None) for each in group_ids]
        message, at_most = OffsetFetchRequest(groups=groups), OFFSET_FETCH_VERSION
    try:
        response = await asking.ask(node_id, message, at_most=at_most)
    except UpstreamError as error:
        notes.failed(error)
        return
    timer = SliceTimer()
    for group in response.groups:
        if notes.note(message.API_KEY, group.error_code, group.group_id):
            continue
        found = positions.setdefault(group.group_id, {})
        for topic in group.topics:
            for each in topic.partitions:
                name = topic.topic_name if group_type == SHARE else topic.name
                offset = each.start_offset if group_type == SHARE else each.committed_offset
                if not notes.note(message.API_KEY, each.error_code, name) and offset >= 0:
                    found[name, each.partition_index] = offset
            if timer.is_over():
                await trio.lowlevel.checkpoint()


async def _read_ends(asking: Asking, notes: Notes, places: Iterable[tuple[str, int]]) -> Positions:
    """Return the high watermarks of partitions, as far as they can be read."""
    leaders = await leaders_of(asking, notes, places)
    led = led_by((*place, leader) for place, leader in leaders.items())
    return await list_offsets(asking, notes, led, LATEST)


async def leaders_of(asking: Asking, notes: Notes, places: Iterable[tuple[str, int]]) -> Positions:
    """Return the leader of each partition that exists, -1 without one, as far as it can be read."""
    wanted = set(places)
    found: Positions = {}
    for some in pieces(sorted({topic for topic, _ in wanted}), TOPICS_AT_ONCE):
        topics = [MetadataRequestTopic(name=name) for name in some]
        try:
            metadata = await asking.ask(None, MetadataRequest(topics, allow_auto_topic_creation=False))
        except UpstreamError as error:
            notes.failed(error)
            continue
        for topic in metadata.topics:
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            if not notes.note(ApiKey.METADATA, topic.error_code, topic.name or ""):
                led = {(topic.name, each.partition_index): each.leader_id for each in topic.partitions}
                found |= {place: leader for place, leader in led.items() if place in wanted}
    return found

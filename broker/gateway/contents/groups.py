"""The upstream cluster's groups of all types: members, committed offsets and lag."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from itertools import count
from typing import Any, Final, NamedTuple, TypeVar

import trio

from broker.api.requests.pacing import pieces
from broker.common.errors import ApiError, ErrorCode
from broker.common.slice_runner import run_slices
from broker.common.slices import Steps, freed, sorted_in_steps
from broker.controller.rows.topics import CommittedRow, GroupDetail, GroupRow, MemberRow
from broker.coordinator.group.messages import CONSUMER as CONSUMER_TYPE
from broker.coordinator.group.messages import SHARE, STREAMS
from broker.gateway.contents.asking import Asking
from broker.gateway.contents.refusals import Notes, error_of
from broker.gateway.contents.streams_groups import streams_group, streams_member
from broker.gateway.contents.topics import EARLIEST, LATEST, Positions, offsets_of
from broker.gateway.upstream.errors import UpstreamError
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from broker.protocol.messages.describe_groups import DescribeGroupsRequest
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.list_groups import ListGroupsRequest
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from broker.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from broker.protocol.messages.share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from broker.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from broker.views.topics import CONSUMER, assigned_partitions

Result = TypeVar("Result")

DESCRIBED_AT_ONCE: Final = 100
"""Groups of one request."""

TOPICS_AT_ONCE: Final = 1_000
"""Topics of one Metadata request."""

CLASSIC: Final = "classic"

OFFSET_FETCH_VERSIONS: Final = {"at_least": 2, "at_most": 9}
"""The first version for all topics of a group, and the last one that names topics."""

GROUP_KEY: Final = 0
TRANSACTION_KEY: Final = 1
"""Types of the keys of FindCoordinator."""

MOVED: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
"""Errors of a node that is not the coordinator, or not yet; it has changed nothing."""

LOOKS: Final = 10
LOOKS_PAUSE_S: Final = 0.3
"""How often, and how long in between, a coordinator is looked for; ours. Together less than an answer waits.
"""

DESCRIBE: Final[Mapping[str, Callable[[list[str]], Any]]] = {
    CLASSIC: DescribeGroupsRequest,
    CONSUMER_TYPE: ConsumerGroupDescribeRequest,
    SHARE: ShareGroupDescribeRequest,
    STREAMS: StreamsGroupDescribeRequest,
}


class Listed(NamedTuple):
    """A group as its coordinator lists it."""

    node_id: int
    group_type: str
    protocol_type: str
    state: str


async def read_groups(asking: Asking, notes: Notes) -> dict[str, GroupRow]:
    """Return all groups by id. Raises UpstreamError."""
    listed: dict[str, Listed] = {}
    await asking.take_all(ListGroupsRequest(), lambda node_id: _take_list(node_id, listed, notes), notes)
    details = await _read_details(asking, notes, listed)
    rows = await run_slices(_rows(details))
    await run_slices(freed(details))
    return rows


def _rows(details: Mapping[str, GroupDetail]) -> Steps[dict[str, GroupRow]]:
    rows = {}
    for group_id, detail in details.items():
        rows[group_id] = detail.group
        yield
    return rows


async def read_group(asking: Asking, notes: Notes, group_id: str) -> GroupDetail | None:
    """Return one group, None if there is none. Raises UpstreamError, and ApiError for what is refused, and
    while no node says that it coordinates the group.
    """

    async def ask(node_id: int) -> GroupDetail | None:
        found = await _read_at(asking, notes, node_id, group_id)
        if found is None:
            await _check_coordinates(asking, node_id, group_id)
        return found

    return await at_coordinator(asking, group_id, GROUP_KEY, ask)


async def _read_at(asking: Asking, notes: Notes, node_id: int, group_id: str) -> GroupDetail | None:
    """Return a group that a node lists, None if it does not list it."""
    every: dict[str, Listed] = {}
    error_code = await asking.take(node_id, ListGroupsRequest(), _take_list(node_id, every, notes))
    listed = every.get(group_id)
    await run_slices(freed(every))
    if listed is None:
        if error_code:  # a coordinator that is loading its groups does not know all of them
            raise error_of(ApiKey.LIST_GROUPS, error_code, "")
        return None
    return (await _read_details(asking, notes, {group_id: listed}))[group_id]


async def _check_coordinates(asking: Asking, node_id: int, group_id: str) -> None:
    """Raise ApiError if a node does not coordinate the group: it lists without an error what it has."""
    response = await asking.ask(node_id, DescribeGroupsRequest([group_id]))
    for each in response.groups:
        if each.error_code in MOVED:
            raise error_of(ApiKey.DESCRIBE_GROUPS, each.error_code, group_id, each.error_message)


async def at_coordinator(
    asking: Asking, name: str, kind: int, ask: Callable[[int], Awaitable[Result]]
) -> Result:
    """Return what the coordinator of a group or a transactional id answers to `ask`. Looks for it again
    after an ApiError of MOVED, LOOKS times: brokers learn of a new one after each other. Raises
    UpstreamError, ApiError.
    """
    for looks in count(1):
        try:
            return await ask(await find_coordinator(asking, name, kind))
        except ApiError as error:
            if error.code not in MOVED or looks == LOOKS:
                raise
        await trio.sleep(LOOKS_PAUSE_S)
    raise AssertionError("unreachable")


async def find_coordinator(asking: Asking, name: str, kind: int) -> int:
    """Return the node that coordinates a group or a transactional id. Raises UpstreamError, ApiError."""
    response = await asking.ask(None, FindCoordinatorRequest(name, kind, [name]))
    found = response.coordinators[0] if response.coordinators else response
    if found.error_code:
        raise error_of(ApiKey.FIND_COORDINATOR, found.error_code, name, found.error_message)
    return int(found.node_id)


def _take_list(node_id: int, listed: dict[str, Listed], notes: Notes) -> Callable[[Any], Steps[int]]:
    def take(response: Any) -> Steps[int]:
        """Return the error code, which may come with the groups that are known."""
        if notes.note(ApiKey.LIST_GROUPS, response.error_code):
            notes.lists_all = False
        for each in response.groups:
            group_type = each.group_type.lower() or CLASSIC
            listed[each.group_id] = Listed(node_id, group_type, each.protocol_type, each.group_state)
            yield
        return int(response.error_code)

    return take


async def _read_details(asking: Asking, notes: Notes, listed: Mapping[str, Listed]) -> dict[str, GroupDetail]:
    described: dict[str, tuple[str, str, tuple[MemberRow, ...], Any]] = {}
    positions: dict[str, Positions] = {}
    unread: set[str] = set()
    ids = await run_slices(_by_node_and_type(listed))
    async with trio.open_nursery() as nursery:
        for (node_id, group_type), of_node in ids.items():
            for some in pieces(of_node, DESCRIBED_AT_ONCE):
                if group_type in DESCRIBE:
                    nursery.start_soon(_describe, asking, notes, node_id, group_type, list(some), described)
                nursery.start_soon(_fetch, asking, notes, node_id, group_type, list(some), positions, unread)
    places = await run_slices(_places(positions))
    starts, ends, gone = await _read_ends(asking, notes, places)
    found = await run_slices(_details(listed, described, positions, unread, starts, ends, gone))
    for done in (places, starts, ends, gone):
        await run_slices(freed(done))
    await run_slices(_freed_positions(positions))
    return found


def _freed_positions(positions: dict[str, Positions]) -> Steps[None]:
    while positions:
        yield from freed(positions.popitem()[1])


def _by_node_and_type(listed: Mapping[str, Listed]) -> Steps[dict[tuple[int, str], list[str]]]:
    ids: dict[tuple[int, str], list[str]] = {}
    for group_id, each in listed.items():
        ids.setdefault((each.node_id, each.group_type), []).append(group_id)
        yield
    return ids


def _places(positions: Mapping[str, Positions]) -> Steps[set[tuple[str, int]]]:
    places: set[tuple[str, int]] = set()
    for of_group in positions.values():
        for place in of_group:
            places.add(place)
            yield
    return places


def _details(
    listed: Mapping[str, Listed],
    described: Mapping[str, tuple[str, str, tuple[MemberRow, ...], Any]],
    positions: Mapping[str, Positions],
    unread: Collection[str],
    starts: Positions,
    ends: Positions,
    gone: Collection[tuple[str, int]],
) -> Steps[dict[str, GroupDetail]]:
    """`unread` are groups of which not all offsets could be read, `gone` partitions that do not exist."""
    found: dict[str, GroupDetail] = {}
    names: dict[str, str] = {}
    """The name of each topic once: rows of many groups keep it."""
    for group_id in (yield from sorted_in_steps(listed)):
        own = positions.get(group_id, {})
        is_known = group_id in positions and group_id not in unread
        offsets: list[CommittedRow] = []
        lag: int | None = None  # also if no end could be read
        lost: int | None = None
        by_topic: dict[str, int | None] = {}
        for place in (yield from sorted_in_steps(own)):
            committed = _committed(*place, own[place], starts.get(place), ends.get(place))
            offsets.append(committed)
            if committed.lost is not None:
                lost = (lost or 0) + committed.lost
            topic = names.setdefault(committed.topic, committed.topic)
            by_topic.setdefault(topic, None)
            if committed.lag is not None:
                lag = (lag or 0) + committed.lag
                by_topic[topic] = (by_topic[topic] or 0) + committed.lag
            elif place not in gone:
                is_known = False
            yield
        each = listed[group_id]
        state, assignor, members, streams = described.get(group_id, (each.state, "", (), None))
        row = GroupRow(
            group_id,
            state,
            _protocol(each),
            len(members),
            lag,
            each.group_type,
            is_known,
            lost,
            by_topic=by_topic,
        )
        found[group_id] = GroupDetail(row, assignor, members, tuple(offsets), streams)
        yield
    return found


def _protocol(listed: Listed) -> str:
    by_type = {CONSUMER_TYPE: CONSUMER, SHARE: SHARE, STREAMS: STREAMS}
    return listed.protocol_type or by_type.get(listed.group_type, "")


def _committed(topic: str, index: int, offset: int, start: int | None, end: int | None) -> CommittedRow:
    lag = None if end is None else max(end - offset, 0)
    return CommittedRow(topic, index, offset, end, lag, None if start is None else max(start - offset, 0))


async def _describe(
    asking: Asking,
    notes: Notes,
    node_id: int,
    group_type: str,
    group_ids: list[str],
    described: dict[str, tuple[str, str, tuple[MemberRow, ...], Any]],
) -> None:
    message = DESCRIBE[group_type](group_ids)

    def take(response: Any) -> Steps[None]:
        for group in response.groups:
            yield
            gone = group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
            if gone or notes.note(message.API_KEY, group.error_code, group.group_id, group.error_message):
                continue
            streams = streams_group(group) if group_type == STREAMS else None
            members = []
            for each in group.members:
                members.append((yield from _member(group_type, group, each)))
                yield
            assignor = group.protocol_data if group_type == CLASSIC else group.assignor_name or ""
            described[group.group_id] = (group.group_state, assignor, tuple(members), streams)

    try:
        await asking.take(node_id, message, take)
    except UpstreamError as error:
        notes.failed(error)


def _member(group_type: str, group: Any, member: Any) -> Steps[MemberRow]:
    if group_type == STREAMS:
        return streams_member(group, member)
    assigned: tuple[tuple[str, int], ...] = ()
    if group_type == CLASSIC:
        instance_id = member.group_instance_id
        if group.protocol_type == CONSUMER:
            assigned = yield from assigned_partitions(member.member_assignment)
    else:
        instance_id = None if group_type == SHARE else member.instance_id
        found: list[tuple[str, int]] = []
        for each in member.assignment.topic_partitions:
            found += ((each.topic_name, index) for index in sorted(each.partitions))
            yield
        assigned = tuple(found)
    return MemberRow(member.member_id, instance_id, member.client_id, member.client_host, assigned)


async def _fetch(
    asking: Asking,
    notes: Notes,
    node_id: int,
    group_type: str,
    group_ids: list[str],
    positions: dict[str, Positions],
    unread: set[str],
) -> None:
    """Read the committed offsets of groups, or where the share partitions of share groups start. A group of
    which some cannot be read is put into `unread`.
    """
    left = group_ids
    while left:
        message, versions = _offsets_request(group_type, left)
        take = _take_offsets(message.API_KEY, left, notes, positions, unread)
        try:
            left = left[await asking.take(node_id, message, take, **versions) :]
        except UpstreamError as error:
            notes.failed(error, message.API_KEY)
            return


def _offsets_request(group_type: str, group_ids: list[str]) -> tuple[Any, dict[str, int]]:
    """Return the request, and the versions that have what is read of it."""
    if group_type == SHARE:
        share_groups = [DescribeShareGroupOffsetsRequestGroup(each, None) for each in group_ids]
        return DescribeShareGroupOffsetsRequest(share_groups), {}
    groups = [OffsetFetchRequestGroup(each, topics=None) for each in group_ids]
    return OffsetFetchRequest(group_ids[0], None, groups), OFFSET_FETCH_VERSIONS


def _take_offsets(
    key: int, group_ids: list[str], notes: Notes, positions: dict[str, Positions], unread: set[str]
) -> Callable[[Any], Steps[int]]:
    """Return what takes a response, and returns for how many of the groups it is: a broker before Kafka 3.0
    answers for the first one only. (KIP-709)
    """

    def of_group(group_id: str, error_code: int, topics: Iterable[Any]) -> Steps[None]:
        if notes.note(key, error_code, group_id):
            return
        is_share = key == ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS
        found = positions.setdefault(group_id, {})
        for topic in topics:
            name = topic.topic_name if is_share else topic.name
            for each in topic.partitions:
                offset = each.start_offset if is_share else each.committed_offset
                if notes.note(key, each.error_code, name):
                    unread.add(group_id)
                elif offset >= 0:
                    found[name, each.partition_index] = offset
                yield

    def take(response: Any) -> Steps[int]:
        if not response.groups and key == ApiKey.OFFSET_FETCH:
            yield from of_group(group_ids[0], response.error_code, response.topics)
            return 1
        for group in response.groups:
            yield from of_group(group.group_id, group.error_code, group.topics)
        return len(group_ids)

    return take


async def _read_ends(
    asking: Asking, notes: Notes, places: Collection[tuple[str, int]]
) -> tuple[Positions, Positions, set[tuple[str, int]]]:
    """Return the log start offsets and the high watermarks of partitions, as far as they can be read, and
    those that do not exist.
    """
    told: set[str] = set()
    leaders = await leaders_of(asking, notes, places, told)
    starts = await offsets_of(asking, notes, leaders, EARLIEST)
    ends = await offsets_of(asking, notes, leaders, LATEST)
    gone = await run_slices(_gone(places, told, leaders))
    await run_slices(freed(leaders))
    return starts, ends, gone


def _gone(
    places: Iterable[tuple[str, int]], told: Collection[str], leaders: Positions
) -> Steps[set[tuple[str, int]]]:
    gone: set[tuple[str, int]] = set()
    for place in places:
        if place[0] in told and place not in leaders:
            gone.add(place)
        yield
    return gone


async def leaders_of(
    asking: Asking, notes: Notes, places: Collection[tuple[str, int]], told: set[str] | None = None
) -> Positions:
    """Return the leader of each partition that exists, -1 without one, as far as it can be read. Adds to
    `told` the topics of which the cluster has told all partitions, or that there is none.
    """
    found: Positions = {}
    told = set() if told is None else told

    def take(metadata: Any) -> Steps[None]:
        for topic in metadata.topics:
            yield
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                told.add(topic.name)
                continue
            if notes.note(ApiKey.METADATA, topic.error_code, topic.name or ""):
                continue
            told.add(topic.name)
            for each in topic.partitions:
                place = topic.name, each.partition_index
                if place in places:
                    found[place] = each.leader_id
                yield

    names = await run_slices(_topics(places))
    for some in pieces(names, TOPICS_AT_ONCE):
        topics = [MetadataRequestTopic(name=name) for name in some]
        try:
            await asking.take(None, MetadataRequest(topics, allow_auto_topic_creation=False), take)
        except UpstreamError as error:
            notes.failed(error)
    return found


def _topics(places: Iterable[tuple[str, int]]) -> Steps[list[str]]:
    names: set[str] = set()
    for topic, _ in places:
        names.add(topic)
        yield
    return (yield from sorted_in_steps(names))

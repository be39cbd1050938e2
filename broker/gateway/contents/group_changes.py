"""Changes of the upstream cluster's groups and transactions for an operator. Run by `Control` as operations.

Their coordinator decides and applies them; offsets are reset while a group is empty only.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, Final, TypeVar

import trio

from broker.common.errors import ApiError, ErrorCode
from broker.controller.control import Control
from broker.controller.group_changes import (
    MAX_NAMED,
    MAX_PARTITIONS,
    DeleteGroup,
    DeleteGroupOffsets,
    OffsetMove,
    ResetKind,
    ResetOffsets,
    reset_notes,
)
from broker.controller.plan import Done, Situation
from broker.controller.rows.topics import GroupDetail
from broker.controller.transaction_changes import AbortResult, AbortTransaction
from broker.coordinator.group.messages import SHARE
from broker.gateway.contents.asking import Asking, unavailable
from broker.gateway.contents.groups import (
    GROUP_KEY,
    TRANSACTION_KEY,
    at_coordinator,
    leaders_of,
    read_group,
)
from broker.gateway.contents.readings import UpstreamReadings
from broker.gateway.contents.refusals import Notes, error_of
from broker.gateway.contents.topics import EARLIEST, LATEST, offsets_of, read_partition_counts
from broker.gateway.contents.transactions import Described, describe_transaction
from broker.gateway.upstream.errors import UpstreamError
from broker.metadata.actor import Role
from broker.metadata.changes import Change, ChangeKind
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.delete_groups import DeleteGroupsRequest
from broker.protocol.messages.init_producer_id import InitProducerIdRequest
from broker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from broker.protocol.messages.share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from broker.views.readings import Part

OFFSET_COMMIT_VERSION: Final = 9
INIT_PRODUCER_ID_VERSION: Final = 5
"""The last versions that name topics, and without two-phase commits."""

OFFSET_APIS: Final = (ApiKey.OFFSET_FETCH, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS)

ONGOING: Final = "Ongoing"

TRIES: Final = 10
TRIES_PAUSE_S: Final = 0.2
"""How often, and how long in between, an abort is tried whose transactional id is changing; ours."""

Result = TypeVar("Result")

Place = tuple[str, int]
"""A topic and a partition."""


class GroupChanges:
    """The operations."""

    def __init__(self, asking: Asking, readings: UpstreamReadings) -> None:
        self._asking = asking
        self._readings = readings

    def register(self, control: Control) -> None:
        control.add_operation(ResetOffsets, self.reset)
        control.add_operation(DeleteGroup, self.delete)
        control.add_operation(DeleteGroupOffsets, self.delete_offsets)
        control.add_operation(AbortTransaction, self.abort)

    async def reset(self, command: ResetOffsets, at: Situation) -> Done[list[OffsetMove]]:
        """Run ResetOffsets. The group must be empty when the coordinator gets the offsets, too."""
        at.require(Role.EDITOR, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        try:
            group = await self._existing(command.group_id, with_offsets=True)
            _check_empty(group)
            moves = await self._moves(command, group)
        except UpstreamError as error:
            raise unavailable(error) from error
        if command.validate_only or not moves:
            return Done(moves)

        async def ask(node_id: int) -> list[OffsetMove]:
            if group.group.group_type == SHARE:
                share = _alter_share(command.group_id, moves)
                response = await self._asking.change(node_id, share)
                _check(ApiKey.ALTER_SHARE_GROUP_OFFSETS, response.error_code, command.group_id)
                topics = {each.topic_name: each.partitions for each in response.responses}
            else:
                commit = _commit(command.group_id, moves)
                response = await self._asking.change(node_id, commit, at_most=OFFSET_COMMIT_VERSION)
                topics = {each.name: each.partitions for each in response.topics}
            return _moved(command.group_id, topics, moves)

        moved = await self._at_coordinator(command.group_id, GROUP_KEY, ask)
        self._outdate(command.group_id)
        return Done(moved, reset_notes(command.group_id, moved))

    async def _moves(self, command: ResetOffsets, group: GroupDetail) -> list[OffsetMove]:
        asking, notes = self._asking, Notes()
        committed = {(each.topic, each.partition): each.committed for each in group.offsets}
        places = await self._selected(command, committed)
        if len(places) > MAX_PARTITIONS:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"The reset concerns {len(places)} partitions; at most {MAX_PARTITIONS} can be reset at "
                "once. Select some topics.",
            )
        leaders = await leaders_of(asking, notes, set(places))
        firsts = await offsets_of(asking, notes, leaders, EARLIEST)
        ends = await offsets_of(asking, notes, leaders, LATEST)
        is_timed = command.kind is ResetKind.TIMESTAMP
        timed = await offsets_of(asking, notes, leaders, command.value) if is_timed else {}
        moves = []
        for place in places:
            if place not in firsts or place not in ends:
                if command.topics or notes.errors:
                    text = "; ".join(notes.errors) or f"{place[0]}-{place[1]} has no leader that answers."
                    raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, text)
                continue  # the topic is gone
            before = committed.get(place)
            after = _target(command, place, before, (firsts[place], ends[place]), timed)
            difference = None if before is None else after - before
            moves.append(OffsetMove(*place, before, after, difference, ends[place]))
        return moves

    async def _selected(self, command: ResetOffsets, committed: Mapping[Place, int]) -> list[Place]:
        if not command.topics:
            return sorted(committed)
        counts = await read_partition_counts(self._asking, [each.topic for each in command.topics])
        found: set[Place] = set()
        for each in command.topics:
            count = counts.get(each.topic)
            if count is None:
                text = f"The topic {each.topic} does not exist."
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
            for index in each.partitions or range(count):
                if not 0 <= index < count:
                    text = f"{each.topic} has no partition {index}."
                    raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
                found.add((each.topic, index))
        return sorted(found)

    async def delete(self, command: DeleteGroup, at: Situation) -> Done[None]:
        """Run DeleteGroup."""
        at.require(Role.EDITOR, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        group_id = command.group_id
        try:
            _check_empty(await self._existing(group_id))
        except UpstreamError as error:
            raise unavailable(error) from error

        async def ask(node_id: int) -> None:
            response = await self._asking.change(node_id, DeleteGroupsRequest([group_id]))
            for each in response.results:
                _check(ApiKey.DELETE_GROUPS, each.error_code, group_id)

        await self._at_coordinator(group_id, GROUP_KEY, ask)
        self._outdate(group_id)
        return Done(None, (Change(ChangeKind.GROUP, group_id, "deleted", "by an operator"),))

    async def delete_offsets(self, command: DeleteGroupOffsets, at: Situation) -> Done[int]:
        """Run DeleteGroupOffsets."""
        at.require(Role.EDITOR, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        group_id, topic = command.group_id, command.topic
        try:
            group = await self._existing(group_id, with_offsets=True)
        except UpstreamError as error:
            raise unavailable(error) from error
        indexes = [each.partition for each in group.offsets if each.topic == topic]
        if not indexes:
            text = f"The group {group_id} has no committed offsets of {topic}."
            raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, text)
        if group.group.group_type == SHARE:
            _check_empty(group)
            topics = [DeleteShareGroupOffsetsRequestTopic(topic)]
            request: Any = DeleteShareGroupOffsetsRequest(group_id, topics)
        else:
            partitions = [OffsetDeleteRequestPartition(index) for index in indexes]
            request = OffsetDeleteRequest(group_id, [OffsetDeleteRequestTopic(topic, partitions)])

        async def ask(node_id: int) -> None:
            response = await self._asking.change(node_id, request)
            _check(request.API_KEY, response.error_code, group_id)
            for each in response.responses if group.group.group_type == SHARE else response.topics:
                for part in (each,) if group.group.group_type == SHARE else each.partitions:
                    _check(request.API_KEY, part.error_code, topic)

        await self._at_coordinator(group_id, GROUP_KEY, ask)
        self._outdate(group_id)
        text = f"{topic}, {len(indexes)} partition{'' if len(indexes) == 1 else 's'}"
        note = Change(ChangeKind.GROUP, group_id, "offsets deleted", text)
        return Done(len(indexes), (note,))

    async def abort(self, command: AbortTransaction, at: Situation) -> Done[AbortResult]:
        """Run AbortTransaction: InitProducerId aborts the open transaction and fences its producer, as a new
        producer of the transactional id does. (Kafka: Admin.fenceProducers, KIP-664)
        """
        at.require(Role.ADMIN, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        name = command.transactional_id
        try:
            found = await describe_transaction(self._asking, name)
        except UpstreamError as error:
            raise unavailable(error) from error
        if found is None:
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"There is no transactional id {name}.")
        if found.state != ONGOING:
            text = f"{name} has no open transaction; its state is {found.state}."
            raise ApiError(ErrorCode.INVALID_TXN_STATE, text)
        producer = found.producer_id, found.producer_epoch
        wanted = command.producer_id, command.producer_epoch
        if any(each not in (-1, own) for each, own in zip(wanted, producer, strict=True)):
            text = f"The producer is now {producer[0]} with epoch {producer[1]}."
            raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, text)
        result = AbortResult(*producer, len(found.places))
        if command.validate_only:
            return Done(result)
        await self._at_coordinator(name, TRANSACTION_KEY, partial(self._fence, name, found))
        self._readings.outdate(Part.TRANSACTIONS)
        self._readings.outdate(Part.TRANSACTION, name)
        noun = "partition" if result.partitions == 1 else "partitions"
        note = f"producer {producer[0]}, epoch {producer[1]} fenced, {result.partitions} {noun}"
        return Done(result, (Change(ChangeKind.TRANSACTION, name, "aborted", note),))

    async def _fence(self, name: str, found: Described, node_id: int) -> None:
        """Abort a transaction at its coordinator. Raises ApiError.

        CONCURRENT_TRANSACTIONS says that the abort has begun, or that another change of the transactional id
        has not ended, and nothing has begun.
        """
        request = InitProducerIdRequest(name, found.timeout_ms)
        for tries in count(1):
            response = await self._asking.change(node_id, request, at_most=INIT_PRODUCER_ID_VERSION)
            if response.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                return _check(ApiKey.INIT_PRODUCER_ID, response.error_code, name)
            try:
                now = await describe_transaction(self._asking, name)
            except UpstreamError as error:
                raise unavailable(error) from error
            producer = None if now is None else (now.state, now.producer_id, now.producer_epoch)
            if producer != (ONGOING, found.producer_id, found.producer_epoch):
                return None
            if tries == TRIES:
                text = (
                    f"The coordinator of {name} is busy with another change of it (CONCURRENT_TRANSACTIONS): "
                    "the transaction is still open. Try again."
                )
                raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS, text)
            await trio.sleep(TRIES_PAUSE_S)
        raise AssertionError("unreachable")

    async def _at_coordinator(self, name: str, kind: int, ask: Callable[[int], Awaitable[Result]]) -> Result:
        """As `at_coordinator`. Raises ApiError."""
        try:
            return await at_coordinator(self._asking, name, kind, ask)
        except UpstreamError as error:
            raise unavailable(error) from error

    async def _existing(self, group_id: str, *, with_offsets: bool = False) -> GroupDetail:
        """Return the group. Raises UpstreamError, and ApiError, also for offsets that could not be read: a
        reset of those that the group has would else reset none.
        """
        notes = Notes()
        found = await read_group(self._asking, notes, group_id)
        if found is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"The group {group_id} does not exist.")
        if notes.refused:
            first = notes.refused[0]
            text = f"it wants an ACL that allows {first.operation} on {first.resource_type}"
            text = f"The upstream cluster refuses {first.api} to the gateway's credential: {text}"
            raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED, f"{text} {first.resource_name}.")
        if with_offsets and not notes.unread.isdisjoint(OFFSET_APIS):
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "; ".join(notes.errors))
        return found

    def _outdate(self, group_id: str) -> None:
        self._readings.outdate(Part.GROUPS)
        self._readings.outdate(Part.GROUP, group_id)


def _target(
    command: ResetOffsets,
    place: Place,
    before: int | None,
    bounds: tuple[int, int],
    timed: Mapping[Place, int],
) -> int:
    first, end = bounds
    match command.kind:
        case ResetKind.EARLIEST:
            return first
        case ResetKind.LATEST:
            return end
        case ResetKind.TIMESTAMP:
            after = timed.get(place, end)
        case ResetKind.OFFSET:
            after = command.value
        case ResetKind.SHIFT:
            if before is None:
                text = f"{place[0]}-{place[1]} has no committed offset that could be shifted."
                raise ApiError(ErrorCode.INVALID_REQUEST, text)
            after = before + command.value
    return min(max(after, first), end)


def _check_empty(group: GroupDetail) -> None:
    """Raise ApiError NON_EMPTY_GROUP, with the members, unless the group is empty."""
    if not group.members and group.group.state in ("Empty", "Dead", ""):
        return
    named = [f"{each.client_id} at {each.address.lstrip('/')}" for each in group.members]
    more = f" and {len(named) - MAX_NAMED} more" if len(named) > MAX_NAMED else ""
    members = f"{', '.join(named[:MAX_NAMED])}{more}" or "members that are joining"
    raise ApiError(
        ErrorCode.NON_EMPTY_GROUP,
        f"The group {group.group.group_id} is in use ({group.group.state}): {members}. "
        "Stop its members first.",
    )


def _by_topic(moves: Iterable[OffsetMove]) -> dict[str, list[OffsetMove]]:
    found: dict[str, list[OffsetMove]] = {}
    for each in moves:
        found.setdefault(each.topic, []).append(each)
    return found


def _commit(group_id: str, moves: Sequence[OffsetMove]) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id,
        topics=[
            OffsetCommitRequestTopic(
                topic, partitions=[OffsetCommitRequestPartition(each.partition, each.after) for each in some]
            )
            for topic, some in _by_topic(moves).items()
        ],
    )


def _alter_share(group_id: str, moves: Sequence[OffsetMove]) -> AlterShareGroupOffsetsRequest:
    return AlterShareGroupOffsetsRequest(
        group_id,
        [
            AlterShareGroupOffsetsRequestTopic(
                topic, [AlterShareGroupOffsetsRequestPartition(each.partition, each.after) for each in some]
            )
            for topic, some in _by_topic(moves).items()
        ],
    )


def _moved(
    group_id: str, topics: Mapping[str, Sequence[Any]], moves: Sequence[OffsetMove]
) -> list[OffsetMove]:
    """Return the moves that the coordinator has made, by its results of partitions. Raises ApiError if it
    has made none.
    """
    codes = {
        (topic, each.partition_index): each.error_code for topic, some in topics.items() for each in some
    }
    made = [each for each in moves if codes.get((each.topic, each.partition)) == ErrorCode.NONE]
    if not made:
        code = next(iter(codes.values()), ErrorCode.UNKNOWN_SERVER_ERROR)
        name = moves[0].topic if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED else group_id
        _check(ApiKey.OFFSET_COMMIT, code, name)
    return made


_REASONS: Final = {
    ErrorCode.NON_EMPTY_GROUP: "The group has members.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "A member of the group consumes this topic. Stop it first.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group does not exist.",
    ErrorCode.UNKNOWN_MEMBER_ID: "A member joined the group in the meantime. Stop it first.",
}


def _check(key: int, code: int, name: str) -> None:
    if code in _REASONS:
        raise ApiError(ErrorCode(code), _REASONS[ErrorCode(code)])
    if code:
        raise error_of(key, code, name)

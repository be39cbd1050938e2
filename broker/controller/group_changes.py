"""Changes of groups on an operator's request: offsets reset or deleted, groups deleted. Run by `Control` as
operations. The offsets of a share group are where its share partitions start.

Offsets are reset while a group is empty only, because a member overwrites them with its next commit. Each
change is applied as a whole, in one write, and the audit trail has the old and the new offsets.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Final, Protocol

import msgspec

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices
from broker.controller.commands import Command
from broker.controller.control import Control
from broker.controller.plan import Done, Situation
from broker.coordinator.group.messages import (
    SHARE,
    CommitRequest,
    Effects,
    GroupOverview,
    Now,
    OffsetToCommit,
    Token,
)
from broker.coordinator.group_service import GroupService
from broker.coordinator.share.states import ShareGroupStates, ShareStateResult
from broker.metadata.actor import Role
from broker.metadata.changes import Change, ChangeKind
from broker.partitions.partitions import HostedTopic, Partitions

MAX_PARTITIONS: Final = 500
"""Partitions of one reset, and offsets that are deleted at once; ours. They take about 4 ms."""

MAX_NAMED: Final = 5
"""Members that a refusal names."""
_MAX_NOTED: Final = 1_000
"""Characters of the old and new offsets of a topic in the audit trail."""


class ResetKind(StrEnum):
    """EARLIEST and LATEST: the first and the end offset. TIMESTAMP: the first record from `value` on, in
    milliseconds since the epoch. SHIFT: `value` records forward, or back if negative. OFFSET: `value` itself.
    """

    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"
    SHIFT = "shift"
    OFFSET = "offset"


class TopicPartitions(msgspec.Struct, frozen=True):
    """Partitions of a topic; empty for all."""

    topic: str
    partitions: tuple[int, ...] = ()


class ResetOffsets(msgspec.Struct, Command["list[OffsetMove]"], frozen=True):
    """Sets the committed offsets of an empty group. Role: editor. Returns the moves of all selected
    partitions.

    `topics` empty: all partitions with committed offsets. New offsets are limited to those that exist, as
    kafka-consumer-groups.sh does. Raises ApiError: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND,
    UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST; then nothing has changed.
    """

    group_id: str
    kind: ResetKind
    value: int = 0
    topics: tuple[TopicPartitions, ...] = ()
    validate_only: bool = False


class OffsetMove(msgspec.Struct, frozen=True):
    """`before` None: no committed offset. `end` is the end offset of the partition."""

    topic: str
    partition: int
    before: int | None = msgspec.field(name="from")
    after: int = msgspec.field(name="to")
    difference: Annotated[int, msgspec.Meta(ge=-(2**63))] | None
    end: int


class DeleteGroup(msgspec.Struct, Command[None], frozen=True):
    """Deletes an empty group with its offsets. Role: editor. Raises ApiError: NON_EMPTY_GROUP,
    GROUP_ID_NOT_FOUND.
    """

    group_id: str


class DeleteGroupOffsets(msgspec.Struct, Command[int], frozen=True):
    """Deletes a group's offsets of one topic, and returns their number. Role: editor.

    Raises ApiError: GROUP_SUBSCRIBED_TO_TOPIC if a member consumes the topic, NON_EMPTY_GROUP for a group
    that is not a consumer group and has members, GROUP_ID_NOT_FOUND, RESOURCE_NOT_FOUND without offsets of
    the topic.
    """

    group_id: str
    topic: str


class RunSlices(Protocol):
    def __call__(self, slices: Slices[Any], *, to_the_end: bool = False) -> Awaitable[Any]:
        """Run the slices with other tasks in between, and decompression in a thread.

        `to_the_end`: even if the task is cancelled.
        """


class GroupChanges:
    """The operations. `now` returns the present moment."""

    def __init__(
        self,
        groups: GroupService,
        share: ShareGroupStates,
        partitions: Partitions,
        run: RunSlices,
        now: Callable[[], Now],
    ) -> None:
        self._groups = groups
        self._share = share
        self._partitions = partitions
        self._run = run
        self._now = now

    def register(self, control: Control) -> None:
        control.add_operation(ResetOffsets, self.reset)
        control.add_operation(DeleteGroup, self.delete)
        control.add_operation(DeleteGroupOffsets, self.delete_offsets)

    async def reset(self, command: ResetOffsets, at: Situation) -> Done[list[OffsetMove]]:
        """Run ResetOffsets."""
        self._check(at)
        group_id = command.group_id
        self._check_empty(group_id)
        moves = await self._run(self._moves(command))
        # A member may have joined, or another operator may have moved the offsets, while the targets were
        # looked up.
        self._check_empty(group_id)
        if self._is_share(group_id):
            return await self._reset_start_offsets(command, moves)
        committed = self._groups.coordinator.offsets.committed(group_id)
        if command.kind is not ResetKind.SHIFT:
            moves = [msgspec.structs.replace(each, before=_committed(committed, each)) for each in moves]
        elif any(each.before != _committed(committed, each) for each in moves):
            raise ApiError(
                ErrorCode.INVALID_UPDATE_VERSION, "The offsets were changed in the meantime; try again."
            )
        if command.validate_only or not moves:
            return Done(moves)
        offsets = [OffsetToCommit(each.topic, each.partition, each.after) for each in moves]
        request = CommitRequest(group_id, -1, "", None, offsets)
        self._write(lambda token, now: self._groups.coordinator.offsets.commit(request, token, now))
        return Done(moves, reset_notes(group_id, moves))

    async def _reset_start_offsets(
        self, command: ResetOffsets, moves: list[OffsetMove]
    ) -> Done[list[OffsetMove]]:
        """Reset the start offsets of a share group."""
        if command.validate_only or not moves:
            return Done(moves)
        offsets: dict[bytes, tuple[str, dict[int, int]]] = {}
        for each in moves:
            topic_id = self._partitions.by_name[each.topic].topic_id
            offsets.setdefault(topic_id, (each.topic, {}))[1][each.partition] = each.after
        _check_outcome(await self._share.alter(command.group_id, offsets))
        return Done(moves, reset_notes(command.group_id, moves))

    def _moves(self, command: ResetOffsets) -> Slices[list[OffsetMove]]:
        committed = yield from self._groups.positions(command.group_id)
        selected = self._selected(command, committed)
        if len(selected) > MAX_PARTITIONS:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"The reset concerns {len(selected)} partitions; at most {MAX_PARTITIONS} can be reset at "
                "once. "
                "Select some topics.",
            )
        moves = []
        for hosted, index in selected:
            before = committed.get(hosted.name, {}).get(index)
            log = hosted.open_logs.get(index)
            start = end = 0
            if log is not None:
                log.check_usable()
                start, end = log.log_start_offset, log.high_watermark
            match command.kind:
                case ResetKind.EARLIEST:
                    after = start
                case ResetKind.LATEST:
                    after = end
                case ResetKind.OFFSET:
                    after = command.value
                case ResetKind.SHIFT:
                    if before is None:
                        raise ApiError(
                            ErrorCode.INVALID_REQUEST,
                            f"{hosted.name}-{index} has no committed offset that could be shifted.",
                        )
                    after = before.offset + command.value
                case ResetKind.TIMESTAMP:
                    found = None if log is None else (yield from log.offset_for_timestamp(command.value))
                    after = end if found is None else found[0]
            after = min(max(after, start), end)
            old = before and before.offset
            difference = None if old is None else after - old
            moves.append(OffsetMove(hosted.name, index, old, after, difference, end))
            yield None
        return moves

    def _selected(
        self, command: ResetOffsets, committed: Mapping[str, Mapping[int, Any]]
    ) -> list[tuple[HostedTopic, int]]:
        selected: dict[tuple[str, int], HostedTopic] = {}
        if not command.topics:
            for topic, indexes in committed.items():
                hosted = self._partitions.by_name.get(topic)
                for index in indexes:
                    if hosted is not None and index < hosted.count:
                        selected[topic, index] = hosted
        for each in command.topics:
            hosted = self._partitions.by_name.get(each.topic)
            if hosted is None:
                raise ApiError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic {each.topic} does not exist."
                )
            for index in each.partitions or range(hosted.count):
                if not 0 <= index < hosted.count:
                    raise ApiError(
                        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{each.topic} has no partition {index}."
                    )
                selected[each.topic, index] = hosted
        return [(hosted, index) for (_, index), hosted in sorted(selected.items(), key=lambda pair: pair[0])]

    async def delete(self, command: DeleteGroup, at: Situation) -> Done[None]:
        """Run DeleteGroup. A group with many offsets loses them some at a time, and is deleted with the last
        ones.
        """
        self._check(at)
        group_id = command.group_id
        self._check_empty(group_id)
        coordinator = self._groups.coordinator
        if coordinator.share.has_states(group_id):
            _check_outcome(await self._share.delete_all(group_id))
        await self._run(self._delete_offsets(group_id), to_the_end=True)
        self._check_empty(group_id)
        self._write(lambda token, now: coordinator.delete([group_id], token, now))
        return Done(None, (Change(ChangeKind.GROUP, group_id, "deleted", "by an operator"),))

    def _delete_offsets(self, group_id: str) -> Slices[None]:
        """Delete offsets until few are left."""
        coordinator = self._groups.coordinator
        while coordinator.offsets.count(group_id, MAX_PARTITIONS + 1) > MAX_PARTITIONS:
            self._check_empty(group_id)
            self._write(lambda token, now: coordinator.delete_some_offsets(group_id, token, now))
            yield None

    async def delete_offsets(self, command: DeleteGroupOffsets, at: Situation) -> Done[int]:
        """Run DeleteGroupOffsets."""
        self._check(at)
        group_id, topic = command.group_id, command.topic
        found = self._overview(group_id)
        if self._is_share(group_id):
            return await self._forget_topic(group_id, topic)
        if self._groups.coordinator.offsets.check_delete(group_id):
            raise self._not_empty(found)
        deleted = await self._run(self._delete_of_topic(group_id, topic), to_the_end=True)
        if not deleted:
            raise ApiError(
                ErrorCode.RESOURCE_NOT_FOUND, f"The group {group_id} has no committed offsets of {topic}."
            )
        noun = "partition" if deleted == 1 else "partitions"
        return Done(
            deleted, (Change(ChangeKind.GROUP, group_id, "offsets deleted", f"{topic}, {deleted} {noun}"),)
        )

    async def _forget_topic(self, group_id: str, topic: str) -> Done[int]:
        """Delete the states of a share group's partitions of a topic."""
        self._check_empty(group_id)
        states = self._groups.coordinator.share.states(group_id).initialized
        known = {topic_id: named for topic_id, named in states.items() if named.topic == topic}
        if not known:
            raise ApiError(
                ErrorCode.RESOURCE_NOT_FOUND, f"The group {group_id} has no share partitions of {topic}."
            )
        _check_outcome(await self._share.delete(group_id, list(known)))
        deleted = sum(len(named.partitions) for named in known.values())
        noun = "partition" if deleted == 1 else "partitions"
        return Done(
            deleted, (Change(ChangeKind.GROUP, group_id, "offsets deleted", f"{topic}, {deleted} {noun}"),)
        )

    def _delete_of_topic(self, group_id: str, topic: str) -> Slices[int]:
        """Delete the offsets, some at once, and return their number. A member that consumes the topic keeps
        those that are left.
        """
        coordinator = self._groups.coordinator
        deleted = 0
        while indexes := sorted(coordinator.offsets.committed(group_id).get(topic, ()))[:MAX_PARTITIONS]:
            subscribed = yield from coordinator.offsets.subscribed_topics(group_id, (topic,))
            some = [(topic, index) for index in indexes]
            delete = partial(coordinator.offsets.delete, group_id, some, subscribed)
            try:
                self._write(delete)
            except ApiError:
                if not deleted:
                    raise
                break
            deleted += len(some)
            yield None
        return deleted

    def _check(self, at: Situation) -> None:
        at.require(Role.EDITOR, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        if not self._groups.is_available:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, "There is no consumer group yet.")

    def _is_share(self, group_id: str) -> bool:
        return self._overview(group_id).group_type == SHARE

    def _overview(self, group_id: str) -> GroupOverview:
        found = self._groups.coordinator.overview(group_id)
        if found is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"The group {group_id} does not exist.")
        return found

    def _check_empty(self, group_id: str) -> None:
        """Raise ApiError NON_EMPTY_GROUP, with the members, unless the group is empty."""
        found = self._overview(group_id)
        if not found.is_empty:
            raise self._not_empty(found)

    def _not_empty(self, group: GroupOverview) -> ApiError:
        named = [f"{client_id} at {host.lstrip('/')}" for client_id, host in group.clients]
        more = f" and {len(named) - MAX_NAMED} more" if len(named) > MAX_NAMED else ""
        members = f"{', '.join(named[:MAX_NAMED])}{more}" or "members that are joining"
        return ApiError(
            ErrorCode.NON_EMPTY_GROUP,
            f"The group {group.group_id} is in use ({group.state}): {members}. Stop its members first.",
        )

    def _write(self, call: Callable[[Token, Now], Effects]) -> None:
        """Run a call of the coordinator and write its records. Raises ApiError if a part of it failed."""
        now, token = self._now(), object()
        effects = self._groups.write_now(call(token, now), now)
        for replied, reply in effects.replies:
            if replied is token:
                errors: Sequence[ErrorCode] = getattr(reply, "errors", ())
                for error in (getattr(reply, "error", ErrorCode.NONE), *errors):
                    if error:
                        raise ApiError(error, _REASONS.get(error))


_REASONS: Final = {
    ErrorCode.NON_EMPTY_GROUP: "The group has members.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "A member of the group consumes this topic. Stop it first.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group does not exist.",
    ErrorCode.UNKNOWN_MEMBER_ID: "A member joined the group in the meantime. Stop it first.",
}


def _committed(offsets: Mapping[str, Mapping[int, Any]], move: OffsetMove) -> int | None:
    found = offsets.get(move.topic, {}).get(move.partition)
    return None if found is None else int(found.offset)


def reset_notes(group_id: str, moves: Sequence[OffsetMove]) -> tuple[Change, ...]:
    """Return a row of the audit trail for each topic, with its old and new offsets."""
    by_topic: dict[str, list[str]] = {}
    for each in moves:
        before = "none" if each.before is None else str(each.before)
        by_topic.setdefault(each.topic, []).append(f"{each.partition}: {before} to {each.after}")
    notes = []
    for topic, lines in by_topic.items():
        text = ", ".join(lines)
        if len(text) > _MAX_NOTED:
            text = f"{text[:_MAX_NOTED]}... ({len(lines)} partitions)"
        notes.append(Change(ChangeKind.GROUP, group_id, "offsets reset", f"{topic}, {text}"))
    return tuple(notes)


def _check_outcome(outcome: ShareStateResult) -> None:
    """Raise ApiError if a change of the states of a share group failed, as a whole or in part."""
    if outcome.error:
        raise ApiError(outcome.error, outcome.message)
    for error in (*outcome.partitions.values(), *outcome.topics.values()):
        raise error

"""The group coordinator's arguments, in plain values.

Created by the handlers of `api`. Independent of the wire format: where protocol versions differ, a field
states the client's capability.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Buffer = bytes | bytearray | memoryview


class Now(NamedTuple):
    """One moment on both clocks: `ms` is monotonic and drives timeouts, `wall_ms` is recorded."""

    ms: int
    wall_ms: int


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """JoinGroup.

    `protocols` are (name, metadata) in the member's order of preference.

    `requires_member_id` (JoinGroup 4 and later, KIP-394): a new dynamic member first receives its id and must
    rejoin with it. `can_skip_assignment` (9 and later, KIP-814): the leader supports keeping the existing
    assignment.
    """

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Sequence[tuple[str, Buffer]]
    requires_member_id: bool
    can_skip_assignment: bool


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """SyncGroup.

    `assignments` come from the leader, by member id; protocol type and name are None before version 5.
    """

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, Buffer]


@dataclass(frozen=True, slots=True)
class Leaving:
    """One member of a LeaveGroup.

    An operator removes a static member by an `instance_id` and an empty `member_id`.
    """

    member_id: str
    instance_id: str | None = None


class OffsetToCommit(NamedTuple):
    """An offset in an OffsetCommit. `leader_epoch` is -1 if the client does not send it."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """OffsetCommit.

    A generation of -1 comes from a client with manual assignment, or from an operator.

    `retention_ms` of -1 selects the broker's retention. `knows_missing_groups` (9 and later): a generation of
    a missing group gets GROUP_ID_NOT_FOUND, in earlier versions ILLEGAL_GENERATION.
    """

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None
    offsets: Sequence[OffsetToCommit]
    retention_ms: int = -1
    knows_missing_groups: bool = True

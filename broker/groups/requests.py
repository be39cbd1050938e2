"""What is asked of the group coordinator, in plain values.

Made by the handlers of `api`. Knows nothing of the wire: where a version of the protocol makes a
difference, a field says what the client can or cannot do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Buffer = bytes | bytearray | memoryview


class Now(NamedTuple):
    """One moment on both clocks: `ms` is monotonic and drives every time-out, `wall_ms` is what gets
    recorded.
    """

    ms: int
    wall_ms: int


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """JoinGroup. `protocols` are (name, metadata) in the member's order of preference.

    `requires_member_id` (JoinGroup 4 and later, KIP-394): a new dynamic member is first given its id and
    asked to come back with it. `can_skip_assignment` (9 and later, KIP-814): the leader understands that
    it need not assign.
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
    """SyncGroup. `assignments` are the leader's, by member id; protocol type and name are None before
    version 5.
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
    """One member of a LeaveGroup; an empty `member_id` with an `instance_id` is how an operator removes
    it.
    """

    member_id: str
    instance_id: str | None = None


class OffsetToCommit(NamedTuple):
    """`leader_epoch` is -1 where the client does not know it."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """OffsetCommit. A generation of -1 comes from a client that assigns its partitions itself, or from an
    operator.

    `retention_ms` of -1 stands for the broker's retention. `knows_missing_groups` (9 and later): a
    generation of a group that does not exist is answered with GROUP_ID_NOT_FOUND, before with
    ILLEGAL_GENERATION.
    """

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None
    offsets: Sequence[OffsetToCommit]
    retention_ms: int = -1
    knows_missing_groups: bool = True

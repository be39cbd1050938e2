"""What the group coordinator answers, in plain values.

Turned into messages by the handlers of `api`. `Effects` is what a call returns: answers, by the token that
came with the request each one belongs to, and records. The answers may leave once the records are written,
in their order.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field

from broker.errors import ErrorCode
from broker.groups.committed import CommittedOffset

Token = Hashable
"""Whatever came in with a request, None excepted; it comes back with the answer."""

Record = tuple[bytes, bytes | None]
"""Key and value of one record of __consumer_offsets; a value of None is a tombstone."""


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """What the leader learns of a member: `metadata` is its subscription in the chosen protocol."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinReply:
    """`members` is filled for the leader alone. `skip_assignment`: the leader keeps the assignment that
    stands.
    """

    error: ErrorCode
    member_id: str
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncReply:
    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class LeaveReply:
    """`errors` stand in the order of the members asked to leave; `error` is the group's own."""

    error: ErrorCode
    errors: tuple[ErrorCode, ...] = ()


@dataclass(frozen=True, slots=True)
class CommitReply:
    """One error per offset, in the order of the request."""

    errors: tuple[ErrorCode, ...]


@dataclass(frozen=True, slots=True)
class OffsetDeleteReply:
    """`errors` stand in the order of the partitions asked for; empty when `error` refuses the whole."""

    error: ErrorCode
    errors: tuple[ErrorCode, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteReply:
    """One error per group, in the order of the request."""

    errors: tuple[ErrorCode, ...]


Reply = JoinReply | SyncReply | LeaveReply | CommitReply | OffsetDeleteReply | DeleteReply


@dataclass(frozen=True, slots=True)
class Effects:
    """What one call led to; other members' parked requests may be among the replies.

    `overwritten` is what stood where an offset was put or dropped: group, topic, partition, offset. It is
    there for `GroupCoordinator.failed`, should the records not reach the log.
    """

    replies: list[tuple[Token, Reply]] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    overwritten: list[tuple[str, str, int, CommittedOffset | None]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """`metadata` is empty unless the group is stable."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """`protocol` is the chosen one while the group is stable, else empty."""

    error: ErrorCode
    group_id: str
    state: str
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ListedGroup:
    group_id: str
    protocol_type: str
    state: str
    group_type: str
    members: int

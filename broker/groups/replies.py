"""The group coordinator's results, in plain values.

The handlers of `api` convert them to messages. A call returns `Effects`: records, and replies by the token of
their request. The replies may be sent once the records are written, in order.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field

from broker.errors import ErrorCode
from broker.groups.committed import CommittedOffset

Token = Hashable
"""Identifies a request; anything but None. The reply carries the same token."""

Record = tuple[bytes, bytes | None]
"""Key and value of one record of __consumer_offsets; a value of None is a tombstone."""


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member as the leader sees it: `metadata` is its subscription in the selected protocol."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinReply:
    """`members` is set for the leader only. `skip_assignment`: the leader keeps the existing assignment."""

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
    """`errors` are in the order of the leaving members; `error` is the top-level error."""

    error: ErrorCode
    errors: tuple[ErrorCode, ...] = ()


@dataclass(frozen=True, slots=True)
class CommitReply:
    """One error per offset, in the order of the request."""

    errors: tuple[ErrorCode, ...]


@dataclass(frozen=True, slots=True)
class OffsetDeleteReply:
    """`errors` are in the order of the requested partitions; empty if the top-level `error` is set."""

    error: ErrorCode
    errors: tuple[ErrorCode, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteReply:
    """One error per group, in the order of the request."""

    errors: tuple[ErrorCode, ...]


Reply = JoinReply | SyncReply | LeaveReply | CommitReply | OffsetDeleteReply | DeleteReply


@dataclass(frozen=True, slots=True)
class Effects:
    """The effects of one call, which may include replies to other members' pending requests.

    `overwritten` holds the previous offsets (group, topic, partition, offset), so that
    `GroupCoordinator.failed` can restore them if the records cannot be written.
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
    """`protocol` is the selected protocol while the group is stable, else empty."""

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

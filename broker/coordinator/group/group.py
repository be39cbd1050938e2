"""A classic group: its states, members, leader and protocol. (Kafka: ClassicGroup, ClassicGroupMember,
ClassicGroupState)

Used by the transitions of this package. Independent of records and timeouts.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import ClassVar, Final

from broker.common.errors import BrokerBug, ErrorCode
from broker.coordinator.group.messages import CLASSIC, Buffer, CommitRequest, Offsets
from broker.coordinator.group.timers import GroupTimer, TimerKind
from broker.coordinator.group.transition import PendingTokens


class ClassicGroupState(Enum):
    """States by the names that DescribeGroups and ListGroups use."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


VALID_PREVIOUS_STATES: Final = {
    # Members join, leave or change; the group waits for all members.
    ClassicGroupState.PREPARING_REBALANCE: frozenset(
        {ClassicGroupState.EMPTY, ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE}
    ),
    # A generation has begun; the group waits for the leader's assignment.
    ClassicGroupState.COMPLETING_REBALANCE: frozenset({ClassicGroupState.PREPARING_REBALANCE}),
    ClassicGroupState.STABLE: frozenset({ClassicGroupState.COMPLETING_REBALANCE}),
    # No member joined the rebalance.
    ClassicGroupState.EMPTY: frozenset({ClassicGroupState.PREPARING_REBALANCE}),
    # Only an empty group can be deleted.
    ClassicGroupState.DEAD: frozenset({ClassicGroupState.EMPTY}),
}
"""Allowed previous states of each state."""


Protocols = dict[str, bytes]
"""Metadata by protocol name, in the member's order of preference."""


def protocols_of(pairs: Iterable[tuple[str, Buffer]]) -> Protocols:
    """Copy a request's protocols out of its buffer; the first entry of a duplicate name wins."""
    protocols: Protocols = {}
    for name, metadata in pairs:
        if name not in protocols:
            protocols[name] = bytes(metadata)
    return protocols


def size_of(protocols: Iterable[tuple[str, Buffer]]) -> int:
    """Return the bytes of the names and of the metadata."""
    return sum(len(name.encode()) + len(metadata) for name, metadata in protocols)


class ClassicGroupMember:
    """A member.

    `is_new` until the first generation includes it; a pending request does not keep a new member's session
    alive. `preference` are the names of its protocols, in its order. `size` is the number of bytes of its
    names and of its metadata for all protocols. `encoded` caches its unchanging part of the group's record,
    None until it is needed.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "encoded",
        "instance_id",
        "is_new",
        "member_id",
        "preference",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
        "size",
    )

    def __init__(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: Protocols,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocols: Protocols = {}
        self.preference: tuple[str, ...] = ()
        self.size = sum(len(each.encode()) for each in (member_id, instance_id or "", client_id, client_host))
        self.set_protocols(protocols)
        self.assignment = b""
        self.encoded: bytes | None = None
        self.is_new = False
        self.session = GroupTimer(TimerKind.SESSION, group_id, member_id)

    def set_protocols(self, protocols: Protocols) -> None:
        self.size += size_of(protocols.items()) - size_of(self.protocols.items())
        self.protocols = protocols
        self.preference = tuple(protocols)

    def set_timeouts(self, session_timeout_ms: int, rebalance_timeout_ms: int) -> None:
        if (session_timeout_ms, rebalance_timeout_ms) != (self.session_timeout_ms, self.rebalance_timeout_ms):
            self.session_timeout_ms = session_timeout_ms
            self.rebalance_timeout_ms = rebalance_timeout_ms
            self.encoded = None

    def prefers(self, protocols: Protocols) -> bool:
        """Return whether these are the member's protocols, in the same order."""
        return list(protocols.items()) == list(self.protocols.items())


CONSUMER_PROTOCOL_TYPE = "consumer"

Subscriptions = tuple[bytes, ...]
"""The metadata of a generation's members for its protocol."""


class InitialDelay:
    """Delay of an empty group's first rebalance, extended if more members joined meanwhile."""

    __slots__ = ("delay_ms", "has_new_members", "remaining_ms")

    def __init__(self, delay_ms: int, remaining_ms: int) -> None:
        self.delay_ms = delay_ms
        self.remaining_ms = remaining_ms
        self.has_new_members = False


class ClassicGroup:
    """A classic group.

    `joining` and `syncing` are the members with pending requests. `pending_join` are assigned ids that are
    not used yet. `pending_sync` are the members of this generation that have not sent SyncGroup. `state_ms`
    is the epoch time of the last state change, None if unknown. `subscriptions` are those of the last
    generation, None before the first one and for groups of another type than consumers. `size` is that of
    the members in bytes. `preferences` counts the members with the same protocols in the same order: most
    groups have one, and removing a member takes as long however many protocols it has. `_common` caches the
    protocols of all members, None if unknown.
    """

    type: ClassVar[str] = CLASSIC

    __slots__ = (
        "_common",
        "generation_id",
        "group_id",
        "initial",
        "join_timer",
        "joining",
        "leader_id",
        "members",
        "offsets",
        "pending_join",
        "pending_sync",
        "preferences",
        "protocol",
        "protocol_type",
        "size",
        "state",
        "state_ms",
        "static_ids",
        "subscriptions",
        "sync_timer",
        "syncing",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = ClassicGroupState.EMPTY
        self.state_ms: int | None = None
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicGroupMember] = {}
        self.size = 0
        self.static_ids: dict[str, str] = {}
        self.preferences: Counter[tuple[str, ...]] = Counter()
        self._common: set[str] | None = None
        self.subscriptions: Subscriptions | None = None
        self.joining: PendingTokens = {}
        self.syncing: PendingTokens = {}
        self.pending_join: dict[str, GroupTimer] = {}
        self.pending_sync: set[str] = set()
        self.initial: InitialDelay | None = None
        self.join_timer = GroupTimer(TimerKind.JOIN_PHASE, group_id)
        self.sync_timer = GroupTimer(TimerKind.SYNC_PHASE, group_id)
        self.offsets: Offsets = {}

    @property
    def is_blank(self) -> bool:
        """Whether the group holds no more state than a new one."""
        return not (self.members or self.pending_join or self.offsets or self.protocol_type)

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicGroupState.EMPTY

    @property
    def is_settled(self) -> bool:
        """Whether the members consume with the subscriptions of the present generation."""
        return self.state is ClassicGroupState.STABLE

    @property
    def is_obsolete(self) -> bool:
        """Whether the group can be removed: it has neither members nor offsets."""
        return self.is_empty and not (self.offsets or self.pending_join)

    @property
    def empty_since_ms(self) -> int | None:
        """The epoch time since which the group has no members; None if it has, or never had one."""
        return self.state_ms if self.is_empty and self.protocol_type is not None else None

    @property
    def all_joined(self) -> bool:
        return len(self.joining) == len(self.members) and not self.pending_join

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def is_consumer_group(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def facts(self) -> tuple[object, ...]:
        """What another type of group takes over from this one: equal as long as nothing of it has changed."""
        members = [
            (
                member.member_id,
                member.instance_id,
                member.protocols,
                member.assignment,
                member.session_timeout_ms,
                member.rebalance_timeout_ms,
            )
            for member in self.members.values()
        ]
        return self.state, self.generation_id, self.protocol, members

    def enter(self, state: ClassicGroupState, wall_ms: int) -> None:
        if self.state not in VALID_PREVIOUS_STATES[state]:
            raise BrokerBug(
                f"group {self.group_id}: invalid transition from {self.state.value} to {state.value}"
            )
        self.state = state
        self.state_ms = wall_ms

    def supports(self, protocol_type: str, names: Mapping[str, bytes]) -> bool:
        """Return whether a member with these protocols is compatible with every member of the group."""
        if self.state is ClassicGroupState.EMPTY:
            return bool(protocol_type and names)
        if protocol_type != self.protocol_type:
            return False
        common = self._common_protocols()
        return bool(names) if common is None else not common.isdisjoint(names)

    def add(self, member: ClassicGroupMember, protocol_type: str) -> None:
        """Add a member. The first one sets the protocol type and becomes leader."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self.size += member.size
        self._count_preference(member)

    def change_protocols(self, member: ClassicGroupMember, protocols: Protocols) -> None:
        self._withdraw_preference(member)
        self.size -= member.size
        member.set_protocols(protocols)
        self.size += member.size
        self._count_preference(member)

    def remove(self, member: ClassicGroupMember) -> None:
        """Remove a member. If it was the leader, the next member becomes leader."""
        del self.members[member.member_id]
        self.size -= member.size
        self._withdraw_preference(member)
        if member.instance_id is not None:
            del self.static_ids[member.instance_id]
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_sync.discard(member.member_id)

    def replace(self, old: ClassicGroupMember, new: ClassicGroupMember) -> None:
        """Replace a static member that rejoined under a new id, keeping its assignment and role."""
        new.assignment = old.assignment
        if old.member_id in self.pending_sync:
            self.pending_sync.add(new.member_id)
        leads = self.leader_id == old.member_id
        self.remove(old)
        self.add(new, self.protocol_type or "")
        if leads:
            self.leader_id = new.member_id

    def elect_joined_leader(self) -> bool:
        """Ensure that the leader has joined this rebalance. Return False if no member has."""
        if self.leader_id not in self.joining:
            joined = next((member_id for member_id in self.members if member_id in self.joining), None)
            if joined is None:
                return False
            self.leader_id = joined
        return True

    def select_protocol(self) -> str:
        """Return the protocol that every member supports with most votes; ties go to the first vote."""
        common = self._common_protocols()
        if not common:
            raise BrokerBug(f"group {self.group_id}: the members have no common protocol")
        if len(common) == 1:
            return next(iter(common))
        votes_of = {
            preference: next(name for name in preference if name in common) for preference in self.preferences
        }
        votes = Counter(votes_of[member.preference] for member in self.members.values())
        return max(votes, key=votes.__getitem__)

    def begin_generation(self, wall_ms: int) -> None:
        """Increment the generation and select a protocol; without members the group becomes empty."""
        self.generation_id += 1
        self.pending_sync.clear()
        self.protocol = self.select_protocol() if self.members else None
        self.keep_subscriptions()
        self.enter(
            ClassicGroupState.COMPLETING_REBALANCE if self.members else ClassicGroupState.EMPTY, wall_ms
        )

    def keep_subscriptions(self) -> None:
        """Keep the metadata of this generation's members, unread; None for other types than consumers."""
        protocol = self.protocol or ""
        self.subscriptions = (
            tuple(member.protocols[protocol] for member in self.members.values())
            if self.is_consumer_group
            else None
        )

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Return NONE for a member under its current id."""
        if instance_id is not None:
            current = self.static_ids.get(instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def check_commit(self, request: CommitRequest, _topics: object) -> ErrorCode:
        """Check an OffsetCommit. Only an empty group accepts commits from clients that are not members."""
        generation_id = request.generation_id
        if generation_id < 0 and self.is_empty:
            return ErrorCode.NONE
        if generation_id < 0 and not request.member_id and request.instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = self._check_generation(request)
        if not error and self.state is ClassicGroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return error

    def check_transactional_commit(self, request: CommitRequest, _topics: object) -> ErrorCode:
        """Check a TxnOffsetCommit, in which older clients do not state the member (KIP-447)."""
        if request.generation_id < 0 and (
            self.is_empty or (not request.member_id and request.instance_id is None)
        ):
            return ErrorCode.NONE
        return self._check_generation(request)

    def _check_generation(self, request: CommitRequest) -> ErrorCode:
        error = self.check_member(request.member_id, request.instance_id)
        if error:
            return error
        matches = request.generation_id == self.generation_id
        return ErrorCode.NONE if matches else ErrorCode.ILLEGAL_GENERATION

    def _common_protocols(self) -> set[str] | None:
        """Return the protocols that every member supports; None without members."""
        common = self._common
        if common is None:
            for preference in self.preferences:
                if common is None:
                    common = set(preference)
                else:
                    common.intersection_update(preference)
            self._common = common
        return common

    def _count_preference(self, member: ClassicGroupMember) -> None:
        self.preferences[member.preference] += 1
        if self._common is not None:
            self._common.intersection_update(member.preference)

    def _withdraw_preference(self, member: ClassicGroupMember) -> None:
        self.preferences[member.preference] -= 1
        if not self.preferences[member.preference]:
            del self.preferences[member.preference]
            self._common = None

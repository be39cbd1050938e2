"""A classic group: its states, members, leader and protocol. (Kafka: ClassicGroup, ClassicGroupMember,
ClassicGroupState)

Used by the transitions of this package. Independent of records and timeouts.
"""

import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from enum import Enum
from typing import Final

from broker.errors import BrokerBug, ErrorCode
from broker.groups.messages import Buffer, Offsets
from broker.groups.timers import Kind, Timer
from broker.groups.transition import PendingTokens


class State(Enum):
    """States by the names that DescribeGroups and ListGroups use."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


VALID_PREVIOUS_STATES: Final = {
    # Members join, leave or change; the group waits for all members.
    State.PREPARING_REBALANCE: frozenset({State.EMPTY, State.STABLE, State.COMPLETING_REBALANCE}),
    # A generation has begun; the group waits for the leader's assignment.
    State.COMPLETING_REBALANCE: frozenset({State.PREPARING_REBALANCE}),
    State.STABLE: frozenset({State.COMPLETING_REBALANCE}),
    # No member joined the rebalance.
    State.EMPTY: frozenset({State.PREPARING_REBALANCE}),
    # Only an empty group can be deleted.
    State.DEAD: frozenset({State.EMPTY}),
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


class Member:
    """A member.

    `is_new` until the first generation includes it; a pending request does not keep a new member's session
    alive.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
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
        self.protocols = protocols
        self.assignment = b""
        self.is_new = False
        self.session = Timer(Kind.SESSION, group_id, member_id)

    def prefers(self, protocols: Protocols) -> bool:
        """Return whether these are the member's protocols, in the same order."""
        return list(protocols.items()) == list(self.protocols.items())

    def vote(self, candidates: Set[str]) -> str:
        for name in self.protocols:
            if name in candidates:
                return name
        raise BrokerBug(f"member {self.member_id} supports none of {sorted(candidates)}")


MAX_TOPICS = 10_000
"""Maximum topics read from one subscription; ours. A longer one counts as unreadable.

Each topic takes a third of a microsecond and is read at every rebalance.
"""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Return a consumer's subscribed topics; None for other metadata, which is not an error.

    Reads only the start of ConsumerProtocolSubscription, which all versions share.
    """
    try:
        (count,) = _INT32.unpack_from(metadata, _INT16.size)
        at = _INT16.size + _INT32.size
        # Every name takes at least two bytes, so an invalid count fails here instead of causing a long loop.
        if not 0 <= count <= min((len(metadata) - at) // _INT16.size, MAX_TOPICS):
            return None
        topics = set()
        for _ in range(count):
            (size,) = _INT16.unpack_from(metadata, at)
            start, at = at + _INT16.size, at + _INT16.size + size
            if size < 0 or at > len(metadata):
                return None
            topics.add(metadata[start:at].decode())
    except (ValueError, struct.error):
        return None
    return frozenset(topics)


CONSUMER_PROTOCOL_TYPE = "consumer"


class InitialDelay:
    """Delay of an empty group's first rebalance, extended if more members joined meanwhile."""

    __slots__ = ("delay_ms", "has_new_members", "remaining_ms")

    def __init__(self, delay_ms: int, remaining_ms: int) -> None:
        self.delay_ms = delay_ms
        self.remaining_ms = remaining_ms
        self.has_new_members = False


class Group:
    """A classic group.

    `joining` and `syncing` are the members with pending requests. `pending_join` are assigned ids that are
    not used yet. `pending_sync` are the members of this generation that have not sent SyncGroup. `state_ms`
    is the epoch time of the last state change, None if unknown.
    """

    __slots__ = (
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
        "protocol",
        "protocol_type",
        "state",
        "state_ms",
        "static_ids",
        "subscriptions",
        "support",
        "sync_timer",
        "syncing",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = State.EMPTY
        self.state_ms: int | None = None
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_ids: dict[str, str] = {}
        self.support: Counter[str] = Counter()
        self.subscriptions: frozenset[str] | None = None
        self.joining: PendingTokens = {}
        self.syncing: PendingTokens = {}
        self.pending_join: dict[str, Timer] = {}
        self.pending_sync: set[str] = set()
        self.initial: InitialDelay | None = None
        self.join_timer = Timer(Kind.JOIN_PHASE, group_id)
        self.sync_timer = Timer(Kind.SYNC_PHASE, group_id)
        self.offsets: Offsets = {}

    @property
    def is_blank(self) -> bool:
        """Whether the group holds no more state than a new one."""
        return not (self.members or self.pending_join or self.offsets or self.protocol_type)

    @property
    def all_joined(self) -> bool:
        return len(self.joining) == len(self.members) and not self.pending_join

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def is_consumer_group(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def enter(self, state: State, wall_ms: int) -> None:
        if self.state not in VALID_PREVIOUS_STATES[state]:
            raise BrokerBug(
                f"group {self.group_id}: invalid transition from {self.state.value} to {state.value}"
            )
        self.state = state
        self.state_ms = wall_ms

    def supports(self, protocol_type: str, names: Mapping[str, bytes]) -> bool:
        """Return whether a member with these protocols is compatible with every member of the group."""
        if self.state is State.EMPTY:
            return bool(protocol_type and names)
        member_count = len(self.members)
        return protocol_type == self.protocol_type and any(
            self.support[name] == member_count for name in names
        )

    def add(self, member: Member, protocol_type: str) -> None:
        """Add a member. The first one sets the protocol type and becomes leader."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self.support.update(member.protocols.keys())

    def change_protocols(self, member: Member, protocols: Protocols) -> None:
        self._withdraw_support(member)
        member.protocols = protocols
        self.support.update(protocols.keys())

    def remove(self, member: Member) -> None:
        """Remove a member. If it was the leader, the next member becomes leader."""
        del self.members[member.member_id]
        self._withdraw_support(member)
        if member.instance_id is not None:
            del self.static_ids[member.instance_id]
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_sync.discard(member.member_id)

    def replace(self, old: Member, new: Member) -> None:
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
        member_count = len(self.members)
        candidates = {name for name, count in self.support.items() if count == member_count}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return max(votes, key=votes.__getitem__)

    def begin_generation(self, wall_ms: int) -> None:
        """Increment the generation and select a protocol; without members the group becomes empty."""
        self.generation_id += 1
        self.pending_sync.clear()
        self.protocol = self.select_protocol() if self.members else None
        self.subscriptions = self.read_subscriptions()
        self.enter(State.COMPLETING_REBALANCE if self.members else State.EMPTY, wall_ms)

    def read_subscriptions(self) -> frozenset[str] | None:
        """Return the topics that the members consume; None if any metadata cannot be read."""
        if not self.is_consumer_group:
            return None
        topics: frozenset[str] = frozenset()
        for member in self.members.values():
            metadata = member.protocols.get(self.protocol or "")
            found = None if metadata is None else subscribed_topics(metadata)
            if found is None:
                return None
            topics |= found
        return topics

    def consumes(self, topic: str) -> bool:
        """Return whether the topic's offsets are in use; if unknown, True for a consumer group."""
        return self.is_consumer_group if self.subscriptions is None else topic in self.subscriptions

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Return NONE for a member under its current id."""
        if instance_id is not None:
            current = self.static_ids.get(instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def _withdraw_support(self, member: Member) -> None:
        self.support.subtract(member.protocols.keys())
        for name in member.protocols:
            if not self.support[name]:
                del self.support[name]

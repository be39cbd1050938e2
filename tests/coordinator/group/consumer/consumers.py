"""Members of the consumer protocol that talk to a coordinator on a manual clock.

`Consumer` behaves as a client does: it revokes what it may no longer use, and reports its partitions when
they have changed and when it has acted on an assignment.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from broker.common.errors import ErrorCode
from broker.common.slices import Steps, run_through
from broker.config.sections.groups import ConsumerGroupConfig
from broker.coordinator.group.consumer.assignment import ClusterTopics
from broker.coordinator.group.consumer.group import ConsumerGroup, Owners
from broker.coordinator.group.consumer.member import ConsumerMember
from broker.coordinator.group.consumer.regular_expressions import compile_expression, matching_topics
from broker.coordinator.group.messages import (
    ConsumerHeartbeatRequest,
    Effects,
    ModernHeartbeatReply,
)
from broker.coordinator.group.modern_group import DescribedModernGroup, Subscriptions
from tests.coordinator.group.conversation import Ask, Conversation

REBALANCE_MS = 60_000
INTERVAL_MS = 5_000
SESSION_MS = 45_000

Partitions = dict[str, set[int]]
"""Partitions by topic name."""


class Topic(NamedTuple):
    name: str
    topic_id: bytes
    partitions: int


def topic_id(name: str, generation: int = 0) -> bytes:
    return name.encode().ljust(15, b"\0")[:15] + bytes([generation])


class Consumers(Conversation):
    """A conversation with one consumer group, "g", about topics that the test sets."""

    def __init__(self, *, consumer: ConsumerGroupConfig | None = None, **config: int) -> None:
        super().__init__(consumer=consumer, **config)
        self.set_topics(t=4)

    def set_topics(self, **counts: int) -> None:
        """Replace the topics of the cluster, by name and number of partitions."""
        by_name = {name: Topic(name, topic_id(name), count) for name, count in counts.items()}
        self.topics = ClusterTopics(by_name, self.topics.version + 1)

    def beat(self, member_id: str, epoch: int, group: str = "g", **fields: Any) -> ModernHeartbeatReply:
        """Send a heartbeat, after the look-up of regular expressions that are due."""
        return self.end(*self.begin(member_id, epoch, group, **fields))

    def begin(
        self, member_id: str, epoch: int, group: str = "g", **fields: Any
    ) -> tuple[Ask, Steps[Effects]]:
        """Begin a heartbeat, which the caller goes on with."""
        ask = Ask()
        if isinstance(fields.get("owned"), dict):
            fields["owned"] = by_id(fields["owned"])
        request = ConsumerHeartbeatRequest(
            group, member_id, epoch, client_id="client", client_host="/10.0.0.1", **fields
        )
        resolved = {
            regex: run_through(
                matching_topics(compile_expression(regex), self.topics.by_name, lambda _name: True)
            )
            for regex in self.coordinator.consumer.outdated_expressions(request, self.now)
        }
        request = ConsumerHeartbeatRequest(
            **{name: getattr(request, name) for name in request.__struct_fields__} | {"resolved": resolved}
        )
        return ask, self.coordinator.consumer.heartbeat(request, ask, self.now)

    def end(self, ask: Ask, steps: Steps[Effects]) -> ModernHeartbeatReply:
        """Go on with a heartbeat to its end."""
        self._take(run_through(steps))
        reply: ModernHeartbeatReply = ask.reply
        return reply

    def enter(
        self, member_id: str, topics: Iterable[str] | None = ("t",), group: str = "g", **fields: Any
    ) -> ModernHeartbeatReply:
        """Send the first heartbeat of a member."""
        stated: dict[str, Any] = {"rebalance_timeout_ms": REBALANCE_MS, "owned": {}}
        names = None if topics is None else tuple(topics)
        return self.beat(member_id, 0, group, topics=names, **(stated | fields))

    def group(self, group_id: str = "g") -> ConsumerGroup:
        found = self.coordinator.groups.by_id[group_id]
        assert isinstance(found, ConsumerGroup)
        return found

    def described(self, group_id: str = "g") -> DescribedModernGroup[ConsumerMember]:
        return self.coordinator.consumer.described(group_id)

    def owned(self, group_id: str = "g") -> dict[str, Partitions]:
        """Return the assigned partitions by member."""
        return {each.member_id: by_name(each.assigned) for each in self.described(group_id).members}

    def snapshot(self, group_id: str = "g") -> Any:
        """Return everything that must survive a restart, or be as before after a failed write."""
        group = self.coordinator.groups.by_id.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return group and (type(group), group.state, list(group.members))
        held, subscribers = Owners(), Subscriptions()
        for member in group.members.values():
            held.add(member.assigned)
            held.add(member.revoking)
            resolved = group.expressions.get(member.regex or "")
            subscribers.add(member.topics, member.regex, resolved.topics if resolved else ())
        assert group.owners == held
        assert group.subscribed == subscribers.topics
        assert group.subscribers.resolved_bytes == subscribers.resolved_bytes
        return (
            group.epoch,
            group.target_epoch,
            group.metadata_hash,
            dict(group.members),
            dict(group.static_ids),
            {member_id: dict(target) for member_id, target in group.targets.items()},
            group.owners.copy(),
            dict(group.expressions),
            group.size,
        )

    def reborn(self) -> "Consumers":
        """Return a new coordinator built from the records of this one."""
        other = type(self)(consumer=self.consumer)
        other.topics = self.topics
        for key, value in self.records:
            other.coordinator.replay(key, value)
        other.records = list(self.records)
        other.elapsed = self.elapsed
        other._take(other.coordinator.loaded(other.now))
        return other


class Consumer:
    """A client: `owned` is what it uses, `revoking` what it still has to give up."""

    def __init__(
        self, talk: Consumers, member_id: str, topics: Iterable[str] = ("t",), **fields: Any
    ) -> None:
        self.talk = talk
        self.member_id = member_id
        self.topics = tuple(topics)
        self.fields = fields
        self.epoch = 0
        self.owned: Partitions = {}
        self.target: Partitions = {}
        self.is_in = False
        self._reported: Partitions | None = None
        self._sends_assignment = False

    def enter(self) -> ModernHeartbeatReply:
        self.owned, self.target = {}, {}
        reply = self.talk.enter(self.member_id, self.topics, **self.fields)
        self._take(reply)
        self._reported = {}
        return reply

    def revoke(self) -> None:
        """Give up what the target no longer has; then use what it has."""
        self.owned = {topic: set(indexes) for topic, indexes in self.target.items()}
        if self._sends_assignment:
            self._sends_assignment, self._reported = False, None

    def beat(self) -> ModernHeartbeatReply:
        """Send a heartbeat, with the partitions if they have changed."""
        changed = self.owned != self._reported
        reply = self.talk.beat(
            self.member_id, self.epoch, owned=dict(self.owned) if changed else None, **self._static()
        )
        if reply.error is ErrorCode.NONE:
            self._reported = {topic: set(indexes) for topic, indexes in self.owned.items()}
        self._take(reply)
        return reply

    def leave(self) -> ModernHeartbeatReply:
        self.owned, self.is_in = {}, False
        return self.talk.beat(self.member_id, -1, **self._static())

    def _static(self) -> dict[str, Any]:
        instance_id = self.fields.get("instance_id")
        return {} if instance_id is None else {"instance_id": instance_id}

    def _take(self, reply: ModernHeartbeatReply) -> None:
        if reply.error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            # A client that is fenced abandons its partitions at once.
            self.is_in, self.owned, self.target, self.epoch = False, {}, {}, 0
            return
        assert reply.error is ErrorCode.NONE, reply
        self.is_in, self.epoch = True, reply.epoch
        if reply.assignment is not None:
            self.target, self._sends_assignment = by_name(reply.assignment), True


def settle(*consumers: Consumer, beats: int = 8) -> None:
    """Let the members send heartbeats until nothing changes."""
    for _ in range(beats):
        for consumer in consumers:
            consumer.beat()
            consumer.revoke()


def by_id(partitions: Partitions) -> dict[bytes, frozenset[int]]:
    return {topic_id(name): frozenset(indexes) for name, indexes in partitions.items() if indexes}


def by_name(assignment: Any) -> Partitions:
    return {found.rstrip(b"\0").decode(): set(indexes) for found, indexes in assignment.items()}

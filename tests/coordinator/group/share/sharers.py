"""Members of share groups that talk to a coordinator on a manual clock. States are initialized at once, when
the test says so.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from broker.common.slices import run_through
from broker.config.sections.share_groups import ShareGroupConfig
from broker.coordinator.group.consumer.assignment import ClusterTopics
from broker.coordinator.group.messages import ModernHeartbeatReply, ShareHeartbeatRequest
from broker.coordinator.group.modern_group import DescribedModernGroup
from broker.coordinator.group.share.group import ShareGroup
from broker.coordinator.group.share.member import ShareMember
from broker.coordinator.group.share.state_partitions import NamedPartitions
from tests.coordinator.group.consumer.consumers import Partitions, Topic, by_id, by_name, topic_id
from tests.coordinator.group.conversation import Ask, Conversation

INTERVAL_MS = 5_000
SESSION_MS = 45_000


class Sharers(Conversation):
    """A conversation with one share group, "g", about topics that the test sets."""

    def __init__(self, *, share: ShareGroupConfig | None = None, **config: int) -> None:
        super().__init__(share=share, **config)
        self.set_topics(t=4)

    def set_topics(self, **counts: int) -> None:
        """Replace the topics of the cluster, by name and number of partitions."""
        by_name = {name: Topic(name, topic_id(name), count) for name, count in counts.items()}
        self.topics = ClusterTopics(by_name, self.topics.version + 1)

    def beat(self, member_id: str, epoch: int, group: str = "g", **fields: Any) -> ModernHeartbeatReply:
        ask = Ask()
        request = ShareHeartbeatRequest(
            group, member_id, epoch, client_id="client", client_host="/10.0.0.1", **fields
        )
        self._take(run_through(self.coordinator.share.heartbeat(request, ask, self.now)))
        reply: ModernHeartbeatReply = ask.reply
        return reply

    def enter(
        self, member_id: str, topics: Iterable[str] = ("t",), group: str = "g", **fields: Any
    ) -> ModernHeartbeatReply:
        """Send the first heartbeat of a member."""
        return self.beat(member_id, 0, group, topics=tuple(topics), **fields)

    def initialize(self, group: str = "g", *, failed: Mapping[bytes, frozenset[int]] | None = None) -> None:
        """Complete the states that are being initialized; those of `failed` could not be."""
        self.coordinator.share.take_pending_states()
        failed = failed or {}
        done = {
            topic: named.partitions - failed.get(topic, frozenset())
            for topic, named in self.coordinator.share.states(group).initializing.items()
        }
        self._take(run_through(self.coordinator.share.complete_states(group, done, failed, Ask(), self.now)))

    def ready(self, *member_ids: str, topics: Iterable[str] = ("t",)) -> None:
        """Let members enter, and have the partitions of the topics."""
        for member_id in member_ids:
            self.enter(member_id, topics)
        self.initialize()
        for _ in range(2):
            for member_id in member_ids:
                self.beat(member_id, self.group().members[member_id].epoch)

    def group(self, group_id: str = "g") -> ShareGroup:
        found = self.coordinator.groups.by_id[group_id]
        assert isinstance(found, ShareGroup)
        return found

    def described(self, group_id: str = "g") -> DescribedModernGroup[ShareMember]:
        return self.coordinator.share.described(group_id)

    def assigned(self, group_id: str = "g") -> dict[str, Partitions]:
        """Return the assigned partitions by member."""
        return {each.member_id: by_name(each.assigned) for each in self.described(group_id).members}

    def begin(self, start: str = "t", *partitions: int, group: str = "g") -> Any:
        """Begin the states of partitions on request, and return the reply."""
        ask = Ask()
        named = {topic_id(start): NamedPartitions(start, frozenset(partitions))}
        self._take(run_through(self.coordinator.share.begin_states(group, named, ask, self.now)))
        return ask.reply

    def begin_deletion(self, *topics: str, group: str = "g") -> Any:
        """Begin to delete the states of topics, of all without any, and return the reply."""
        ask = Ask()
        wanted = [topic_id(name) for name in topics] or None
        self._take(run_through(self.coordinator.share.begin_deletion(group, wanted, ask, self.now)))
        return ask.reply

    def complete_deletion(self, *topics: str, group: str = "g") -> Any:
        ask = Ask()
        gone = [topic_id(name) for name in topics]
        self._take(run_through(self.coordinator.share.complete_deletion(group, gone, ask, self.now)))
        return ask.reply

    def snapshot(self, group_id: str = "g") -> Any:
        """Return everything that must survive a restart, or be as before after a failed write."""
        group = self.coordinator.groups.by_id.get(group_id)
        if not isinstance(group, ShareGroup):
            return group and (type(group), group.state)
        return (
            group.epoch,
            group.target_epoch,
            group.metadata_hash,
            dict(group.members),
            {member_id: dict(target) for member_id, target in group.targets.items()},
            group.states,
            group.size,
        )

    def reborn(self, records: int | None = None) -> "Sharers":
        """Return a new coordinator built from the first records of this one, or from all."""
        other = type(self)(share=self.share)
        other.topics = self.topics
        other.records = self.records[:records]
        for key, value in other.records:
            other.coordinator.replay(key, value)
        other.elapsed = self.elapsed
        other._take(other.coordinator.loaded(other.now))
        return other


__all__ = ["Partitions", "Sharers", "by_id", "by_name", "topic_id"]

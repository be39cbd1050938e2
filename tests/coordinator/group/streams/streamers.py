"""Members of streams groups that talk to a coordinator on a manual clock.

`Thread` behaves as a thread of an application does: it gives up what it may no longer run, and reports its
tasks when they have changed.
"""

from collections.abc import Mapping
from typing import Any

from broker.common.slices import Steps, run_through
from broker.config.sections.streams_groups import StreamsGroupConfig
from broker.coordinator.group.consumer.assignment import ClusterTopics
from broker.coordinator.group.messages import Effects, StreamsHeartbeatReply, StreamsHeartbeatRequest
from broker.coordinator.group.streams.assignor import NOTHING, TaskSets
from broker.coordinator.group.streams.coordinator import DescribedStreamsGroup
from broker.coordinator.group.streams.group import StreamsGroup
from broker.coordinator.group.streams.owners import TaskOwners
from broker.coordinator.group.streams.topology import Subtopology, TopicInfo, Topology
from tests.coordinator.group.consumer.consumers import Topic, topic_id
from tests.coordinator.group.conversation import Ask, Conversation

REBALANCE_MS = 60_000
INTERVAL_MS = 5_000
SESSION_MS = 45_000
DELAY_MS = 3_000

COUNTS = Topology(0, (Subtopology("0", ("t",), state_changelog_topics=(TopicInfo("app-counts-changelog"),)),))
"""One subtopology with state, which reads `t`."""


def tasks(
    active: Mapping[str, set[int]] | None = None,
    standby: Mapping[str, set[int]] | None = None,
    warmup: Mapping[str, set[int]] | None = None,
) -> TaskSets:
    return TaskSets(
        *(
            {each: frozenset(some[each]) for each in some}
            for some in (active or {}, standby or {}, warmup or {})
        )
    )


class Streamers(Conversation):
    """A conversation with one streams group, "g", about topics that the test sets. There is no delay of the
    first assignment, and no interval between two, unless the test says so.
    """

    def __init__(self, *, streams: StreamsGroupConfig | None = None, **config: int) -> None:
        at_once = StreamsGroupConfig(initial_delay_ms=0, assignment_interval_ms=0)
        super().__init__(streams=streams or at_once, **config)
        self.set_topics(**{"t": 4, "app-counts-changelog": 4})

    def set_topics(self, **counts: int) -> None:
        """Replace the topics of the cluster, by name and number of partitions."""
        by_name = {name: Topic(name, topic_id(name), count) for name, count in counts.items()}
        self.topics = ClusterTopics(by_name, self.topics.version + 1)

    def beat(self, member_id: str, epoch: int, group: str = "g", **fields: Any) -> StreamsHeartbeatReply:
        return self.end(*self.begin(member_id, epoch, group, **fields))

    def begin(
        self, member_id: str, epoch: int, group: str = "g", **fields: Any
    ) -> tuple[Ask, Steps[Effects]]:
        """Begin a heartbeat, which the caller goes on with."""
        ask = Ask()
        client = {"client_id": "client", "client_host": "/10.0.0.1", "endpoint_epoch": 0}
        request = StreamsHeartbeatRequest(group, member_id, epoch, **(client | fields))
        return ask, self.coordinator.streams.heartbeat(request, ask, self.now)

    def end(self, ask: Ask, steps: Steps[Effects]) -> StreamsHeartbeatReply:
        """Go on with a heartbeat to its end."""
        self._take(run_through(steps))
        reply: StreamsHeartbeatReply = ask.reply
        return reply

    def enter(
        self, member_id: str, process: str = "", group: str = "g", **fields: Any
    ) -> StreamsHeartbeatReply:
        """Send the first heartbeat of a member, of a process of its own unless stated."""
        stated: dict[str, Any] = {
            "rebalance_timeout_ms": REBALANCE_MS,
            "owned": NOTHING,
            "topology": COUNTS,
            "process_id": process or f"process-{member_id}",
        }
        return self.beat(member_id, 0, group, **(stated | fields))

    def group(self, group_id: str = "g") -> StreamsGroup:
        found = self.coordinator.groups.by_id[group_id]
        assert isinstance(found, StreamsGroup)
        return found

    def described(self, group_id: str = "g") -> DescribedStreamsGroup:
        return run_through(self.coordinator.streams.described(group_id))

    def assigned(self, group_id: str = "g") -> dict[str, TaskSets]:
        """Return the assigned tasks by member."""
        return {
            each.member_id: run_through(each.assigned.sets()) for each in self.described(group_id).members
        }

    def snapshot(self, group_id: str = "g") -> Any:
        """Return everything that must survive a restart, or be as before after a failed write."""
        group = self.coordinator.groups.by_id.get(group_id)
        if not isinstance(group, StreamsGroup):
            return group and (type(group), group.state, list(group.members))
        owners = TaskOwners()
        for member in group.members.values():
            run_through(owners.add(member.process_id, member.assigned))
            run_through(owners.add(member.process_id, member.revoking))
        assert group.owners == owners
        assert group.owners.count == owners.count
        return (
            group.state,
            group.epoch,
            group.target_epoch,
            group.assigned_wall_ms,
            group.metadata_hash,
            group.topology,
            group.validated_epoch,
            group.configs,
            dict(group.members),
            dict(group.static_ids),
            dict(group.targets),
            group.size,
        )

    def reborn(self, records: int | None = None) -> "Streamers":
        """Return a new coordinator built from the first records of this one, or from all."""
        other = type(self)(streams=self.streams)
        other.topics, other.group_configs = self.topics, self.group_configs
        other.records = self.records[:records]
        for key, value in other.records:
            other.coordinator.replay(key, value)
        other.elapsed = self.elapsed
        other._take(other.coordinator.loaded(other.now))
        return other


class Thread:
    """A thread of an application. `epoch` and `running` are what it has learnt and acted on."""

    def __init__(self, talk: Streamers, member_id: str, process: str = "", **fields: Any) -> None:
        self.talk = talk
        self.member_id = member_id
        self.process = process
        self.fields = fields
        self.epoch = 0
        self.target = NOTHING
        self.running = NOTHING

    def enter(self, **fields: Any) -> StreamsHeartbeatReply:
        return self._learn(self.talk.enter(self.member_id, self.process, **(self.fields | fields)))

    def beat(self, **fields: Any) -> StreamsHeartbeatReply:
        """Report the tasks that it runs."""
        return self._learn(self.talk.beat(self.member_id, self.epoch, owned=self.running, **fields))

    def act(self) -> None:
        """Give up and begin what the coordinator has said."""
        self.running = self.target

    def _learn(self, reply: StreamsHeartbeatReply) -> StreamsHeartbeatReply:
        if not reply.error:
            self.epoch = reply.epoch
            if reply.tasks is not None:
                self.target = reply.tasks
        return reply


def settle(*threads: Thread) -> None:
    """Let the threads act and send heartbeats until nothing changes."""
    for _ in range(20):
        before = [(each.epoch, each.target, each.running) for each in threads]
        for each in threads:
            each.act()
            each.beat()
        if before == [(each.epoch, each.target, each.running) for each in threads]:
            return
    raise AssertionError("the threads never settle")

"""What a committed change of quotas, topics and client metrics means to the rooms that live by them.

Told by control after each commit and before its answer, so that whoever asked for the change finds it in
force.
"""

from collections.abc import Iterable, Iterator, Sequence

from broker.api.broker import Broker
from broker.api.group_answers import forget_topics
from broker.api.waking import wake_fetches
from broker.config.topic import topic_throttles
from broker.metadata.changes import Delta
from broker.metadata.image import Image
from broker.network.socket_server import SocketServer
from broker.quotas.connections import ConnectionQuotas
from broker.quotas.entity import Entity
from broker.telemetry.subscription import read_subscription


class MetadataFollower:
    """Begins with all that the image holds at the start."""

    def __init__(
        self, broker: Broker, server: SocketServer, connections: Sequence[ConnectionQuotas], image: Image
    ) -> None:
        self._broker = broker
        self._server = server
        self._connections = connections
        self._times_requests = False
        broker.partitions.begin(image)
        self._mark_throttled(image, image.topics)
        for entry in image.quotas.values():
            for key, limit in entry.limits.items():
                self._apply_quota(Entity.of(entry.entity), key, limit.value)
            if entry.shadow:
                broker.quotas.set_shadow(Entity.of(entry.entity), is_shadow=True)
        self._tell_topics(image)
        self._time_requests()
        self._server.throttling.follow_rules(self._server.channels)
        self._follow_subscriptions(image, image.client_metrics)

    def follow(self, old: Image, new: Image, delta: Delta) -> Iterator[None]:
        """A commit: quotas hold from the next request on, topics exist, and kept answers are forgotten. Stops
        after each quota.
        """
        if delta.quotas or delta.shadows:
            yield from self._follow_quotas(delta)
        self._server.forget_answers()
        if delta.topics:
            self._follow_topics(old, new, delta)
            self._tell_topics(new)
        if delta.client_metrics:
            self._follow_subscriptions(new, delta.client_metrics)

    def _follow_quotas(self, delta: Delta) -> Iterator[None]:
        for mark in delta.shadows:
            entity = Entity.of(mark.entity)
            self._broker.quotas.set_shadow(entity, is_shadow=mark.is_shadow, now_ms=self._broker.clock.ms())
            yield
        # Whose rule goes may have another by the same commit, and is then not freed between the two.
        for change in sorted(delta.quotas, key=lambda change: change.value is None):
            self._apply_quota(Entity.of(change.entity), change.key, change.value)
            yield
        self._time_requests()
        self._server.throttling.follow_rules(self._server.channels)

    def _apply_quota(self, entity: Entity, key: str, value: float | None) -> None:
        if entity.ip is None:
            self._broker.quotas.apply(entity, key, value, self._broker.clock.ms())
        else:
            for connections in self._connections:
                connections.set_ip_rate(entity.ip, value)

    def _mark_throttled(self, image: Image, names: Iterable[str]) -> None:
        for name in names:
            topic = image.topics.get(name)
            self._broker.replication.mark(name, None if topic is None else topic_throttles(topic.configs))

    def _tell_topics(self, image: Image) -> None:
        """A quota callback may have other limits by that."""
        quotas, now_ms = self._broker.quotas, self._broker.clock.ms()
        if quotas.callback is not None:
            partitions = {name: topic.partitions for name, topic in image.topics.items()}
            quotas.follow_cluster(image.cluster_id, self._broker.config.node_id, partitions, now_ms)

    def _time_requests(self) -> None:
        """Requests are timed while a rule is there for it."""
        wanted = self._broker.quotas.request.active
        if wanted is not self._times_requests:
            self._times_requests = wanted
            self._server.time_requests(wanted)

    def _follow_subscriptions(self, image: Image, names: Iterable[str]) -> None:
        entries = {name: image.client_metrics.get(name) for name in names}
        self._broker.telemetry.manager.follow(
            {
                name: None if entry is None else read_subscription(name, entry.configs)
                for name, entry in entries.items()
            }
        )

    def _follow_topics(self, old: Image, new: Image, delta: Delta) -> None:
        broker, clock = self._broker, self._broker.clock
        self._mark_throttled(new, delta.topics)
        for log in broker.partitions.follow(new, delta.topics):
            wake_fetches(broker, log)
        gone = [
            (name, old.topics[name].partitions)
            for name in delta.topics
            if name in old.topics and name not in new.topics
        ]
        if gone:
            forget_topics(broker, gone, clock.ms(), clock.wall_ms())
        self._server.handlers.deliver()

"""Applies committed changes of quotas, topics and client metrics to the packages that they concern.

Called by control after each commit and before its response, so that the change is in force when the client
receives the response.
"""

from collections.abc import Iterable, Sequence

from broker.api.delayed_operations import DelayedFetches
from broker.api.group_requests import forget_topics
from broker.api.services import GroupServices
from broker.clock import Clock
from broker.config.sections.topics import topic_throttles
from broker.metadata.image import Image
from broker.metadata.publisher import Delta, QuotaChange, ShadowChange
from broker.network.socket_server import SocketServer
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.connections import ConnectionQuotas
from broker.quotas.entity import Entity
from broker.quotas.replication import ReplicationQuotas
from broker.security.unknown_users import UnknownUsers
from broker.services.partitions import Partitions
from broker.steps import Steps, finished
from broker.telemetry.manager import TelemetryManager
from broker.telemetry.subscription import read_subscription


class MetadataListener:
    """Starts with the contents of the image at start."""

    def __init__(
        self,
        image: Image,
        *,
        clock: Clock,
        node_id: int,
        server: SocketServer,
        partitions: Partitions,
        fetches: DelayedFetches,
        groups: GroupServices,
        quotas: ClientQuotas,
        connections: Sequence[ConnectionQuotas],
        replication: ReplicationQuotas,
        unknown_users: UnknownUsers,
        telemetry: TelemetryManager,
    ) -> None:
        self._clock = clock
        self._node_id = node_id
        self._server = server
        self._partitions = partitions
        self._fetches = fetches
        self._groups = groups
        self._quotas = quotas
        self._connections = connections
        self._replication = replication
        self._unknown_users = unknown_users
        self._telemetry = telemetry
        self._times_requests = False
        partitions.begin(image)
        self._mark_throttled(image, image.topics)
        changes = [
            QuotaChange(entry.entity, key, limit.value)
            for entry in image.quotas.values()
            for key, limit in entry.limits.items()
        ]
        marks = [ShadowChange(entry.entity, True) for entry in image.quotas.values() if entry.shadow]
        finished(self._apply_quotas(changes, marks))
        self._update_topics(image)
        finished(self._apply_subscriptions(image, image.client_metrics))

    def prepare(self, _old: Image, new: Image, delta: Delta) -> Steps[None]:
        """Create the topics and partitions of a commit before any client can see them."""
        for name in delta.topics:
            self._mark_throttled(new, (name,))
            yield
        yield from self._partitions.host_in_steps(new, delta.topics)

    def follow(self, old: Image, new: Image, delta: Delta) -> Steps[None]:
        """Apply a commit: update quotas, delete topics, and invalidate cached responses.

        Yields after each quota and each topic.
        """
        self._server.clear_caches()
        if delta.quotas or delta.shadows:
            yield from self._apply_quotas(delta.quotas, delta.shadows)
        if delta.topics:
            yield from self._apply_topics(old, new, delta)
            self._update_topics(new)
        if delta.client_metrics:
            yield from self._apply_subscriptions(new, delta.client_metrics)
        if delta.scram:
            yield from self._unknown_users.follow(old.scram, new.scram, delta.scram)

    def _apply_quotas(self, quotas: Sequence[QuotaChange], marks: Sequence[ShadowChange]) -> Steps[None]:
        """Apply all client limits at once, and the limits of addresses one after the other."""
        limits: list[tuple[Entity, str, float | None]] = []
        for change in quotas:
            entity = Entity.of(change.entity)
            if entity.ip is None:
                limits.append((entity, change.key, change.value))
            else:
                for connections in self._connections:
                    connections.set_ip_rate(entity.ip, change.value)
            yield
        if limits or marks:
            shadows = ((Entity.of(mark.entity), mark.is_shadow) for mark in marks)
            drafts = yield from self._quotas.draft(limits, shadows)
            yield from self._quotas.switch(drafts, self._clock.ms())
        self._time_requests()
        yield from self._server.throttling.apply_rules(self._server.channels)

    def _mark_throttled(self, image: Image, names: Iterable[str]) -> None:
        for name in names:
            topic = image.topics.get(name)
            self._replication.mark(name, None if topic is None else topic_throttles(topic.configs))

    def _update_topics(self, image: Image) -> None:
        """A quota callback can return other limits after a change of topics."""
        quotas, now_ms = self._quotas, self._clock.ms()
        if quotas.callback is not None:
            partitions = {name: topic.partitions for name, topic in image.topics.items()}
            quotas.update_cluster_metadata(image.cluster_id, self._node_id, partitions, now_ms)

    def _time_requests(self) -> None:
        """Measure request times while a rule limits them."""
        wanted = self._quotas.request.active
        if wanted is not self._times_requests:
            self._times_requests = wanted
            self._server.time_requests(wanted)

    def _apply_subscriptions(self, image: Image, names: Iterable[str]) -> Steps[None]:
        for name in names:
            entry = image.client_metrics.get(name)
            subscription = None if entry is None else read_subscription(name, entry.configs)
            self._telemetry.follow({name: subscription})
            yield

    def _apply_topics(self, old: Image, new: Image, delta: Delta) -> Steps[None]:
        partitions, clock = self._partitions, self._clock
        gone: list[tuple[str, int]] = []
        for name in delta.topics:
            topic = old.topics.get(name)
            if topic is not None and (name not in new.topics or new.topics[name].topic_id != topic.topic_id):
                gone.append((name, topic.partitions))
            yield
        if gone:
            names = [name for name, _ in gone]
            yield from partitions.delete_in_steps(new, names, self._fetches.complete)
            yield from partitions.host_in_steps(new, names)
            forgotten = {name: count for name, count in gone if name not in new.topics}
            yield from forget_topics(self._groups, forgotten, clock.ms, clock.wall_ms)
            self._server.clear_caches()
        self._server.handlers.deliver()

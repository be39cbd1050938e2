"""Applies committed changes of quotas, topics and client metrics to the packages that they concern.

Called by control after each commit and before its response, so that the change is in force when the client
receives the response.
"""

from collections.abc import Iterable, Sequence
from functools import partial

from broker.api.broker import Broker
from broker.api.delayed_fetch import complete_fetches
from broker.api.group_answers import forget_topics
from broker.config.sections.topics import topic_throttles
from broker.metadata.image import Image
from broker.metadata.publisher import Delta, QuotaChange, ShadowChange
from broker.network.socket_server import SocketServer
from broker.quotas.connections import ConnectionQuotas
from broker.quotas.entity import Entity
from broker.steps import Steps, finished
from broker.telemetry.subscription import read_subscription


class MetadataListener:
    """Starts with the contents of the image at start."""

    def __init__(
        self, broker: Broker, server: SocketServer, connections: Sequence[ConnectionQuotas], image: Image
    ) -> None:
        self._broker = broker
        self._server = server
        self._connections = connections
        self._times_requests = False
        broker.partitions.begin(image)
        self._mark_throttled(image, image.topics)
        quotas = [
            QuotaChange(entry.entity, key, limit.value)
            for entry in image.quotas.values()
            for key, limit in entry.limits.items()
        ]
        marks = [ShadowChange(entry.entity, True) for entry in image.quotas.values() if entry.shadow]
        finished(self._apply_quotas(quotas, marks))
        self._update_topics(image)
        finished(self._apply_subscriptions(image, image.client_metrics))

    def prepare(self, _old: Image, new: Image, delta: Delta) -> Steps[None]:
        """Create the topics and partitions of a commit before any client can see them."""
        for name in delta.topics:
            self._mark_throttled(new, (name,))
            yield
        yield from self._broker.partitions.host_in_steps(new, delta.topics)

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
            yield from self._broker.unknown_users.follow(old.scram, new.scram, delta.scram)

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
            of_clients = self._broker.quotas
            shadows = ((Entity.of(mark.entity), mark.is_shadow) for mark in marks)
            drafts = yield from of_clients.draft(limits, shadows)
            yield from of_clients.switch(drafts, self._broker.clock.ms())
        self._time_requests()
        yield from self._server.throttling.apply_rules(self._server.channels)

    def _mark_throttled(self, image: Image, names: Iterable[str]) -> None:
        for name in names:
            topic = image.topics.get(name)
            self._broker.replication.mark(name, None if topic is None else topic_throttles(topic.configs))

    def _update_topics(self, image: Image) -> None:
        """A quota callback can return other limits after a change of topics."""
        quotas, now_ms = self._broker.quotas, self._broker.clock.ms()
        if quotas.callback is not None:
            partitions = {name: topic.partitions for name, topic in image.topics.items()}
            quotas.update_cluster_metadata(image.cluster_id, self._broker.config.node_id, partitions, now_ms)

    def _time_requests(self) -> None:
        """Measure request times while a rule limits them."""
        wanted = self._broker.quotas.request.active
        if wanted is not self._times_requests:
            self._times_requests = wanted
            self._server.time_requests(wanted)

    def _apply_subscriptions(self, image: Image, names: Iterable[str]) -> Steps[None]:
        for name in names:
            entry = image.client_metrics.get(name)
            subscription = None if entry is None else read_subscription(name, entry.configs)
            self._broker.telemetry.manager.follow({name: subscription})
            yield

    def _apply_topics(self, old: Image, new: Image, delta: Delta) -> Steps[None]:
        broker, clock = self._broker, self._broker.clock
        gone: list[tuple[str, int]] = []
        for name in delta.topics:
            topic = old.topics.get(name)
            if topic is not None and (name not in new.topics or new.topics[name].topic_id != topic.topic_id):
                gone.append((name, topic.partitions))
            yield
        if gone:
            names = [name for name, _ in gone]
            yield from broker.partitions.delete_in_steps(new, names, partial(complete_fetches, broker))
            yield from broker.partitions.host_in_steps(new, names)
            forgotten = {name: count for name, count in gone if name not in new.topics}
            yield from forget_topics(broker, forgotten, clock.ms, clock.wall_ms)
            self._server.clear_caches()
        self._server.handlers.deliver()

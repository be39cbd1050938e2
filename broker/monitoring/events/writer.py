"""The task that writes the broker's events to their topics, once a second.

Made by `server`, started by `app`. Takes the sources' events in portions with checkpoints in between, and has
them appended: by `LocalTopics` to the broker's own logs, by `gateway.event_topics` to the upstream cluster's.
No request waits for it.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import trio

from broker.api.requests.automatic_topics import automatic_topic
from broker.api.requests.delayed_operations import DelayedFetches
from broker.common.clock import Clock
from broker.config.sections import EventConfig
from broker.controller.commands import CreateTopics
from broker.controller.control import Control
from broker.coordinator.transaction.state import CoordinatorAbort
from broker.metadata.actor import BROKER_ITSELF
from broker.monitoring.events.activity import (
    ConnectionEvents,
    EventSource,
    RequestEvents,
    ThrottleEvents,
    TransactionEvents,
)
from broker.monitoring.events.quota_changes import QuotaChangeEvents
from broker.network.connection.channel import Channel
from broker.network.socket_server import SocketServer
from broker.partitions.event_log import EventBuffer, EventLog, EventOrigin
from broker.quotas.throttle_compliance import ThrottleCompliance
from broker.quotas.throttled import Throttle
from broker.records.build import NewRecord

logger = logging.getLogger(__name__)

INTERVAL_SECONDS: Final = 1.0

FINISHED_WITHIN_S: Final = 2.0
FINISH_PAUSE_S: Final = 0.1
"""How long, and how often, a shutdown tries to write what is left; ours."""

ROWS_PER_CHECKPOINT: Final = 100
"""Rows encoded between two checkpoints, about a millisecond of work."""


class LocalTopics:
    """The event topics of this broker: created when missing, appended to, and their waiting fetches
    completed.
    """

    def __init__(
        self, log: EventLog, control: Control, fetches: DelayedFetches, deliver: Callable[[], None]
    ) -> None:
        self._log = log
        self._control = control
        self._fetches = fetches
        self._deliver = deliver

    async def append(self, wall_ms: int) -> None:
        """Append all buffered records."""
        missing = self._log.missing()
        if missing:
            topics = tuple(automatic_topic(name, self._control.config) for name in missing)
            await self._control.apply(CreateTopics(topics), BROKER_ITSELF)
        for log in self._log.write(wall_ms):
            self._fetches.complete(log)
        self._deliver()


class EventWriter:
    """Writes the events of its sources. A watcher of the network for the enabled sources.

    `log` also accepts records of other packages (pushed telemetry). `append(wall_ms)` writes what it holds.
    """

    def __init__(
        self,
        log: EventBuffer,
        append: Callable[[int], Awaitable[None]],
        origin: EventOrigin,
        clock: Clock,
        control: Control,
        throttle_compliance: ThrottleCompliance,
        server: SocketServer,
        config: EventConfig,
    ) -> None:
        self.log = log
        self._append = append
        self._clock = clock
        self._server = server
        self._origin = origin
        max_rows = config.max_rows_per_second
        self._requests = RequestEvents(max_rows, server.client_usage, server.metrics)
        self._throttles = ThrottleEvents(max_rows, throttle_compliance)
        self._connections = ConnectionEvents(max_rows)
        self._quota_changes = QuotaChangeEvents(max_rows, lambda: control.image)
        self._transactions = TransactionEvents(max_rows)
        self._lost_changes = 0
        self._wanted: frozenset[str] = frozenset()
        server.observers.append(self)
        control.subscribe(self._quota_changes.on_metadata_update)
        self.apply_config(config)

    @property
    def sources(self) -> tuple[EventSource, ...]:
        return self._requests, self._throttles, self._connections, self._quota_changes, self._transactions

    def apply_config(self, config: EventConfig) -> None:
        """Apply new settings; events that are already collected are still written."""
        self._wanted = frozenset(config.topics)
        is_counted = "requests" in self._wanted
        if is_counted:
            self._requests.begin()
        self._server.count_by_client(is_counted)
        if "quota_changes" in self._wanted:
            self._quota_changes.begin(config.retention_ms)
        else:
            self._quota_changes.end()

    async def run(self) -> None:
        """Run until cancelled. Unwritten events are then lost unless `write` is called once more."""
        while True:
            await trio.sleep(INTERVAL_SECONDS)
            await self.write()

    async def write(self) -> None:
        """Write the collected events."""
        wall_ms = self._clock.wall_ms()
        headers = self._origin.headers()
        for source in self._due():
            for number, (key, value) in enumerate(source.drain(wall_ms), 1):
                self.log.offer(source.topic, NewRecord(key, value, wall_ms, headers))
                if not number % ROWS_PER_CHECKPOINT:
                    await trio.lowlevel.checkpoint()
            if source.left_out:
                self.log.drop(source.topic, source.left_out)
                source.left_out = 0
        await self._append(wall_ms)
        self._check_lost_changes()

    async def finish(self) -> None:
        """Write the collected events at shutdown, and for FINISHED_WITHIN_S what could not be written yet."""
        await self.write()
        await append_rest(self.log, lambda: self._append(self._clock.wall_ms()))

    def _due(self) -> Iterable[EventSource]:
        """Return the sources to read, without requests while they are not counted: cache hits always are."""
        return self.sources if "requests" in self._wanted else self.sources[1:]

    def _check_lost_changes(self) -> None:
        waiting = self.log.topics.get(self._quota_changes.topic)
        if waiting is not None and waiting.dropped != self._lost_changes:
            self._lost_changes = waiting.dropped
            self._quota_changes.on_loss()

    def aborted(self, abort: CoordinatorAbort) -> None:
        """Note a transaction that the coordinator aborted."""
        if "transactions" in self._wanted:
            self._transactions.aborted(abort)

    # Implements broker.network.observers.ConnectionObserver.

    def opened(self, channel: Channel) -> None:
        if "connections" in self._wanted:
            self._connections.opened(channel)

    def closed(self, channel: Channel, reason: str) -> None:
        if "connections" in self._wanted:
            self._connections.closed(channel, reason)

    def refused(self, listener: str, address: str, rule: str, bound: float) -> None:
        if "connections" in self._wanted:
            self._connections.refused(listener, address, rule, bound)

    def delayed(self, listener: str, address: str, throttle_ms: int, bound: float) -> None:
        if "connections" in self._wanted:
            self._connections.delayed(listener, address, throttle_ms, bound)

    def throttled(self, channel: Channel, throttle: Throttle) -> None:
        if "throttles" in self._wanted:
            self._throttles.throttled(channel, throttle)


async def append_rest(log: EventBuffer, append: Callable[[], Awaitable[None]]) -> None:
    """Call `append` every FINISH_PAUSE_S until nothing waits, for FINISHED_WITHIN_S at most."""
    deadline = trio.current_time() + FINISHED_WITHIN_S
    while any(waiting.records for waiting in log.topics.values()) and trio.current_time() < deadline:
        await trio.sleep(FINISH_PAUSE_S)
        await append()

"""The composition root: builds every service once, opens the nursery tree, and drains it.

The nesting of the nurseries is the shutdown order: the front (acceptors) stops first, then processors and
console, handlers, timers, storage. There are no stop flags: a nursery is cancelled or a channel is
closed, and what hangs on it ends.
"""

import gc
import logging
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import trio

from broker.api import registry
from broker.api.broker import Broker
from broker.api.callbacks import Callbacks
from broker.api.group_answers import expire_groups, forget_topics, release_groups
from broker.api.waking import expire_fetches, release_fetches, wake_fetches
from broker.census import Census
from broker.config.load import Configuration
from broker.control.commands import IssueAdminToken
from broker.control.control import Control
from broker.control.forgetting import blaming_dynamic, changes_to_forget
from broker.control.reading import ControlViews
from broker.control.views import Place
from broker.exposition.page import Exposition
from broker.figures import BrokerFigures
from broker.following import follow_settings, longest_throttle
from broker.groups.requests import Now
from broker.holdings import holdings
from broker.log.report import Recovery
from broker.log.store import LogStore
from broker.metadata.actor import BROKER_ITSELF, COMMAND_LINE, Role
from broker.metadata.changes import Delta
from broker.metadata.image import Image
from broker.metadata.store import MetadataStore
from broker.metrics.window import Window
from broker.network.automq.machinery import automq
from broker.network.clock import TrioClock
from broker.network.handling.handler_pool import CALLBACKS
from broker.network.loop_idle import LoopIdle
from broker.network.machinery import KAFKA
from broker.network.measuring.request_log import RequestLog
from broker.network.reaper import Reaper
from broker.network.socket_server import SocketServer
from broker.network.supervisor import Supervisor, open_supervisor
from broker.purgatory.purgatory import Purgatory
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.connections import ConnectionQuotas
from broker.quotas.entity import Entity
from broker.security.plain import PlainAuthenticator
from broker.services.fetch_sessions import FetchSessions
from broker.services.group_service import GroupService
from broker.services.partitions import Partitions
from broker.services.producer_ids import ProducerIds
from broker.storage import MetadataWriter, start_storage
from broker.version import VERSION
from broker.web import start_console

logger = logging.getLogger(__name__)

QUOTA_EXPIRY_SECONDS: Final = 30
TOKEN_NAME: Final = "administrator"  # noqa: S105 - a name
METADATA_FILE: Final = "weir-metadata.sqlite"


@dataclass(frozen=True, slots=True)
class Started:
    """What `run_broker` reports once clients are served. `console_url` holds the token if one was just made;
    it is None without a console. `stopped` is set when everything has ended.
    """

    bootstrap: tuple[str, ...]
    console_url: str | None
    stopped: trio.Event


async def run_broker(
    configuration: Configuration,
    stop: trio.Event,
    *,
    task_status: trio.TaskStatus[Started] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Runs the broker until `stop` is set, then drains it for `shutdown.drain.timeout.ms` at most.

    Raises ConfigError or OSError where it cannot start. Cancelled, it stops at once; what was acknowledged
    is in the page cache either way.
    """
    clock = TrioClock()
    house = House(configuration, clock)
    try:
        await house.run(stop, task_status)
    finally:
        house.close()


class House:
    """Everything that is built once, before anything runs."""

    def __init__(self, configuration: Configuration, clock: TrioClock) -> None:
        self.clock = clock
        first_directory = Path(configuration.rooms.log.dirs[0])
        first_directory.mkdir(parents=True, exist_ok=True)
        self.metadata = MetadataStore.open(first_directory / METADATA_FILE, clock.wall_ms())
        self.writer = MetadataWriter(self.metadata, clock)
        forgotten = changes_to_forget(configuration.forget, self.metadata.image)
        if forgotten:
            self.metadata.commit(forgotten, COMMAND_LINE, clock.wall_ms())
        blame = partial(blaming_dynamic, self.metadata.image, configuration.rooms.broker.node_id)
        with blame():
            self.control = Control(self.metadata.image, configuration, self.writer)
        rooms = self.rooms = self.control.rooms
        self.log = LogStore(rooms.log)
        _report(self.log.open(rooms.topic_settings))
        window = Window(rooms.quotas.window_num, rooms.quotas.window_size_seconds * 1000)
        self.connections = ConnectionQuotas(
            window,
            protected=rooms.network.inter_broker_listener,
            broker_wide_ip=rooms.automq.server_mode == "automq",
        )
        self.quotas = ClientQuotas(
            window,
            Window(rooms.quotas.controller_window_num, rooms.quotas.controller_window_size_seconds * 1000),
            longest_throttle_ms=longest_throttle(rooms.quotas),
            paced=rooms.quotas.bandwidth_algorithm == "paced",
        )
        self.partitions = Partitions(self.log, lambda: self.control.rooms.topic_settings)
        self.broker = Broker(
            clock=clock,
            config=rooms.broker,
            topic_defaults=rooms.topics,
            group_config=rooms.groups,
            fetch_config=rooms.fetch,
            security_config=rooms.security,
            registry=registry.load(),
            control=self.control,
            partitions=self.partitions,
            quotas=self.quotas,
            fetches=Purgatory("Fetch", rooms.fetch.fetch_purge_interval),
            produces=Purgatory("Produce", rooms.fetch.produce_purge_interval),
            sessions=FetchSessions(rooms.fetch.max_incremental_sessions),
            groups=GroupService(rooms.groups, self.partitions),
            producer_ids=ProducerIds(),
            plain=PlainAuthenticator.from_jaas(rooms.security.plain_jaas),
            callbacks=Callbacks(rooms.network.queued_max_requests),
        )
        self.reapers = self._reapers()
        RequestLog.check(rooms.request_log)
        with blame():
            self.server = SocketServer(
                rooms.network,
                rooms.tls,
                rooms.security.sasl_server_max_receive_size,
                self.broker,
                self.connections,
                clock,
                self.reapers,
                automq(rooms.automq) if rooms.automq.server_mode == "automq" else KAFKA,
            )
        self.server.gate.configure(rooms.connections)
        self.server.log_requests(rooms.request_log)
        self.exposition = Exposition(
            clock, self.server, self.quotas, self.partitions, self.broker.purgatories
        )
        self.place = Place(VERSION, (), "")
        self.loop_idle = LoopIdle(clock)
        self.census = Census(clock, holdings(self.server, self.broker, self.loop_idle))
        figures = BrokerFigures(
            clock,
            self.server,
            self.quotas,
            self.partitions,
            self.broker.groups,
            self.loop_idle,
            self.census.rows,
        )
        self.broker.views = ControlViews(self.control, figures, self.writer, lambda: self.place)
        self._times_requests = False
        self._follow_all(self.metadata.image)
        self._time_requests()
        self.broker.groups.load(Now(clock.ms(), clock.wall_ms()))
        follow_settings(self.broker, self.server, self.log, self._tell_bootstrap)
        self.control.subscribe(self._follow)

    async def run(self, stop: trio.Event, task_status: trio.TaskStatus[Started]) -> None:
        """The nursery tree. Leaving a block stops what runs in it."""
        trio.lowlevel.add_instrument(self.loop_idle)
        self.census.begin()
        self._tell_bootstrap()
        stopped = trio.Event()
        async with open_supervisor() as storage:
            storage.start_soon(self.writer.last_error.wait, name="fatal-errors")
            start_storage(storage, self.log, self.rooms.log, self.server.handlers, self.clock)
            async with open_supervisor() as timers:
                self.server.throttling.start_reapers(timers)
                for reaper in (*self.reapers, self.server.handlers.flush_waits.reaper):
                    timers.start_soon(reaper.run, name=reaper.name)
                timers.start_soon(self.server.handlers.run_callbacks, name=CALLBACKS)
                timers.start_soon(self._expire_quotas, name="quota-sensor-expiry")
                async with open_supervisor() as handlers:
                    self.server.start_handlers(handlers)
                    async with open_supervisor() as console, open_supervisor() as processors:
                        self.server.start_processors(processors)
                        async with open_supervisor() as front:
                            await front.start(self.server.gate.run, name="connection-quotas")
                            self.server.start_acceptors(front)
                            url = await self._start_console(console, stop)
                            await self.server.wait_started()
                            _calm_collector()
                            task_status.started(Started(self.place.bootstrap, url, stopped))
                            await stop.wait()
                            self.server.stop_following()
                            front.cancel_scope.cancel()
                        await self._drain()
                        processors.cancel_scope.cancel()
                        console.cancel_scope.cancel()
                    await self.server.end_requests()
                timers.cancel_scope.cancel()
            storage.cancel_scope.cancel()
        stopped.set()

    def close(self) -> None:
        """What was appended is flushed, and the stores are closed."""
        for error in self.log.close():
            logger.error("a log was not closed cleanly", extra={"reason": str(error)})
        self.metadata.close()

    async def _drain(self) -> None:
        """Requests in hand are answered; those that wait get the answer that their time-out would give."""
        release_fetches(self.broker, self.clock.ms())
        release_groups(self.broker)
        self.server.handlers.deliver()
        with trio.move_on_after(self.rooms.broker.drain_timeout_ms / 1000) as deadline:
            await self.server.drain()
        if deadline.cancelled_caught:
            logger.warning("requests were still in hand at the end of the drain")

    async def _start_console(self, nursery: Supervisor, stop: trio.Event) -> str | None:
        settings = self.rooms.console
        if settings.listener is None:
            return None
        secret = self.rooms.security.admin_token
        made = secret is None and not self.control.image.tokens
        if made or secret is not None:
            issued = await self.control.apply(IssueAdminToken(TOKEN_NAME, Role.ADMIN, secret), BROKER_ITSELF)
            secret = issued.secret
        page = self.exposition.page
        host, port = await start_console(nursery, stop, settings, self.control, self.broker.views, page)
        shown = host if host not in ("0.0.0.0", "::") else "127.0.0.1"  # noqa: S104 - compared, not bound
        url = f"http://[{shown}]:{port}/" if ":" in shown else f"http://{shown}:{port}/"
        self.place = replace(self.place, console=url)
        return f"{url}?token={secret}" if made else url

    def _tell_bootstrap(self) -> None:
        self.place = replace(self.place, bootstrap=self.server.bootstrap())

    def _reapers(self) -> list[Reaper]:
        """Who ends the waiting of parked requests. Each answers what it ended."""
        broker = self.broker

        def expire_parked(now_ms: int) -> None:
            expire_fetches(broker, now_ms)
            self.server.handlers.deliver()

        def expire_members(now_ms: int) -> None:
            expire_groups(broker, now_ms, self.clock.wall_ms())
            self.server.handlers.deliver()

        node = self.rooms.broker.node_id
        return [
            Reaper(f"ExpirationReaper-{node}-Fetch", broker.fetches.next_deadline, expire_parked, self.clock),
            Reaper("group-coordinator-timer", broker.groups.next_deadline, expire_members, self.clock),
        ]

    def _follow_all(self, image: Image) -> None:
        self.partitions.follow(image, image.topics)
        for entry in image.quotas.values():
            for key, limit in entry.limits.items():
                self._apply_quota(Entity.of(entry.entity), key, limit.value)

    def _follow(self, old: Image, new: Image, delta: Delta) -> None:
        """A commit: quotas hold from the next request on, topics exist, and kept answers are forgotten."""
        for change in delta.quotas:
            self._apply_quota(Entity.of(change.entity), change.key, change.value)
        if delta.quotas:
            self._time_requests()
            self.server.throttling.adopt(self.server.channels())
            self.server.throttling.poke()
        self.server.forget_answers()
        if delta.topics:
            self._follow_topics(old, new, delta)

    def _apply_quota(self, entity: Entity, key: str, value: float | None) -> None:
        if entity.ip is None:
            self.quotas.apply(entity, key, value)
        else:
            self.connections.set_ip_rate(entity.ip, value)

    def _time_requests(self) -> None:
        """Requests are timed while a rule is there for it."""
        wanted = self.quotas.request.active
        if wanted is not self._times_requests:
            self._times_requests = wanted
            self.server.time_requests(wanted)

    def _follow_topics(self, old: Image, new: Image, delta: Delta) -> None:
        for log in self.partitions.follow(new, delta.topics):
            wake_fetches(self.broker, log)
        gone = [
            (name, old.topics[name].partitions)
            for name in delta.topics
            if name in old.topics and name not in new.topics
        ]
        if gone:
            forget_topics(self.broker, gone, self.clock.ms(), self.clock.wall_ms())
        self.server.handlers.deliver()

    async def _expire_quotas(self) -> None:
        while True:
            await trio.sleep(QUOTA_EXPIRY_SECONDS)
            self.quotas.expire(self.clock.ms())
            self.connections.expire(self.clock.ms())


def _report(recovery: Recovery) -> None:
    """What the start found out about the logs."""
    for directory in recovery.unclean:
        logger.warning(
            "the last stop was not clean",
            extra={"directory": directory, "checked_bytes": recovery.scanned_bytes},
        )
    for cut in recovery.cut:
        logger.warning(
            "a torn end was cut off",
            extra={
                "partition": f"{cut.topic}-{cut.partition}",
                "end": cut.end_offset,
                "bytes": cut.bytes_cut,
            },
        )
    for damage in recovery.damage:
        logger.error("records are damaged and will not be served", extra={"where": str(damage)})
    for lost in recovery.unreadable:
        logger.error(
            "a partition is offline",
            extra={"partition": f"{lost.topic}-{lost.partition}", "reason": str(lost.error)},
        )


def _calm_collector() -> None:
    """Requests leave no cycles behind, so the collector need not walk the house every 700 allocations."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)

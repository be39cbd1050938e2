"""The task tree: running tasks with their age, resources and idle time. Made by `server`.

Reads Trio's own tree of nurseries on demand, so it is always current and tasks need not register. Names are
those of Kafka's threads. `OwnedResources` has the resources by task name: it depends on the queues,
connections and purgatories, and on tasks only by name.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import groupby
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import trio
from trio.lowlevel import Task

from broker.api.requests.callbacks import Callbacks
from broker.api.requests.retry_storm import RETRY_STORM
from broker.config.listeners import Plane as PlaneName
from broker.controller.rows.broker import Owned, TaskRow
from broker.metrics.rate import CounterRate
from broker.monitoring.otlp.export import TASK as OTLP
from broker.monitoring.otlp.pushes import TASK as PUSHES
from broker.network.automq.handler_queues import CallbackQueues, RequestQueues
from broker.network.clock import TrioClock
from broker.network.handling.handler_pool import CALLBACKS
from broker.network.handling.sliced_requests import SLICED
from broker.network.processor import NEW_CONNECTIONS, Processor
from broker.network.requests.request_channel import Requests
from broker.network.server_factory import ServerPlane
from broker.network.socket_server import SocketServer
from broker.network.throttling import BROKER_QUOTA, REAPERS
from broker.purgatory.purgatory import Purgatory
from broker.server.disk.log_mover import LOG_MOVER
from broker.server.disk.tasks import FLUSHER_OF_ACKNOWLEDGED
from broker.telemetry.state import MAX_WAITING
from broker.views.parts import LogParts, ServerParts

NURSERIES: Final = ("storage", "timers", "handlers", "console", "processors", "acceptors")
"""The nurseries of the broker's main task, from the outermost, which ends last."""

ROOT: Final = "broker"

MAX_NAMES: Final = 1_000
"""Size of the caches for values that depend on names only."""

KINDS: Final = (
    (
        "quota",
        re.compile(r"^(controller-)?connection-quota|-throttled-sockets$|^quota-usage$|^temporary-limits$"),
    ),
    ("acceptor", re.compile(r"-kafka-socket-acceptor-")),
    ("processor", re.compile(r"^(?>.*?-kafka-network-thread-).*-\d+$")),
    ("handler", re.compile(r"-kafka-request-handler-")),
    ("reaper", re.compile(r"Reaper-|-(reaper|timer|expiry)$|^(?>.*?-kafka-network-thread-).*-\d+-[a-z-]+$")),
    (
        "storage",
        re.compile(r"^(kafka-)?log-|^event-writer$|^share-(group-states|dead-letters)|^streams-topics$"),
    ),
    ("telemetry", re.compile(r"^client-telemetry-|^alert-(rules$|destination-)")),
    ("supervisor", re.compile(r"^(fatal-errors|garbage-collector)$")),
    ("security", re.compile(r"^oauthbearer-keys-")),
    ("listener", re.compile(r"^listener-")),
    ("console", re.compile(r"^admin-web-server$")),
)


class TaskStats(NamedTuple):
    """The resources of a task, and its idle or busy nanoseconds since its start; None if not defined."""

    owns: tuple[Owned, ...] = ()
    idle_ns: int | None = None
    busy_ns: int | None = None


NOTHING: Final = TaskStats()
Owners = Callable[[int], Mapping[str, TaskStats]]
"""Returns the stats by task name, given the present nanoseconds."""


class StartTimes(trio.abc.Instrument):
    """The start time of each task. Trio calls it for each started task and for nothing else."""

    def __init__(self, clock: TrioClock) -> None:
        self._clock = clock
        self._began: WeakKeyDictionary[Task, int] = WeakKeyDictionary()

    def task_spawned(self, task: Task) -> None:
        self._began[task] = self._clock.wall_ms()

    def of(self, task: Task, default: int) -> int:
        return self._began.get(task, default)


class TaskTree:
    """The tree below the task that called `begin`."""

    def __init__(self, clock: TrioClock, owners: Owners) -> None:
        self._clock = clock
        self._owners = owners
        self._start_times = StartTimes(clock)
        self._root: Task | None = None
        self._began_ms = 0
        self._shares: dict[str, CounterRate] = {}

    def begin(self) -> None:
        """Set the root. Called from the broker's main task, before it opens a nursery."""
        self._root = trio.lowlevel.current_task()
        self._began_ms = self._clock.wall_ms()
        trio.lowlevel.add_instrument(self._start_times)

    def rows(self) -> list[TaskRow]:
        """Return the rows, parents first. Empty until `begin`."""
        if self._root is None:
            return []
        now_ns = self._clock.ns()
        walk = _Walk(self._owners(now_ns), now_ns, self)
        rows = list(walk.main(self._root))
        for name in self._shares.keys() - {row.name for row in rows}:
            del self._shares[name]
        return rows

    def began_ms(self, task: Task) -> int:
        return self._start_times.of(task, self._began_ms)

    def idle(self, name: str, stats: TaskStats, began_ms: int, now_ns: int) -> float | None:
        """Return the idle share over the last whole second, or over the task's age on the first read."""
        total_ns = stats.busy_ns if stats.idle_ns is None else stats.idle_ns
        if total_ns is None:
            return None
        window = self._shares.get(name)
        if window is None:
            age_ms = self._clock.wall_ms() - began_ms
            window = self._shares[name] = CounterRate(now_ns - age_ms * 1_000_000)
        share = min(window.update(now_ns, (total_ns,))[0] / 1e9, 1.0)
        return share if stats.idle_ns is not None else 1.0 - share


class _Walk:
    """One walk over the tree."""

    def __init__(self, owned_resources: Mapping[str, TaskStats], now_ns: int, task_tree: TaskTree) -> None:
        self._owned = owned_resources
        self._now_ns = now_ns
        self._task_tree = task_tree

    def main(self, root: Task) -> Iterator[TaskRow]:
        """Yield the broker's own task, whose nurseries are nested."""
        began_ms = self._task_tree.began_ms(root)
        yield self._row(ROOT, "nursery", None, 0, began_ms)
        parent = ROOT
        for depth, (name, nursery) in enumerate(zip(NURSERIES, root.child_nurseries, strict=False), 1):
            yield self._row(name, "nursery", parent, depth, began_ms)
            yield from self._children([nursery], name, depth + 1)
            parent = name

    def _children(self, nurseries: list[trio.Nursery], parent: str, depth: int) -> Iterator[TaskRow]:
        tasks = sorted(
            (task for nursery in nurseries for task in nursery.child_tasks),
            key=lambda task: _natural(task.name),
        )
        for name, alike in groupby(tasks, key=lambda task: task.name):
            first, *others = alike
            kind = _kind(name)
            began_ms = min(self._task_tree.began_ms(task) for task in (first, *others))
            yield self._row(name, kind, parent, depth, began_ms, 1 + len(others))
            if kind != "console":  # a browser's tasks are short-lived and belong to the console
                yield from self._children(first.child_nurseries, name, depth + 1)

    def _row(
        self, name: str, kind: str, parent: str | None, depth: int, began_ms: int, count: int = 1
    ) -> TaskRow:
        stats = self._owned.get(name, NOTHING)
        idle = self._task_tree.idle(name, stats, began_ms, self._now_ns)
        return TaskRow(name, kind, parent, depth, stats.owns, idle, count, began_ms)


@lru_cache(MAX_NAMES)
def _kind(name: str) -> str:
    return next((kind for kind, pattern in KINDS if pattern.search(name)), "other")


@lru_cache(MAX_NAMES)
def _natural(name: str) -> list[str | int]:
    """Sort thread 10 after thread 9."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


class OwnedResources:
    """Reads the present resources by task name. An `Owners`."""

    def __init__(self, parts: ServerParts, node_id: int, logs: LogParts | None) -> None:
        """`logs` are a broker's."""
        self._parts = parts
        self._node_id = node_id
        self._logs = logs

    def __call__(self, now_ns: int) -> dict[str, TaskStats]:
        server = self._parts.server
        stats = {ROOT: TaskStats((), idle_ns=self._parts.loop.idle_ns)}
        stats.update(self._handlers())
        stats.update(self._reapers())
        stats.update({each.name: _processor(each, now_ns) for each in server.processors()})
        stats.update(_handshakes(server))
        for listener in server.listeners:
            connections = sum(len(each.selector.channels) for each in listener.all_processors())
            stats[f"listener-{listener.name}"] = TaskStats((Owned("connections", connections),))
            throttled = Owned(
                "throttled sockets", len(listener.acceptor.gate.throttled_sockets), server.gate.max_throttled
            )
            stats[f"{listener.acceptor_task}-throttled-sockets"] = TaskStats((throttled,))
        return stats

    def _handlers(self) -> Iterator[tuple[str, TaskStats]]:
        server, callbacks = self._parts.server, self._parts.callbacks
        queues = []
        for plane in server.planes.values():
            requests = plane.requests
            name = "requests" if len(server.planes) == 1 else f"{plane.name} requests"
            queues.append(Owned(name, requests.depth(), requests.capacity, requests.peak))
            for index, busy in enumerate(plane.handlers.busy):
                own = (*_own_queue(requests, index), *_own_callbacks(plane, callbacks, index))
                yield plane.handlers.task_name(index), TaskStats(own, busy_ns=busy)
            if isinstance(requests, RequestQueues):
                sizes = requests.sizes
                queues.append(Owned(f"bytes of {name}", sizes.limit - sizes.available, sizes.limit))
        yield "handlers", TaskStats(tuple(queues))
        waiting = Owned("callbacks", len(callbacks.queue), callbacks.capacity, callbacks.peak)
        later = Owned("callbacks for later turns", callbacks.later, callbacks.later_capacity)
        yield CALLBACKS, TaskStats((waiting, later))
        yield SLICED, TaskStats((Owned("requests in slices", len(server.handlers.sliced)),))

    def _reapers(self) -> Iterator[tuple[str, TaskStats]]:
        server = self._parts.server
        for each in server.resources.values():
            stats = Owned("delayed authentications", each.users.delayed, each.gate.max_throttled)
            yield each.users.reaper.name, TaskStats((stats,))
            if each.memory is not None:
                pool = each.memory.memory
                line = Owned("connections waiting for memory", each.memory.waiting)
                owns = Owned("bytes of requests", pool.used, pool.size), line
                yield each.memory.reaper.name, TaskStats(owns)
        for purgatory in () if self._logs is None else self._logs.purgatories:
            yield f"ExpirationReaper-{self._node_id}-{purgatory.name}", _purgatory(purgatory)
        yield RETRY_STORM, _purgatory(self._parts.retry_storm.delayed)
        quotas = self._parts.quotas
        for kind, manager in quotas.managers.items():
            yield REAPERS[kind], TaskStats((Owned("throttled connections", len(manager.throttled)),))
        yield (
            BROKER_QUOTA,
            TaskStats((Owned("throttled connections", len(quotas.broker.throttled)),)),
        )
        if self._logs is not None:
            groups = Owned("groups", len(self._logs.groups.coordinator))
            yield "group-coordinator-timer", TaskStats((groups,))
            moves = Owned("moving partitions", len(self._logs.partitions.store.moves.running))
            yield LOG_MOVER, TaskStats((moves,))
        telemetry = self._parts.telemetry
        yield "client-metrics-reaper", TaskStats((Owned("instances", len(telemetry.manager)),))
        queue = telemetry.push_queue
        pushes = Owned("pushes", len(queue.waiting), MAX_WAITING, queue.peak)
        yield PUSHES, TaskStats((pushes,))
        exports = telemetry.export_queue
        sizes = Owned("bytes of pushes", exports.waiting_bytes, exports.max_bytes)
        yield OTLP, TaskStats((Owned("pushes", len(exports)), sizes))
        flushes = Owned("flushes", server.handlers.flush_waits.queued)
        yield FLUSHER_OF_ACKNOWLEDGED, TaskStats((flushes,))


def _own_queue(requests: Requests, handler: int) -> tuple[Owned, ...]:
    """Return the handler's own queue, which exists in AutoMQ's mode."""
    if not isinstance(requests, RequestQueues):
        return ()
    queue = requests.queue_of(handler)
    return (Owned("requests", queue.depth(), queue.capacity, queue.peak),)


def _own_callbacks(plane: ServerPlane, callbacks: Callbacks, handler: int) -> tuple[Owned, ...]:
    """Return the callbacks of a handler of the data plane; other planes share these queues."""
    if plane.name is not PlaneName.DATA or not isinstance(callbacks, CallbackQueues):
        return ()
    return (Owned("callbacks", callbacks.depth_of(handler), callbacks.each),)


def _purgatory(purgatory: Purgatory[Any]) -> TaskStats:
    return TaskStats((Owned("waiting", purgatory.delayed), Owned("listed", purgatory.watched)))


def _handshakes(server: SocketServer) -> Iterator[tuple[str, TaskStats]]:
    for each in server.processors():
        if each.handshakes is not None:
            yield f"{each.name}-handshakes", TaskStats((Owned("handshakes due", len(each.handshakes.due)),))


def _processor(processor: Processor, now_ns: int) -> TaskStats:
    accepted = processor.new_connections.statistics()
    responder = processor.responder
    return TaskStats(
        (
            Owned("connections", len(processor.selector.channels)),
            Owned("accepted sockets", accepted.current_buffer_used, NEW_CONNECTIONS),
            Owned("responses", len(responder.responses), None, responder.peak),
        ),
        idle_ns=processor.idle_ns(now_ns),
    )

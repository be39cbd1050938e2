"""The resources of each task of the broker, by the task's name; for `task_tree`. Made by `server`.

Depends on the queues, connections and purgatories, and on tasks only by name.
"""

from collections.abc import Iterator
from typing import Any

from broker.api.requests.callbacks import Callbacks
from broker.api.requests.retry_storm import RETRY_STORM
from broker.config.listeners import Plane
from broker.controller.rows.broker import Owned
from broker.monitoring.otlp.export import TASK as OTLP
from broker.monitoring.otlp.pushes import TASK as PUSHES
from broker.network.automq.handler_queues import CallbackQueues, RequestQueues
from broker.network.handling.handler_pool import CALLBACKS
from broker.network.handling.request_channel import Requests
from broker.network.handling.sliced_requests import SLICED
from broker.network.processor import NEW_CONNECTIONS, Processor
from broker.network.server_factory import ServerPlane
from broker.network.socket_server import SocketServer
from broker.network.throttling import BROKER_QUOTA, REAPERS
from broker.purgatory.purgatory import Purgatory
from broker.server.disk.log_mover import LOG_MOVER
from broker.server.disk.tasks import FLUSHER_OF_ACKNOWLEDGED
from broker.server.task_tree import ROOT, TaskStats
from broker.telemetry.state import MAX_WAITING
from broker.views.parts import LogParts, ServerParts


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
    if plane.name is not Plane.DATA or not isinstance(callbacks, CallbackQueues):
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

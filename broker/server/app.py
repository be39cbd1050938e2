"""Opens the nursery tree of one broker or gateway, and drains it.

The nesting of the nurseries is the shutdown order: acceptors first, then processors and console, handlers,
timers, storage. There are no stop flags: cancelling a nursery or closing a channel ends the tasks that depend
on it.
"""

from typing import Final

import msgspec
import trio

from broker.common.slice_runner import run_slices
from broker.config.load import Configuration
from broker.controller.rows.broker import ServerInfo
from broker.monitoring.alerts.formats import NotificationSource
from broker.monitoring.alerts.task import TASK as ALERT_RULES
from broker.monitoring.alerts.task import Alerting
from broker.network.clock import TrioClock
from broker.network.handling.handler_pool import CALLBACKS
from broker.network.handling.sliced_requests import SLICED
from broker.network.requests.client_usage import NAME as CLIENT_USAGE
from broker.network.supervisor import open_supervisor
from broker.server.broker import BrokerServer
from broker.server.interpreter import bounded_collections, freeze_survivors, prompt_switches
from broker.server.parts.oauthbearer_keys import TASK as ISSUER_KEYS
from broker.server.parts.oauthbearer_keys import follow_keys
from broker.server.parts.quota_usage import TASK as QUOTA_USAGE
from broker.server.parts.temporary_limits import TASK as TEMPORARY_LIMITS
from broker.server.parts.temporary_limits import switch_temporary_limits
from broker.server.server import Server
from broker.server.web import ConsoleStarted, start_console

QUOTA_EXPIRY_SECONDS: Final = 30
CONSOLE_END_S: Final = 5.0
"""A stop waits so long for the console, which itself gives requests in hand 3 s."""


class Started(msgspec.Struct, frozen=True):
    """The state that `run_broker` reports once it serves clients. `server` has the listeners; `console` is
    None if none is configured. `stopped` is set when all tasks have ended.
    """

    server: ServerInfo
    console: ConsoleStarted | None
    stopped: trio.Event

    @property
    def bootstrap(self) -> tuple[str, ...]:
        """The addresses for clients as host:port."""
        return self.server.bootstrap


async def run_gateway(
    configuration: Configuration,
    stop: trio.Event,
    *,
    task_status: trio.TaskStatus[Started] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a gateway until `stop` is set, then drain it: for at most `gateway.drain.timeout.ms` if there is
    another gateway for its clients, and then as `run_broker` does. Raises what that raises.
    """
    # Imported here, because a broker needs none of it.
    from broker.server.gateway import GatewayServer

    server = GatewayServer(configuration, TrioClock())
    try:
        await run_server(server, stop, task_status=task_status)
    finally:
        server.close()


async def run_broker(
    configuration: Configuration,
    stop: trio.Event,
    *,
    task_status: trio.TaskStatus[Started] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run the broker until `stop` is set, then drain it for at most `shutdown.drain.timeout.ms`.

    Raises ConfigError or OSError if it cannot start. If cancelled, it stops without draining; acknowledged
    records are in the page cache either way.
    """
    server = BrokerServer(configuration, TrioClock())
    try:
        await run_server(server, stop, task_status=task_status)
    finally:
        server.close()


async def run_server(
    server: Server,
    stop: trio.Event,
    *,
    task_status: trio.TaskStatus[Started] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run the nursery tree. Leaving a block stops its tasks."""
    trio.lowlevel.add_instrument(server.server_views.loop_idle)
    server.server_views.task_tree.begin()
    server.server_views.update_bootstrap()
    stopped, console_ends = trio.Event(), trio.Event()
    alerting = _alerting(server)
    async with open_supervisor() as storage:
        storage.start_soon(server.metadata.writer.last_error.wait, name="fatal-errors")
        server.start_storage(storage)
        async with open_supervisor() as timers:
            server.socket_server.throttling.start_reapers(timers)
            flush_waits = server.socket_server.handlers.flush_waits.reaper
            users = [each.users.reaper for each in server.socket_server.resources.values()]
            for reaper in (*server.reapers, flush_waits, *users):
                timers.start_soon(reaper.run, name=reaper.name)
            timers.start_soon(server.socket_server.handlers.run_callbacks, name=CALLBACKS)
            timers.start_soon(server.socket_server.handlers.sliced.run, name=SLICED)
            timers.start_soon(server.events.run, name="event-writer")
            server.telemetry.start(timers)
            timers.start_soon(alerting.run, name=ALERT_RULES)
            timers.start_soon(freeze_survivors, name="garbage-collector")
            timers.start_soon(_expire_quotas, server, name="quota-sensor-expiry")
            timers.start_soon(switch_temporary_limits, server.control, name=TEMPORARY_LIMITS)
            timers.start_soon(server.server_quotas.usage.run, name=QUOTA_USAGE)
            timers.start_soon(server.socket_server.accounts.run, name=CLIENT_USAGE)
            for number, keys in enumerate(server.security.issuers.values()):
                await timers.start(follow_keys, keys, server.clock, name=f"{ISSUER_KEYS}-{number}")
            async with open_supervisor() as handlers:
                server.socket_server.start_handlers(handlers)
                async with open_supervisor() as console, open_supervisor() as processors:
                    server.socket_server.start_processors(processors)
                    server.start_drain(processors)
                    async with open_supervisor() as acceptors:
                        await server.socket_server.start_connection_quotas(acceptors)
                        server.socket_server.start_acceptors(acceptors, server.may_accept)
                        server.start_ports(processors)
                        console_started = await start_console(server, console, stop, console_ends, alerting)
                        await _started_or(stop, server)
                        with bounded_collections(), prompt_switches():
                            task_status.started(Started(server.server_views.info, console_started, stopped))
                            await stop.wait()
                        server.socket_server.stop_reconfiguring()
                        acceptors.cancel_scope.cancel()
                    await server.drain()
                    processors.cancel_scope.cancel()
                    console_ends.set()
                    console.cancel_scope.deadline = trio.current_time() + CONSOLE_END_S
                await server.socket_server.end_requests()
            await server.events.finish()
            timers.cancel_scope.cancel()
        storage.cancel_scope.cancel()
    stopped.set()


async def _started_or(stop: trio.Event, server: Server) -> None:
    """Wait until every listener accepts, or until `stop`: an authorizer may never be ready."""
    async with trio.open_nursery() as nursery:

        async def cancel_at_stop() -> None:
            await stop.wait()
            nursery.cancel_scope.cancel()

        nursery.start_soon(cancel_at_stop, name="early-stop")
        await server.socket_server.wait_started()
        nursery.cancel_scope.cancel()


def _alerting(server: Server) -> Alerting:
    control, config = server.control, server.config

    def source() -> NotificationSource:
        return NotificationSource(
            control.image.cluster_id, config.broker.node_id, server.server_views.info.console
        )

    return Alerting(lambda: control.image, server.views, source, config.alerts, config.log.dirs, server.clock)


async def _expire_quotas(server: Server) -> None:
    while True:
        await trio.sleep(QUOTA_EXPIRY_SECONDS)
        await run_slices(server.server_quotas.expire(server.clock.ms()))

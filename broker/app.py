"""Opens the nursery tree of one broker, and drains it.

The nesting of the nurseries is the shutdown order: acceptors first, then processors and console, handlers,
timers, storage. There are no stop flags: cancelling a nursery or closing a channel ends the tasks that depend
on it.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import trio

from broker.config.load import Configuration
from broker.control.commands import IssueAdminToken
from broker.control.views import TokenRow
from broker.disk.log_mover import LOG_MOVER
from broker.disk.tasks import start_storage
from broker.interpreter import bounded_collections, freeze_survivors, prompt_switches
from broker.metadata.actor import BROKER_ITSELF, Role
from broker.network.clock import TrioClock
from broker.network.handling.handler_pool import CALLBACKS
from broker.network.handling.sliced_requests import SLICED
from broker.network.metrics.client_usage import NAME as CLIENT_USAGE
from broker.network.supervisor import Supervisor, open_supervisor
from broker.security.console_links import ConsoleLink, ConsoleLinks, link_with, new_key
from broker.server import BrokerServer
from broker.telemetry_export.otlp import TASK as OTLP
from broker.telemetry_export.pushes import TASK as PUSHES
from broker.web import browser_url, monotonic_ms, program_url, start_console

logger = logging.getLogger(__name__)

QUOTA_EXPIRY_SECONDS: Final = 30
TOKEN_NAME: Final = "administrator"  # noqa: S105 - a name


@dataclass(frozen=True, slots=True)
class Started:
    """The state that `run_broker` reports once it serves clients. `console` is None if no console is
    configured. `stopped` is set when all tasks have ended.
    """

    bootstrap: tuple[str, ...]
    console: "ConsoleStarted | None"
    stopped: trio.Event


@dataclass(frozen=True, slots=True)
class ConsoleStarted:
    """`url` is for browsers, `address` for programs. `make_link` makes a link that logs one browser in.
    `token` is the first administrator's if this start issued it; no other copy exists.
    """

    url: str
    address: str
    make_link: Callable[[], str]
    token: str | None = field(repr=False)


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
    server: BrokerServer,
    stop: trio.Event,
    *,
    task_status: trio.TaskStatus[Started] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run the nursery tree. Leaving a block stops its tasks."""
    trio.lowlevel.add_instrument(server.loop_idle)
    server.task_tree.begin()
    server.update_bootstrap()
    stopped = trio.Event()
    async with open_supervisor() as storage:
        storage.start_soon(server.writer.last_error.wait, name="fatal-errors")
        start_storage(
            storage,
            server.log,
            server.config.log,
            server.socket_server.handlers,
            server.background,
            server.clock,
        )
        storage.start_soon(server.mover.run, name=LOG_MOVER)
        async with open_supervisor() as timers:
            server.socket_server.throttling.start_reapers(timers)
            flush_waits = server.socket_server.handlers.flush_waits.reaper
            users = [each.users.reaper for each in server.socket_server.resources.values()]
            for reaper in (*server.reapers, flush_waits, *users, server.telemetry_reaper):
                timers.start_soon(reaper.run, name=reaper.name)
            timers.start_soon(server.socket_server.handlers.run_callbacks, name=CALLBACKS)
            timers.start_soon(server.socket_server.handlers.sliced.run, name=SLICED)
            timers.start_soon(server.events.run, name="event-writer")
            timers.start_soon(server.push_reader.run, name=PUSHES)
            if server.exporter is not None:
                timers.start_soon(server.exporter.run, name=OTLP)
            timers.start_soon(freeze_survivors, name="garbage-collector")
            timers.start_soon(_expire_quotas, server, name="quota-sensor-expiry")
            timers.start_soon(server.socket_server.accounts.run, name=CLIENT_USAGE)
            async with open_supervisor() as handlers:
                server.socket_server.start_handlers(handlers)
                async with open_supervisor() as console, open_supervisor() as processors:
                    server.socket_server.start_processors(processors)
                    async with open_supervisor() as front:
                        await server.socket_server.start_connection_quotas(front)
                        server.socket_server.start_acceptors(front)
                        console_started = await _start_console(server, console, stop)
                        await server.socket_server.wait_started()
                        with bounded_collections(), prompt_switches():
                            task_status.started(Started(server.place.bootstrap, console_started, stopped))
                            await stop.wait()
                        server.socket_server.stop_reconfiguring()
                        front.cancel_scope.cancel()
                    await _drain(server)
                    processors.cancel_scope.cancel()
                    console.cancel_scope.cancel()
                await server.socket_server.end_requests()
            await server.events.write()
            timers.cancel_scope.cancel()
        storage.cancel_scope.cancel()
    stopped.set()


async def _drain(server: BrokerServer) -> None:
    """Finish requests in progress; complete delayed operations with the response of a timeout."""
    server.release_delayed()
    with trio.move_on_after(server.config.broker.drain_timeout_ms / 1000) as deadline:
        await server.socket_server.drain()
    if deadline.cancelled_caught:
        logger.warning("the drain timed out with requests in progress")


async def _start_console(
    server: BrokerServer, nursery: Supervisor, stop: trio.Event
) -> ConsoleStarted | None:
    settings = server.config.console
    if settings.listener is None:
        return None
    page = server.prometheus.pieces
    links = ConsoleLinks(key := new_key())

    def redeem(code: str, now_ms: int) -> TokenRow | None:
        row = next((row for row in server.views.tokens() if row.name == TOKEN_NAME), None)
        return row if row is not None and links.redeem(code, now_ms) else None

    # Bind first: if this fails, no token has been issued, which is shown only once.
    host, port = await start_console(nursery, stop, settings, server.control, server.views, page, redeem)
    secret = server.config.security.admin_token
    made = secret is None and not server.control.image.tokens
    if made or secret is not None:
        issued = await server.control.apply(IssueAdminToken(TOKEN_NAME, Role.ADMIN, secret), BROKER_ITSELF)
        secret = issued.secret
    url = browser_url(settings, host, port)
    server.console_started(ConsoleLink(url, key))
    address = program_url(settings, host, port)
    return ConsoleStarted(
        url, address, lambda: link_with(url, links.make(monotonic_ms())), secret if made else None
    )


async def _expire_quotas(server: BrokerServer) -> None:
    while True:
        await trio.sleep(QUOTA_EXPIRY_SECONDS)
        server.expire_sensors()

"""The nursery tree of one broker: opens it, and drains it.

The nesting of the nurseries is the shutdown order: the front (acceptors) stops first, then processors and
console, handlers, timers, storage. There are no stop flags: a nursery is cancelled or a channel is
closed, and what hangs on it ends.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import trio

from broker.api.group_answers import release_groups
from broker.api.retry_storm import release_delayed_answers
from broker.api.waking import release_fetches
from broker.collecting.otlp import TASK as OTLP
from broker.collecting.pushes import TASK as PUSHES
from broker.config.load import Configuration
from broker.control.commands import IssueAdminToken
from broker.control.views import TokenRow
from broker.disk.log_mover import LOG_MOVER
from broker.disk.tasks import start_storage
from broker.garbage import bounded_collections, freeze_survivors
from broker.house import House
from broker.metadata.actor import BROKER_ITSELF, Role
from broker.network.clock import TrioClock
from broker.network.handling.handler_pool import CALLBACKS
from broker.network.handling.sliced_requests import SLICED
from broker.network.measuring.client_accounts import NAME as CLIENT_USAGE
from broker.network.supervisor import Supervisor, open_supervisor
from broker.security.console_link_file import ConsoleLink
from broker.security.console_links import ConsoleLinks, link_with, new_key
from broker.web import browser_url, monotonic_ms, program_url, start_console

logger = logging.getLogger(__name__)

QUOTA_EXPIRY_SECONDS: Final = 30
TOKEN_NAME: Final = "administrator"  # noqa: S105 - a name


@dataclass(frozen=True, slots=True)
class Started:
    """What `run_broker` reports once clients are served; `console` is None without one. `stopped` is set when
    everything has ended.
    """

    bootstrap: tuple[str, ...]
    console: "ConsoleStarted | None"
    stopped: trio.Event


@dataclass(frozen=True, slots=True)
class ConsoleStarted:
    """`url` is for browsers, `address` for programs; `make_link` makes a link that signs one browser in.
    `token` is the first administrator's if it was just made, and is nowhere else.
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
    """Runs the broker until `stop` is set, then drains it for `shutdown.drain.timeout.ms` at most.

    Raises ConfigError or OSError where it cannot start. Cancelled, it stops at once; what was acknowledged
    is in the page cache either way.
    """
    house = House(configuration, TrioClock())
    try:
        await run_house(house, stop, task_status=task_status)
    finally:
        house.close()


async def run_house(
    house: House, stop: trio.Event, *, task_status: trio.TaskStatus[Started] = trio.TASK_STATUS_IGNORED
) -> None:
    """The nursery tree. Leaving a block stops what runs in it."""
    trio.lowlevel.add_instrument(house.loop_idle)
    house.census.begin()
    house.tell_bootstrap()
    stopped = trio.Event()
    async with open_supervisor() as storage:
        storage.start_soon(house.writer.last_error.wait, name="fatal-errors")
        start_storage(
            storage, house.log, house.rooms.log, house.server.handlers, house.background, house.clock
        )
        storage.start_soon(house.mover.run, name=LOG_MOVER)
        async with open_supervisor() as timers:
            house.server.throttling.start_reapers(timers)
            flush_waits = house.server.handlers.flush_waits.reaper
            users = [each.users.reaper for each in house.server.resources.values()]
            for reaper in (*house.reapers, flush_waits, *users, house.telemetry_reaper):
                timers.start_soon(reaper.run, name=reaper.name)
            timers.start_soon(house.server.handlers.run_callbacks, name=CALLBACKS)
            timers.start_soon(house.server.handlers.sliced.run, name=SLICED)
            timers.start_soon(house.events.run, name="event-writer")
            timers.start_soon(house.push_reader.run, name=PUSHES)
            if house.forwarder is not None:
                timers.start_soon(house.forwarder.run, name=OTLP)
            timers.start_soon(freeze_survivors, name="garbage-collector")
            timers.start_soon(_expire_quotas, house, name="quota-sensor-expiry")
            timers.start_soon(house.server.accounts.run, name=CLIENT_USAGE)
            async with open_supervisor() as handlers:
                house.server.start_handlers(handlers)
                async with open_supervisor() as console, open_supervisor() as processors:
                    house.server.start_processors(processors)
                    async with open_supervisor() as front:
                        await house.server.start_connection_quotas(front)
                        house.server.start_acceptors(front)
                        told = await _start_console(house, console, stop)
                        await house.server.wait_started()
                        with bounded_collections():
                            task_status.started(Started(house.place.bootstrap, told, stopped))
                            await stop.wait()
                        house.server.stop_following()
                        front.cancel_scope.cancel()
                    await _drain(house)
                    processors.cancel_scope.cancel()
                    console.cancel_scope.cancel()
                await house.server.end_requests()
            await house.events.write()
            timers.cancel_scope.cancel()
        storage.cancel_scope.cancel()
    stopped.set()


async def _drain(house: House) -> None:
    """Requests in hand are answered; those that wait get the answer that their time-out would give."""
    release_fetches(house.broker, house.clock.ms())
    release_groups(house.broker)
    house.server.wrap_handlers(None)
    release_delayed_answers(house.broker, house.clock.ms())
    house.server.handlers.deliver()
    with trio.move_on_after(house.rooms.broker.drain_timeout_ms / 1000) as deadline:
        await house.server.drain()
    if deadline.cancelled_caught:
        logger.warning("requests were still in hand at the end of the drain")


async def _start_console(house: House, nursery: Supervisor, stop: trio.Event) -> ConsoleStarted | None:
    settings = house.rooms.console
    if settings.listener is None:
        return None
    page = house.exposition.pieces
    links = ConsoleLinks(key := new_key())

    def redeem(code: str, now_ms: int) -> TokenRow | None:
        row = next((row for row in house.broker.views.tokens() if row.name == TOKEN_NAME), None)
        return row if row is not None and links.redeem(code, now_ms) else None

    # Bound before the token is made: a start that fails here has not used up the one time it is shown.
    host, port = await start_console(nursery, stop, settings, house.control, house.broker.views, page, redeem)
    secret = house.rooms.security.admin_token
    made = secret is None and not house.control.image.tokens
    if made or secret is not None:
        issued = await house.control.apply(IssueAdminToken(TOKEN_NAME, Role.ADMIN, secret), BROKER_ITSELF)
        secret = issued.secret
    url = browser_url(settings, host, port)
    house.keep_console_link(ConsoleLink(url, key))
    house.place = replace(house.place, console=url)
    address = program_url(settings, host, port)
    return ConsoleStarted(
        url, address, lambda: link_with(url, links.make(monotonic_ms())), secret if made else None
    )


async def _expire_quotas(house: House) -> None:
    while True:
        await trio.sleep(QUOTA_EXPIRY_SECONDS)
        house.quotas.expire(house.clock.ms())
        for connections in house.connection_quotas.values():
            connections.expire(house.clock.ms())

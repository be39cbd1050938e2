"""Hands the console what it may see of the broker, and starts it. Called by `app`; the only file that knows
both.
"""

from collections.abc import Callable
from typing import Final

import trio

from broker.config.rooms import ConsoleConfig
from broker.control.control import Control
from broker.control.passwords import hashed
from broker.control.reading import ControlViews
from broker.network.supervisor import Supervisor
from webui.backend import Backend
from webui.serving import serve_console

WEB_SERVER: Final = "admin-web-server"


async def start_console(
    nursery: Supervisor,
    stop: trio.Event,
    settings: ConsoleConfig,
    control: Control,
    views: ControlViews,
    metrics: Callable[[], str],
) -> tuple[str, int]:
    """The address that the console is really bound to. Raises OSError where it cannot be.

    It serves until cancelled: a broker that drains still says so (/readyz), and shows what it waits for.
    """
    backend = Backend(
        control=control,
        views=views,
        identify=views.identify,
        lock_of=views.lock_of,
        hash_password=hashed,
        metrics=metrics,
        ready=lambda: not stop.is_set(),  # nothing is served before the listeners are
    )
    address: tuple[str, int] = await nursery.start(_serve, backend, settings, name=WEB_SERVER)
    return address


async def _serve(
    backend: Backend,
    settings: ConsoleConfig,
    *,
    task_status: trio.TaskStatus[tuple[str, int]] = trio.TASK_STATUS_IGNORED,
) -> None:
    await serve_console(backend, settings, shutdown=trio.Event(), task_status=task_status)

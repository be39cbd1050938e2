"""Hands the console what it may see of the broker, and starts it. Called by `app`; the only file that knows
both.
"""

import logging
import ssl
import time
from collections.abc import Callable, Iterable
from typing import Final

import trio

from broker.config.sections import ConsoleConfig
from broker.control.control import Control
from broker.control.passwords import hashed
from broker.control.reading import ControlViews
from broker.control.views import TokenRow
from broker.errors import ConfigError
from broker.network.supervisor import Supervisor
from broker.security.tls import Certificates, is_readable_by_others
from webui.backend import Backend
from webui.security.own_host import OwnHost, shown_host
from webui.serving import serve_console

logger = logging.getLogger(__name__)

WEB_SERVER: Final = "admin-web-server"


async def start_console(
    nursery: Supervisor,
    stop: trio.Event,
    settings: ConsoleConfig,
    control: Control,
    views: ControlViews,
    metrics: Callable[[], Iterable[bytes]],
    redeem: Callable[[str, int], TokenRow | None],
) -> tuple[str, int]:
    """The address that the console is really bound to. Raises ConfigError where it cannot be, and for
    certificates that cannot be used.

    It serves until cancelled: a broker that drains still says so (/readyz), and shows what it waits for.
    """
    backend = Backend(
        control=control,
        views=views,
        identify=views.identify,
        redeem=redeem,
        lock_of=views.lock_of,
        hash_password=hashed,
        metrics=metrics,
        ready=lambda: not stop.is_set(),  # nothing is served before the listeners are
    )
    tls = _encryption(settings)
    address: tuple[str, int] = await nursery.start(_serve, backend, settings, tls, name=WEB_SERVER)
    return address


def browser_url(settings: ConsoleConfig, host: str, port: int) -> str:
    """Where browsers find a console that is bound to this address; with a slash at its end."""
    return OwnHost(settings).url(host, port, is_encrypted=settings.is_encrypted)


def program_url(settings: ConsoleConfig, host: str, port: int) -> str:
    """The same for programs on this machine, by address."""
    return f"{'https' if settings.is_encrypted else 'http'}://{shown_host(host)}:{port}/"


def _encryption(settings: ConsoleConfig) -> Callable[[], ssl.SSLContext] | None:
    """What the next connection is to be encrypted with: a certificate that was replaced on the disk is taken
    without a start. Raises ConfigError for the first.
    """
    config = settings.tls()
    if config is None:
        return None
    if is_readable_by_others(config):
        logger.warning(
            "everybody on this machine can read the private key of the console",
            extra={"file": config.keystore_location},
        )
    certificates = Certificates(config)

    def context() -> ssl.SSLContext:
        try:
            certificates.renew(monotonic_ms())
        except ConfigError as error:
            logger.warning("a new certificate of the console cannot be used", extra={"reason": str(error)})
        return certificates.context

    return context


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


async def _serve(
    backend: Backend,
    settings: ConsoleConfig,
    tls: Callable[[], ssl.SSLContext] | None,
    *,
    task_status: trio.TaskStatus[tuple[str, int]] = trio.TASK_STATUS_IGNORED,
) -> None:
    await serve_console(backend, settings, shutdown=trio.Event(), tls=tls, task_status=task_status)

"""Connects the console to the broker, and starts it. Called by `app`; the only file that imports both."""

import logging
import ssl
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

import trio

from broker.common.errors import ConfigError
from broker.config.sections import ConsoleConfig
from broker.controller.control import Control
from broker.controller.rows.alerts import AlertViews
from broker.controller.rows.broker import TokenRow
from broker.controller.tokens import hashed
from broker.network.supervisor import Supervisor
from broker.security.tls import Certificates, is_readable_by_others, refuse_ended
from broker.views.console import Views
from webui.backend import Backend
from webui.security.origin import OwnHost, url_host
from webui.serving import serve_console

logger = logging.getLogger(__name__)

WEB_SERVER: Final = "admin-web-server"


async def start_console(
    nursery: Supervisor,
    is_ready: Callable[[], bool],
    settings: ConsoleConfig,
    control: Control,
    views: Views,
    metrics: Callable[[], Iterable[bytes]],
    redeem: Callable[[str, int], TokenRow | None],
    alerts: AlertViews,
) -> tuple[str, int]:
    """Start the console and return the address it is bound to.

    `is_ready` returns whether Kafka clients are served, all tokens are known and the upstream cluster has
    answered.

    Raises ConfigError if it cannot be bound, or for unusable certificates. It serves until cancelled: during
    a drain, /readyz reports the drain and the pages show the remaining requests.
    """
    backend = Backend(
        control=control,
        views=views,
        redeem=redeem,
        hash_password=hashed,
        metrics=metrics,
        ready=is_ready,
        alerts=alerts,
    )
    serve = partial(serve_console, shutdown=trio.Event(), tls=_encryption(settings))
    address: tuple[str, int] = await nursery.start(serve, backend, settings, name=WEB_SERVER)
    return address


def browser_url(settings: ConsoleConfig, host: str, port: int) -> str:
    """Return the URL for browsers of a console bound to this address, with a trailing slash."""
    return OwnHost(settings).url(host, port, is_encrypted=settings.is_encrypted)


def program_url(settings: ConsoleConfig, host: str, port: int) -> str:
    """Return the URL for programs on this machine, by address."""
    return f"{'https' if settings.is_encrypted else 'http'}://{url_host(host)}:{port}/"


def _encryption(settings: ConsoleConfig) -> Callable[[], ssl.SSLContext] | None:
    """Return a factory of TLS contexts; it reloads a certificate that was replaced on disk.

    Raises ConfigError if the first certificate is unusable.
    """
    config = settings.tls()
    if config is None:
        return None
    if is_readable_by_others(config):
        logger.warning(
            "every user of this machine can read the console's private key",
            extra={"file": config.keystore_location},
        )
    certificates = Certificates(config)
    refuse_ended(config, time.time())

    def context() -> ssl.SSLContext:
        try:
            certificates.renew(monotonic_ms())
        except ConfigError as error:
            logger.warning("the console's new certificate cannot be used", extra={"reason": str(error)})
        return certificates.context

    return context


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000

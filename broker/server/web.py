"""Connects the console to the broker, and starts it. Called by `app`; the only file that imports both."""

import logging
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import trio

from broker.common.errors import ApiError, ConfigError
from broker.config.sections import ConsoleConfig
from broker.controller.commands import IssueAdminToken
from broker.controller.rows.broker import TokenRow
from broker.controller.tokens import hashed
from broker.metadata.actor import BROKER_ITSELF, Role
from broker.monitoring.alerts.task import Alerting
from broker.network.supervisor import Supervisor
from broker.security.console_links import ConsoleLink, ConsoleLinks, link_with, new_key
from broker.security.tls import Certificates, is_readable_by_others, refuse_ended
from broker.server.server import Server
from webui.backend import Backend
from webui.security.origin import OwnHost, url_host
from webui.serving import serve_console

logger = logging.getLogger(__name__)

WEB_SERVER: Final = "admin-web-server"
TOKEN_NAME: Final = "administrator"  # noqa: S105 - a name


@dataclass(frozen=True, slots=True)
class ConsoleStarted:
    """`url` is for browsers, `address` for programs. `make_link` makes a link that logs one browser in.
    `token` is the first administrator's if this start issued it; no other copy exists.
    """

    url: str
    address: str
    make_link: Callable[[], str]
    token: str | None = field(repr=False)


async def start_console(
    server: Server, nursery: Supervisor, stop: trio.Event, ends: trio.Event, alerting: Alerting
) -> ConsoleStarted | None:
    """Start the console, None if none is configured, and issue the administrator's token.

    Raises ConfigError if it cannot be bound, or for unusable certificates. It serves until `ends` is
    set, and finishes the requests in hand. After `stop`, which begins the drain, /readyz reports it and the
    pages show the remaining requests.
    """
    settings = server.config.console
    if settings.listener is None:
        await server.metadata_ready()
        return None
    links = ConsoleLinks(key := new_key())

    def redeem(code: str, now_ms: int) -> TokenRow | None:
        row = next((row for row in server.views.metadata.tokens() if row.name == TOKEN_NAME), None)
        return row if row is not None and links.redeem(code, now_ms) else None

    knows_tokens = trio.Event()

    def is_ready() -> bool:
        """Whether Kafka clients are served, all tokens are known and the upstream cluster has answered."""
        return knows_tokens.is_set() and server.is_ready and not stop.is_set()

    # Bind first: if this fails, no token has been issued, which is shown only once.
    backend = Backend(
        control=server.control,
        views=server.views,
        redeem=redeem,
        hash_password=hashed,
        metrics=server.prometheus.pieces,
        ready=is_ready,
        alerts=alerting,
        refused_headers=server.prometheus.refused_headers,
    )
    serve = partial(serve_console, shutdown=ends, tls=_encryption(settings))
    host, port = await nursery.start(serve, backend, settings, name=WEB_SERVER)
    await server.metadata_ready()
    secret = server.config.security.admin_token
    made = secret is None and not server.control.image.tokens
    if made or secret is not None:
        command = IssueAdminToken(TOKEN_NAME, Role.ADMIN, secret)
        try:
            secret = (await server.control.apply(command, BROKER_ITSELF)).secret
        except ApiError as error:
            if not server.is_replicated:
                raise
            made, secret = False, None
            logger.warning("cannot issue the administrator's token", extra={"reason": error.message})
    knows_tokens.set()
    url = OwnHost(settings).url(host, port, is_encrypted=settings.is_encrypted)
    server.server_views.console_started(ConsoleLink(url, key))
    address = f"{'https' if settings.is_encrypted else 'http'}://{url_host(host)}:{port}/"
    return ConsoleStarted(
        url, address, lambda: link_with(url, links.make(monotonic_ms())), secret if made else None
    )


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

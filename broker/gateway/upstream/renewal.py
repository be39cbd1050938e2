"""Logs in again on upstream connections that clients use, before their logins expire. (KIP-368; Kafka:
SaslClientAuthenticator)

Used with gateway.authentication=gateway. `broker.gateway.renewals` decides when, and keeps the client's
requests back meanwhile. The gateway's own connections are replaced instead; see `connection`.
"""

import logging
from collections.abc import Callable

import trio

from broker.config.listeners import Address
from broker.config.sections import UpstreamConfig
from broker.gateway.upstream.connect import FAILURES, as_upstream_error
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.gateway.upstream.login import Talk, log_in
from broker.gateway.upstream.security import UpstreamSecurity
from broker.security.client_login import ClientCredentials

logger = logging.getLogger(__name__)


class LoginRenewal:
    """For the connections of all clients. `security` has the newest credentials, `client_id` is that of the
    gateway's requests. `on_failure` is called with the address of a node that does not accept a login, so
    that its condition is found out.
    """

    def __init__(
        self, config: UpstreamConfig, security: UpstreamSecurity, on_failure: Callable[[Address], None]
    ) -> None:
        self.client_id = config.client_id
        self._timeout_ms = config.connection_setup_timeout_ms
        self._security = security
        self._on_failure = on_failure
        self._failing: set[Address] = set()

    async def renew(self, talk: Talk, address: Address, before: ClientCredentials) -> int:
        """Log in with the newest credentials on a connection that has logged in with `before`. Returns how
        many milliseconds the login lasts; 0: for ever.

        Raises UpstreamError, after `upstream.socket.connection.setup.timeout.ms` at the latest; then the
        connection must close. A broker refuses another user or mechanism than before, so it is not asked: a
        new connection has them.
        """
        credentials = self._security.credentials
        if credentials is None or (credentials.mechanism, credentials.name) != (
            before.mechanism,
            before.name,
        ):
            raise UpstreamError(Reason.CLOSED, f"{address}: the gateway's upstream user has changed")
        try:
            with trio.fail_after(self._timeout_ms / 1_000):
                lifetime_ms = await log_in(talk, address, credentials)
        except UpstreamError as error:
            self._note(address, error)
            raise
        except trio.TooSlowError:
            text = f"{address}: the broker did not answer the login within {self._timeout_ms} ms"
            failed = UpstreamError(Reason.TIMEOUT, text)
            self._note(address, failed)
            raise failed from None
        except FAILURES as error:
            failed = as_upstream_error(address, error)
            self._note(address, failed)
            raise failed from error
        self._note(address, None)
        return lifetime_ms

    def _note(self, address: Address, error: UpstreamError | None) -> None:
        """Log the first failure at a node, and the end of failing. A connection that closes is none."""
        if error is None:
            if address in self._failing:
                self._failing.remove(address)
                logger.info("logins at an upstream node are renewed again", extra={"address": str(address)})
            return
        if error.reason is Reason.CLOSED:
            return
        self._on_failure(address)
        if address not in self._failing:
            self._failing.add(address)
            logger.warning(
                "cannot renew the gateway's login at an upstream node: connections of clients close",
                extra={"address": str(address), "reason": str(error)},
            )

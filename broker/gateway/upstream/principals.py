"""The credentials that the upstream connection of a client logs in with, where the gateway logs clients in.

gateway.upstream.principal    class                          the cluster sees
gateway                       OwnPrincipal                   the gateway's user, for all clients
delegation-token              tokens.TokenPrincipals         each client's own principal
map                           mapped.MappedPrincipals        the user that a file has for the client's
"""

import logging
from typing import Final, Protocol

from broker.common.clock import Clock
from broker.common.limited_lines import LimitedLines, shown
from broker.common.principal import Principal
from broker.config.sections import UpstreamConfig
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.gateway.upstream.security import UpstreamSecurity
from broker.security.client_login import ClientCredentials

logger = logging.getLogger(__name__)

LINES_OF_PRINCIPAL: Final = 1
"""Lines about one principal in a minute; ours. Its clients try again once a second."""


class Principals(Protocol):
    """Credentials by the name of a client's principal."""

    async def credentials(self, principal: str) -> ClientCredentials | None:
        """Return what to log in with; None where nobody logs in. Raises UpstreamError."""

    async def refused(
        self, principal: str, credentials: ClientCredentials | None, error: UpstreamError
    ) -> None:
        """Return if a login that a node refused with `error` can be tried again. Raises UpstreamError
        otherwise: PRINCIPAL if it is this client's alone.
        """

    def configure(self, config: UpstreamConfig) -> None:
        """Follow the settings of the gateway's own login. Raises ConfigError."""

    def forget(self, principal: str) -> None:
        """Give up what is kept for a user that no longer exists."""


class OwnPrincipal:
    """All clients have the gateway's own credentials."""

    def __init__(self, security: UpstreamSecurity) -> None:
        self._security = security

    async def credentials(self, principal: str) -> ClientCredentials | None:
        return self._security.credentials

    async def refused(
        self, principal: str, credentials: ClientCredentials | None, error: UpstreamError
    ) -> None:
        raise error

    def configure(self, config: UpstreamConfig) -> None:
        """Do nothing: the credentials are those of UpstreamSecurity."""

    def forget(self, principal: str) -> None:
        """Do nothing: nothing is kept."""


class RefusedPrincipals:
    """Makes the errors of clients that cannot be logged in as their own principal, with a line about each
    principal once a minute.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines = LimitedLines(LINES_OF_PRINCIPAL)

    def error(self, principal: str, reason: str) -> UpstreamError:
        self.note(principal, reason, "cannot log a client in upstream as its own principal")
        return UpstreamError(Reason.PRINCIPAL, f"{Principal(shown(principal))}: {reason}")

    def note(self, principal: str, reason: str, line: str) -> None:
        """Log a line about a principal."""
        left_out = self._lines.line(principal, "", self._clock.ms())
        if left_out is not None:
            extra: dict[str, object] = {"principal": str(Principal(shown(principal))), "reason": reason}
            if left_out:
                extra["left_out"] = left_out
            logger.warning(line, extra=extra)

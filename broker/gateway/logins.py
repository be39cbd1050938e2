"""Logins that the upstream broker decides: the gateway observes them and applies its own limits.

With `gateway.authentication=upstream`, SASL messages are forwarded. A connection has its principal once the
upstream broker has accepted the login; the limits of connections per user apply then, and a connection beyond
them gets a failed login in place of the upstream broker's response. (Kafka: SaslServerAuthenticator)
"""

import logging

from broker.api.security.client_security import Logins, refusal_message
from broker.common.errors import ErrorCode
from broker.gateway.channel import GatewayChannel
from broker.gateway.credentials import AcceptedLogin, SaslObserver
from broker.gateway.responses import encoded
from broker.gateway.routes import ForwardedRequest
from broker.network.authentication import FailedLogins, log_authenticated
from broker.network.clock import TrioClock
from broker.network.selector import Selector
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateResponse

logger = logging.getLogger(__name__)


class ForwardedLogins:
    """The logins of one processor's connections. `frame_limit` is the largest request after a login."""

    def __init__(
        self,
        selector: Selector,
        clock: TrioClock,
        logins: Logins,
        failed: FailedLogins,
        frame_limit: int,
    ) -> None:
        self._counts = selector.counts
        self._clock = clock
        self._logins = logins
        self._failed = failed
        self._frame_limit = frame_limit

    def request(self, channel: GatewayChannel, frame: memoryview) -> None:
        """Observe a SASL request. Raises ProtocolViolation."""
        if channel.login is None:
            channel.login = SaslObserver()
        channel.login.request(frame)

    def response(self, request: ForwardedRequest, frame: bytes) -> bytes | None:
        """Observe the response to a SASL request. Returns the response to send in its place, whole and with
        its size, or None. Raises ProtocolViolation.
        """
        channel, route = request.channel, request.route
        assert isinstance(channel, GatewayChannel) and channel.login is not None
        login = channel.login.response(route.api_key, route.version, frame)
        if login is None:
            if route.api_key == ApiKey.SASL_AUTHENTICATE and _is_failed(frame, route.version):
                self._counts.failed_logins += 1
            return None
        if channel.authenticated:
            self._counts.renewals += 1
            channel.principal = login.principal
            return None
        return self._enter(channel, request, login)

    def _enter(
        self, channel: GatewayChannel, request: ForwardedRequest, login: AcceptedLogin
    ) -> bytes | None:
        """Admit a connection that has logged in, or refuse it by the limits of its user."""
        refusal = self._logins.enter(channel, login.principal, self._clock.ms())
        if refusal is not None:
            self._counts.failed_logins += 1
            self._failed.add(channel)
            reply = SaslAuthenticateResponse(
                ErrorCode.SASL_AUTHENTICATION_FAILED, refusal_message(login.principal, refusal)
            )
            return encoded(reply, request.route.version, request.correlation_id)
        channel.principal = login.principal
        channel.sasl_mechanism = login.mechanism
        channel.authenticated = True
        channel.receive.limit = self._frame_limit
        self._counts.logins += 1
        if request.route.version == 0:
            self._counts.logins_without_reauth += 1
        log_authenticated(channel)
        if login.unknown_because is not None:
            logger.warning(
                "the principal of a login at the upstream broker is unknown: its quotas are ANONYMOUS's",
                extra={
                    "connection": channel.id,
                    "mechanism": login.mechanism,
                    "reason": login.unknown_because,
                },
            )
        return None


def _is_failed(frame: bytes, version: int) -> bool:
    """Return whether a SaslAuthenticate response, without its size, has an error code."""
    at = 4 if version < 2 else 5
    return frame[at : at + 2] != b"\0\0"

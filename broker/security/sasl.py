"""A SASL login in progress, whatever its mechanism, and the session that it begins.

The SaslHandshake handler begins a login, SaslAuthenticate passes it the client's messages. Each mechanism's
module has its own: `plain`, `scram`, `oauthbearer`. Independent of requests and connections.
"""

from abc import abstractmethod
from typing import Final

from broker.common.errors import ApiError, ErrorCode

MIN_RENEWAL_INTERVAL_MS: Final = 1_000
"""Minimum time between two re-authentications."""


class SaslLogin:
    """A login by the SASL mechanism of this name.

    `name` is the authenticated user, None until the login has succeeded. `ends_wall_ms` is when its
    credential expires, in ms since the epoch; None if it does not. `refusal` is why the login fails, for the
    operator's log; "" if it does not fail, or if the mechanism must not reveal it. It shows nothing of the
    client's messages. `by_token`: the credential is a delegation token.
    """

    def __init__(self, mechanism: str) -> None:
        self.mechanism = mechanism
        self.name: str | None = None
        self.ends_wall_ms: int | None = None
        self.refusal = ""
        self.by_token = False

    @abstractmethod
    def step(self, message: bytes | bytearray | memoryview, wall_ms: int) -> bytes:
        """Return the response to the client's next message.

        Raises ApiError SASL_AUTHENTICATION_FAILED, after which the login is over.
        """


def authentication_failed(message: str) -> ApiError:
    return ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, message)


def invalid_credentials(mechanism: str) -> ApiError:
    """Return the error of a login that must not reveal to the client why it failed."""
    return authentication_failed(
        "Authentication failed during authentication due to invalid credentials with SASL mechanism "
        f"{mechanism}"
    )


class SaslSession:
    """A SASL session, which needs a re-authentication on the same connection before its end. (KIP-368; Kafka:
    KafkaChannel's and SaslServerAuthenticator's re-authentication)

    Created by the SaslAuthenticate handler if `connections.max.reauth.ms` limits sessions or the credential
    of a login expires; network.authentication checks it for each request of the connection. `mechanism` never
    changes. While `renewing`, only the login's requests are allowed; `latency_ms` is the
    duration of the last re-authentication.
    """

    __slots__ = ("_began_ms", "_ends_ms", "latency_ms", "mechanism", "renewing")

    def __init__(self, mechanism: str, lifetime_ms: int, now_ms: int) -> None:
        self.mechanism = mechanism
        self.renewing = False
        self.latency_ms = 0
        self._began_ms: int | None = None
        self._ends_ms = now_ms + lifetime_ms

    def is_over(self, now_ms: int) -> bool:
        """Return whether the session has expired. It is still valid in its last millisecond."""
        return now_ms > self._ends_ms

    def begin_renewal(self, now_ms: int) -> bool:
        """Start re-authentication at a handshake; return False if it comes too early.

        A handshake is allowed even after expiry.
        """
        if self._began_ms is not None and now_ms - self._began_ms < MIN_RENEWAL_INTERVAL_MS:
            return False
        self._began_ms = now_ms
        self.renewing = True
        return True

    def renewed(self, lifetime_ms: int, now_ms: int) -> None:
        self.renewing = False
        self.latency_ms = now_ms - (now_ms if self._began_ms is None else self._began_ms)
        self._ends_ms = now_ms + lifetime_ms

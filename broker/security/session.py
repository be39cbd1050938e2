"""SASL session lifetime and re-authentication on the same connection.

Created by the SaslAuthenticate handler if `connections.max.reauth.ms` limits sessions or the credential of a
login expires; network.authentication checks it for each request of the connection. Independent of
requests and connections. (KIP-368; Kafka: KafkaChannel's and SaslServerAuthenticator's re-authentication)
"""

from typing import Final

MIN_RENEWAL_INTERVAL_MS: Final = 1_000
"""Minimum time between two re-authentications."""


class SaslSession:
    """A SASL session.

    `mechanism` never changes. While `renewing`, only the login's requests are allowed; `latency_ms` is the
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

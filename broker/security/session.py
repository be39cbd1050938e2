"""How long a login lasts, and its renewal on the same connection. (KIP-368; Kafka: KafkaChannel's and
SaslServerAuthenticator's re-authentication)

Made by the SaslAuthenticate handler where `connections.max.reauth.ms` says that logins end; asked by
network.connection.sessions about each request of such a connection. Knows neither requests nor connections.
"""

from typing import Final

RENEWAL_EVERY_MS: Final = 1_000
"""A renewal that begins sooner after the one before is none."""


class Session:
    """`mechanism` stays as it is. While it is `renewing`, nothing but the login is to be heard; `latency_ms`
    is how long the last renewal took.
    """

    __slots__ = ("_began_ms", "_ends_ms", "latency_ms", "mechanism", "renewing")

    def __init__(self, mechanism: str, lifetime_ms: int, now_ms: int) -> None:
        self.mechanism = mechanism
        self.renewing = False
        self.latency_ms = 0
        self._began_ms: int | None = None
        self._ends_ms = now_ms + lifetime_ms

    def is_over(self, now_ms: int) -> bool:
        """At its last millisecond it is not."""
        return now_ms > self._ends_ms

    def begin_renewal(self, now_ms: int) -> bool:
        """A handshake has come. It may come when the session is over, but for what else is sent then."""
        if self._began_ms is not None and now_ms - self._began_ms < RENEWAL_EVERY_MS:
            return False
        self._began_ms = now_ms
        self.renewing = True
        return True

    def renewed(self, lifetime_ms: int, now_ms: int) -> None:
        self.renewing = False
        self.latency_ms = now_ms - (now_ms if self._began_ms is None else self._began_ms)
        self._ends_ms = now_ms + lifetime_ms

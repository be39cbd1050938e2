"""The connection limits of users, for SaslAuthenticate. `network.acceptor.user_gate` implements them."""

from collections.abc import Callable
from typing import Protocol

from broker.api.context import Connection
from broker.quotas.user_connections import TooFastOfUser, UserRefusal


class Logins(Protocol):
    def enter(self, connection: Connection, user: str, now_ms: int) -> UserRefusal | None:
        """Count the connection for `user` and return None, or return the refusal.

        The caller delays a `TooFastOfUser` by its throttle time, or refuses it if that is 0 because too many
        are delayed already.
        """

    def delay(self, connection: Connection, throttle_ms: int, then: Callable[[int], None]) -> None:
        """Call `then` with the current time in ms after the delay."""

    def refuse(self, connection: Connection, user: str, refusal: UserRefusal) -> None:
        """Record the refusal of a connection that exceeds the rate again after its delay."""


def may_log_in(connection: Connection) -> bool:
    """Whether the connection accepts a handshake or a token: before a login, and during re-authentication."""
    return not connection.authenticated or (connection.session is not None and connection.session.renewing)


def words(user: str, refusal: UserRefusal) -> str:
    """Return the error message for the client."""
    if isinstance(refusal, TooFastOfUser):
        return f"User {user} makes more than the configured maximum of {refusal.bound} connections per second"
    return f"User {user} already has the configured maximum of {refusal.bound} connections"

"""Whether a user may have one more connection, as the handler of SaslAuthenticate asks. Answered by
`network.acceptor.user_gate`.
"""

from collections.abc import Callable
from typing import Protocol

from broker.api.context import Connection
from broker.quotas.user_connections import TooFastOfUser, UserRefusal


class Logins(Protocol):
    def enter(self, connection: Connection, user: str, now_ms: int) -> UserRefusal | None:
        """None: it is counted as the user's from now on. After `TooFastOfUser` it is to be held for that
        time, or refused where that is 0, since so many are held already.
        """

    def hold(self, connection: Connection, throttle_ms: int, then: Callable[[int], None]) -> None:
        """Calls `then` with the time, in ms, when it is over."""

    def refuse(self, connection: Connection, user: str, refusal: UserRefusal) -> None:
        """It came too fast a second time, and is refused."""


def may_log_in(connection: Connection) -> bool:
    """Whether a handshake or a token is in place: before a login, and while one is being renewed."""
    return not connection.authenticated or (connection.session is not None and connection.session.renewing)


def words(user: str, refusal: UserRefusal) -> str:
    """What the client is told."""
    if isinstance(refusal, TooFastOfUser):
        return f"User {user} makes more than the configured maximum of {refusal.bound} connections per second"
    return f"User {user} already has the configured maximum of {refusal.bound} connections"

"""The logins of Kafka clients and their roles, by the security configuration in force."""

from collections.abc import Callable
from typing import Protocol

from broker.api.context import Connection, RequestContext
from broker.config.sections import SecurityConfig
from broker.control.commands import Actor, ChangeOrigin, Role
from broker.principal import Principal
from broker.quotas.user_connections import TooFastOfUser, UserRefusal
from broker.security.plain import PlainAuthenticator


class ClientSecurity:
    """The configuration that new logins and role checks use, and its PLAIN users."""

    __slots__ = ("config", "plain")

    def __init__(self, config: SecurityConfig) -> None:
        self.configure(config)

    def configure(self, config: SecurityConfig) -> None:
        """Use `config` for new logins; existing sessions continue."""
        self.config = config
        self.plain = PlainAuthenticator.from_jaas(config.plain_jaas)

    def actor(self, context: RequestContext, *, automatic: bool = False) -> Actor:
        """Return the client of a request, for the audit log and the role check.

        `automatic` marks a derived change such as topic auto-creation.
        """
        config, connection = self.config, context.connection
        name = str(Principal(connection.principal))
        if automatic or name in config.super_users:
            role = Role.ADMIN
        else:
            role = Role[config.role_on(connection.listener).upper()]
        return Actor(name, role, connection.address, ChangeOrigin.WIRE)


class Logins(Protocol):
    """The connection limits of users. `network.acceptor.user_gate` implements them."""

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


def refusal_message(user: str, refusal: UserRefusal) -> str:
    """Return the error message for the client."""
    if isinstance(refusal, TooFastOfUser):
        return f"User {user} makes more than the configured maximum of {refusal.bound} connections per second"
    return f"User {user} already has the configured maximum of {refusal.bound} connections"

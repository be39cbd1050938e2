"""The logins of Kafka clients, and what they may do: by ACLs, or else by roles.

With an authorizer, a handler asks `allows` for each resource of a request, and the role of every client is
administrator: ACLs have decided by then. Without one, `allows` is always true, and the role decides.
"""

from collections.abc import Callable
from typing import Protocol

from broker.api.requests.context import Connection, RequestContext
from broker.api.security.access import ACCESS, CREATES_TOPICS, FOR_BROKERS
from broker.common.principal import Principal
from broker.config.sections import SecurityConfig
from broker.controller.commands import Actor, ChangeOrigin, Role
from broker.protocol.api_key import NAMES
from broker.quotas.connections import TooFastOfUser, UserRefusal
from broker.security.access_tokens import AccessToken, InvalidToken, TokenRules, read_token
from broker.security.acl.acl import CLUSTER_NAME, Operation, ResourceType
from broker.security.acl.authorizer import EVERY_OPERATION, Authorizer
from broker.security.issuer_keys import IssuerKeys, source_of, sources_of
from broker.security.plain import PlainAuthenticator


class ClientSecurity:
    """The configuration that new logins and role checks use, its PLAIN users and token issuers, and the
    authorizer, if any.
    """

    def __init__(
        self,
        config: SecurityConfig,
        authorizer: Authorizer | None = None,
        is_judged: Callable[[str], bool] = lambda _listener: True,
    ) -> None:
        """`is_judged` says whether what the clients of a listener may do is decided here, and not upstream.
        Raises ConfigError.
        """
        self.authorizer = authorizer
        self.is_judged = is_judged
        self.issuers = {source: IssuerKeys(source) for source in sources_of(config)}
        self.configure(config)

    def configure(self, config: SecurityConfig) -> None:
        """Use `config` for new logins; existing sessions continue."""
        self.config = config
        self.plain = PlainAuthenticator.from_jaas(config.plain_jaas)

    def read_token(self, listener: str, token: str, wall_ms: int) -> AccessToken:
        """Return who an access token is for, on this listener. Raises InvalidToken."""
        config = self.config.for_listener(listener)
        source = source_of(config)
        keys = None if source is None else self.issuers[source]
        if keys is None or not keys.keys:
            raise InvalidToken("the keys of the token issuer are not known yet")
        rules = TokenRules(
            config.expected_audiences,
            config.expected_issuer,
            config.clock_skew_seconds * 1_000,
            config.scope_claim_name,
            config.sub_claim_name,
        )
        return read_token(token, keys.find, rules, wall_ms)

    def actor(
        self,
        context: RequestContext,
        needed: Operation | None = None,
        *,
        authorized: bool = False,
        automatic: bool = False,
    ) -> Actor:
        """Return the client of a request, for the audit log and the role check.

        With an authorizer, it is an administrator if it may do the operation `needed` on the cluster, or if
        the caller has asked for each resource (`authorized`), and otherwise a viewer. `automatic` marks a
        derived change such as topic auto-creation.
        """
        connection = context.connection
        name = str(Principal(connection.principal))
        if automatic:
            role = Role.ADMIN
        elif self.authorizer is not None and name not in self.config.super_users:
            allowed = authorized or (needed is not None and self.allows_cluster(context, needed))
            role = Role.ADMIN if allowed else Role.VIEWER
        else:
            role = self.role_of(connection)
        return Actor(name, role, connection.address, ChangeOrigin.WIRE)

    def role_of(self, connection: Connection) -> Role:
        """Return the role of a client where no ACLs decide."""
        config = self.config
        if str(Principal(connection.principal)) in config.super_users:
            return Role.ADMIN
        return Role[config.role_on(connection.listener).upper()]

    def creates_topics(self, listener: str) -> bool:
        """Whether the clients of a listener may create topics as far as their role decides."""
        if self.authorizer is not None or not self.is_judged(listener):
            return True
        return Role[self.config.role_on(listener).upper()] >= CREATES_TOPICS

    def permits(
        self, context: RequestContext, needed: Operation | None = None, *, authorized: bool = False
    ) -> bool:
        """Whether the client has the role that its request needs; the arguments are those of `actor`."""
        access = ACCESS[context.api_key]
        role = self.actor(context, needed, authorized=authorized).role
        return role >= access.role_in(context.api_version)

    def is_broker(self, context: RequestContext) -> bool:
        """Whether the client may do what only brokers do."""
        return self.actor(context, Operation.CLUSTER_ACTION).role >= FOR_BROKERS

    def allows(
        self,
        context: RequestContext,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        logs: bool = True,
    ) -> bool:
        """Whether the client of a request may do this on the resource of this name.

        `logs` is false for a question whose answer refuses nothing. (Kafka: AuthHelper.authorize)
        """
        authorizer = self.authorizer
        if authorizer is None:
            return True
        connection = context.connection
        principal, host = f"User:{connection.principal}", connection.address
        if authorizer.allows(principal, host, operation, resource_type, name):
            return True
        if logs:
            api = NAMES.get(context.api_key, "")
            authorizer.note_denied(principal, host, operation, resource_type, name, api, context.now_ms)
        return False

    def allows_cluster(self, context: RequestContext, operation: Operation, *, logs: bool = True) -> bool:
        """As `allows`, for the cluster."""
        return self.allows(context, operation, ResourceType.CLUSTER, CLUSTER_NAME, logs=logs)

    def allows_topic(
        self, context: RequestContext, operation: Operation, name: str, *, logs: bool = True
    ) -> bool:
        """As `allows`, for a topic."""
        return self.allows(context, operation, ResourceType.TOPIC, name, logs=logs)

    def allows_group(
        self, context: RequestContext, operation: Operation, name: str, *, logs: bool = True
    ) -> bool:
        """As `allows`, for a consumer group."""
        return self.allows(context, operation, ResourceType.GROUP, name, logs=logs)

    def allows_transactional_id(self, context: RequestContext, operation: Operation, name: str) -> bool:
        """As `allows`, for a transactional id."""
        return self.allows(context, operation, ResourceType.TRANSACTIONAL_ID, name)

    def allows_any(self, context: RequestContext, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the client may do this on at least one resource of the type."""
        authorizer, connection = self.authorizer, context.connection
        return authorizer is None or authorizer.allows_any(
            f"User:{connection.principal}", connection.address, operation, resource_type
        )

    def operations(self, context: RequestContext, resource_type: ResourceType, name: str) -> int:
        """Return the bit field of the operations that the client may do on a resource."""
        authorizer, connection = self.authorizer, context.connection
        if authorizer is None:
            return EVERY_OPERATION[resource_type]
        return authorizer.operations(f"User:{connection.principal}", connection.address, resource_type, name)

    def cluster_operations(self, context: RequestContext) -> int:
        """Return the bit field for the cluster; 0 for a client that may not describe it."""
        if not self.allows_cluster(context, Operation.DESCRIBE):
            return 0
        return self.operations(context, ResourceType.CLUSTER, CLUSTER_NAME)


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

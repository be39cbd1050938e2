"""The logins of Kafka clients, and what they may do: by ACLs, or else by roles.

With an authorizer, a handler asks `allows` for each resource of a request, and the role of every client is
administrator: ACLs have decided by then. Without one, `allows` is always true, and the role decides: ACCESS
has the role that each API requires, and what clients use the API for. No other module states it for whole
APIs; the gateway asks before it forwards a request with its own credentials (gateway.apis.roles). An API
without an entry is refused to every client. What depends on the content of a request is decided where the
content is read: the settings of brokers (controller.configs), a replica's Fetch, the share coordinator of
FindCoordinator.
"""

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol

from broker.api.requests.context import Connection, RequestContext
from broker.common.errors import ErrorCode
from broker.common.principal import Principal
from broker.config.sections import SecurityConfig
from broker.controller.commands import Actor, ChangeOrigin, Role
from broker.protocol.api_key import NAMES, ApiKey
from broker.quotas.connections import TooFastOfUser, UserRefusal
from broker.security.access_tokens import AccessToken, InvalidToken, TokenRules, read_token
from broker.security.acl.acl import CLUSTER_NAME, Operation, ResourceType
from broker.security.acl.authorizer import EVERY_OPERATION, Authorizer
from broker.security.issuer_keys import IssuerKeys, source_of, sources_of
from broker.security.plain import PlainAuthenticator


class Use(Enum):
    """`BROKERS` is what brokers ask of each other."""

    READS = auto()
    PRODUCES_AND_CONSUMES = auto()
    LOGS_IN = auto()
    CHANGES = auto()
    BROKERS = auto()


class Access(NamedTuple):
    """Clients below `role` are answered `denial`. From version `brokers_since` on, an API is for brokers."""

    use: Use
    role: Role = Role.VIEWER
    denial: ErrorCode = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    brokers_since: int = 1 << 15

    def role_in(self, version: int) -> Role:
        """Return the role that a version of the API needs."""
        return FOR_BROKERS if version >= self.brokers_since else self.role


FOR_BROKERS: Final = Role.ADMIN
"""The role that does what brokers do: CLUSTER_ACTION among ACLs."""

_READS: Final = Access(Use.READS)
_EXCHANGES: Final = Access(Use.PRODUCES_AND_CONSUMES)
_LOGS_IN: Final = Access(Use.LOGS_IN)
_BROKERS: Final = Access(Use.BROKERS, FOR_BROKERS)


def _changes(role: Role, denial: ErrorCode = ErrorCode.CLUSTER_AUTHORIZATION_FAILED) -> Access:
    return Access(Use.CHANGES, role, denial)


_EDITOR, _ADMIN = Role.EDITOR, Role.ADMIN
_TOPIC: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_GROUP: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED

ACCESS: Final[Mapping[int, Access]] = {
    ApiKey.PRODUCE: _EXCHANGES,
    ApiKey.FETCH: _EXCHANGES,
    ApiKey.LIST_OFFSETS: _READS,
    ApiKey.METADATA: _READS,
    ApiKey.OFFSET_COMMIT: _EXCHANGES,
    ApiKey.OFFSET_FETCH: _EXCHANGES,
    ApiKey.FIND_COORDINATOR: _READS,
    ApiKey.JOIN_GROUP: _EXCHANGES,
    ApiKey.HEARTBEAT: _EXCHANGES,
    ApiKey.LEAVE_GROUP: _EXCHANGES,
    ApiKey.SYNC_GROUP: _EXCHANGES,
    ApiKey.DESCRIBE_GROUPS: _READS,
    ApiKey.LIST_GROUPS: _READS,
    ApiKey.SASL_HANDSHAKE: _LOGS_IN,
    ApiKey.API_VERSIONS: _READS,
    ApiKey.CREATE_TOPICS: _changes(_EDITOR, _TOPIC),
    ApiKey.DELETE_TOPICS: _changes(_ADMIN, _TOPIC),
    ApiKey.DELETE_RECORDS: _changes(_ADMIN, _TOPIC),
    ApiKey.INIT_PRODUCER_ID: _EXCHANGES,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _READS,
    ApiKey.ADD_PARTITIONS_TO_TXN: _EXCHANGES._replace(brokers_since=4),
    ApiKey.ADD_OFFSETS_TO_TXN: _EXCHANGES,
    ApiKey.END_TXN: _EXCHANGES,
    ApiKey.WRITE_TXN_MARKERS: _changes(_ADMIN),
    ApiKey.TXN_OFFSET_COMMIT: _EXCHANGES,
    ApiKey.DESCRIBE_ACLS: _READS,
    ApiKey.CREATE_ACLS: _changes(_ADMIN),
    ApiKey.DELETE_ACLS: _changes(_ADMIN),
    ApiKey.DESCRIBE_CONFIGS: _READS,
    ApiKey.ALTER_CONFIGS: _changes(_EDITOR),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _changes(_ADMIN),
    ApiKey.DESCRIBE_LOG_DIRS: _READS,
    ApiKey.SASL_AUTHENTICATE: _LOGS_IN,
    ApiKey.CREATE_PARTITIONS: _changes(_EDITOR, _TOPIC),
    # A client makes tokens for itself; the role of one that makes them for others is asked by the planner.
    ApiKey.CREATE_DELEGATION_TOKEN: _LOGS_IN,
    ApiKey.RENEW_DELEGATION_TOKEN: _LOGS_IN,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _LOGS_IN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _LOGS_IN,
    ApiKey.DELETE_GROUPS: _changes(_EDITOR, _GROUP),
    ApiKey.ELECT_LEADERS: _changes(_ADMIN),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _changes(_EDITOR),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _changes(_ADMIN),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _READS,
    ApiKey.OFFSET_DELETE: _changes(_EDITOR, _GROUP),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _READS,
    ApiKey.ALTER_CLIENT_QUOTAS: _changes(_EDITOR),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _READS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _changes(_ADMIN),
    ApiKey.DESCRIBE_QUORUM: _READS,
    ApiKey.UPDATE_FEATURES: _changes(_ADMIN),
    ApiKey.DESCRIBE_CLUSTER: _READS,
    ApiKey.DESCRIBE_PRODUCERS: _READS,
    ApiKey.UNREGISTER_BROKER: _changes(_ADMIN),
    ApiKey.UNREGISTER_CONTROLLER: _changes(_ADMIN),
    ApiKey.DESCRIBE_TRANSACTIONS: _READS,
    ApiKey.LIST_TRANSACTIONS: _READS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _EXCHANGES,
    ApiKey.CONSUMER_GROUP_DESCRIBE: _READS,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _EXCHANGES,
    ApiKey.PUSH_TELEMETRY: _EXCHANGES,
    ApiKey.LIST_CONFIG_RESOURCES: _READS,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _READS,
    ApiKey.SHARE_GROUP_HEARTBEAT: _EXCHANGES,
    ApiKey.SHARE_GROUP_DESCRIBE: _READS,
    ApiKey.SHARE_FETCH: _EXCHANGES,
    ApiKey.SHARE_ACKNOWLEDGE: _EXCHANGES,
    ApiKey.ADD_RAFT_VOTER: _changes(_ADMIN),
    ApiKey.REMOVE_RAFT_VOTER: _changes(_ADMIN),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _BROKERS,
    ApiKey.READ_SHARE_GROUP_STATE: _BROKERS,
    ApiKey.WRITE_SHARE_GROUP_STATE: _BROKERS,
    ApiKey.DELETE_SHARE_GROUP_STATE: _BROKERS,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _BROKERS,
    ApiKey.STREAMS_GROUP_HEARTBEAT: _EXCHANGES,
    ApiKey.STREAMS_GROUP_DESCRIBE: _READS,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _READS,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _EXCHANGES,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _changes(_EDITOR, _GROUP),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: _EXCHANGES,
}

CREATES_TOPICS: Final = ACCESS[ApiKey.CREATE_TOPICS].role
"""The role of a client for which Metadata creates topics."""


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

"""The role that each API requires where no ACLs decide, and what clients use the API for.

No other module states it for whole APIs. A handler asks `ClientSecurity.permits`, which looks its API up
here; the gateway asks before it forwards a request with its own credentials (gateway.apis.roles). An API
without an entry is refused to every client. What depends on the content of a request is decided where the
content is read: the settings of brokers (controller.configs), a replica's Fetch, the share coordinator of
FindCoordinator.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from broker.common.errors import ErrorCode
from broker.metadata.actor import Role
from broker.protocol.api_key import ApiKey


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
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _READS,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _EXCHANGES,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _changes(_EDITOR, _GROUP),
}

CREATES_TOPICS: Final = ACCESS[ApiKey.CREATE_TOPICS].role
"""The role of a client for which Metadata creates topics."""

"""Quota types and their configuration keys. (Kafka: QuotaType, QuotaConfig)

Used by all quotas, by control for validation and by the console for its forms.
"""

from enum import Enum, StrEnum
from typing import Final

import msgspec


class QuotaKind(StrEnum):
    """A quota type. The values are those of the REST API."""

    PRODUCE = "produce"
    FETCH = "fetch"
    REQUEST = "request"
    CONTROLLER_MUTATION = "controller_mutation"
    LEADER_REPLICATION = "leader_replication"
    FOLLOWER_REPLICATION = "follower_replication"
    ALTER_LOG_DIRS_REPLICATION = "alter_log_dirs_replication"
    CONNECTION_RATE = "connection_rate"
    BROKER_PRODUCE = "broker_produce"
    BROKER_FETCH = "broker_fetch"
    BROKER_SLOW_FETCH = "broker_slow_fetch"
    BROKER_REQUEST_RATE = "broker_request_rate"


class ValueType(Enum):
    """The type by which Kafka stores a value. INT and LONG are integers."""

    INT = "INT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"


class QuotaKey(msgspec.Struct, frozen=True):
    """One key of a quota entity. `unit` is for display."""

    name: str
    type: ValueType
    kind: QuotaKind
    unit: str


CLIENT_KEYS: Final = {
    key.name: key
    for key in (
        QuotaKey("producer_byte_rate", ValueType.LONG, QuotaKind.PRODUCE, "bytes/s"),
        QuotaKey("consumer_byte_rate", ValueType.LONG, QuotaKind.FETCH, "bytes/s"),
        QuotaKey("request_percentage", ValueType.DOUBLE, QuotaKind.REQUEST, "% of one thread"),
        QuotaKey("controller_mutation_rate", ValueType.DOUBLE, QuotaKind.CONTROLLER_MUTATION, "partitions/s"),
    )
}
"""The keys of a user, a client id or both."""

IP_KEYS: Final = {
    key.name: key
    for key in (
        QuotaKey("connection_creation_rate", ValueType.INT, QuotaKind.CONNECTION_RATE, "connections/s"),
    )
}
"""The keys of an address."""

KEY_OF: Final = {key.kind: key.name for key in (*CLIENT_KEYS.values(), *IP_KEYS.values())}
"""The key of each quota type. Types limited by broker configuration have none."""

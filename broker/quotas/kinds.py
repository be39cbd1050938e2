"""What is limited, and the keys that limit it. (Kafka: QuotaType, QuotaConfig)

Read by every file of this room, by control for validation and by the console for its forms.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final


class QuotaKind(StrEnum):
    """The value is what the REST API calls it."""

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
    """How Kafka stores a value; an INT and a LONG are whole numbers."""

    INT = "INT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"


@dataclass(frozen=True, slots=True)
class QuotaKey:
    """One key of a quota entity. `unit` is for people."""

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
"""What a user, a client-id or both together can be limited by."""

IP_KEYS: Final = {
    key.name: key
    for key in (
        QuotaKey("connection_creation_rate", ValueType.INT, QuotaKind.CONNECTION_RATE, "connections/s"),
    )
}
"""What an address can be limited by."""

KEY_OF: Final = {key.kind: key.name for key in (*CLIENT_KEYS.values(), *IP_KEYS.values())}
"""The key that limits a kind; the kinds that broker configuration limits have
none."""

"""Changes: one value of one key of one entity, as text.

Planned by broker.control, written by broker.metadata.store, interpreted by broker.metadata.image.

| kind | entity | keys | | --- | --- | --- | | cluster | empty | id | | topic | its name | id (hexadecimal),
partitions | | topic-config | its name | the topic's own settings | | client-quota | its pairs as JSON | the
four limits, or an address's; shadow if only measured | | broker-config | a node id; empty for all brokers |
dynamic settings | | client-metrics | a subscription's name | its settings | | producer-ids | empty | next:
the first unallocated id | | connection | its id | closed: the client id, when an operator closed it; for the
audit trail only | | user-scram | a user's name | by mechanism: salt, iterations and keys as JSON | |
admin-token | its name | token: role, salt, digest, expiry as JSON; password: its hash as JSON |
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from broker.metadata.actor import BROKER_ITSELF, Actor
from broker.steps import Steps, finished

EntityPairs = tuple[tuple[str, str | None], ...]
"""A quota entity as (type, name) pairs; the name None means the default of that type."""


SHADOW: Final = "shadow"
"""The key that marks a quota entity in shadow mode: its limits are measured, not enforced. No limit has this
name.
"""


class Kind(StrEnum):
    CLUSTER = "cluster"
    TOPIC = "topic"
    TOPIC_CONFIG = "topic-config"
    CLIENT_QUOTA = "client-quota"
    BROKER_CONFIG = "broker-config"
    CLIENT_METRICS = "client-metrics"
    PRODUCER_IDS = "producer-ids"
    USER_SCRAM = "user-scram"
    CONNECTION = "connection"
    ADMIN_TOKEN = "admin-token"  # noqa: S105 - a kind, not a secret


@dataclass(frozen=True, slots=True)
class Change:
    """`new` None removes the key. The store adds the old value."""

    kind: Kind
    entity: str
    key: str
    new: str | None


@dataclass(frozen=True, slots=True)
class QuotaChange:
    """A change of one limit of one entity, for subscribers; `value` None: removed."""

    entity: EntityPairs
    key: str
    value: float | None


@dataclass(frozen=True, slots=True)
class ShadowChange:
    """A change of one entity's shadow mode: its limits are measured only, or enforced again."""

    entity: EntityPairs
    is_shadow: bool


@dataclass(frozen=True, slots=True)
class Delta:
    """The entities of one commit by name, so that subscribers need not compare images; and its actor."""

    topics: frozenset[str]
    quotas: tuple[QuotaChange, ...]
    shadows: tuple[ShadowChange, ...]
    broker_configs: bool
    client_metrics: frozenset[str]
    actor: Actor = BROKER_ITSELF
    scram: frozenset[str] = frozenset()
    """Users with changed SCRAM credentials."""

    @classmethod
    def of(cls, changes: Iterable[Change], actor: Actor = BROKER_ITSELF) -> "Delta":
        return finished(cls.in_steps(changes, actor))

    @classmethod
    def in_steps(cls, changes: Iterable[Change], actor: Actor = BROKER_ITSELF) -> "Steps[Delta]":
        """As `of`, one change per step."""
        topics: list[str] = []
        quotas: list[QuotaChange] = []
        shadows: list[ShadowChange] = []
        subscriptions: list[str] = []
        users: list[str] = []
        broker_configs = False
        for each in changes:
            match each.kind:
                case Kind.TOPIC | Kind.TOPIC_CONFIG:
                    topics.append(each.entity)
                case Kind.CLIENT_QUOTA if each.key == SHADOW:
                    shadows.append(ShadowChange(read_pairs(each.entity), each.new is not None))
                case Kind.CLIENT_QUOTA:
                    value = None if each.new is None else float(each.new)
                    quotas.append(QuotaChange(read_pairs(each.entity), each.key, value))
                case Kind.BROKER_CONFIG:
                    broker_configs = True
                case Kind.CLIENT_METRICS:
                    subscriptions.append(each.entity)
                case Kind.USER_SCRAM:
                    users.append(each.entity)
            yield
        return cls(
            frozenset(topics),
            tuple(quotas),
            tuple(shadows),
            broker_configs,
            frozenset(subscriptions),
            actor,
            frozenset(users),
        )


def write_pairs(pairs: EntityPairs) -> str:
    return json.dumps(pairs, separators=(",", ":"), ensure_ascii=False)


def read_pairs(text: str) -> EntityPairs:
    return tuple((kind, name) for kind, name in json.loads(text))


def write_number(value: float) -> str:
    """Return the shortest text that parses to the same double; whole numbers have no point, for readability
    of the audit trail.
    """
    return str(int(value)) if value.is_integer() and abs(value) < 2**63 else repr(value)

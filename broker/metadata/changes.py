"""Changes: one value of one key of one entity, as text; their rows in the audit trail; and all those of one
commit, by entity.

Planned by broker.controller, written by broker.metadata.store, interpreted by broker.metadata.image.
Subscribers of broker.controller get the changes of each commit as a `Delta`.
`MetadataStore.history` returns the rows of the metadata log, with the actor, time, address and interface of
each change; the console shows them through broker.views.metadata.

    kind            entity                   keys
    cluster         empty                    id
    topic           its name                 id (hexadecimal), partitions
    topic-config    its name                 the topic's own settings
    client-quota    its pairs as JSON        the four limits, or an address's; shadow if only measured
    temporary-quota  as client-quota         a limit's key: its value and times as JSON
    broker-config   a node id; empty: all    dynamic settings
    client-metrics  a subscription's name    its settings
    group-config    a consumer group's id    its settings
    producer-ids    empty                    next: the first unallocated id
    connection      its id                   closed: the client id, after an operator closed it
    records         a topic's name           read, produced: what an operator did to records
    group           its id                   offsets reset, offsets deleted, deleted, by an operator
    transaction     its transactional id     aborted: by an operator
    upstream        a topic, user or ACL     what an operator did to it through a gateway: created, deleted, a
                    of the upstream cluster  setting
    user-scram      a user's name            by mechanism: salt, iterations and keys as JSON
    delegation-token  its id                 token: owner, requester, renewers, times; expires_ms
    admin-token     its name                 token: role, salt, digest, expiry; password: its hash (all JSON)
    acl             all but its permission   ALLOW or DENY: true (broker.security.acl.acl)
    alert-rule      its name                 rule: as JSON
    alert-destination  its name              destination: kind, URL, headers and secrets as JSON
    alert-silence   its name                 silence: what it is for, and its end, as JSON
"""

import json
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from broker.common.slices import Steps, run_through
from broker.metadata.actor import BROKER_ITSELF, Actor
from broker.security.acl.acl import Acl, read_acl

EntityPairs = tuple[tuple[str, str | None], ...]
"""A quota entity as (type, name) pairs; the name None means the default of that type."""


SHADOW: Final = "shadow"
"""The key that marks a quota entity in shadow mode: its limits are measured, not enforced. No limit has this
name.
"""


class Unreadable(str):
    """The encrypted form of a secret value whose key is not available."""

    __slots__ = ()


class ChangeKind(StrEnum):
    """`named` returns other kinds, too: those of a later version, which this one keeps and does not apply."""

    CLUSTER = "cluster"
    TOPIC = "topic"
    TOPIC_CONFIG = "topic-config"
    CLIENT_QUOTA = "client-quota"
    TEMPORARY_QUOTA = "temporary-quota"
    BROKER_CONFIG = "broker-config"
    CLIENT_METRICS = "client-metrics"
    GROUP_CONFIG = "group-config"
    PRODUCER_IDS = "producer-ids"
    USER_SCRAM = "user-scram"
    DELEGATION_TOKEN = "delegation-token"  # noqa: S105 - a kind, not a secret
    CONNECTION = "connection"
    GATEWAY = "gateway"
    RECORDS = "records"
    GROUP = "group"
    TRANSACTION = "transaction"
    UPSTREAM = "upstream"
    ADMIN_TOKEN = "admin-token"  # noqa: S105 - a kind, not a secret
    ACL = "acl"
    ALERT_RULE = "alert-rule"
    ALERT_DESTINATION = "alert-destination"
    ALERT_SILENCE = "alert-silence"

    @classmethod
    def named(cls, name: str) -> "ChangeKind":
        """Return the kind with this name, also one that this version does not know."""
        try:
            return cls(name)
        except ValueError:
            kind = str.__new__(cls, name)
            kind._name_ = kind._value_ = name
            return kind


KNOWN_KINDS: Final = frozenset(ChangeKind)

QUOTA_KINDS: Final = frozenset({ChangeKind.CLIENT_QUOTA, ChangeKind.TEMPORARY_QUOTA})
"""The kinds whose entities are pairs."""


ACL_IS_SET: Final = "true"
"""The value of an ACL that exists."""

READ: Final = "read"
"""The key of a row of the kind `records` that says who read records."""

NOTES: Final = frozenset(
    {
        ChangeKind.CONNECTION,
        ChangeKind.GATEWAY,
        ChangeKind.RECORDS,
        ChangeKind.GROUP,
        ChangeKind.TRANSACTION,
        ChangeKind.UPSTREAM,
    }
)
"""Kinds of actions outside the metadata. Their rows are only for the audit trail: they have no old value, and
nothing is kept of them in memory.
"""


class Change(msgspec.Struct, frozen=True):
    """`new` None removes the key. The store adds the old value."""

    kind: ChangeKind
    entity: str
    key: str
    new: str | None


class AuditRow(msgspec.Struct, frozen=True):
    """One change. `seq` increases by one per row; `batch` is the first `seq` of the same commit.

    `time_ms` is wall-clock. `old` None: no previous value; `new` None: the value was removed. Kinds, entities
    and keys are those of broker.metadata.changes. Rows are never modified or deleted: an undo is a new row.
    """

    seq: int
    batch: int
    time_ms: int
    actor: str
    role: str
    address: str
    origin: str
    kind: str
    entity: str
    key: str
    old: str | None
    new: str | None


class AuditFilter(msgspec.Struct, frozen=True):
    """Selects rows, the newest first unless `oldest_first`. `not_origin` excludes one interface; `search`
    matches entity, key, actor and address, ignoring the case of ASCII letters; `before_seq` or `after_seq`
    continues after the last row of the previous page; `reads` selects what was read of records, or what was
    not; `limit` is 1 to 1,001: a page of
    1,000 and the row that shows whether there is another.
    """

    kind: str | None = None
    entity: str | None = None
    actor: str | None = None
    origin: str | None = None
    not_origin: str | None = None
    search: str | None = None
    seq: int | None = None
    before_seq: int | None = None
    after_seq: int | None = None
    oldest_first: bool = False
    limit: int = 100
    reads: bool | None = None


def write_pairs(pairs: EntityPairs) -> str:
    return json.dumps(pairs, separators=(",", ":"), ensure_ascii=False)


def read_pairs(text: str) -> EntityPairs:
    return tuple((kind, name) for kind, name in json.loads(text))


def write_number(value: float) -> str:
    """Return the shortest text that parses to the same double; whole numbers have no point, for readability
    of the audit trail.
    """
    return str(int(value)) if value.is_integer() and abs(value) < 2**63 else repr(value)


class QuotaChange(msgspec.Struct, frozen=True):
    """A change of one limit of one entity, for subscribers: of the value in force; `value` None: removed."""

    entity: EntityPairs
    key: str
    value: float | None


class ShadowChange(msgspec.Struct, frozen=True):
    """A change of one entity's shadow mode: its limits are measured only, or enforced again."""

    entity: EntityPairs
    is_shadow: bool


class AclChange(msgspec.Struct, frozen=True):
    """A created ACL, or a deleted one."""

    acl: Acl
    is_created: bool


class Delta(msgspec.Struct, frozen=True):
    """The entities of one commit by name, so that subscribers need not compare images; and its actor."""

    topics: frozenset[str]
    quotas: tuple[QuotaChange, ...]
    shadows: tuple[ShadowChange, ...]
    broker_configs: bool
    client_metrics: frozenset[str]
    actor: Actor = BROKER_ITSELF
    scram: frozenset[str] = frozenset()
    """Users with changed SCRAM credentials."""
    acls: tuple[AclChange, ...] = ()
    delegation_tokens: frozenset[str] = frozenset()
    """Ids of created, changed and removed tokens."""
    temporary_quotas: frozenset[EntityPairs] = frozenset()
    """Entities whose temporary limits changed."""

    @classmethod
    def of(cls, changes: Iterable[Change], actor: Actor = BROKER_ITSELF) -> "Delta":
        return run_through(cls.in_steps(changes, actor))

    @classmethod
    def in_steps(cls, changes: Iterable[Change], actor: Actor = BROKER_ITSELF) -> "Steps[Delta]":
        """As `of`, one change per step."""
        topics: list[str] = []
        quotas: list[QuotaChange] = []
        shadows: list[ShadowChange] = []
        subscriptions: list[str] = []
        users: list[str] = []
        acls: list[AclChange] = []
        delegation_tokens: list[str] = []
        temporary_quotas: list[EntityPairs] = []
        broker_configs = False
        for each in changes:
            match each.kind:
                case ChangeKind.TOPIC | ChangeKind.TOPIC_CONFIG:
                    topics.append(each.entity)
                case ChangeKind.CLIENT_QUOTA if each.key == SHADOW:
                    shadows.append(ShadowChange(read_pairs(each.entity), each.new is not None))
                case ChangeKind.CLIENT_QUOTA:
                    value = None if each.new is None else float(each.new)
                    quotas.append(QuotaChange(read_pairs(each.entity), each.key, value))
                case ChangeKind.TEMPORARY_QUOTA:
                    temporary_quotas.append(read_pairs(each.entity))
                case ChangeKind.BROKER_CONFIG:
                    broker_configs = True
                case ChangeKind.CLIENT_METRICS:
                    subscriptions.append(each.entity)
                case ChangeKind.USER_SCRAM:
                    users.append(each.entity)
                case ChangeKind.DELEGATION_TOKEN:
                    delegation_tokens.append(each.entity)
                case ChangeKind.ACL:
                    acls.append(AclChange(read_acl(each.entity, each.key), each.new is not None))
            yield
        return cls(
            frozenset(topics),
            tuple(quotas),
            tuple(shadows),
            broker_configs,
            frozenset(subscriptions),
            actor,
            frozenset(users),
            tuple(acls),
            frozenset(delegation_tokens),
            frozenset(temporary_quotas),
        )

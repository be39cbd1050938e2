"""Changes: one value of one key of one entity, as text; and their rows in the audit trail.

Planned by broker.controller, written by broker.metadata.store, interpreted by broker.metadata.image.
`MetadataStore.history` returns the rows of the metadata log, with the actor, time, address and interface of
each change; the console shows them through broker.views.metadata.

    kind            entity                   keys
    cluster         empty                    id
    topic           its name                 id (hexadecimal), partitions
    topic-config    its name                 the topic's own settings
    client-quota    its pairs as JSON        the four limits, or an address's; shadow if only measured
    broker-config   a node id; empty: all    dynamic settings
    client-metrics  a subscription's name    its settings
    group-config    a consumer group's id    its settings
    producer-ids    empty                    next: the first unallocated id
    connection      its id                   closed: the client id, after an operator closed it
    records         a topic's name           read, produced: what an operator did to records
    group           its id                   offsets reset, offsets deleted, deleted, by an operator
    transaction     its transactional id     aborted: by an operator
    user-scram      a user's name            by mechanism: salt, iterations and keys as JSON
    delegation-token  its id                 token: owner, requester, renewers, times; expires_ms
    admin-token     its name                 token: role, salt, digest, expiry; password: its hash (all JSON)
    acl             all but its permission   ALLOW or DENY: true (broker.security.acl.acl)
    alert-rule      its name                 rule: as JSON
    alert-destination  its name              destination: kind, URL and headers as JSON
"""

import json
from enum import StrEnum
from typing import Final

import msgspec

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
    CLUSTER = "cluster"
    TOPIC = "topic"
    TOPIC_CONFIG = "topic-config"
    CLIENT_QUOTA = "client-quota"
    BROKER_CONFIG = "broker-config"
    CLIENT_METRICS = "client-metrics"
    GROUP_CONFIG = "group-config"
    PRODUCER_IDS = "producer-ids"
    USER_SCRAM = "user-scram"
    DELEGATION_TOKEN = "delegation-token"  # noqa: S105 - a kind, not a secret
    CONNECTION = "connection"
    RECORDS = "records"
    GROUP = "group"
    TRANSACTION = "transaction"
    ADMIN_TOKEN = "admin-token"  # noqa: S105 - a kind, not a secret
    ACL = "acl"
    ALERT_RULE = "alert-rule"
    ALERT_DESTINATION = "alert-destination"


ACL_IS_SET: Final = "true"
"""The value of an ACL that exists."""

NOTES: Final = frozenset({ChangeKind.RECORDS, ChangeKind.GROUP, ChangeKind.TRANSACTION})
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
    continues after the last row of the previous page; `limit` is 1 to 1,001: a page of
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


def write_pairs(pairs: EntityPairs) -> str:
    return json.dumps(pairs, separators=(",", ":"), ensure_ascii=False)


def read_pairs(text: str) -> EntityPairs:
    return tuple((kind, name) for kind, name in json.loads(text))


def write_number(value: float) -> str:
    """Return the shortest text that parses to the same double; whole numbers have no point, for readability
    of the audit trail.
    """
    return str(int(value)) if value.is_integer() and abs(value) < 2**63 else repr(value)

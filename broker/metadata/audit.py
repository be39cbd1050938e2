"""The metadata log as a trail: who changed what, when, from where, through which door.

Answered by `MetadataStore.history`; shown by the console through broker.control.views.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One change. `seq` grows by one from row to row; `batch` is the first `seq` of those that were committed
    at once.

    `time_ms` is wall-clock. `old` None: there was nothing; `new` None: it was removed. Kinds, entities and
    keys are those of broker.metadata.changes. Never edited, never deleted: an undo is a new row.
    """

    seq: int
    batch: int
    time_ms: int
    actor: str
    role: str
    address: str
    door: str
    kind: str
    entity: str
    key: str
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """What to read, newest first unless `oldest_first`. `not_door` leaves one way in out; `search` is looked
    for in entity, key, actor and address, whatever the case of ASCII letters; `before_seq`, or `after_seq`,
    goes on from the last row of the page before; `limit` is 1 to 1,000.
    """

    kind: str | None = None
    entity: str | None = None
    actor: str | None = None
    door: str | None = None
    not_door: str | None = None
    search: str | None = None
    seq: int | None = None
    before_seq: int | None = None
    after_seq: int | None = None
    oldest_first: bool = False
    limit: int = 100

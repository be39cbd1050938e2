"""The metadata log as an audit trail: actor, time, address and interface of each change.

`MetadataStore.history` returns it; the console shows it through broker.control.views.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AuditRow:
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


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Selects rows, the newest first unless `oldest_first`. `not_origin` excludes one interface; `search`
    matches entity, key, actor and address, ignoring the case of ASCII letters; `before_seq` or `after_seq`
    continues after the last row of the previous page; `limit` is 1 to 1,000.
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

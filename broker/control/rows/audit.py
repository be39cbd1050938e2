"""Audit rows for display, without secrets. See `views` for units."""

from dataclasses import dataclass

from broker.metadata.audit import AuditRow


@dataclass(frozen=True, slots=True)
class AuditEntry(AuditRow):
    """`final` says why the old value cannot be restored; None: it can, with the role that the change needs."""

    final: str | None = None

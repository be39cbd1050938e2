"""Audit rows for display, without secrets. See `views` for units."""

from dataclasses import dataclass

from broker.metadata.changes import AuditRow


@dataclass(frozen=True, slots=True)
class AuditEntry(AuditRow):
    """`final` says why the old value cannot be restored; None: the role of the change can restore it."""

    final: str | None = None

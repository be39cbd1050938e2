"""The trail as people see it: without secrets, and with what can be put back. See `views` for units."""

from dataclasses import dataclass

from broker.metadata.audit import AuditRow


@dataclass(frozen=True, slots=True)
class AuditEntry(AuditRow):
    """`final` says why the old value cannot be put back; None: it can, by whoever may make such a change."""

    final: str | None = None

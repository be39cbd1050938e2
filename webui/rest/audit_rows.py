"""One change of the audit trail: as a line of CSV, and the command that restores its old value.

Used by webui.rest.audit. broker.controller has already redacted secrets. Independent of HTTP.
"""

import csv
import io
import shlex
from collections.abc import Iterable
from typing import Any, Final

from broker.controller.commands import QuotaOp
from broker.controller.rows.broker import AuditEntry
from broker.controller.rows.client_endpoint import ClientEndpoint
from webui.quotas import kafka_configs
from webui.tables.answers import as_json

CLIENT_QUOTA: Final = "client-quota"
SHADOW: Final = "shadow"
KINDS: Final = (
    "cluster",
    "topic",
    "topic-config",
    CLIENT_QUOTA,
    "broker-config",
    "client-metrics",
    "group-config",
    "producer-ids",
    "connection",
    "records",
    "group",
    "transaction",
    "user-scram",
    "delegation-token",
    "acl",
    "admin-token",
    "alert-rule",
    "alert-destination",
)
TOOL_TYPES: Final = {
    "topic-config": "topics",
    "broker-config": "brokers",
    "client-metrics": "client-metrics",
    "group-config": "groups",
}
COLUMNS: Final = ("id", "at", "actor", "role", "address", "origin", "kind", "entity", "key", "old", "new")
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def undo_op(row: AuditEntry) -> QuotaOp | None:
    """Return the operation that undoes a change of a client quota's limit; None for its shadow mark."""
    if row.key == SHADOW:
        return None
    return QuotaOp(row.key, None if row.old is None else float(row.old))


def undo_command(endpoint: ClientEndpoint, row: AuditEntry) -> str:
    """Return the kafka-configs.sh line equivalent to an undo; empty if no tool can do it."""
    if row.quota is not None:
        op = undo_op(row)
        return "" if op is None else kafka_configs(endpoint, row.quota, (op,))
    if row.kind not in TOOL_TYPES:
        return ""
    words = [*endpoint.tool("kafka-configs.sh"), "--alter"]
    words += ["--delete-config", row.key] if row.old is None else ["--add-config", _assignment(row)]
    words += ["--entity-type", TOOL_TYPES[row.kind]]
    words += ["--entity-name", row.entity] if row.entity else ["--entity-default"]
    return shlex.join(words)


def csv_line(row: AuditEntry) -> bytes:
    """Format a line by RFC 4180. An apostrophe precedes a cell that a spreadsheet would evaluate as a
    formula.
    """
    fields = as_json(row)
    return _csv(_cell(fields[name]) for name in COLUMNS)


def _csv(cells: Iterable[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue().encode()


CSV_HEAD: Final = _csv(COLUMNS)


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _assignment(row: AuditEntry) -> str:
    """Put a value with a comma in brackets: the tool splits other values at commas."""
    value = row.old or ""
    return f"{row.key}=[{value}]" if "," in value else f"{row.key}={value}"

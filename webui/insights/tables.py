"""The gold tables and their required columns.

Used by webui.insights.worker to validate a table before a query, and by webui.insights.queries. The
pipeline defines the tables (docs/pipeline.md); a test compares both.
"""

from collections.abc import Mapping
from typing import Final

DATE: Final = "date"
MOMENT: Final = "timestamp"
WHOLE: Final = "whole number"
REAL: Final = "number"
TEXT: Final = "text"
TRUTH: Final = "truth"
TEXTS: Final = "list of texts"

KINDS: Final[Mapping[str, str]] = {
    "date": DATE,
    "timestamp": MOMENT,
    "timestamp_ntz": MOMENT,
    "byte": WHOLE,
    "short": WHOLE,
    "integer": WHOLE,
    "long": WHOLE,
    "float": REAL,
    "double": REAL,
    "string": TEXT,
    "boolean": TRUTH,
}
"""Delta's primitive types and their kinds here."""

_CLIENT: Final = {"principal": TEXT, "client_id": TEXT}
_MINUTE: Final = {"date": DATE, "minute": MOMENT}

USAGE: Final = "usage_per_minute"
LATENCY: Final = "phase_quantiles_per_minute"
LATENCY_BY_SOFTWARE: Final = "latency_by_software_per_day"
THROTTLING: Final = "throttling_per_minute"
UTILISATION: Final = "quota_utilisation_per_minute"
STORMS: Final = "connection_storms"
SHARED_CLIENT_IDS: Final = "shared_client_ids_per_day"
OFFENDERS: Final = "top_offenders_per_day"
ADVICE: Final = "quota_advice"
THROTTLE_COMPLIANCE: Final = "throttle_compliance_per_day"
CLIENT_METRICS: Final = "client_metrics_per_minute"
LOST: Final = "lost_records"


def _whole(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, WHOLE)


def _real(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, REAL)


TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    USAGE: _MINUTE
    | _CLIENT
    | _whole("produce_bytes", "fetch_bytes", "requests", "errors", "throttle_ms", "handler_us"),
    LATENCY: _MINUTE | {"api": TEXT, "phase": TEXT} | _whole("timed", "p50_us", "p95_us", "p99_us", "max_us"),
    LATENCY_BY_SOFTWARE: {
        "date": DATE,
        "software_name": TEXT,
        "software_version": TEXT,
        "attribution": TEXT,
        "api": TEXT,
    }
    | _whole("clients", "timed", "p50_us", "p95_us", "p99_us", "max_us"),
    THROTTLING: _MINUTE
    | _CLIENT
    | {"kind": TEXT, "rule": TEXT}
    | _whole("throttles", "throttle_ms", "longest_ms"),
    UTILISATION: _MINUTE | {"key": TEXT, "rule": TEXT, "sharer": TEXT} | _real("limit", "utilisation"),
    STORMS: _MINUTE
    | {"listener": TEXT, "address": TEXT}
    | _whole("node", "opened", "refused", "throttled", "attempts"),
    SHARED_CLIENT_IDS: {
        "date": DATE,
        "client_id": TEXT,
        "principals": TEXTS,
        "addresses": TEXTS,
        "connections": WHOLE,
        "is_shared_by_principals": TRUTH,
    },
    OFFENDERS: {"date": DATE, "by": TEXT} | _CLIENT | _whole("rank", "total") | _real("share"),
    THROTTLE_COMPLIANCE: {
        "date": DATE,
        "software_name": TEXT,
        "software_version": TEXT,
        "early_share": REAL,
        "obeys": TRUTH,
    }
    | _CLIENT
    | _whole("connections", "throttles", "throttle_ms", "waited", "sent_early"),
    CLIENT_METRICS: _MINUTE
    | {"client_instance_id": TEXT, "metric": TEXT, "shape": TEXT}
    | _CLIENT
    | _whole("points", "count")
    | _real("min", "max", "mean", "increase", "sum"),
    LOST: {"date": DATE, "time": MOMENT, "topic": TEXT} | _whole("records"),
    ADVICE: {"date": DATE, "user": TEXT, "client_id": TEXT, "key": TEXT, "reason": TEXT}
    | _whole("minutes")
    | _real("needed", "peak", "recommended"),
}
"""By the table's directory within `gold`: each column that is read and must exist, with its kind."""

OPTIONAL: Final = {"cluster": "VARCHAR"}
"""Columns that tables of earlier versions lack, with their SQL types; a query reads null."""

OPTIONAL_OF: Final[Mapping[str, Mapping[str, str]]] = {
    **{
        name: {"bucket_us": "BIGINT[]", "bucket_counts": "BIGINT[]"}
        for name in (LATENCY, LATENCY_BY_SOFTWARE)
    },
    ADVICE: {
        "basis": "VARCHAR",
        **dict.fromkeys(("censored_minutes", "longest_wait_ms"), "BIGINT"),
        **dict.fromkeys(("held_limit", "throttled_requests_share", "throttled_time_share"), "DOUBLE"),
    },
}
"""The same of some tables only."""

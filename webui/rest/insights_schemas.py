"""Response schemas of /insights/*. webui.insights.worker produces the bodies; the tests validate them against
these schemas.
"""

from typing import Final

from webui.rest.paging import NEXT
from webui.schema import COUNT, MAYBE, NAME, Flag, Listing, Names, Number, Record, Schema, Text

Fields = dict[str, Schema]

MAX_ROWS: Final = 1_000
MAX_POINTS: Final = 2_400
LONGEST_TEXT: Final = 1_000_000

DAY: Final = Text(form="date")
AT: Final = Text(form="date-time")
_MAYBE_AT: Final = Text(form="date-time", nullable=True)
_MAYBE_COUNT: Final = Number(integer=True, minimum=0, nullable=True)
_WHO: Final[Fields] = {
    "user": Text(max_length=LONGEST_TEXT, nullable=True),
    "client_id": Text(max_length=LONGEST_TEXT, nullable=True),
}


def _counts(*names: str) -> Fields:
    return dict.fromkeys(names, COUNT)


_CLUSTER: Final[Fields] = {"cluster": Text(max_length=LONGEST_TEXT, nullable=True)}
_RULE: Final = Names(Text(max_length=LONGEST_TEXT, nullable=True))
_USED: Final = _counts("produce_bytes", "fetch_bytes", "requests", "errors", "throttle_ms", "handler_us")
_HELD: Final = _counts("throttles", "throttle_ms", "longest_ms")
_TOOK: Final = _counts("timed", "p50_us", "p95_us", "p99_us", "max_us")

BY: Final = ("produce_bytes", "fetch_bytes", "requests", "throttle_ms", "errors")
PHASES: Final = ("queue", "local", "remote", "response_queue", "response_send", "total")


def listing(*parts: Fields, head: Fields | None = None) -> Record:
    """Return the schema of a page of rows; a row has the fields of all parts, the page those of `head`."""
    fields = {name: schema for part in parts for name, schema in part.items()}
    return Record(
        {
            "from": DAY,
            "to": DAY,
            **_CLUSTER,
            **(head or {}),
            "version": COUNT,
            "written_at": _MAYBE_AT,
            "items": Listing(Record(fields), max_items=MAX_ROWS),
            "next": NEXT,
        }
    )


def series(fields: Fields) -> Record:
    return Record(
        {
            "from": DAY,
            "to": DAY,
            **_CLUSTER,
            "step": Text(choices=("minute", "hour", "day")),
            "version": COUNT,
            "written_at": _MAYBE_AT,
            "items": Listing(Record({"at": AT} | fields), max_items=MAX_POINTS),
        }
    )


USAGE: Final = listing(_WHO, _USED, {"minutes": COUNT})
USAGE_SERIES: Final = series(_USED)
_PRICES: Final[Fields] = {
    "currency": Text(),
    "price_per_gb_produced": Number(minimum=0),
    "price_per_gb_fetched": Number(minimum=0),
}
_COSTS: Final[Fields] = dict.fromkeys(("produced_cost", "fetched_cost"), Number(minimum=0))
COST: Final = listing(
    _WHO,
    _counts("produce_bytes", "fetch_bytes"),
    _COSTS,
    {"cost": Number(minimum=0), "share": MAYBE},
    head=_PRICES,
)
COST_SERIES: Final = series(_COSTS)
THROTTLING: Final = listing(
    _CLUSTER, {"kind": Text(), "rule": _RULE}, _WHO, _HELD, {"first_at": AT, "last_at": AT}
)
THROTTLING_SERIES: Final = series(_HELD)
LATENCY: Final = listing({"api": NAME, "phase": NAME}, _TOOK)
LATENCY_SERIES: Final = series(_TOOK)
ATTRIBUTIONS: Final = ("one", "several", "unknown")
_SOFTWARE: Final[Fields] = dict.fromkeys(("software_name", "software_version"), Text(max_length=LONGEST_TEXT))
LATENCY_BY_SOFTWARE: Final = listing(
    _SOFTWARE,
    {"attribution": Text(choices=ATTRIBUTIONS), "api": NAME},
    _TOOK,
    _counts("clients", "days"),
)
LATENCY_BY_SOFTWARE_SERIES: Final = series(_SOFTWARE | _TOOK)
UTILISATION: Final = listing(
    _CLUSTER,
    {
        "key": NAME,
        "rule": _RULE,
        "sharer": Listing(Text(max_length=LONGEST_TEXT, nullable=True)),
        "peak": MAYBE,
        "mean": MAYBE,
        "minutes": COUNT,
        "minutes_nearly": COUNT,
        "minutes_at_limit": COUNT,
        "bound": MAYBE,
    },
)
STORMS: Final = listing(
    _CLUSTER,
    {"at": AT, "node": _MAYBE_COUNT, "listener": NAME, "address": NAME},
    _counts("attempts", "opened", "refused", "throttled"),
)
SHARED_CLIENT_IDS: Final = listing(
    _CLUSTER,
    {
        "day": DAY,
        "client_id": Text(max_length=LONGEST_TEXT),
        "principals": Listing(Text(max_length=LONGEST_TEXT, nullable=True)),
        "addresses": Listing(Text(max_length=LONGEST_TEXT, nullable=True)),
        "connections": COUNT,
        "is_shared_by_principals": Flag(),
    },
)
LOST: Final = listing(
    {"topic": NAME},
    _CLUSTER,
    _counts("records", "gaps"),
    {"first_at": AT, "last_at": AT},
)
OFFENDERS: Final = listing(
    {"day": DAY, "by": Text(), "rank": COUNT}, _CLUSTER, _WHO, {"total": COUNT, "share": MAYBE}
)
CLUSTERS: Final = listing(_CLUSTER, {"first_day": DAY, "last_day": DAY})
_COMPLIED: Final[Fields] = {
    **_SOFTWARE,
    **_counts("connections", "throttles", "throttle_ms", "waited", "sent_early"),
    "early_share": MAYBE,
    "obeys": Flag(nullable=True),
}
THROTTLE_COMPLIANCE: Final = listing({"day": DAY}, _CLUSTER, _WHO, _COMPLIED)
THROTTLE_COMPLIANCE_SUMMARY: Final = listing(_CLUSTER, _WHO, {"days": COUNT}, _COMPLIED)
THROTTLE_COMPLIANCE_SERIES: Final = series(_counts("waiting_ms", "early_ms", "unknown_ms"))
_SAID: Final[Fields] = {
    "points": COUNT,
    **dict.fromkeys(("least", "most", "mean", "increase", "total"), MAYBE),
    "counted": _MAYBE_COUNT,
}
CLIENT_METRICS: Final = listing(
    {"metric": NAME, "shape": Text(choices=("gauge", "sum", "histogram"))},
    _WHO,
    _SAID,
    {"instances": COUNT, "last_at": AT},
)
CLIENT_METRICS_SERIES: Final = series(_SAID)
ADVICE: Final = listing(
    {"day": DAY},
    _CLUSTER,
    _WHO,
    {
        "key": NAME,
        "minutes": COUNT,
        "censored_minutes": _MAYBE_COUNT,
        **dict.fromkeys(("needed", "peak", "held_limit", "recommended"), MAYBE),
        "basis": Text(choices=("simulated", "measured"), nullable=True),
        **dict.fromkeys(("throttled_requests_share", "throttled_time_share"), MAYBE),
        "longest_wait_ms": _MAYBE_COUNT,
        "reason": Text(max_length=LONGEST_TEXT),
    },
)
_FIGURES: Final = Listing(MAYBE, max_items=MAX_POINTS)
ADVICE_HISTORY: Final = listing(
    _CLUSTER,
    _WHO,
    {
        "key": NAME,
        "days": Listing(DAY, max_items=MAX_POINTS),
        **dict.fromkeys(("needed", "peak", "recommended"), _FIGURES),
        **dict.fromkeys(("oldest", "newest", "highest", "growth", "recommended_now", "limit"), MAYBE),
        "rule": _RULE,
    },
)

TABLE: Final = Record(
    {
        "name": Text(),
        "state": Text(choices=("there", "none", "foreign", "damaged")),
        "problem": Text(nullable=True),
        "version": _MAYBE_COUNT,
        "rows": _MAYBE_COUNT,
        "files": _MAYBE_COUNT,
        "bytes": _MAYBE_COUNT,
        "newest_at": _MAYBE_AT,
        "newest_day": Text(nullable=True),
        "written_at": _MAYBE_AT,
        "gap_ms": _MAYBE_COUNT,
    }
)
STATE: Final = Record(
    {
        "state": Text(choices=("off", "missing", "none", "unreadable", "ready", "stale")),
        "warehouse": Text(max_length=LONGEST_TEXT),
        "problem": Text(max_length=4096, nullable=True),
        "newest_at": _MAYBE_AT,
        "written_at": _MAYBE_AT,
        "usual_ms": _MAYBE_COUNT,
        "setting": Text(),
        "install": Text(),
        "command": Text(max_length=LONGEST_TEXT),
        "tables": Listing(TABLE),
    }
)

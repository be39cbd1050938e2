"""Schemas of REST responses.

The routes use them for the OpenAPI document; the tests validate real responses against them.
"""

from typing import Final

from webui.live.history import Sample
from webui.quotas.entities import ALL_KEYS, ENTITY_TYPES
from webui.rest.problem import PROBLEM_FIELDS
from webui.rest.schema import Flag, Listing, Number, Record, Schema, Text

NAME: Final = Text(longest=32_767)
LONGEST_NAME: Final = 1_024
"""Maximum length of a quota entity's name in characters; control rejects longer names from any origin."""

TIME: Final = Text(form="date-time")
COUNT: Final = Number(integer=True, least=0)
RATE: Final = Number(least=0)
MAYBE: Final = Number(nullable=True)

ENTITY: Final = Record(
    {kind: Text(longest=LONGEST_NAME, nullable=True) for kind in ENTITY_TYPES},
    optional=frozenset(ENTITY_TYPES),
    least=1,
)

WOULD_HAVE: Final = Record(
    {"times": COUNT, "held_ms": COUNT, "last_at": Text(form="date-time", nullable=True)}
)

TAGS: Final = Listing(Record({"name": NAME, "value": NAME}))
"""The tags by which a quota callback identifies a limit."""

LIMIT: Final = Record(
    {
        "value": Number(above=0),
        "observed": MAYBE,
        "used": MAYBE,
        "throttled": COUNT,
        "would_have": WOULD_HAVE,
        "changed_at": TIME,
        "changed_by": NAME,
    },
    optional=frozenset({"would_have"}),
)

QUOTA: Final = Record(
    {
        "entity": ENTITY,
        "limits": Record(dict.fromkeys(ALL_KEYS, LIMIT), optional=frozenset(ALL_KEYS)),
        "shadow": Flag(),
        "version": COUNT,
        "changed_at": TIME,
        "changed_by": NAME,
    }
)

QUOTAS: Final = Record(
    {"items": Listing(QUOTA, most=1_000), "total": COUNT, "of": COUNT, "offset": COUNT, "limit": COUNT}
)

_STEPS: Final = Listing(COUNT, most=60)
USAGE_ROW: Final = Record(
    {
        "user": NAME,
        "client_id": NAME,
        "connections": COUNT,
        "bytes_in_per_s": RATE,
        "bytes_out_per_s": RATE,
        "requests_per_s": RATE,
        "request_percentage": Number(least=0, nullable=True),
        "bytes_in": COUNT,
        "bytes_out": COUNT,
        "requests": COUNT,
        "since": TIME,
        "last_active_at": TIME,
        "limited_by": Listing(Text(), most=4),
        "history": Record({"step_ms": COUNT, "bytes_in": _STEPS, "bytes_out": _STEPS, "requests": _STEPS}),
    }
)
USAGE: Final = Record(
    {"items": Listing(USAGE_ROW, most=1_000), "total": COUNT, "of": COUNT, "offset": COUNT, "limit": COUNT}
)

REACH: Final = Record(
    {
        "key": Text(),
        "clients": COUNT,
        "over": COUNT,
        "unmeasured": COUNT,
        "falls_to": Listing(Record({"bound": MAYBE, "clients": COUNT})),
        "outranked": Listing(Record({"entity": ENTITY, "clients": COUNT})),
        "shadow": Flag(),
    }
)

RESULT_FIELDS: Final[dict[str, Schema]] = {
    "entity": ENTITY,
    "error": Text(),
    "message": Text(longest=4096, nullable=True),
    "current": Record(QUOTA.fields, optional=frozenset(QUOTA.fields)),
    "command": Text(longest=200_000),
    "reach": Listing(REACH),
    "warnings": Listing(Text(longest=4096)),
}
RESULTS_LIST: Final = Listing(Record(RESULT_FIELDS, optional=frozenset({"current", "reach"})))
RESULTS: Final = Record({"results": RESULTS_LIST, "reach": Listing(REACH)}, optional=frozenset({"reach"}))
REFUSED_RESULTS: Final = Record(
    {**PROBLEM_FIELDS, "results": RESULTS_LIST}, optional=frozenset({"code", "where", "results"})
)

THROTTLED: Final = Record(
    {
        "connection_id": NAME,
        "client_id": NAME,
        "principal": NAME,
        "address": NAME,
        "quota_type": Text(),
        "entity": Record(ENTITY.fields, optional=ENTITY.optional),
        "observed": MAYBE,
        "bound": Number(),
        "throttle_ms": COUNT,
        "remaining_ms": COUNT,
        "since": TIME,
        "times": COUNT,
        "obeys": Flag(nullable=True),
        "tags": TAGS,
    }
)

HELD_LATELY: Final = Record(
    {
        "items": Listing(
            Record(
                {
                    "client_id": NAME,
                    "principal": NAME,
                    "address": NAME,
                    "quota_type": Text(),
                    "entity": Record(ENTITY.fields, optional=ENTITY.optional),
                    "times": COUNT,
                    "longest_ms": COUNT,
                    "worst": MAYBE,
                    "first_at": TIME,
                    "last_at": TIME,
                }
            ),
            most=1_000,
        ),
        "total": COUNT,
        "of": COUNT,
        "offset": COUNT,
        "limit": COUNT,
    }
)

CONNECTION: Final = Record(
    {
        "connection_id": NAME,
        "listener": NAME,
        "protocol": NAME,
        "principal": NAME,
        "client_id": NAME,
        "software_name": NAME,
        "software_version": NAME,
        "address": NAME,
        "opened_at": TIME,
        "requests": COUNT,
        "bytes_in": COUNT,
        "bytes_out": COUNT,
        "mute_state": Text(),
        "tls": Text(),
        "obeys": Flag(nullable=True),
    }
)

TASK: Final = Record(
    {
        "name": NAME,
        "kind": Text(),
        "parent": Text(longest=32_767, nullable=True),
        "depth": COUNT,
        "count": COUNT,
        "owns": Listing(
            Record(
                {
                    "name": NAME,
                    "now": COUNT,
                    "capacity": Number(integer=True, least=0, nullable=True),
                    "peak": Number(integer=True, least=0, nullable=True),
                }
            )
        ),
        "idle": Number(least=0, most=1, nullable=True),
        "since": TIME,
    }
)

FIGURES: Final = Record(
    {
        "uptime_ms": COUNT,
        "bytes_in_total": COUNT,
        "bytes_out_total": COUNT,
        "requests_total": COUNT,
        "bytes_in_per_s": MAYBE,
        "bytes_out_per_s": MAYBE,
        "requests_per_s": MAYBE,
        "connections": COUNT,
        "throttled": COUNT,
        "groups": COUNT,
        "processor_idle": MAYBE,
        "handler_idle": MAYBE,
        "acceptor_blocked": MAYBE,
        "memory_pool_used": COUNT,
        "memory_pool_size": Number(integer=True, nullable=True),
        "controller_memory_pool_used": COUNT,
        "controller_memory_pool_size": Number(integer=True, nullable=True),
        "offline_partitions": COUNT,
        "missing_offsets": COUNT,
        "queues": Listing(Record({"name": NAME, "depth": COUNT, "capacity": COUNT, "peak": COUNT})),
        "phases": Listing(
            Record({"api": Text(), "phase": Text(), "count": COUNT, "p50_ms": MAYBE, "p99_ms": MAYBE})
        ),
    }
)

HISTORY: Final = Record({name: Listing(MAYBE) for name in Sample._fields})

OVERVIEW: Final = Record(
    {
        "at": TIME,
        "cluster_id": NAME,
        "node_id": Number(integer=True),
        "software_version": NAME,
        "bootstrap": Listing(NAME),
        "console": NAME,
        "topics": COUNT,
        "partitions": COUNT,
        "quota_rules": COUNT,
        "figures": FIGURES,
        "history": HISTORY,
    },
)

_PLACE: Final = Text(choices=("dynamic-broker", "dynamic-default", "file", "default"))
_VALUE: Final = Text(longest=1_000_000, nullable=True)
CONFIG: Final = Record(
    {
        "name": NAME,
        "value": _VALUE,
        "source": _PLACE,
        "type": Text(),
        "dynamic": Flag(),
        "sensitive": Flag(),
        "documentation": Text(),
        "synonyms": Listing(Record({"name": NAME, "value": _VALUE, "source": _PLACE})),
    }
)
CONFIGS: Final = Record({"level": Text(choices=("broker", "default")), "items": Listing(CONFIG)})

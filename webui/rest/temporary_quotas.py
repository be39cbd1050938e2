"""Temporary limits of client quotas in requests, answers and files: a value, and the times at which it
applies.

Used by webui.rest.client_quotas, client_quota_rule and quota_files.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec

from broker.common.temporary_limits import BadTimes, TemporaryLimit, from_times, times_of
from broker.controller.commands import TemporaryOp
from broker.controller.rows.fields import LEFT_OUT, Moment
from broker.controller.rows.quotas import TemporaryQuota
from webui.quotas import ALL_KEYS, limit_in_json
from webui.schema import TIME, Invalid, Listing, Number, Record, Schema, Text
from webui.tables.answers import schema_of

BEYOND: Final = 2.0**63
VALUE: Final = Number(exclusive_minimum=0, exclusive_maximum=BEYOND)
"""The value of a limit in a request."""

TIMES: Final[Mapping[str, Schema]] = {
    "from": TIME,
    "until": TIME,
    "windows": Listing(Text(max_length=64), min_items=1, max_items=16),
    "zone": Text(max_length=64),
}
"""When a temporary limit applies: until is the first moment when it does not. A window is
`Mon-Fri 09:00-17:00`, in the time of the zone, UTC by default.
"""

TEMPORARY: Final = Record({"value": VALUE, **TIMES}, optional=frozenset(TIMES), title="TemporaryLimit")
TEMPORARIES: Final = Record(dict.fromkeys(ALL_KEYS, TEMPORARY), optional=frozenset(ALL_KEYS))


class TemporaryClientQuota(msgspec.Struct, frozen=True):
    """A temporary limit of one key: its `value`, the `permanent` value below it, the `effective` one now, and
    when this changes. What is not set is left out.
    """

    value: Annotated[float, msgspec.Meta(gt=0)]
    permanent: Annotated[float, msgspec.Meta(gt=0)] | None
    effective: Annotated[float, msgspec.Meta(gt=0)] | None
    active: bool
    begin: Annotated[Moment | None, LEFT_OUT] = msgspec.field(name="from")
    until: Annotated[Moment | None, LEFT_OUT]
    windows: Annotated[tuple[str, ...] | None, LEFT_OUT]
    zone: Annotated[str | None, LEFT_OUT]
    changes_at_ms: Moment | None
    seconds_left: int | None
    changed_at_ms: Moment
    changed_by: str


SHOWN: Final = schema_of(TemporaryClientQuota, "TemporaryClientQuota")
ALL_SHOWN: Final = Record(dict.fromkeys(ALL_KEYS, SHOWN), optional=frozenset(ALL_KEYS))


def shown(row: TemporaryQuota, effective: float | None) -> TemporaryClientQuota:
    limit = row.limit
    times = times_of(limit)
    return TemporaryClientQuota(
        limit_in_json(limit.value),
        None if row.permanent is None else limit_in_json(row.permanent),
        None if effective is None else limit_in_json(effective),
        row.is_active,
        limit.from_ms,
        limit.until_ms,
        times.get("windows"),
        times.get("zone"),
        row.changes_at_ms,
        row.seconds_left,
        row.changed_at_ms,
        row.changed_by,
    )


def in_file(limit: TemporaryLimit) -> dict[str, Any]:
    """Return the limit as requests and files have it."""
    return {"value": limit_in_json(limit.value), **times_of(limit)}


def temporary_of(given: Mapping[str, Any], where: str) -> TemporaryLimit:
    """Return the limit of a request. Raises Invalid."""
    try:
        return from_times(float(given["value"]), given)
    except BadTimes as error:
        raise Invalid(f"{where}/{error.field}", str(error)) from None


def temporary_ops(
    given: Mapping[str, Any] | None, keys: tuple[str, ...], where: str
) -> tuple[TemporaryOp, ...]:
    """Return the ops that give an entity exactly these temporary limits; none if `given` is None. Raises
    Invalid.
    """
    if given is None:
        return ()
    for key in given:
        if key not in keys:
            raise Invalid(f"{where}/{key}", f"must be one of {', '.join(keys)} for this entity")
    return tuple(
        TemporaryOp(key, temporary_of(given[key], f"{where}/{key}") if key in given else None) for key in keys
    )

"""Reads a scenario from its YAML file, a recorded load, and a quota file as `weir quotas export` writes it.

docs/quotas.md documents the fields. Called by the command line and for what-if. broker.quotas validates
entities and limits. Errors name the line and the field.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from broker.common.errors import ApiError, ConfigError
from broker.common.principal import ANONYMOUS
from broker.common.quantities import QuantityError, read_limit
from broker.common.strict_yaml import BadFileError, Fields, YamlValue, read_file
from broker.config.load import build_config
from broker.config.sections import QuotaConfig
from broker.quotas.client_quota_requests import validate_alteration
from broker.quotas.entity import CLIENT_ID, IP, USER, Entity
from broker.quotas.kinds import QuotaKind
from broker.simulation.scenario import (
    APIS,
    BATCH_BYTES,
    CLIENT,
    DAY_US,
    NUMBER,
    SECOND_US,
    VERSIONS,
    Bursts,
    ClientGroup,
    ClientLoad,
    Constant,
    Diurnal,
    Limit,
    Scenario,
    Schedule,
    between,
)

TRUTH: Final = {"true": True, "yes": True, "false": False, "no": False}
SIZES: Final = {"": 1, "B": 1, "kB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}
TIMES: Final = {
    "us": 1,
    "ms": 1_000,
    "": SECOND_US,
    "s": SECOND_US,
    "m": 60 * SECOND_US,
    "h": 3_600 * SECOND_US,
    "d": 86_400 * SECOND_US,
}
AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?) ?([A-Za-z]*)")
CLOCK: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")

FIELDS: Final = {
    "time_ms": int,
    "principal": str,
    "client_id": str,
    "api": str,
    "requests": int,
    "bytes_in": int,
    "bytes_out": int,
}
MAX_NUMBER: Final = 2**53
"""The maximum of every number: larger integers are not exact in every JSON library."""


def truth(place: YamlValue) -> bool:
    text = place.text().lower()
    if text not in TRUTH:
        place.refuse(f"{text}: expected true or false")
    return TRUTH[text]


def share(place: YamlValue) -> float:
    amount = _amount(place, {"": 1})
    if amount > 1:
        place.refuse(f"{place.text()}: expected a number from 0 to 1")
    return amount


def size(place: YamlValue) -> float:
    """Return bytes, written as 16384, 16kB or 1.5MB; more than 0."""
    return _positive(place, _amount(place, SIZES))


def span(place: YamlValue) -> int:
    """Return microseconds, written as 90, 2ms, 15m or 24h; more than 0."""
    return int(_positive(place, _amount(place, TIMES)))


def moment(place: YamlValue) -> int:
    """Return microseconds since midnight, written as 8h or as 08:00."""
    clock = CLOCK.fullmatch(place.text())
    if clock is None:
        return int(_amount(place, TIMES))
    return (int(clock[1]) * 60 + int(clock[2])) * 60 * SECOND_US


def _amount(place: YamlValue, units: dict[str, int]) -> float:
    found = AMOUNT.fullmatch(place.text())
    if found is None or found[2] not in units:
        named = ", ".join(unit for unit in units if unit)
        place.refuse(f"{place.text()}: expected a number{f' with one of the units {named}' if named else ''}")
    return float(found[1]) * units[found[2]]


def _positive(place: YamlValue, amount: float) -> float:
    if amount <= 0:
        place.refuse("must be more than 0")
    return amount


KINDS: Final = {"produce": QuotaKind.PRODUCE, "fetch": QuotaKind.FETCH}
SETTINGS: Final = (
    *("quota.window.num", "quota.window.size.seconds", "quota.max.throttle.ms"),
    *("quota.bandwidth.algorithm", "quota.bandwidth.burst.seconds"),
)
GREEDY: Final = "greedy"
MAX_CLIENTS: Final = 100_000
MAX_REQUEST_BYTES: Final = 2**31 - 1
LATENCY_US: Final = 2_000
PATIENCE_US: Final = 120 * SECOND_US
"""The default of delivery.timeout.ms. A consumer has no limit: its records wait in the log."""


def read_scenario(path: Path) -> Scenario:
    """Read a scenario. Raises BadFileError."""
    top = read_file(path, path.name).fields(
        "duration", "seed", "latency", "settings", "quotas", "clients", "recorded"
    )
    if ("clients" in top.by_name) is ("recorded" in top.by_name):
        top.place.refuse("expected either clients or recorded")
    records: tuple[ClientLoad, ...] = ()
    if "recorded" in top.by_name:
        records = read_recorded(path.parent / top.by_name["recorded"].text())
    duration_us = _duration(top, records)
    latency_us = top.get("latency", span, LATENCY_US)
    groups: tuple[ClientGroup, ...] = ()
    if "clients" in top.by_name:
        places = top.by_name["clients"].items()
        groups = tuple(_Client(place, duration_us, latency_us).group() for place in places)
        _check_groups(groups, places, top.by_name["clients"])
    return Scenario(
        duration_us,
        top.get("quotas", lambda place: _limits(place, path), ()),
        top.get("settings", _settings, QuotaConfig()),
        groups,
        records,
        latency_us,
        top.get("seed", lambda place: place.whole(0, 2**63), 1),
    )


def _duration(top: Fields, records: tuple[ClientLoad, ...]) -> int:
    if "duration" in top.by_name:
        return span(top.by_name["duration"])
    if not records:
        return DAY_US if "clients" in top.by_name else SECOND_US
    return (max(record.seconds[-1] for record in records) + 1) * SECOND_US


def _limits(place: YamlValue, path: Path) -> tuple[Limit, ...]:
    """Return the quotas of the list, or of the quota file that it names, relative to the scenario."""
    return read_limits(path.parent / place.text()) if place.is_scalar else limits_of(place)


def _settings(place: YamlValue) -> QuotaConfig:
    values = {key: value.text() for key, value in place.fields(*SETTINGS).by_name.items()}
    try:
        return build_config(values).quotas
    except ConfigError as error:
        place.refuse(str(error))


def _check_groups(groups: tuple[ClientGroup, ...], places: list[YamlValue], whole: YamlValue) -> None:
    names: set[str] = set()
    for group, place in zip(groups, places, strict=True):
        if group.name in names:
            place.refuse(f"the name {group.name} is given twice")
        names.add(group.name)
    if sum(group.count * group.connections for group in groups) > MAX_CLIENTS:
        whole.refuse(f"more than {MAX_CLIENTS} connections")


class _Client:
    """Reads one entry of `clients`."""

    def __init__(self, place: YamlValue, duration_us: int, latency_us: int) -> None:
        self._place = place
        self._duration_us = duration_us
        self._latency_us = latency_us
        self._fields = place.fields(
            *("name", "count", "user", "client-id", "kind", "request", "rate", "connections", "obeys"),
            *("batch", "patience", "handling", "schedule", "start", "stop"),
        )

    def group(self) -> ClientGroup:
        fields = self._fields
        name = fields.need("name").text()
        kind_place = fields.need("kind")
        if kind_place.text() not in KINDS:
            kind_place.refuse(f"{kind_place.text()}: expected produce or fetch")
        kind = KINDS[kind_place.text()]
        request_bytes = self._request_bytes()
        connections = fields.get("connections", lambda place: place.whole(1, 1_000), 1)
        rate = self._rate(request_bytes, connections)
        schedule: Schedule = Constant()
        if "schedule" in fields.by_name:
            schedule = _schedule(fields.by_name["schedule"], rate)
        patience_us = fields.get("patience", _patience, None if kind is QuotaKind.FETCH else PATIENCE_US)
        return ClientGroup(
            name,
            kind,
            fields.get("count", lambda place: place.whole(1, MAX_CLIENTS), 1),
            fields.get("user", YamlValue.text, ANONYMOUS),
            fields.get("client-id", YamlValue.text, f"{name}-{NUMBER}"),
            request_bytes,
            rate,
            between(schedule.pieces(self._duration_us), *self._present()),
            connections,
            fields.get("obeys", truth, True),
            max(fields.get("batch", lambda place: int(size(place)), BATCH_BYTES), request_bytes),
            patience_us,
            fields.get("handling", span, 0) * 1_000,
        )

    def _request_bytes(self) -> int:
        place = self._fields.need("request")
        request_bytes = int(size(place))
        if not 1 <= request_bytes <= MAX_REQUEST_BYTES:
            place.refuse(f"{request_bytes}: expected 1 to 2^31 - 1 bytes")
        return request_bytes

    def _rate(self, request_bytes: int, connections: int) -> float | None:
        """Return bytes/s, or None for `greedy`."""
        place = self._fields.need("rate")
        if place.text() == GREEDY:
            return None
        rate = size(place)
        max_rate = request_bytes * connections / self._latency_us * SECOND_US
        if rate > max_rate:
            place.refuse(
                f"{place.text()} exceeds {max_rate:.0f}, the most that its connections can send with one "
                f"request at a time and this latency; use more connections or larger requests"
            )
        return rate

    def _present(self) -> tuple[int, int]:
        start = self._fields.get("start", moment, 0)
        stop = self._fields.get("stop", moment, self._duration_us)
        if not start < stop:
            self._place.refuse("start must be before stop and before the end")
        return start, min(stop, self._duration_us)


def _patience(place: YamlValue) -> int | None:
    return None if place.text() == "forever" else span(place)


def _schedule(place: YamlValue, rate: float | None) -> Schedule:
    if place.is_scalar:
        if place.text() != "constant":
            place.refuse(f"{place.text()}: expected constant, diurnal or bursts")
        return Constant()
    fields = place.fields("diurnal", "bursts")
    if len(fields.by_name) != 1:
        place.refuse("expected one of constant, diurnal and bursts")
    (kind,) = fields.by_name
    inner = fields.by_name[kind]
    schedule: Schedule
    if kind == "diurnal":
        day = inner.fields("low", "peak")
        schedule = Diurnal(day.get("low", share, 0.0), day.get("peak", moment, 14 * 3600 * SECOND_US))
    else:
        bursts = inner.fields("every", "for", "low")
        every_us, length_us = span(bursts.need("every")), span(bursts.need("for"))
        if every_us < SECOND_US or length_us >= every_us:
            inner.refuse("every must be at least 1 s and longer than for")
        schedule = Bursts(every_us, length_us, bursts.get("low", share, 0.0))
    if rate is None and (isinstance(schedule, Diurnal) or schedule.low):
        inner.refuse("a greedy client supports only constant, or bursts without low")
    return schedule


def read_limits(path: Path) -> tuple[Limit, ...]:
    """Read a quota file. Raises BadFileError."""
    fields = read_file(path, path.name).fields("quotas")
    return limits_of(fields.need("quotas"))


def limits_of(place: YamlValue) -> tuple[Limit, ...]:
    """Read a list of quotas. Raises BadFileError."""
    seen: set[Entity] = set()
    return tuple(_limit(each, seen) for each in place.items())


def _limit(place: YamlValue, seen: set[Entity]) -> Limit:
    fields = place.fields("entity", "limits", "temporary", "shadow")
    names = fields.need("entity").fields(USER, CLIENT_ID, IP)
    pairs = tuple((kind, None if name.is_null else name.text()) for kind, name in names.by_name.items())
    values = {key: _limit_value(key, value) for key, value in fields.need("limits").fields().by_name.items()}
    try:
        entity = validate_alteration(pairs, values.items())
    except ApiError as error:
        place.refuse(str(error.message))
    if entity in seen:
        place.refuse(f"{entity} is given twice")
    seen.add(entity)
    return Limit(entity, values, fields.get("shadow", truth, False))


def _limit_value(key: str, place: YamlValue) -> float:
    value = place.json()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    try:
        return float(read_limit(key, place.text()))
    except QuantityError as error:
        place.refuse(f"{place.text()}: {error}")


def read_recorded(path: Path) -> tuple[ClientLoad, ...]:
    """Return the clients in order of appearance. Raises BadFileError.

    The file has the records of the topic `__weir_requests`, one JSON object on a line:

        {"v":1,"time_ms":1763749800000,"source":"client","principal":"alice","client_id":"web-1",
         "api":"Produce","requests":9,"bytes_in":9000,"bytes_out":400,...}

    docs/events.md documents the format, of which only these fields are needed. A record covers the second
    that ends at `time_ms`; the first line's second is the simulation's first. Other APIs, sources and fields
    are ignored.
    """
    records: dict[tuple[str, str, str], ClientLoad] = {}
    first_ms = latest_ms = 0
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                where = f"{path.name} line {number}"
                row = _row(line, where)
                if row is None:
                    continue
                time_ms = row["time_ms"]
                if time_ms < latest_ms:
                    raise BadFileError(f"{where}: time_ms {time_ms} is less than the previous {latest_ms}")
                latest_ms = time_ms
                first_ms = first_ms or time_ms
                if row["api"] in APIS and row["requests"]:
                    _add(records, row, (time_ms - first_ms) // 1000)
    except (OSError, UnicodeDecodeError) as error:
        raise BadFileError(f"{path} cannot be read: {error}") from error
    return tuple(records.values())


def _add(records: dict[tuple[str, str, str], ClientLoad], row: Mapping[str, Any], second: int) -> None:
    key = (row["principal"], row["client_id"], row["api"])
    kind, counted = APIS[row["api"]]
    record = records.get(key)
    if record is None:
        record = records[key] = ClientLoad(row["principal"], row["client_id"], kind)
    record.seconds.append(second)
    record.requests.append(row["requests"])
    record.nbytes.append(row[counted])


def _row(line: str, where: str) -> Mapping[str, Any] | None:
    """Return the fields of one client's record; None for records of other sources."""
    try:
        row = json.loads(line)
    except ValueError as error:
        raise BadFileError(f"{where} is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise BadFileError(f"{where} is not an object")
    if row.get("v") not in VERSIONS:
        raise BadFileError(f"{where}: v is {row.get('v')!r}, expected 1, 2 or 3")
    if row.get("source") != CLIENT:
        return None
    for name, kind in FIELDS.items():
        value = row.get(name)
        if type(value) is not kind:
            raise BadFileError(
                f"{where}: {name} is {'missing' if value is None else 'not of type ' + kind.__name__}"
            )
        if isinstance(value, int) and not 0 <= value <= MAX_NUMBER:
            raise BadFileError(f"{where}: {name} is {value}, expected 0 to 2^53")
    return row

"""The console's latest events as typed rows.

Made by broker.commands.top.command, drawn by the tables. Refuses data that is not a console's. Names are as
clients chose them, cut to `LONGEST_NAME`; broker.commands.plain makes them safe for a terminal.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker.commands.plain import in_words

LONGEST_NAME: Final = 256

KEYS: Final = {
    "produce": "producer_byte_rate",
    "fetch": "consumer_byte_rate",
    "request": "request_percentage",
    "controller_mutation": "controller_mutation_rate",
    "connection_rate": "connection_creation_rate",
}
"""The quota key of each kind of quota."""


class NoPictureError(ValueError):
    """The response does not have the form of a console's response."""


@dataclass(frozen=True, slots=True)
class Totals:
    """The broker's totals: rates per second; idle times and `acceptor_blocked` are fractions, None if the
    broker has none.
    """

    version: str
    bootstrap: str
    at: str
    bytes_in: float
    bytes_out: float
    requests: float
    connections: int
    network_idle: float | None
    handler_idle: float | None
    acceptor_blocked: float | None


@dataclass(frozen=True, slots=True)
class Held:
    """A throttled connection. `obeys` is None if unknown."""

    client_id: str
    principal: str
    address: str
    kind: str
    rule: str
    observed: float | None
    bound: float
    delay_ms: int
    left_ms: int
    times: int
    obeys: bool | None

    @property
    def key(self) -> str:
        return KEYS.get(self.kind, self.kind)

    @property
    def over(self) -> float:
        """Return the observed rate as a multiple of the limit."""
        return (self.observed or 0.0) / self.bound if self.bound else 0.0


@dataclass(frozen=True, slots=True)
class Rule:
    """One limit of one rule. `used` is a fraction of it, `held` the number of connections it throttles."""

    entity: str
    key: str
    value: float
    observed: float | None
    used: float
    held: int
    shadow: bool


@dataclass(frozen=True, slots=True)
class Client:
    """All connections of one user and client id; `time` is Kafka's request percentage."""

    client_id: str
    user: str
    bytes_in: float
    bytes_out: float
    requests: float
    time: float
    connections: int
    limited_by: str


@dataclass(frozen=True, slots=True)
class Picture:
    """One state of the screen. `held_total` may exceed the number of rows."""

    totals: Totals
    held: tuple[Held, ...]
    held_total: int
    rules: tuple[Rule, ...]
    clients: tuple[Client, ...]


def picture_of(topics: Mapping[str, Any]) -> Picture:
    """Return the picture of the latest `overview`, `throttled`, `quotas` and `usage`. Raises
    NoPictureError.
    """
    try:
        throttled = topics["throttled"]
        return Picture(
            _totals(topics["overview"]),
            tuple(map(_held, throttled["items"])),
            int(throttled["total"]),
            tuple(_rules(topics["quotas"]["items"])),
            tuple(map(_client, topics["usage"]["items"])),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise NoPictureError(repr(error)) from error


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value[:LONGEST_NAME]


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _entity(entity: Mapping[str, Any]) -> str:
    return in_words({kind: None if name is None else _name(name) for kind, name in entity.items()})


def _totals(overview: Mapping[str, Any]) -> Totals:
    figures = overview["figures"]
    # Over the last second, like the pages' charts; a newly started broker has only Kafka's average.
    now = overview["sample"] or {
        "bytes_in": figures["bytes_in_per_s"],
        "bytes_out": figures["bytes_out_per_s"],
        "requests": figures["requests_per_s"],
    }
    return Totals(
        _name(overview["software_version"]),
        _name(", ".join(overview["bootstrap"])),
        _name(overview["at"]),
        float(now["bytes_in"] or 0),
        float(now["bytes_out"] or 0),
        float(now["requests"] or 0),
        int(figures["connections"]),
        _number(figures["processor_idle"]),
        _number(figures["handler_idle"]),
        _number(figures["acceptor_blocked"]),
    )


def _held(row: Mapping[str, Any]) -> Held:
    tags = ", ".join(f"{tag['name']}={tag['value']}" for tag in row["tags"])
    return Held(
        _name(row["client_id"]),
        _name(row["principal"]),
        _name(row["address"]),
        _name(row["quota_type"]),
        _entity(row["entity"]) or _name(tags),
        _number(row["observed"]),
        float(row["bound"]),
        int(row["throttle_ms"]),
        int(row["remaining_ms"]),
        int(row["times"]),
        row["obeys"],
    )


def _rules(rows: Iterable[Mapping[str, Any]]) -> Iterable[Rule]:
    """Yield the limits whose usage is known."""
    for row in rows:
        for key, limit in row["limits"].items():
            if limit["used"] is not None:
                yield Rule(
                    _entity(row["entity"]),
                    _name(key),
                    float(limit["value"]),
                    _number(limit["observed"]),
                    float(limit["used"]),
                    int(limit["throttled"]),
                    bool(row["shadow"]),
                )


def _client(row: Mapping[str, Any]) -> Client:
    return Client(
        _name(row["client_id"]),
        _name(row["user"]),
        float(row["bytes_in_per_s"]),
        float(row["bytes_out_per_s"]),
        float(row["requests_per_s"]),
        float(row["request_percentage"] or 0),
        int(row["connections"]),
        _name(", ".join(row["limited_by"])),
    )

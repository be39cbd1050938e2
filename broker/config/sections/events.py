"""The broker's own events, written to event topics. For broker.events."""

from dataclasses import dataclass
from typing import Final

from broker.config.kinds import integer, list_of, long, one_of
from broker.config.setting import setting

EVENTS: Final = ("requests", "throttles", "connections", "quota_changes")
"""The events; their topics are __weir_requests and so on."""


@dataclass(frozen=True, slots=True)
class EventConfig:
    topics: tuple[str, ...] = setting(
        "events.topics",
        EVENTS,
        list_of(one_of(*EVENTS).read, f"a list of {', '.join(EVENTS)}, or empty"),
        "The broker's own events that are written to their topics once a second; empty: none.",
        ours=True,
        dynamic=True,
    )
    max_rows_per_second: int = setting(
        "events.max.rows.per.second",
        10_000,
        integer(1),
        "Maximum rows per second of each topic. Further clients are summed in one row without names; rows "
        "that cannot be summed are dropped and counted.",
        unit="rows",
        ours=True,
    )
    retention_ms: int = setting(
        "events.retention.ms",
        604_800_000,
        long(-1),
        "retention.ms of an event topic at its creation.",
        unit="ms",
        ours=True,
    )
    retention_bytes: int = setting(
        "events.retention.bytes",
        1_073_741_824,
        long(-1),
        "retention.bytes of an event topic at its creation.",
        unit="bytes",
        ours=True,
    )

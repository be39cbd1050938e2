"""What the broker writes down about itself, for whoever reads its event topics. For broker.events."""

from dataclasses import dataclass
from typing import Final

from broker.config.kinds import integer, list_of, long, one_of
from broker.config.setting import setting

EVENTS: Final = ("requests", "throttles", "connections", "quota_changes")
"""What there is to write down; the topics are called __weir_requests and so on."""


@dataclass(frozen=True, slots=True)
class EventConfig:
    topics: tuple[str, ...] = setting(
        "events.topics",
        EVENTS,
        list_of(one_of(*EVENTS).read, f"a list of {', '.join(EVENTS)}; empty: nothing is written"),
        "Which of the broker's own events are written to their topics, once a second.",
        ours=True,
        dynamic=True,
    )
    max_rows_per_second: int = setting(
        "events.max.rows.per.second",
        10_000,
        integer(1),
        "Of each topic. Clients beyond that are added up in one row without names; what cannot be added up "
        "is left out and counted.",
        unit="rows",
        ours=True,
    )
    retention_ms: int = setting(
        "events.retention.ms",
        604_800_000,
        long(-1),
        "retention.ms of an event topic when it is made.",
        unit="ms",
        ours=True,
    )
    retention_bytes: int = setting(
        "events.retention.bytes",
        1_073_741_824,
        long(-1),
        "retention.bytes of an event topic when it is made.",
        unit="bytes",
        ours=True,
    )

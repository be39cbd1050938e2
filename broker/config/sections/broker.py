"""The broker itself: its id, shutdown, log lines, request log and events."""

from dataclasses import dataclass
from typing import Final

from broker.config.kinds import integer, list_of, long, one_of
from broker.config.setting import setting


@dataclass(frozen=True, slots=True)
class NodeConfig:
    node_id: int = setting(
        "node.id",
        1,
        integer(0),
        "This broker's id, as Metadata reports it and as broker resources name it.",
        also=(("broker.id", 1),),
        kafka_default="none",
        why="With one broker, no manual numbering is necessary.",
    )
    drain_timeout_ms: int = setting(
        "shutdown.drain.timeout.ms",
        3_000,
        integer(0),
        "How long a stopping broker waits for requests in progress before it closes their connections.",
        unit="ms",
        ours=True,
    )
    logging_level: str = setting(
        "logging.level",
        "info",
        one_of("debug", "info", "warning", "error"),
        "The lowest level of log lines that is written.",
        ours=True,
    )
    logging_format: str = setting(
        "logging.format",
        "text",
        one_of("text", "json"),
        "Log lines as text, or one JSON object per line.",
        ours=True,
    )


NAMES: Final = list_of(str, "a list of names; * means all")


@dataclass(frozen=True, slots=True)
class RequestLogConfig:
    """Which requests are logged. For broker.network.requests.request_log; Kafka's kafka.request.logger."""

    apis: tuple[str, ...] = setting(
        "request.log.apis",
        (),
        NAMES,
        "Logs every request of these APIs (Produce, FetchConsumer, ...) after its response.",
        ours=True,
        dynamic=True,
    )
    client_ids: tuple[str, ...] = setting(
        "request.log.client.ids",
        (),
        NAMES,
        "Logs every request of these client ids after its response.",
        ours=True,
        dynamic=True,
    )
    max_per_second: int = setting(
        "request.log.max.per.second",
        100,
        integer(1, 10_000),
        "Maximum lines per second; the next line reports how many were dropped.",
        unit="lines",
        ours=True,
        dynamic=True,
    )


EVENTS: Final = ("requests", "throttles", "connections", "quota_changes", "transactions")
"""The events; their topics are __weir_requests and so on."""


@dataclass(frozen=True, slots=True)
class EventConfig:
    """The broker's own events, written to event topics. For broker.monitoring.events."""

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
    topic_partitions: int = setting(
        "events.topics.partitions",
        8,
        integer(1, 1_000),
        "Partitions of an event topic at its creation; a topic that exists keeps its own.",
        unit="partitions",
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
        17_179_869_184,
        long(-1),
        "retention.bytes of an event topic at its creation, for each partition. The default keeps "
        "[a day](events.md#retention) at events.max.rows.per.second.",
        unit="bytes",
        ours=True,
    )

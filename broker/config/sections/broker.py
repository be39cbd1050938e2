"""The broker itself: its id, shutdown, log lines, request log, events and alerts."""

from dataclasses import dataclass
from typing import Final

from broker.config.host_patterns import ALLOWED, PUBLIC, HostPattern
from broker.config.kinds import integer, list_of, long, one_of
from broker.config.setting import Setting


@dataclass(frozen=True, slots=True)
class NodeConfig:
    node_id: int = Setting("node.id", 1, integer(0), also=(("broker.id", 1),)).described(
        "This broker's id, as Metadata reports it and as broker resources name it.",
        kafka_default="none",
        why="With one broker, no manual numbering is necessary.",
    )
    drain_timeout_ms: int = Setting(
        "shutdown.drain.timeout.ms", 3_000, integer(0), "ms", ours=True
    ).described(
        "How long a stopping broker waits for requests in progress before it closes their connections."
    )
    logging_level: str = Setting(
        "logging.level", "info", one_of("debug", "info", "warning", "error"), ours=True
    ).described("The lowest level of log lines that is written.")
    logging_format: str = Setting("logging.format", "text", one_of("text", "json"), ours=True).described(
        "Log lines as text, or one JSON object per line."
    )


NAMES: Final = list_of(str, "a list of names; * means all")


@dataclass(frozen=True, slots=True)
class RequestLogConfig:
    """Which requests are logged. For broker.network.requests.request_log; Kafka's kafka.request.logger."""

    apis: tuple[str, ...] = Setting("request.log.apis", (), NAMES, ours=True, dynamic=True).described(
        "Logs every request of these APIs (Produce, FetchConsumer, ...) after its response."
    )
    client_ids: tuple[str, ...] = Setting(
        "request.log.client.ids", (), NAMES, ours=True, dynamic=True
    ).described("Logs every request of these client ids after its response.")
    max_per_second: int = Setting(
        "request.log.max.per.second", 100, integer(1, 10_000), "lines", ours=True, dynamic=True
    ).described("Maximum lines per second; the next line reports how many were dropped.")


EVENTS: Final = ("requests", "throttles", "connections", "quota_changes", "transactions")
"""The events; their topics are __weir_requests and so on."""


@dataclass(frozen=True, slots=True)
class EventConfig:
    """The broker's own events, written to event topics. For broker.monitoring.events."""

    topics: tuple[str, ...] = Setting(
        "events.topics",
        EVENTS,
        list_of(one_of(*EVENTS).read, f"a list of {', '.join(EVENTS)}, or empty"),
        ours=True,
        dynamic=True,
    ).described("The broker's own events that are written to their topics once a second; empty: none.")
    max_rows_per_second: int = Setting(
        "events.max.rows.per.second", 10_000, integer(1), "rows", ours=True
    ).described(
        "Maximum rows per second of each topic. Further clients are summed in one row without names; rows "
        "that cannot be summed are dropped and counted."
    )
    topic_partitions: int = Setting(
        "events.topics.partitions", 8, integer(1, 1_000), "partitions", ours=True
    ).described("Partitions of an event topic at its creation; a topic that exists keeps its own.")
    retention_ms: int = Setting("events.retention.ms", 604_800_000, long(-1), "ms", ours=True).described(
        "retention.ms of an event topic at its creation."
    )
    retention_bytes: int = Setting(
        "events.retention.bytes", 17_179_869_184, long(-1), "bytes", ours=True
    ).described(
        "retention.bytes of an event topic at its creation, for each partition. The default keeps "
        "[a day](events.md#retention) at events.max.rows.per.second."
    )


@dataclass(frozen=True, slots=True)
class AlertConfig:
    """How often rules are evaluated, and where notifications may go. For broker.monitoring.alerts and
    broker.controller.alerts.
    """

    destination_hosts: tuple[HostPattern, ...] = Setting(
        "alerts.destination.hosts", (PUBLIC,), list_of(HostPattern.read, ALLOWED), ours=True
    ).described(
        "Hosts that notifications of alerts may be sent to. `public` stands for all addresses of the "
        "Internet, over https and over smtp with TLS only: chats, pagers and mail servers work without "
        "configuration, and an administrator of the console cannot make the broker send requests to its own "
        "machine or into the private network, where they could do harm. Name the hosts there that may "
        "receive them, such as alertmanager:9093. The address that a name has when the broker connects "
        "counts; redirects are not followed. Empty: no host."
    )
    interval_ms: int = Setting(
        "alerts.evaluation.interval.ms", 5_000, integer(1_000, 3_600_000), "ms", ours=True
    ).described("Interval at which alert rules are evaluated. Without rules nothing is evaluated.")
    timeout_ms: int = Setting(
        "alerts.destination.timeout.ms", 10_000, integer(100, 60_000), "ms", ours=True
    ).described("How long a destination has to accept a notification; then it is sent again.")

"""Writes Grafana's dashboards: `python -m deploy.dashboards`. A test compares them.

The queries have the names and labels of /metrics, which a test compares with those of a running broker.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent / "grafana" / "dashboards"
SOURCE: Final = {"type": "prometheus", "uid": "weir-prometheus"}
WIDTH: Final = 24
HEIGHT: Final = 8
ON: Final = 'instance=~"$instance"'
"""Every query is for the chosen brokers and gateways."""

KINDS: Final = {"produce": "byte_rate", "fetch": "byte_rate", "request": "request_time"}
"""Kinds of client quotas, and the metric that has what they count."""


@dataclass(frozen=True)
class Query:
    expression: str
    legend: str = "{{instance}}"


@dataclass(frozen=True)
class Panel:
    """`unit` is one of Grafana's; `most` the upper end of the axis; `width` of 24 columns."""

    title: str
    about: str
    unit: str
    queries: Sequence[Query]
    most: float | None = None
    width: int = WIDTH // 2


def _rate(metric: str, *matchers: str) -> str:
    return f"rate({metric}{{{','.join((ON, *matchers))}}}[$__rate_interval])"


def _now(metric: str, *matchers: str) -> str:
    return f"{metric}{{{','.join((ON, *matchers))}}}"


def _used(kind: str) -> str:
    return f"{_now(f'kafka_server_{kind}_{KINDS[kind]}')} / {_now(f'kafka_server_{kind}_quota_bound')}"


ONCE: Final = 'request!~"Fetch(Consumer|Follower)"'
"""`Fetch` has both of them."""

FAILED: Final = 'error!="NONE"'
P99: Final = 'quantile="0.99"'
MAIN: Final = 'request=~"Produce|Fetch|Metadata"'
ENTITY: Final = "user {{user}} client {{client_id}}"

BROKER: Final = (
    Panel(
        "Bytes",
        "Complete requests and responses.",
        "Bps",
        [
            Query(
                f"sum by (instance) ({_rate('kafka_server_socket_server_metrics_incoming_byte_total')})",
                "in {{instance}}",
            ),
            Query(
                f"sum by (instance) ({_rate('kafka_server_socket_server_metrics_outgoing_byte_total')})",
                "out {{instance}}",
            ),
        ],
    ),
    Panel(
        "Thread idle",
        "The share of time in which the one thread has no work, and in which its network threads and its "
        "handlers have none. Below 20 % is urgent.",
        "percentunit",
        [
            Query(_now("weir_thread_idle_percent"), "thread {{instance}}"),
            Query(_now("kafka_network_socketserver_networkprocessoravgidle_percent"), "network {{instance}}"),
            Query(
                _now("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent"),
                "handlers {{instance}}",
            ),
        ],
        most=1,
    ),
    Panel(
        "Requests",
        "Responses sent, by API.",
        "reqps",
        [
            Query(
                f"sum by (request) ({_rate('kafka_network_requestmetrics_requests_total', ONCE)})",
                "{{request}}",
            )
        ],
    ),
    Panel(
        "Errors",
        "Error codes in responses, one for each partition that has one.",
        "cps",
        [
            Query(
                f"sum by (error) ({_rate('kafka_network_requestmetrics_errors_total', FAILED)}) > 0",
                "{{error}}",
            )
        ],
    ),
    Panel(
        "Time of requests, 99th percentile",
        "From the last byte of the request to the last byte of the response. A fetch waits for records.",
        "ms",
        [
            Query(
                f"max by (request) ({_now('kafka_network_requestmetrics_totaltimems', P99, MAIN)})",
                "{{request}}",
            )
        ],
    ),
    Panel(
        "Requests that wait",
        "For a handler, and in purgatory.",
        "short",
        [
            Query(_now("kafka_network_requestchannel_requestqueuesize"), "for a handler {{instance}}"),
            Query(
                "sum by (delayedOperation) "
                f"({_now('kafka_server_delayedoperationpurgatory_numdelayedoperations')})",
                "{{delayedOperation}}",
            ),
        ],
    ),
    Panel(
        "Connections",
        "Open, and opened per second.",
        "short",
        [
            Query(
                f"sum by (instance) ({_now('kafka_server_socket_server_metrics_connection_count')})",
                "open {{instance}}",
            ),
            Query(
                f"sum by (instance) ({_rate('kafka_server_socket_server_metrics_connection_creation_total')})",
                "opened per second {{instance}}",
            ),
        ],
    ),
    Panel(
        "Request memory in use",
        "The share of queued.max.request.bytes.",
        "percentunit",
        [
            Query(
                f"{_now('kafka_network_socketserver_memorypoolused')} / "
                f"({_now('kafka_network_socketserver_memorypoolused')} + {_now('kafka_network_socketserver_memorypoolavailable')})"
            )
        ],
        most=1,
    ),
    Panel(
        "Free disk",
        "The share of each directory's volume that the broker may still write.",
        "percentunit",
        [
            Query(
                f"{_now('weir_log_directory_free_bytes')} / {_now('weir_log_directory_total_bytes')}",
                "{{logDirectory}} {{instance}}",
            )
        ],
        most=1,
    ),
    Panel(
        "The largest topics",
        "Bytes on the disk.",
        "bytes",
        [Query(f"topk(10, sum by (topic) ({_now('kafka_log_log_size')}))", "{{topic}}")],
    ),
    Panel(
        "What must be 0",
        "Offline partitions, missing records, bugs, dropped events.",
        "short",
        [
            Query(_now("kafka_server_replicamanager_offlinereplicacount"), "offline partitions {{instance}}"),
            Query(f"sum by (instance) ({_now('weir_log_missing_offsets')})", "missing offsets {{instance}}"),
            Query(
                "sum by (place) "
                f"(increase({_now('kafka_server_socket_server_unexpected_exceptions_total')}[$__rate_interval]))",
                "exceptions {{place}}",
            ),
            Query(
                f"sum by (topic) (increase({_now('weir_events_dropped_total')}[$__rate_interval]))",
                "dropped events {{topic}}",
            ),
        ],
        width=WIDTH,
    ),
)

TENANTS: Final = (
    *(
        Panel(
            f"Use of {kind} limits",
            "The use of each limit that is used most; 100 % is at the limit.",
            "percentunit",
            [Query(f"topk(15, {_used(kind)})", ENTITY)],
        )
        for kind in KINDS
    ),
    Panel(
        "Throttled connections",
        "By the kind of the limit.",
        "short",
        [
            Query(f"sum({_now(f'kafka_server_{kind}_queue_size')})", kind)
            for kind in (*KINDS, "controllermutation")
        ],
    ),
    Panel(
        "Throttle time",
        "The mean of the throttles of the last minute, of the tenants with the longest.",
        "ms",
        [
            Query(f"topk(10, {_now(f'kafka_server_{kind}_throttle_time')} > 0)", f"{kind}: {ENTITY}")
            for kind in KINDS
        ],
    ),
    Panel(
        "Limits in shadow mode",
        "Milliseconds of throttles in a second that enforcement would have caused.",
        "ms",
        [
            Query(
                f"topk(10, {_rate(f'kafka_server_{kind}_shadow_throttle_ms_total')} > 0)", f"{kind}: {ENTITY}"
            )
            for kind in KINDS
        ],
    ),
    Panel(
        "Throttled clients",
        "By whether they obey throttle_time_ms.",
        "short",
        [Query(f"sum by (obeys) ({_now('kafka_server_throttled_clients')})", "{{obeys}}")],
    ),
    Panel(
        "Refused connections",
        "Closed by a connection quota, by rule.",
        "cps",
        [
            Query(
                f"sum by (rule) ({_rate('kafka_server_socket_server_metrics_rejected_connections_total')})",
                "{{rule}}",
            )
        ],
    ),
    Panel(
        "Partition changes",
        "Partitions created and deleted per second under a limit.",
        "cps",
        [Query(f"topk(10, {_now('kafka_server_controllermutation_mutation_rate')})", ENTITY)],
    ),
    Panel(
        "Throttles by the whole broker's limits",
        "broker.quota.*",
        "ms",
        [Query(f"sum by (type) ({_rate('weir_broker_quota_throttle_ms_total')})", "{{type}}")],
    ),
)

CLIENTS: Final = (
    *(
        Panel(
            title,
            "The clients that move most, limited or not.",
            unit,
            [
                Query(
                    f"topk(15, sum by (user, client_id) ({_rate(f'kafka_server_client_{metric}_total')}))",
                    ENTITY,
                )
            ],
        )
        for title, unit, metric in (
            ("Bytes to the broker", "Bps", "incoming_bytes"),
            ("Bytes from the broker", "Bps", "outgoing_bytes"),
            ("Requests of clients", "reqps", "requests"),
        )
    ),
    Panel(
        "Connections of clients",
        "Open connections of the clients that have most.",
        "short",
        [Query(f"topk(15, sum by (user, client_id) ({_now('kafka_server_client_connections')}))", ENTITY)],
    ),
    Panel(
        "Throttles that clients obey",
        "By client and outcome: waited, or sent early.",
        "cps",
        [
            Query(
                "topk(15, sum by (user, client_id, outcome) "
                f"({_rate('kafka_server_throttle_compliance_total')}))",
                f"{ENTITY}: {{{{outcome}}}}",
            )
        ],
    ),
    Panel(
        "Client software",
        "Open connections by library and version.",
        "short",
        [
            Query(
                "sum by (clientSoftwareName, clientSoftwareVersion) "
                f"({_now('kafka_server_socket_server_metrics_connections_software')})",
                "{{clientSoftwareName}} {{clientSoftwareVersion}}",
            )
        ],
    ),
    Panel(
        "Logins",
        "Successful and failed, per second.",
        "cps",
        [
            Query(
                f"sum({_rate(f'kafka_server_socket_server_metrics_{outcome}_authentication_total')})", outcome
            )
            for outcome in ("successful", "failed")
        ],
    ),
    Panel(
        "Clients that push metrics",
        "Instances that asked for a subscription (KIP-714).",
        "short",
        [Query(_now("kafka_server_client_metrics_instance_count"))],
    ),
)

DASHBOARDS: Final = {"broker": BROKER, "tenants": TENANTS, "clients": CLIENTS}


def document(name: str) -> dict[str, Any]:
    """Return a dashboard as Grafana imports it."""
    panels, x, y = [], 0, 0
    for number, panel in enumerate(DASHBOARDS[name], 1):
        if x + panel.width > WIDTH:
            x, y = 0, y + HEIGHT
        panels.append(_panel(panel, number, x, y))
        x += panel.width
    return {
        "uid": f"weir-{name}",
        "title": f"Weir: {name}",
        "tags": ["weir"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "links": [
            {"type": "dashboards", "tags": ["weir"], "title": "Weir", "keepTime": True, "includeVars": True}
        ],
        "templating": {
            "list": [
                {
                    "name": "instance",
                    "label": "Broker or gateway",
                    "type": "query",
                    "datasource": SOURCE,
                    "query": 'label_values(up{job="weir"}, instance)',
                    "refresh": 2,
                    "multi": True,
                    "includeAll": True,
                    "allValue": ".*",
                    "current": {"text": "All", "value": "$__all"},
                }
            ]
        },
        "panels": panels,
    }


def _panel(panel: Panel, number: int, x: int, y: int) -> dict[str, Any]:
    limits = {"min": 0} | ({} if panel.most is None else {"max": panel.most})
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, **limits}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": SOURCE,
                "expr": query.expression,
                "legendFormat": query.legend,
            }
            for index, query in enumerate(panel.queries)
        ],
    }


def rendered(name: str) -> str:
    return json.dumps(document(name), indent=1) + "\n"


def main() -> None:
    for name in DASHBOARDS:
        (FOLDER / f"{name}.json").write_text(rendered(name), encoding="utf-8")


if __name__ == "__main__":
    main()

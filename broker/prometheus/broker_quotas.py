"""Metrics of the broker's own quota, of retry-storm back-off and of flow control. (AutoMQ:
BrokerQuotaManager, kafka_stream_broker_quota_limit)
"""

from collections.abc import Iterator
from typing import Final

from broker.api.broker import Broker
from broker.metrics.families import FamilySamples, Kind, Sample
from broker.network.metrics.flow import cut_off, deepest, flow_totals, idle_connections, oversized
from broker.network.socket_server import SocketServer
from broker.quotas.kinds import QuotaKind

TYPES: Final = {
    QuotaKind.BROKER_PRODUCE: "Produce",
    QuotaKind.BROKER_FETCH: "Fetch",
    QuotaKind.BROKER_SLOW_FETCH: "SlowFetch",
    QuotaKind.BROKER_REQUEST_RATE: "RequestRate",
}
"""AutoMQ's names of the four kinds."""


def families(broker: Broker, now_ms: int) -> Iterator[FamilySamples]:
    """Yield the quota's families. Series exist while the quota is enabled; those of a limit while it is
    set.
    """
    quota = broker.quotas.broker
    uses = [((("type", TYPES[use.kind]),), use) for use in quota.use(now_ms)] if quota.active else []
    yield FamilySamples(
        "kafka_stream_broker_quota_limit",
        "Limit of the whole broker in force, in bytes or requests per second",
        Kind.GAUGE,
        [Sample(labels, use.bound) for labels, use in uses if use.bound is not None],
    )
    yield FamilySamples(
        "kafka_server_broker_value_rate",
        "Bytes or requests per second recorded for the broker's quota",
        Kind.GAUGE,
        [Sample(labels, use.observed) for labels, use in uses],
    )
    yield FamilySamples(
        "kafka_server_broker_throttle_time",
        "Mean throttle time by the broker's quota over the last minute, in milliseconds; 0 without throttles",
        Kind.GAUGE,
        [Sample(labels, quota.mean_throttle_ms(use.kind, now_ms)) for labels, use in uses],
    )
    yield FamilySamples(
        "kafka_server_broker_queue_size",
        "Channels throttled by the broker's quota",
        Kind.GAUGE,
        [Sample(labels, use.throttled) for labels, use in uses],
    )
    yield FamilySamples(
        "weir_broker_quota_throttles_total",
        "Throttles by the broker's quota since it was enabled",
        Kind.COUNTER,
        [Sample(labels, use.throttles) for labels, use in uses],
    )
    yield FamilySamples(
        "weir_broker_quota_throttle_ms_total",
        "Milliseconds of throttles by the broker's quota since it was enabled",
        Kind.COUNTER,
        [Sample(labels, use.throttle_ms) for labels, use in uses],
    )
    yield from _retry_storm(broker)


def _retry_storm(broker: Broker) -> Iterator[FamilySamples]:
    storm, totals = broker.retry_storm, broker.retry_storm.totals
    for name, about, kind, value in (
        (
            "delayed_total",
            "Responses delayed by retry-storm back-off",
            Kind.COUNTER,
            totals.delayed,
        ),
        ("delay_ms_total", "Milliseconds of delays by retry-storm back-off", Kind.COUNTER, totals.delayed_ms),
        ("waiting", "Responses delayed now", Kind.GAUGE, broker.delayed_answers.delayed),
        ("states", "Tracked error states, by connection and resource", Kind.GAUGE, len(storm)),
    ):
        yield FamilySamples(f"weir_retry_storm_{name}", about, kind, [Sample((), value)])


def flow_families(server: SocketServer, broker: Broker, now_ms: int) -> Iterator[FamilySamples]:
    """Yield flow-control metrics of the network threads and the callbacks, which the console's doctor uses
    too.
    """
    totals = flow_totals(server)
    for name, about, value in (
        ("mutes", "Connections muted by a quota or a watermark", totals.mutes),
        ("unmutes", "Connections unmuted after a quota or a watermark", totals.unmutes),
    ):
        yield FamilySamples(f"weir_flow_control_{name}_total", about, Kind.COUNTER, [Sample((), value)])
    yield FamilySamples(
        "weir_oversized_requests_total",
        "Connections closed because a request was larger than socket.request.max.bytes",
        Kind.COUNTER,
        [Sample((), oversized(server))],
    )
    yield FamilySamples(
        "weir_responses_cut_off_total",
        "Connections closed within a response, because the disk did not give records that were promised",
        Kind.COUNTER,
        [Sample((), cut_off(server))],
    )
    yield FamilySamples(
        "weir_callbacks_blocked_total",
        "Responses of delayed requests that found the callback queue full",
        Kind.COUNTER,
        [Sample((), broker.callbacks.blocked)],
    )
    processors = [((("networkProcessor", str(each.id)),), each) for each in server.processors()]
    yield FamilySamples(
        "weir_idle_connections",
        "Open connections without activity for a minute, by network thread",
        Kind.GAUGE,
        [Sample(labels, idle_connections(each, now_ms)) for labels, each in processors],
    )
    yield FamilySamples(
        "weir_deepest_connection_requests",
        "Largest number of requests in flight on one connection, by network thread",
        Kind.GAUGE,
        [Sample(labels, deepest(each)) for labels, each in processors],
    )

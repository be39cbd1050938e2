"""Metrics of the broker's own quota, of retry-storm back-off, and of clients' compliance with throttles.
(AutoMQ: BrokerQuotaManager, kafka_stream_broker_quota_limit)
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from broker.api.requests.retry_storm import RetryStormGate
from broker.metrics.families import MAX_SERIES, FamilySamples, Sample, counter, gauge
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.kinds import QuotaKind
from broker.quotas.throttle_compliance import ThrottleCompliance

TYPES: Final = {
    QuotaKind.BROKER_PRODUCE: "Produce",
    QuotaKind.BROKER_FETCH: "Fetch",
    QuotaKind.BROKER_SLOW_FETCH: "SlowFetch",
    QuotaKind.BROKER_REQUEST_RATE: "RequestRate",
}
"""AutoMQ's names of the four kinds."""


def broker_quota_families(
    quotas: ClientQuotas, retry_storm: RetryStormGate, now_ms: int
) -> Iterator[FamilySamples]:
    """Yield the quota's families. Series exist while the quota is enabled; those of a limit while it is
    set.
    """
    quota = quotas.broker
    uses = [((("type", TYPES[use.kind]),), use) for use in quota.use(now_ms)] if quota.active else []
    yield gauge(
        "kafka_stream_broker_quota_limit",
        "Limit of the whole broker in force, in bytes or requests per second",
        [Sample(labels, use.bound) for labels, use in uses if use.bound is not None],
    )
    yield gauge(
        "kafka_server_broker_value_rate",
        "Bytes or requests per second recorded for the broker's quota",
        [Sample(labels, use.observed) for labels, use in uses],
    )
    yield gauge(
        "kafka_server_broker_throttle_time",
        "Mean throttle time by the broker's quota over the last minute, in milliseconds; 0 without throttles",
        [Sample(labels, quota.mean_throttle_ms(use.kind, now_ms)) for labels, use in uses],
    )
    yield gauge(
        "kafka_server_broker_queue_size",
        "Channels throttled by the broker's quota",
        [Sample(labels, use.throttled) for labels, use in uses],
    )
    yield counter(
        "weir_broker_quota_throttles_total",
        "Throttles by the broker's quota since it was enabled",
        [Sample(labels, use.throttles) for labels, use in uses],
    )
    yield counter(
        "weir_broker_quota_throttle_ms_total",
        "Milliseconds of throttles by the broker's quota since it was enabled",
        [Sample(labels, use.throttle_ms) for labels, use in uses],
    )
    yield from _retry_storm(retry_storm)


def _retry_storm(gate: RetryStormGate) -> Iterator[FamilySamples]:
    storm, totals = gate.storm, gate.storm.totals
    yield counter(
        "weir_retry_storm_delayed_total", "Responses delayed by retry-storm back-off", totals.delayed
    )
    yield counter(
        "weir_retry_storm_delay_ms_total",
        "Milliseconds of delays by retry-storm back-off",
        totals.delayed_ms,
    )
    yield gauge("weir_retry_storm_waiting", "Responses delayed now", gate.delayed.delayed)
    yield gauge("weir_retry_storm_states", "Tracked error states, by connection and resource", len(storm))


OBEYS_LABELS: Final = {True: "yes", False: "no", None: "unknown"}


def throttle_compliance_families(throttle_compliance: ThrottleCompliance) -> Iterator[FamilySamples]:
    """Yield the families of clients with a known reaction, the most recent last."""
    clients = list(throttle_compliance.clients())
    verdicts = Counter(client.record.obeys for client in clients)
    yield gauge(
        "kafka_server_throttled_clients",
        "Throttled clients, by whether they obey throttle_time_ms",
        [Sample((("obeys", word),), verdicts[verdict]) for verdict, word in OBEYS_LABELS.items()],
    )
    yield counter(
        "kafka_server_throttle_compliance_total",
        "Throttles by outcome: the client waited, or sent before the throttle ended",
        [
            Sample((("user", each.principal), ("client_id", each.client_id), ("outcome", outcome)), count)
            for each in clients[-MAX_SERIES // 2 :]
            for outcome, count in (("waited", each.record.waited), ("sent_early", each.record.sent_early))
        ],
    )

"""Quota metrics for Prometheus, under the names of Kafka's dashboards.

Computed on each scrape, from the sensors that the verdicts use. A series exists only while its sensor does;
where there are too many, the busiest are included, in shadow mode the most recent.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from broker.common.slices import nlargest_in_steps
from broker.metrics.families import MAX_SERIES, Families, FamilySamples, MetricType, Sample, label_name
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.kinds import QuotaKind
from broker.quotas.mutation import MutationSensor
from broker.quotas.replication import ReplicationQuotas
from broker.quotas.table import UNLIMITED
from broker.quotas.usage import ClientSensor, S

Labels = tuple[tuple[str, str], ...]

GROUPS: Final = {
    QuotaKind.PRODUCE: ("kafka_server_produce", "byte_rate", "Bytes per second counted for produce quotas"),
    QuotaKind.FETCH: ("kafka_server_fetch", "byte_rate", "Bytes per second counted for fetch quotas"),
    QuotaKind.REQUEST: (
        "kafka_server_request",
        "request_time",
        "Percent of one thread used by requests",
    ),
    QuotaKind.CONTROLLER_MUTATION: (
        "kafka_server_controllermutation",
        "mutation_rate",
        "Partitions created or deleted per second",
    ),
}
"""The prefix of each kind's families, and its main metric. (Kafka: byte-rate, request-time, mutation-rate)"""

REPLICATION: Final = {
    QuotaKind.LEADER_REPLICATION: (
        "kafka_server_leaderreplication",
        "Bytes per second read by throttled replicas",
    ),
    QuotaKind.FOLLOWER_REPLICATION: (
        "kafka_server_followerreplication",
        "Bytes per second read for throttled replicas",
    ),
    QuotaKind.ALTER_LOG_DIRS_REPLICATION: (
        "kafka_server_alterlogdirsreplication",
        "Bytes per second copied between log directories",
    ),
}


def labels_of(sensor: ClientSensor) -> Labels:
    """Return Kafka's tags of the sensor with names valid in Prometheus: invalid characters become "_", and
    of equal names the last counts. A sensor of one upstream node has the label `node`, too.
    """
    if sensor.group is None:
        labels: Labels = (("user", sensor.user or ""), ("client_id", sensor.client_id or ""))
    else:
        labels = tuple({label_name(name): value for name, value in sensor.group.pairs}.items())
    return labels if sensor.node is None else tuple({**dict(labels), "node": str(sensor.node)}.items())


def families(quotas: ClientQuotas, now_ms: int, max_series: int = MAX_SERIES) -> Families:
    """Yield the families, with the `max_series` busiest sensors of each kind. A source for the metrics page.
    All values are read from the enforcing sensors; nothing is counted for the metrics.
    """
    left_out = []
    for kind, manager in quotas.managers.items():
        shown = yield from manager.busiest(max_series, now_ms)
        yield from _sensor_families(kind, _by_labels(shown), now_ms)
        throttled = [Sample((), len(manager.throttled))]
        name = f"{GROUPS[kind][0]}_queue_size"
        yield FamilySamples(name, "Channels throttled for this quota", MetricType.GAUGE, throttled)
        left_out.append(Sample((("quota", kind.value),), manager.sensor_count - len(shown)))
    yield FamilySamples(
        "weir_quota_entities_left_out",
        "Entities measured for a quota and omitted from this page, since others use more",
        MetricType.GAUGE,
        left_out,
    )
    exempt = [Sample((), quotas.request.exempt.measure(now_ms))]
    yield FamilySamples(
        "kafka_server_request_exempt_request_time",
        "Percent of one thread, never limited",
        MetricType.GAUGE,
        exempt,
    )
    if quotas.callback is not None:
        failures = [Sample((("method", name),), count) for name, count in quotas.callback.failures.items()]
        name = "kafka_server_client_quota_callback_failures_total"
        yield FamilySamples(name, "Calls of the quota callback that failed", MetricType.COUNTER, failures)


def _sensor_families(
    kind: QuotaKind, shown: dict[Labels, ClientSensor], now_ms: int
) -> Iterator[FamilySamples]:
    prefix, figure, text = GROUPS[kind]

    def family(name: str, about: str, value: Callable[[ClientSensor], float | None]) -> FamilySamples:
        values = ((labels, value(sensor)) for labels, sensor in shown.items())
        samples = (Sample(labels, each) for labels, each in values if each is not None)
        return FamilySamples(f"{prefix}_{name}", about, MetricType.GAUGE, samples)

    yield family(figure, text, lambda sensor: sensor.observed(now_ms))
    yield family(
        "throttle_time",
        "Mean throttle time of the last minute in milliseconds, 0 without a throttle",
        lambda sensor: sensor.throttle_time.measure_or_zero(now_ms),
    )
    yield family(
        "quota_bound", "The present limit", lambda sensor: None if sensor.rule is None else sensor.bound
    )
    if kind is QuotaKind.CONTROLLER_MUTATION:
        yield family(
            "tokens",
            "Mutations left before a throttle",
            lambda sensor: sensor.bucket.peek(now_ms) if isinstance(sensor, MutationSensor) else None,
        )


def _by_labels(sensors: Iterable[S]) -> dict[Labels, ClientSensor]:
    """Return the sensors by labels, the busiest of equal labels. Labels can be equal after a rule change, or
    for tags that differ only in characters invalid in Prometheus.
    """
    shown: dict[Labels, ClientSensor] = {}
    for sensor in sensors:
        shown.setdefault(labels_of(sensor), sensor)
    return shown


def replication_families(quotas: ReplicationQuotas, now_ms: int) -> Iterator[FamilySamples]:
    """Yield the families. A rate has a series once something was recorded, a bound while one is set."""
    for manager in quotas.managers:
        prefix, text = REPLICATION[manager.kind]
        rates = [Sample((), manager.observed(now_ms))] if manager.used else []
        bounds = [Sample((), manager.bound)] if manager.bound < UNLIMITED else []
        yield FamilySamples(f"{prefix}_byte_rate", text, MetricType.GAUGE, rates)
        yield FamilySamples(f"{prefix}_quota_bound", "The present limit", MetricType.GAUGE, bounds)


def shadow_families(quotas: ClientQuotas, now_ms: int) -> Families:
    """Yield the families, with the most recent sensors if there are too many. A source for the registry."""
    for kind, manager in quotas.managers.items():
        prefix, _, _ = GROUPS[kind]
        times, throttled_ms = [], []
        if manager.shadows:
            marked = (sensor for sensor in manager.sensors() if sensor.shadow is not None)
            busiest = yield from nlargest_in_steps(MAX_SERIES, marked, lambda sensor: sensor.last_record_ms)
            for sensor in busiest:
                labels = labels_of(sensor)
                assert sensor.shadow is not None
                times.append(Sample(labels, sensor.shadow.times))
                throttled_ms.append(Sample(labels, sensor.shadow.throttled.at(now_ms)))
        yield FamilySamples(
            f"{prefix}_shadow_throttles_total",
            "Requests that limits in shadow mode would have throttled",
            MetricType.COUNTER,
            times,
        )
        yield FamilySamples(
            f"{prefix}_shadow_throttle_ms_total",
            "Milliseconds in which limits in shadow mode would have throttled, overlaps counted once",
            MetricType.COUNTER,
            throttled_ms,
        )

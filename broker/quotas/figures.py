"""What Prometheus and the console read of the quotas, under the names that dashboards of Kafka already have.

Called when somebody looks. Reads the same sensors that decide; a series exists only while its sensor does,
and the busiest lately are shown where there are too many.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import nlargest
from typing import Final

from broker.metrics.prometheus import label_name
from broker.metrics.registry import MAX_SERIES, FamilySamples, Kind, Sample
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entity import Governing
from broker.quotas.kinds import KEY_OF, QuotaKind
from broker.quotas.mutation import MutationSensor
from broker.quotas.replication import ReplicationQuotas
from broker.quotas.table import UNLIMITED
from broker.quotas.usage import ClientSensor

GROUPS: Final = {
    QuotaKind.PRODUCE: ("kafka_server_produce", "byte_rate", "Bytes per second counted for produce quotas"),
    QuotaKind.FETCH: ("kafka_server_fetch", "byte_rate", "Bytes per second counted for fetch quotas"),
    QuotaKind.REQUEST: (
        "kafka_server_request",
        "request_time",
        "Percent of one thread that requests keep busy",
    ),
    QuotaKind.CONTROLLER_MUTATION: (
        "kafka_server_controllermutation",
        "mutation_rate",
        "Partitions per second that are created or deleted",
    ),
}
"""The prefix of each kind's families, and its main figure. (Kafka: byte-rate, request-time, mutation-rate)"""

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


@dataclass(frozen=True, slots=True)
class RuleUse:
    """What the clients under one rule do now.

    `observed` is in the key's own unit; under a default rule each client has the limit for itself, so it is
    the busiest one's. `throttled` counts the channels that are held by this rule.
    """

    entity: Governing
    key: str
    observed: float
    throttled: int


def rule_use(quotas: ClientQuotas, now_ms: int) -> list[RuleUse]:
    """Every rule under which somebody has been seen lately."""
    uses: list[RuleUse] = []
    for kind, manager in quotas.managers.items():
        held: dict[Governing, int] = {}
        for row in manager.throttled.rows(now_ms):
            held[row.entity] = held.get(row.entity, 0) + 1
        busiest: dict[Governing, float] = {}
        for sensor in manager.sensors():
            if sensor.rule is not None:
                busiest[sensor.rule] = max(sensor.observed(now_ms), busiest.get(sensor.rule, 0.0))
        uses += [RuleUse(rule, KEY_OF[kind], use, held.get(rule, 0)) for rule, use in busiest.items()]
    return uses


def labels_of(sensor: ClientSensor) -> tuple[tuple[str, str], ...]:
    """Kafka's tags of the sensor, spelt as Prometheus allows: what a label cannot hold becomes "_"."""
    if sensor.group is None:
        return (("user", sensor.user or ""), ("client_id", sensor.client_id or ""))
    return tuple((label_name(name), value) for name, value in sensor.group.pairs)


def families(quotas: ClientQuotas, now_ms: int) -> Iterator[FamilySamples]:
    """A source for the metrics registry."""
    for kind, manager in quotas.managers.items():
        prefix, figure, text = GROUPS[kind]
        use, waits, limits, tokens = [], [], [], []
        for sensor in nlargest(MAX_SERIES, manager.sensors(), key=lambda sensor: sensor.last_record_ms):
            labels = labels_of(sensor)
            use.append(Sample(labels, sensor.observed(now_ms)))
            waits.append(Sample(labels, sensor.throttle_time.measure(now_ms)))
            if sensor.rule is not None:
                limits.append(Sample(labels, sensor.bound))
            if isinstance(sensor, MutationSensor):
                tokens.append(Sample(labels, sensor.bucket.measure(now_ms)))
        yield FamilySamples(f"{prefix}_{figure}", text, Kind.GAUGE, use)
        yield FamilySamples(f"{prefix}_throttle_time", "Mean milliseconds of a throttle", Kind.GAUGE, waits)
        yield FamilySamples(f"{prefix}_quota_bound", "The limit in force", Kind.GAUGE, limits)
        held = [Sample((), len(manager.throttled))]
        yield FamilySamples(f"{prefix}_queue_size", "Channels that are held for this quota", Kind.GAUGE, held)
        if kind is QuotaKind.CONTROLLER_MUTATION:
            yield FamilySamples(f"{prefix}_tokens", "Mutations left before a throttle", Kind.GAUGE, tokens)
    if quotas.callback is not None:
        failures = [Sample((("method", name),), count) for name, count in quotas.callback.failures.items()]
        name = "kafka_server_client_quota_callback_failures_total"
        yield FamilySamples(name, "Calls of the quota callback that failed", Kind.COUNTER, failures)
    exempt = [Sample((), quotas.request.exempt.measure(now_ms))]
    yield FamilySamples(
        "kafka_server_request_exempt_request_time", "Percent of one thread, never limited", Kind.GAUGE, exempt
    )


def replication_families(quotas: ReplicationQuotas, now_ms: int) -> Iterator[FamilySamples]:
    """A rate has a series once something was recorded; a bound, while one is set."""
    for manager in quotas.managers:
        prefix, text = REPLICATION[manager.kind]
        rates = [Sample((), manager.observed(now_ms))] if manager.used else []
        bounds = [Sample((), manager.bound)] if manager.bound < UNLIMITED else []
        yield FamilySamples(f"{prefix}_byte_rate", text, Kind.GAUGE, rates)
        yield FamilySamples(f"{prefix}_quota_bound", "The limit in force", Kind.GAUGE, bounds)

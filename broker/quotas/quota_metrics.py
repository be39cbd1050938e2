"""What Prometheus and the console read of the quotas, under the names that dashboards of Kafka already have.

Called when somebody looks. Reads the same sensors that decide; a series exists only while its sensor does,
and the busiest lately are shown where there are too many.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import isnan
from typing import Final

from broker.metrics.families import MAX_SERIES, FamilySamples, Kind, Sample, Steps
from broker.metrics.prometheus import label_name
from broker.metrics.top_k import AT_ONCE
from broker.metrics.window import Avg
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entity import Entity, Governing
from broker.quotas.kinds import KEY_OF, QuotaKind
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


def rule_use(quotas: ClientQuotas, now_ms: int) -> Iterator[RuleUse | None]:
    """Every rule under which somebody has been seen lately. None between them: it has taken time."""
    for kind, manager in quotas.managers.items():
        held: Counter[Governing] = Counter()
        for each in manager.throttled.held():
            held[each.rule] += 1
            yield None
        busiest: dict[Governing, float] = {}
        for number, sensor in enumerate(manager.sensors()):
            if number % AT_ONCE == 0:
                yield None
            if sensor.rule is not None:
                busiest[sensor.rule] = max(sensor.observed(now_ms), busiest.get(sensor.rule, 0.0))
        yield from (RuleUse(rule, KEY_OF[kind], use, held[rule]) for rule, use in busiest.items())


def rule_use_of(quotas: ClientQuotas, entity: Entity, now_ms: int) -> Iterator[RuleUse]:
    """The same of one entity that is no address, by what it takes to find its own sensors."""
    for kind, manager in quotas.managers.items():
        sensors = list(manager.sensors_under((entity.user, entity.client_id)))
        if sensors:
            rule = sensors[0].rule
            held = sum(1 for each in manager.throttled.held() if each.rule == rule)
            busiest = max(sensor.observed(now_ms) for sensor in sensors)
            yield RuleUse(rule or entity, KEY_OF[kind], busiest, held)


def labels_of(sensor: ClientSensor) -> Labels:
    """Kafka's tags of the sensor, spelt as Prometheus allows: what a label cannot hold becomes "_", of names
    that are alike then the last one counts.
    """
    if sensor.group is None:
        return (("user", sensor.user or ""), ("client_id", sensor.client_id or ""))
    return tuple({label_name(name): value for name, value in sensor.group.pairs}.items())


def families(quotas: ClientQuotas, now_ms: int, most: int = MAX_SERIES) -> Steps:
    """A source for the metrics registry: of each kind the `most` sensors that use most. Every figure is asked
    of the sensor that enforces, so nothing is counted for this page.
    """
    left_out = []
    for kind, manager in quotas.managers.items():
        shown = yield from manager.busiest(most, now_ms)
        yield from _sensor_families(kind, _told_apart(shown), now_ms)
        held = [Sample((), len(manager.throttled))]
        name = f"{GROUPS[kind][0]}_queue_size"
        yield FamilySamples(name, "Channels that are held for this quota", Kind.GAUGE, held)
        left_out.append(Sample((("quota", kind.value),), manager.sensor_count - len(shown)))
    yield FamilySamples(
        "weir_quota_entities_left_out",
        "Entities that are measured for a quota and not on this page, since others use more",
        Kind.GAUGE,
        left_out,
    )
    exempt = [Sample((), quotas.request.exempt.measure(now_ms))]
    yield FamilySamples(
        "kafka_server_request_exempt_request_time", "Percent of one thread, never limited", Kind.GAUGE, exempt
    )
    if quotas.callback is not None:
        failures = [Sample((("method", name),), count) for name, count in quotas.callback.failures.items()]
        name = "kafka_server_client_quota_callback_failures_total"
        yield FamilySamples(name, "Calls of the quota callback that failed", Kind.COUNTER, failures)


def _sensor_families(
    kind: QuotaKind, shown: dict[Labels, ClientSensor], now_ms: int
) -> Iterator[FamilySamples]:
    prefix, figure, text = GROUPS[kind]

    def family(name: str, about: str, value: Callable[[ClientSensor], float | None]) -> FamilySamples:
        values = ((labels, value(sensor)) for labels, sensor in shown.items())
        samples = (Sample(labels, each) for labels, each in values if each is not None)
        return FamilySamples(f"{prefix}_{name}", about, Kind.GAUGE, samples)

    yield family(figure, text, lambda sensor: sensor.observed(now_ms))
    yield family(
        "throttle_time",
        "Mean milliseconds of the throttles of the last minute, 0 without any",
        lambda sensor: decayed(sensor.throttle_time, now_ms),
    )
    yield family(
        "quota_bound", "The limit in force", lambda sensor: None if sensor.rule is None else sensor.bound
    )
    if kind is QuotaKind.CONTROLLER_MUTATION:
        yield family(
            "tokens",
            "Mutations left before a throttle",
            lambda sensor: sensor.bucket.peek(now_ms) if isinstance(sensor, MutationSensor) else None,
        )


def _told_apart(sensors: Iterable[S]) -> dict[Labels, ClientSensor]:
    """By their labels. Two can have the same: one from before a rule changed, or tags that Prometheus spells
    alike; the one that uses more is shown.
    """
    shown: dict[Labels, ClientSensor] = {}
    for sensor in sensors:
        shown.setdefault(labels_of(sensor), sensor)
    return shown


def decayed(mean: Avg, now_ms: int) -> float:
    """A mean wait, which is 0 and not NaN when nobody waited lately."""
    value = mean.measure(now_ms)
    return 0.0 if isnan(value) else value


def replication_families(quotas: ReplicationQuotas, now_ms: int) -> Iterator[FamilySamples]:
    """A rate has a series once something was recorded; a bound, while one is set."""
    for manager in quotas.managers:
        prefix, text = REPLICATION[manager.kind]
        rates = [Sample((), manager.observed(now_ms))] if manager.used else []
        bounds = [Sample((), manager.bound)] if manager.bound < UNLIMITED else []
        yield FamilySamples(f"{prefix}_byte_rate", text, Kind.GAUGE, rates)
        yield FamilySamples(f"{prefix}_quota_bound", "The limit in force", Kind.GAUGE, bounds)

"""What the console and Prometheus read of the limits in shadow mode. Called when somebody looks."""

from collections.abc import Iterator
from dataclasses import dataclass

from broker.metrics.families import MAX_SERIES, FamilySamples, Kind, Sample, Steps
from broker.metrics.top_k import largest
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entity import Entity
from broker.quotas.kinds import KEY_OF
from broker.quotas.quota_metrics import GROUPS
from broker.quotas.shadow import ShadowTotal


@dataclass(frozen=True, slots=True)
class RuleShadow:
    """One key of one rule that is marked, whether it sets a bound for that key or not."""

    entity: Entity
    key: str
    total: ShadowTotal


def rule_use(quotas: ClientQuotas) -> Iterator[RuleShadow]:
    for kind, manager in quotas.managers.items():
        for rule, total in manager.shadows.items():
            yield RuleShadow(Entity(*rule), KEY_OF[kind], total)


def families(quotas: ClientQuotas) -> Steps:
    """A source for the metrics registry; the busiest lately, where there are too many."""
    for kind, manager in quotas.managers.items():
        prefix, _, _ = GROUPS[kind]
        times, held = [], []
        if manager.shadows:
            marked = (sensor for sensor in manager.sensors() if sensor.shadow is not None)
            busiest = yield from largest(MAX_SERIES, marked, lambda sensor: sensor.last_record_ms)
            for sensor in busiest:
                labels = (("user", sensor.user or ""), ("client_id", sensor.client_id or ""))
                assert sensor.shadow is not None
                times.append(Sample(labels, sensor.shadow.times))
                held.append(Sample(labels, sensor.shadow.held_ms))
        yield FamilySamples(
            f"{prefix}_shadow_throttles_total",
            "Requests that would have been told to wait, by limits that are not enforced",
            Kind.COUNTER,
            times,
        )
        yield FamilySamples(
            f"{prefix}_shadow_throttle_ms_total",
            "Milliseconds for which clients would have been held, waits that overlap counted once",
            Kind.COUNTER,
            held,
        )

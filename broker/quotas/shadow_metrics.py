"""Metrics of limits in shadow mode, for the console and Prometheus. Computed on each scrape."""

from collections.abc import Iterator
from dataclasses import dataclass

from broker.metrics.families import MAX_SERIES, FamilySamples, Kind, Sample, Steps
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entity import Entity
from broker.quotas.kinds import KEY_OF
from broker.quotas.quota_metrics import GROUPS
from broker.quotas.shadow import ShadowTotal
from broker.steps import nlargest_in_steps


@dataclass(frozen=True, slots=True)
class RuleShadow:
    """One key of one marked rule, whether or not the rule sets a bound for it."""

    entity: Entity
    key: str
    total: ShadowTotal


def rule_use(quotas: ClientQuotas) -> Iterator[RuleShadow]:
    for kind, manager in quotas.managers.items():
        for rule, total in manager.shadows.items():
            yield RuleShadow(Entity(*rule), KEY_OF[kind], total)


def families(quotas: ClientQuotas) -> Steps:
    """Yield the families, with the most recent sensors if there are too many. A source for the registry."""
    for kind, manager in quotas.managers.items():
        prefix, _, _ = GROUPS[kind]
        times, held = [], []
        if manager.shadows:
            marked = (sensor for sensor in manager.sensors() if sensor.shadow is not None)
            busiest = yield from nlargest_in_steps(MAX_SERIES, marked, lambda sensor: sensor.last_record_ms)
            for sensor in busiest:
                labels = (("user", sensor.user or ""), ("client_id", sensor.client_id or ""))
                assert sensor.shadow is not None
                times.append(Sample(labels, sensor.shadow.times))
                held.append(Sample(labels, sensor.shadow.held_ms))
        yield FamilySamples(
            f"{prefix}_shadow_throttles_total",
            "Requests that limits in shadow mode would have throttled",
            Kind.COUNTER,
            times,
        )
        yield FamilySamples(
            f"{prefix}_shadow_throttle_ms_total",
            "Milliseconds for which limits in shadow mode would have throttled, overlaps counted once",
            Kind.COUNTER,
            held,
        )

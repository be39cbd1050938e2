"""Metrics of groups of all types, by Kafka's names. For `page`. (Kafka: GroupCoordinatorMetrics)

Kafka's state Dead is not among them: a group that is removed is gone.
"""

from collections import Counter
from enum import Enum
from typing import Final

from broker.coordinator.group.consumer.group import ConsumerGroupState
from broker.coordinator.group.group import ClassicGroupState
from broker.coordinator.group.messages import CLASSIC, CONSUMER, SHARE, STREAMS
from broker.coordinator.group.share.group import ShareGroupState
from broker.coordinator.group.streams.group import StreamsGroupState
from broker.coordinator.group_service import GroupService
from broker.metrics.families import Families, Sample, counter, gauge
from broker.metrics.rate import CounterRate

COORDINATOR: Final = "kafka_server_group_coordinator_metrics"

STATES: Final[dict[str, type[Enum]]] = {
    CLASSIC: ClassicGroupState,
    CONSUMER: ConsumerGroupState,
    SHARE: ShareGroupState,
    STREAMS: StreamsGroupState,
}
"""The states of a group by its type."""

REBALANCES: Final = {
    CLASSIC: ("group_completed_rebalance", "Generations of classic groups that have their assignments"),
    CONSUMER: ("consumer_group_rebalance", "Epochs of consumer groups that heartbeats began"),
    SHARE: ("share_group_rebalance", "Epochs of share groups that heartbeats began"),
    STREAMS: ("streams_group_rebalance", "Epochs of streams groups that heartbeats began"),
}


class GroupFamilies:
    """The families of one reader, which have the rates since it last read them."""

    def __init__(self, groups: GroupService, now_ns: int) -> None:
        self._groups = groups
        self._rates = CounterRate(now_ns)

    def families(self, now_ns: int) -> Families:
        """Yield the families, and None after work that produced none."""
        counts: Counter[tuple[str, str]] = Counter()
        offsets = 0
        for group in list(self._groups.coordinator.groups.by_id.values()):
            counts[group.type, group.state.value] += 1
            for by_partition in list(group.offsets.values()):
                offsets += len(by_partition)
                yield None
            yield None
        of_type = [
            Sample((("protocol", kind),), sum(count for (each, _), count in counts.items() if each == kind))
            for kind in STATES
        ]
        yield gauge(f"{COORDINATOR}_group_count", "Groups by their type", of_type)
        for kind, states in STATES.items():
            of_state = [
                Sample((("state", state.value),), counts[kind, state.value])
                for state in states
                if state is not ClassicGroupState.DEAD
            ]
            yield gauge(
                f"{COORDINATOR}_{kind}_group_count", f"Groups of type {kind} by their state", of_state
            )
        yield gauge(f"{COORDINATOR}_offset_count", "Committed offsets of all groups", offsets)
        totals = tuple(self._groups.rebalances[kind] for kind in REBALANCES)
        rates = self._rates.update(now_ns, totals)
        for (name, about), total, rate in zip(REBALANCES.values(), totals, rates, strict=True):
            yield counter(f"{COORDINATOR}_{name}_count", about, total)
            yield gauge(f"{COORDINATOR}_{name}_rate", f"{about}, per second", rate)

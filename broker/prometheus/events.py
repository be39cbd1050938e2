"""Metrics of the broker's own events. Ours, without a counterpart in Kafka."""

from collections.abc import Iterator

from broker.metrics.families import FamilySamples, Kind, Sample
from broker.services.event_log import EventLog


def families(log: EventLog) -> Iterator[FamilySamples]:
    topics = sorted(log.topics.items())
    written = [Sample((("topic", topic),), each.written) for topic, each in topics]
    dropped = [Sample((("topic", topic),), each.dropped) for topic, each in topics]
    yield FamilySamples("weir_events_written_total", "Records written to event topics", Kind.COUNTER, written)
    yield FamilySamples(
        "weir_events_dropped_total", "Records dropped because the buffer was full", Kind.COUNTER, dropped
    )

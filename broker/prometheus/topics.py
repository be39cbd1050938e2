"""Metrics of the topics' traffic and the size of their logs. (Kafka: BrokerTopicMetrics, LogManager's
gauges)

A series without the label `topic` is the total of all topics, including deleted ones, as in Kafka: sums
must select `topic!=""`. A partition that moves to another directory has a second log with
`is_future="true"`.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from broker.metrics.families import MAX_SERIES, FamilySamples, Kind, Sample, Steps
from broker.services.partitions import Partitions, TopicTraffic

TRAFFIC: Final = "kafka_server_brokertopicmetrics"

FIGURES: Final[tuple[tuple[str, str, Callable[[TopicTraffic], int]], ...]] = (
    ("messagesin", "Records appended", lambda each: each.messages_in),
    ("bytesin", "Bytes of batches appended", lambda each: each.bytes_in),
    ("bytesout", "Bytes of batches sent to consumers", lambda each: each.bytes_out),
    ("totalproducerequests", "Appends to a partition, including failed ones", lambda each: each.appends),
    ("totalfetchrequests", "Reads of a partition for a fetch", lambda each: each.reads),
    ("failedproducerequests", "Appends that were refused or failed", lambda each: each.failed_appends),
    ("failedfetchrequests", "Reads that failed because of the broker", lambda each: each.failed_reads),
)


LOGS_AT_ONCE: Final = 8
"""Partitions between two pauses."""

Labels = tuple[tuple[str, str], ...]


def families(partitions: Partitions) -> Steps:
    """In steps: a topic may be deleted between two of them, and is still on this page."""
    every, total = list(partitions.by_name.values()), partitions.gone
    traffic: list[tuple[Labels, TopicTraffic]] = []
    for topic in every:
        of_topic = yield from topic.traffic_in_steps()
        total += of_topic
        if len(traffic) < MAX_SERIES:
            traffic.append(((("topic", topic.name),), of_topic))
        yield None
    traffic.insert(0, ((), total))
    for name, about, figure in FIGURES:
        yield FamilySamples(f"{TRAFFIC}_{name}_total", about, Kind.COUNTER, _totals(traffic, figure))
    sizes, ends = [], []
    for topic in every[:MAX_SERIES]:
        for number, log in enumerate(list(topic.opened())):
            if number % LOGS_AT_ONCE == 0:
                yield None
            of_log = (("topic", log.topic), ("partition", str(log.index)))
            sizes.append(Sample(of_log, log.size))
            ends.append(Sample(of_log, log.log_end_offset))
    for move in list(partitions.store.moves.running.values())[:MAX_SERIES]:
        log = move.partition
        future = (("topic", log.topic), ("partition", str(log.index)), ("is_future", "true"))
        sizes.append(Sample(future, move.size))
        ends.append(Sample(future, move.end_offset))
    yield FamilySamples("kafka_log_log_size", "Bytes of a partition's log", Kind.GAUGE, sizes)
    yield FamilySamples("kafka_log_log_logendoffset", "The next offset", Kind.GAUGE, ends)


def _totals(
    traffic: Iterable[tuple[Labels, TopicTraffic]], figure: Callable[[TopicTraffic], int]
) -> Iterator[Sample]:
    return (Sample(labels, figure(of)) for labels, of in traffic)

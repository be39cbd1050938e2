"""What goes into the topics and out of them, and how large their logs are. (Kafka: BrokerTopicMetrics,
LogManager's gauges)

A series without the label `topic` is that of all topics, those included that are deleted meanwhile, as in
Kafka: whoever sums asks for `topic!=""`. A partition that moves to another directory has a second log, of
`is_future="true"`.
"""

from collections.abc import Callable, Iterator
from typing import Final

from broker.metrics.registry import MAX_SERIES, FamilySamples, Kind, Sample
from broker.services.partitions import Partitions, TopicTraffic

TRAFFIC: Final = "kafka_server_brokertopicmetrics"

FIGURES: Final[tuple[tuple[str, str, Callable[[TopicTraffic], int]], ...]] = (
    ("messagesin", "Records appended", lambda each: each.messages_in),
    ("bytesin", "Bytes of batches appended", lambda each: each.bytes_in),
    ("bytesout", "Bytes of batches sent to consumers", lambda each: each.bytes_out),
    ("totalproducerequests", "Appends to one partition, failed ones too", lambda each: each.appends),
    ("totalfetchrequests", "Reads of one partition for a fetch", lambda each: each.reads),
    ("failedproducerequests", "Appends that were refused or not written", lambda each: each.failed_appends),
    ("failedfetchrequests", "Reads that failed by the broker's fault", lambda each: each.failed_reads),
)


def families(partitions: Partitions) -> Iterator[FamilySamples]:
    topics = list(partitions.by_name.values())[:MAX_SERIES]
    traffic = [((), partitions.traffic()), *(((("topic", each.name),), each.traffic()) for each in topics)]
    for name, about, figure in FIGURES:
        samples = [Sample(labels, figure(of)) for labels, of in traffic]
        yield FamilySamples(f"{TRAFFIC}_{name}_total", about, Kind.COUNTER, samples)
    sizes, ends = [], []
    for topic in topics:
        for log in topic.opened():
            labels = (("topic", log.topic), ("partition", str(log.index)))
            sizes.append(Sample(labels, log.size))
            ends.append(Sample(labels, log.log_end_offset))
    for move in list(partitions.store.moves.running.values())[:MAX_SERIES]:
        log = move.partition
        future = (("topic", log.topic), ("partition", str(log.index)), ("is_future", "true"))
        sizes.append(Sample(future, move.size))
        ends.append(Sample(future, move.end_offset))
    yield FamilySamples("kafka_log_log_size", "Bytes of a partition's log", Kind.GAUGE, sizes)
    yield FamilySamples("kafka_log_log_logendoffset", "The next offset", Kind.GAUGE, ends)

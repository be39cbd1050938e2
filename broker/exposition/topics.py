"""The topics and their logs. (Kafka: LogManager's gauges)"""

from collections.abc import Iterator

from broker.metrics.registry import FamilySamples, Kind, Sample
from broker.services.partitions import Partitions


def families(partitions: Partitions) -> Iterator[FamilySamples]:
    sizes, ends = [], []
    for topic in partitions.by_name.values():
        for log in topic.opened():
            labels = (("topic", log.topic), ("partition", str(log.index)))
            sizes.append(Sample(labels, log.size))
            ends.append(Sample(labels, log.log_end_offset))
    yield FamilySamples("kafka_log_log_size", "Bytes of a partition's log", Kind.GAUGE, sizes)
    yield FamilySamples("kafka_log_log_logendoffset", "The next offset", Kind.GAUGE, ends)

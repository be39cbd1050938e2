"""Describes min.insync.replicas as Kafka does, for DescribeConfigs and CreateTopics. (KIP-966)

Kafka 4.1 sets it for all brokers at its first start, to the value of the file or to 1, so that clients find
it among the settings that are not defaults. This broker stores no such setting and describes it alike.
(Kafka: ActivationRecordsGenerator)
"""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from broker.config.load import Configuration
from broker.controller.describe import ConfigSource, describe_topic
from broker.controller.rows.broker import ConfigRow, ConfigSynonym
from broker.metadata.image import Image

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
_LOWER_SOURCES: Final = (ConfigSource.STATIC_BROKER, ConfigSource.DEFAULT)


def as_kafka_describes(rows: Iterable[ConfigRow]) -> list[ConfigRow]:
    """Return the rows of a topic or of one broker, min.insync.replicas with a default of all brokers."""
    return [_with_default(row) if row.name == MIN_INSYNC_REPLICAS else row for row in rows]


def of_all_brokers(rows: Iterable[ConfigRow], image: Image, configuration: Configuration) -> list[ConfigRow]:
    """Return the rows of all brokers, and that of min.insync.replicas if it is not among them."""
    found = {row.name: row for row in rows}
    if MIN_INSYNC_REPLICAS not in found:
        topic = describe_topic({}, image, configuration)
        (row,) = as_kafka_describes(row for row in topic if row.name == MIN_INSYNC_REPLICAS)
        own = tuple(each for each in row.synonyms if each.source == ConfigSource.DYNAMIC_DEFAULT_BROKER)
        found[row.name] = replace(row, synonyms=own)
    return [found[name] for name in sorted(found)]


def _with_default(row: ConfigRow) -> ConfigRow:
    if any(each.source == ConfigSource.DYNAMIC_DEFAULT_BROKER for each in row.synonyms):
        return row
    place = next(i for i, each in enumerate(row.synonyms) if each.source in _LOWER_SOURCES)
    value = row.synonyms[place].value
    default = ConfigSynonym(MIN_INSYNC_REPLICAS, value, ConfigSource.DYNAMIC_DEFAULT_BROKER)
    synonyms = (*row.synonyms[:place], default, *row.synonyms[place:])
    return replace(row, source=synonyms[0].source, synonyms=synonyms)

"""The views of the console, made of what was read of the upstream cluster."""

from collections.abc import Callable, Iterator, Mapping

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Steps
from broker.controller.commands import ConfigResource, ResourceType
from broker.controller.control import Committer, Control
from broker.controller.rows.broker import ConfigRow
from broker.controller.rows.topics import GroupDetail, GroupRow, PartitionRow, TopicRow
from broker.gateway.contents.readings import UpstreamReadings
from broker.gateway.contents.topics import TopicContents
from broker.metadata.image import Image
from broker.views.metadata import MetadataViews
from broker.views.readings import Part
from broker.views.topics import TopicViews


class ClusterTopics(TopicViews):
    """The topics, groups and transactions of the upstream cluster, as last read."""

    def __init__(self, image: Callable[[], Image], readings: UpstreamReadings) -> None:
        super().__init__(image)
        self._readings = readings

    def each_topic(self) -> Iterator[TopicRow]:
        return (each.row for each in self._topics().values())

    def topic(self, name: str) -> TopicRow | None:
        found = self._topics().get(name)
        return None if found is None else found.row

    def partitions(self, topic: str) -> Iterator[PartitionRow]:
        found = self._topics().get(topic)
        return iter(()) if found is None else found.partitions()

    def each_group(self) -> Iterator[GroupRow]:
        return iter((self._readings.value(Part.GROUPS) or {}).values())

    def group(self, group_id: str) -> Steps[GroupDetail | None]:
        yield
        found: GroupDetail | None = self._readings.value(Part.GROUP, group_id)
        return found

    def _topics(self) -> Mapping[str, TopicContents]:
        return self._readings.value(Part.TOPICS) or {}


class ClusterMetadata(MetadataViews):
    """The gateway's own metadata, with the settings of the upstream cluster's topics."""

    def __init__(self, control: Control, committer: Committer, readings: UpstreamReadings) -> None:
        super().__init__(control, committer)
        self._readings = readings

    def describe_configs(self, resource: ConfigResource) -> Steps[list[ConfigRow]]:
        if resource.type != ResourceType.TOPIC:
            return super().describe_configs(resource)
        return _read(self._readings.value(Part.TOPIC_CONFIGS, resource.name))


def _read(rows: list[ConfigRow] | None) -> Steps[list[ConfigRow]]:
    yield
    if rows is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return rows

"""A gateway in front of one fake upstream node, which has topics and says what reached it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from broker.common.errors import ErrorCode
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.create_partitions import CreatePartitionsResponse, CreatePartitionsTopicResult
from broker.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from broker.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from broker.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from broker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.protocol.schema import ZERO_UUID
from tests.support.fake_upstream import FakeNode, fake_cluster
from tests.support.running_gateway import RunningGateway, running_gateway

NODE_ID = 0
DEFAULT_PARTITIONS = 4

VERSIONS = {
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.DELETE_TOPICS: (1, 6),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.ALTER_CONFIGS: (0, 2),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: (0, 1),
    ApiKey.LIST_CONFIG_RESOURCES: (0, 1),
}


class Upstream:
    """`topics` maps names to numbers of partitions, `throttle_ms` is the throttle time of its responses."""

    def __init__(self, node: FakeNode) -> None:
        self.node = node
        self.topics: dict[str, int] = {}
        self.throttle_ms = 0
        node.versions |= VERSIONS
        node.answers |= {
            ApiKey.CREATE_TOPICS: self._create,
            ApiKey.DELETE_TOPICS: self._delete,
            ApiKey.CREATE_PARTITIONS: self._extend,
            ApiKey.METADATA: self._metadata,
            ApiKey.DESCRIBE_CONFIGS: self._describe,
        }

    def requests_of(self, key: int) -> list[Any]:
        """The requests of an API that have arrived, without the gateway's for the ids of its own topics."""
        return [each for each in self.node.requests if key == each.API_KEY and not _is_for_own_topics(each)]

    def id_of(self, name: str) -> bytes:
        return name.encode().rjust(16, b"-")

    def _create(self, request: Any) -> CreateTopicsResponse:
        return CreateTopicsResponse(
            self.throttle_ms, [self._created(each, request) for each in request.topics]
        )

    def _created(self, topic: Any, request: Any) -> CreatableTopicResult:
        if topic.name in self.topics:
            return CreatableTopicResult(topic.name, error_code=ErrorCode.TOPIC_ALREADY_EXISTS, configs=[])
        count = len(topic.assignments) or topic.num_partitions
        count = DEFAULT_PARTITIONS if count == -1 else count
        if not request.validate_only:
            self.topics[topic.name] = count
        return CreatableTopicResult(topic.name, num_partitions=count, replication_factor=1, configs=[])

    def _delete(self, request: Any) -> DeleteTopicsResponse:
        named = [(name, ZERO_UUID) for name in request.topic_names]
        named += [(self._name(each), each.topic_id) for each in request.topics]
        results = []
        for name, topic_id in named:
            known = name is not None and self.topics.pop(name, None)
            error = ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            results.append(DeletableTopicResult(name, self.id_of(name) if known else topic_id, error))
        return DeleteTopicsResponse(self.throttle_ms, results)

    def _name(self, topic: Any) -> str | None:
        if topic.topic_id == ZERO_UUID:
            return topic.name  # type: ignore[no-any-return]
        return next((name for name in self.topics if self.id_of(name) == topic.topic_id), None)

    def _extend(self, request: Any) -> CreatePartitionsResponse:
        results = []
        for topic in request.topics:
            before = self.topics.get(topic.name)
            error = ErrorCode.NONE
            if before is None:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif topic.count <= before:
                error = ErrorCode.INVALID_PARTITIONS
            elif not request.validate_only:
                self.topics[topic.name] = topic.count
            results.append(CreatePartitionsTopicResult(topic.name, error))
        return CreatePartitionsResponse(self.throttle_ms, results)

    def _metadata(self, request: Any) -> MetadataResponse:
        topics = []
        for each in request.topics or ():
            name = each.name if each.name is not None else self._name(each)
            count = self.topics.get(name)
            if count is None:
                unknown = MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name, each.topic_id)
                topics.append(unknown)
                continue
            partitions = [MetadataResponsePartition(partition_index=index) for index in range(count)]
            topics.append(MetadataResponseTopic(0, name, self.id_of(name), partitions=partitions))
        return MetadataResponse(topics=topics)

    def _describe(self, request: Any) -> DescribeConfigsResponse:
        results = []
        for each in request.resources:
            keys = each.configuration_keys or ["name", "num.partitions"]
            values = {"num.partitions": str(DEFAULT_PARTITIONS)}
            configs = [DescribeConfigsResourceResult(key, values.get(key, "upstream")) for key in keys]
            results.append(DescribeConfigsResult(0, None, each.resource_type, each.resource_name, configs))
        return DescribeConfigsResponse(self.throttle_ms, results)


@asynccontextmanager
async def gateway_upstream(
    directory: Path, *overrides: str, finds_cluster: bool = True
) -> AsyncIterator[tuple[RunningGateway, Upstream]]:
    async with fake_cluster() as cluster:
        (node,) = cluster.live
        upstream = Upstream(node)
        async with running_gateway(directory, node.port, *overrides, finds_cluster=finds_cluster) as gateway:
            yield gateway, upstream


def _is_for_own_topics(request: Any) -> bool:
    return isinstance(request, MetadataRequest) and any(
        each.name == "__weir_metadata" for each in request.topics or ()
    )

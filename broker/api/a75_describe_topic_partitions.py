"""DescribeTopicPartitions: topics and their partitions, in pages. (KIP-966)

Version 0. Topics come in the order of their names; at most `response_partition_limit` partitions (and 2,000)
are answered, and the cursor says where to go on. No topic named means all. Every topic asked for has an
entry, for the Java client asks again and again for one that has none; replicas out of use are empty lists,
for it fails on null. An offline partition is answered as by Metadata.
Left out: authorized operations (no authorizer: the field says "not asked").
"""

from collections.abc import Iterable, Mapping
from typing import Final

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.outcome import Answered, Outcome
from broker.api.registry import api
from broker.control.topic_names import validate_topic_name
from broker.errors import ApiError, ErrorCode
from broker.metadata.image import Topic
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from broker.services.partitions import LEADER_EPOCH, NO_LEADER, Partitions

PAGE: Final = 2_000
"""The most partitions of one answer (Kafka: max.request.partition.size.limit)."""


@api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions=(0, 0))
def handle(message: DescribeTopicPartitionsRequest, _context: RequestContext, broker: Broker) -> Outcome:
    cursor = message.cursor
    if cursor is not None and cursor.partition_index < 0:
        refused = [_without_partitions(topic.name, ErrorCode.INVALID_REQUEST) for topic in message.topics]
        return Answered(DescribeTopicPartitionsResponse(topics=refused))
    topics = broker.control.image.topics
    asked = {topic.name for topic in message.topics}
    names = sorted(asked or topics)
    start = 0
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
        if names and names[0] == cursor.topic_name:
            start = cursor.partition_index
    page = max(1, min(PAGE, message.response_partition_limit))
    return Answered(_page(names, start, page, topics, broker))


def _page(
    names: Iterable[str], start: int, left: int, topics: Mapping[str, Topic], broker: Broker
) -> DescribeTopicPartitionsResponse:
    answers: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        topic = topics.get(name)
        if topic is None:
            answers.append(_unknown(name))
            continue
        if not left:
            return DescribeTopicPartitionsResponse(topics=answers, next_cursor=Cursor(name, 0))
        end = min(topic.partitions, start + left)
        partitions = _partitions(topic, range(start, end), broker.partitions, broker.config.node_id)
        answers.append(
            DescribeTopicPartitionsResponseTopic(
                ErrorCode.NONE, name, topic.topic_id, topic.internal, partitions
            )
        )
        if end < topic.partitions:
            return DescribeTopicPartitionsResponse(topics=answers, next_cursor=Cursor(name, end))
        left -= len(partitions)
        start = 0
    return DescribeTopicPartitionsResponse(topics=answers)


def _partitions(
    topic: Topic, indexes: Iterable[int], partitions: Partitions, node: int
) -> list[DescribeTopicPartitionsResponsePartition]:
    offline = partitions.offline(topic.name)
    return [
        DescribeTopicPartitionsResponsePartition(
            ErrorCode.NONE, index, node, LEADER_EPOCH, [node], [node], [], [], []
        )
        if index not in offline
        else DescribeTopicPartitionsResponsePartition(
            ErrorCode.KAFKA_STORAGE_ERROR, index, NO_LEADER, LEADER_EPOCH, [node], [], [], [], [node]
        )
        for index in indexes
    ]


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    try:
        validate_topic_name(name)
    except ApiError as error:
        return _without_partitions(name, error.code)
    return _without_partitions(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _without_partitions(name: str, error: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error, name)

"""Metadata: brokers, topics, partitions and who leads them.

Versions 0-13; answers have topic ids from 10 on, and questions may from 12 on. A null topic list asks for all
topics (an empty one did in version 0). A topic that does not exist is made where `auto.create.topics.enable`
and the client allow it. Answers without surprises are kept until the metadata image changes, or a partition
goes offline. An offline partition has KAFKA_STORAGE_ERROR, no leader, and its replica among the offline ones
(Kafka: LEADER_NOT_AVAILABLE; clients ask again in both cases, and this one says why). Left out:
authorized operations (no authorizer: the field says "not asked"), racks.
"""

from collections.abc import Awaitable

from broker.api.automatic_topics import automatic_topic
from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.mutations import automatic_charge
from broker.api.outcome import Answered, Outcome
from broker.api.registry import api
from broker.api.wire_actor import wire_actor
from broker.control.commands import CreateTopics
from broker.errors import ErrorCode
from broker.metadata.image import Topic
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.protocol.schema import ZERO_UUID
from broker.services.partitions import LEADER_EPOCH, NO_LEADER


@api(ApiKey.METADATA, versions=(0, 13))
def handle(message: MetadataRequest, context: RequestContext, broker: Broker) -> Outcome | Awaitable[Outcome]:
    if message.topics is None or (context.api_version == 0 and not message.topics):
        image = broker.control.image
        return Answered(
            _reply([_known(t, broker) for t in image.topics.values()], context, broker), cacheable=True
        )
    if context.api_version < 12 and any(
        topic.name is None or topic.topic_id != ZERO_UUID for topic in message.topics
    ):
        # Versions 10 and 11 have a place for ids and no meaning for them, as in Kafka.
        refused = [MetadataResponseTopic(ErrorCode.INVALID_REQUEST, t.name or "") for t in message.topics]
        return Answered(_reply(refused, context, broker))
    answers = [_find(topic, broker) for topic in message.topics]
    may_create = message.allow_auto_topic_creation if context.api_version >= 4 else True
    missing = [
        each.name
        for each in answers
        if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and each.name is not None
    ]
    if missing and may_create and broker.topic_defaults.auto_create_topics:
        return _create(missing, message.topics, context, broker)
    return Answered(_reply(answers, context, broker), cacheable=not missing)


async def _create(
    names: list[str], asked: list[MetadataRequestTopic], context: RequestContext, broker: Broker
) -> Outcome:
    topics = tuple(automatic_topic(name, broker) for name in names)
    command = CreateTopics(topics, charge=automatic_charge(context, broker))
    outcomes = await broker.control.apply(command, wire_actor(context, broker, automatic=True))
    errors = {outcome.name: outcome.error for outcome in outcomes if not outcome.ok}
    answers = []
    for topic in asked:
        answer = _find(topic, broker)
        error = errors.get(answer.name)
        if answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and error not in (
            None,
            ErrorCode.TOPIC_ALREADY_EXISTS,
        ):
            answer.error_code = int(error)
        answers.append(answer)
    return Answered(_reply(answers, context, broker))


def _find(asked: MetadataRequestTopic, broker: Broker) -> MetadataResponseTopic:
    topics = broker.control.image.topics
    if asked.topic_id != ZERO_UUID:
        hosted = broker.partitions.by_id.get(asked.topic_id)
        if hosted is None or hosted.name not in topics:
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, asked.topic_id)
        return _known(topics[hosted.name], broker)
    name = asked.name or ""
    topic = topics.get(name)
    if topic is None:
        return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
    return _known(topic, broker)


def _known(topic: Topic, broker: Broker) -> MetadataResponseTopic:
    node = broker.config.node_id
    offline = broker.partitions.offline(topic.name)
    return MetadataResponseTopic(
        ErrorCode.NONE,
        topic.name,
        topic.topic_id,
        topic.internal,
        [
            MetadataResponsePartition(ErrorCode.NONE, index, node, LEADER_EPOCH, [node], [node], [])
            if index not in offline
            else MetadataResponsePartition(
                ErrorCode.KAFKA_STORAGE_ERROR, index, NO_LEADER, LEADER_EPOCH, [node], [], [node]
            )
            for index in range(topic.partitions)
        ],
    )


def _reply(topics: list[MetadataResponseTopic], context: RequestContext, broker: Broker) -> MetadataResponse:
    endpoint = broker.endpoints[context.connection.listener]
    node = broker.config.node_id
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node, endpoint.host, endpoint.port, None)],
        cluster_id=broker.control.image.cluster_id,
        controller_id=node,
        topics=topics,
    )

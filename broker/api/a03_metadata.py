"""Metadata: brokers, topics, partitions and leaders.

Versions 0-13; responses have topic ids from version 10, and requests may use them from 12. A null topic list
selects all topics (in version 0, an empty list). A missing topic is created if `auto.create.topics.enable`
and the client allow it, at most 100 by one request. Many topics are looked up in slices. Responses without
errors are cached until the metadata image changes or a partition goes offline. An offline partition has
KAFKA_STORAGE_ERROR, no leader, and its replica among the offline replicas (Kafka: LEADER_NOT_AVAILABLE;
clients retry both, and this code names the cause). Left out: authorized operations (there is no authorizer;
the field has its default), racks.
"""

from collections.abc import Awaitable, Iterable
from typing import Final

from broker.api.automatic_topics import automatic_topic
from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.mutations import automatic_charge
from broker.api.outcome import Answered, Outcome, in_slices
from broker.api.pacing import pieces
from broker.api.registry import api
from broker.api.wire_actor import wire_actor
from broker.control.commands import CreateTopics
from broker.control.topics import validate_topic_name
from broker.errors import ApiError, ErrorCode
from broker.metadata.image import Image, Topic
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
from broker.records.slices import SLICE, Slices, run_through
from broker.services.partitions import LEADER_EPOCH, NO_LEADER

CREATED_AT_ONCE: Final = 100
"""Topics that one request creates; our own limit. The others are unknown topics, which clients retry."""


@api(ApiKey.METADATA, versions=(0, 13))
def handle(message: MetadataRequest, context: RequestContext, broker: Broker) -> Outcome | Awaitable[Outcome]:
    if message.topics is None or (context.api_version == 0 and not message.topics):
        image = broker.control.image
        return in_slices(_all_topics(image, context, broker))
    if context.api_version < 12 and any(
        topic.name is None or topic.topic_id != ZERO_UUID for topic in message.topics
    ):
        # Versions 10 and 11 have the topic id field but ignore it, as in Kafka.
        refused = [MetadataResponseTopic(ErrorCode.INVALID_REQUEST, t.name or "") for t in message.topics]
        return Answered(_reply(refused, context, broker))
    return in_slices(_respond(message.topics, message, context, broker))


def _respond(
    asked: list[MetadataRequestTopic], message: MetadataRequest, context: RequestContext, broker: Broker
) -> Slices[Outcome | Awaitable[Outcome]]:
    """Look up the topics and start to create the missing ones that may be created."""
    may_create = message.allow_auto_topic_creation if context.api_version >= 4 else True
    creates = may_create and broker.topic_defaults.auto_create_topics
    answers: list[MetadataResponseTopic] = []
    missing: dict[str, list[MetadataResponseTopic]] = {}
    image, known = broker.control.image, True
    went_offline = broker.partitions.went_offline
    resting = SLICE
    for topic in asked:
        answer = _find(topic, broker)
        answers.append(answer)
        if len(answer.partitions) == SLICE:
            yield from _complete(answer, broker)
        resting -= 1 + len(answer.partitions)
        if answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            known = False
            if creates and answer.name is not None:
                _note_missing(answer.name, answer, missing)
        if resting <= 0:
            resting = SLICE
            yield None
    if missing:
        return _create(missing, answers, context, broker)
    return Answered(
        _reply(answers, context, broker), cacheable=known and _is_current(image, went_offline, broker)
    )


def _note_missing(
    name: str, answer: MetadataResponseTopic, missing: dict[str, list[MetadataResponseTopic]]
) -> None:
    if name not in missing and len(missing) == CREATED_AT_ONCE:
        return
    try:
        validate_topic_name(name)
    except ApiError as error:
        answer.error_code = error.code
    else:
        missing.setdefault(name, []).append(answer)


async def _create(
    missing: dict[str, list[MetadataResponseTopic]],
    answers: list[MetadataResponseTopic],
    context: RequestContext,
    broker: Broker,
) -> Outcome:
    """Create the topics of `missing`, which maps each name to its entries in `answers`."""
    topics = tuple(automatic_topic(name, broker) for name in missing)
    command = CreateTopics(topics, charge=automatic_charge(context, broker))
    outcomes = await broker.control.apply(command, wire_actor(context, broker, automatic=True))
    errors = {outcome.name: outcome.error for outcome in outcomes if not outcome.ok}
    for name, unknown in missing.items():
        topic = broker.control.image.topics.get(name)
        error = errors.get(name)
        for answer in unknown:
            if topic is not None:
                made = _known(topic, broker)
                run_through(_complete(made, broker))
                answer.error_code, answer.topic_id = made.error_code, made.topic_id
                answer.is_internal, answer.partitions = made.is_internal, made.partitions
            elif error not in (None, ErrorCode.TOPIC_ALREADY_EXISTS):
                answer.error_code = int(error)
    return Answered(_reply(answers, context, broker))


def _all_topics(image: Image, context: RequestContext, broker: Broker) -> Slices[Outcome]:
    answers = []
    went_offline = broker.partitions.went_offline
    resting = SLICE
    for topic in image.topics.values():
        answers.append(_known(topic, broker))
        if topic.partitions > SLICE:
            yield from _complete(answers[-1], broker)
        resting -= 1 + topic.partitions
        if resting <= 0:
            resting = SLICE
            yield None
    return Answered(_reply(answers, context, broker), cacheable=_is_current(image, went_offline, broker))


def _is_current(image: Image, went_offline: int, broker: Broker) -> bool:
    """Whether a response is still correct that started from this image and offline count."""
    return broker.control.image is image and broker.partitions.went_offline == went_offline


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
    """Describe a topic with its first SLICE partitions; `_complete` adds the others."""
    partitions = _partitions(topic, range(min(topic.partitions, SLICE)), broker)
    return MetadataResponseTopic(ErrorCode.NONE, topic.name, topic.topic_id, topic.internal, partitions)


def _complete(answer: MetadataResponseTopic, broker: Broker) -> Slices[None]:
    topic = broker.control.image.topics.get(answer.name or "")
    if topic is None or topic.topic_id != answer.topic_id:
        return
    for some in pieces(range(SLICE, topic.partitions)):
        yield None
        answer.partitions += _partitions(topic, some, broker)


def _partitions(topic: Topic, indexes: Iterable[int], broker: Broker) -> list[MetadataResponsePartition]:
    node = broker.config.node_id
    offline = broker.partitions.offline(topic.name)
    return [
        MetadataResponsePartition(ErrorCode.NONE, index, node, LEADER_EPOCH, [node], [node], [])
        if index not in offline
        else MetadataResponsePartition(
            ErrorCode.KAFKA_STORAGE_ERROR, index, NO_LEADER, LEADER_EPOCH, [node], [], [node]
        )
        for index in indexes
    ]


def _reply(topics: list[MetadataResponseTopic], context: RequestContext, broker: Broker) -> MetadataResponse:
    endpoint = broker.endpoints[context.connection.listener]
    node = broker.config.node_id
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node, endpoint.host, endpoint.port, None)],
        cluster_id=broker.control.image.cluster_id,
        controller_id=node,
        topics=topics,
    )

"""Metadata: brokers, topics, partitions and leaders.

Versions 0-13; responses have topic ids from version 10, and requests may use them from 12. A null topic list
selects all topics (in version 0, an empty list). A missing topic is created if `auto.create.topics.enable`
and the client allow it, and the client may create topics, at most 100 by one request; Weir alone creates
`__weir_` topics. Many topics are looked up in slices. Responses without errors are cached until the metadata
image changes or a partition goes offline. An offline partition has KAFKA_STORAGE_ERROR, no leader, and its
replica among the offline replicas (Kafka: LEADER_NOT_AVAILABLE; clients retry both, and this code names the
cause). Authorized operations, from version 8, are all those of a resource if there is no authorizer. Left
out: racks.
"""

from collections.abc import Awaitable, Iterable
from typing import Final

from broker.api.registry import api
from broker.api.requests.automatic_topics import automatic_topic
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response, in_slices, outcome_of
from broker.api.requests.pacing import pieces
from broker.api.requests.services import MetadataServices
from broker.api.security.client_security import CREATES_TOPICS
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import SLICE, Slices, run_through
from broker.controller.commands import CreateTopics
from broker.controller.topics import validate_topic_name
from broker.metadata.image import Image, Topic, is_reserved
from broker.partitions.partitions import LEADER_EPOCH, NO_LEADER
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
from broker.security.acl.acl import Operation, ResourceType

UNAUTHORIZED: Final = frozenset(
    {ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INVALID_REQUEST}
)
"""Errors of topics without authorized operations, as in Kafka."""

CREATED_AT_ONCE: Final = 100
"""Topics that one request creates; our own limit. The others are unknown topics, which clients retry."""


@api(ApiKey.METADATA, versions=(0, 13), services=MetadataServices)
def handle(
    message: MetadataRequest, context: RequestContext, services: MetadataServices
) -> Outcome | Awaitable[Outcome]:
    if message.topics is None or (context.api_version == 0 and not message.topics):
        image = services.control.image
        return in_slices(_all_topics(image, message, context, services))
    if context.api_version < 12 and any(
        topic.name is None or topic.topic_id != ZERO_UUID for topic in message.topics
    ):
        # Versions 10 and 11 have the topic id field but ignore it, as in Kafka.
        refused = [
            MetadataResponseTopic(ErrorCode.INVALID_REQUEST, each.name or "", each.topic_id)
            for each in message.topics
        ]
        return Response(_reply(refused, message, context, services))
    return in_slices(_respond(message.topics, message, context, services))


def _respond(
    requested: list[MetadataRequestTopic],
    message: MetadataRequest,
    context: RequestContext,
    services: MetadataServices,
) -> Slices[Outcome | Awaitable[Outcome]]:
    """Look up the topics and start to create the missing ones that may be created."""
    may_create = message.allow_auto_topic_creation if context.api_version >= 4 else True
    creates = may_create and services.control.config.topics.auto_create_topics
    responses: list[MetadataResponseTopic] = []
    missing: dict[str, list[MetadataResponseTopic]] = {}
    image, known = services.control.image, True
    went_offline = services.partitions.went_offline
    security = services.security
    has_role = security.actor(context, authorized=True).role >= CREATES_TOPICS
    creates_all = has_role and security.allows_cluster(context, Operation.CREATE, logs=False)
    for topic in requested:
        response = _find(topic, context, services)
        responses.append(response)
        if len(response.partitions) == SLICE:
            yield from _complete(response, services)
        if response.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            known = False
            name = response.name or ""
            if not creates or is_reserved(name):
                response.error_code = _code_of_missing(name)
            elif creates_all or (has_role and security.allows_topic(context, Operation.CREATE, name)):
                _note_missing(name, response, missing)
            else:
                response.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        yield None
    if missing:
        return _create(missing, responses, message, context, services)
    yield from _authorize(responses, message, context, services)
    return Response(
        _reply(responses, message, context, services),
        cacheable=known and _is_current(image, went_offline, services),
    )


def _note_missing(
    name: str, response: MetadataResponseTopic, missing: dict[str, list[MetadataResponseTopic]]
) -> None:
    if name not in missing and len(missing) == CREATED_AT_ONCE:
        return
    response.error_code = _code_of_missing(name)
    if response.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        missing.setdefault(name, []).append(response)


def _code_of_missing(name: str) -> ErrorCode:
    """Return INVALID_TOPIC_EXCEPTION for a name that no topic can have, as Kafka does."""
    try:
        validate_topic_name(name)
    except ApiError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def _create(
    missing: dict[str, list[MetadataResponseTopic]],
    responses: list[MetadataResponseTopic],
    message: MetadataRequest,
    context: RequestContext,
    services: MetadataServices,
) -> Outcome:
    """Create the topics of `missing`, which maps each name to its entries in `responses`."""
    topics = tuple(automatic_topic(name, services.control.config) for name in missing)
    command = CreateTopics(topics, charge=services.mutations.automatic_charge(context))
    outcomes = await services.control.apply(command, services.security.actor(context, automatic=True))
    errors = {outcome.name: outcome.error for outcome in outcomes if not outcome.ok}
    for name, unknown in missing.items():
        topic = services.control.image.topics.get(name)
        error = errors.get(name)
        for response in unknown:
            if topic is not None:
                made = _known(topic, services)
                run_through(_complete(made, services))
                response.error_code, response.topic_id = made.error_code, made.topic_id
                response.is_internal, response.partitions = made.is_internal, made.partitions
            elif error not in (None, ErrorCode.TOPIC_ALREADY_EXISTS):
                response.error_code = int(error)
    return outcome_of(_answer(responses, message, context, services))


def _answer(
    responses: list[MetadataResponseTopic],
    message: MetadataRequest,
    context: RequestContext,
    services: MetadataServices,
) -> Slices[Outcome]:
    yield from _authorize(responses, message, context, services)
    return Response(_reply(responses, message, context, services))


def _all_topics(
    image: Image, message: MetadataRequest, context: RequestContext, services: MetadataServices
) -> Slices[Outcome]:
    responses = []
    went_offline = services.partitions.went_offline
    for topic in image.topics.values():
        if services.security.allows_topic(context, Operation.DESCRIBE, topic.name, logs=False):
            responses.append(_known(topic, services))
            if topic.partitions > SLICE:
                yield from _complete(responses[-1], services)
        yield None
    yield from _authorize(responses, message, context, services)
    return Response(
        _reply(responses, message, context, services), cacheable=_is_current(image, went_offline, services)
    )


def _authorize(
    topics: list[MetadataResponseTopic],
    message: MetadataRequest,
    context: RequestContext,
    services: MetadataServices,
) -> Slices[None]:
    """Set the authorized operations of each topic, if the client wants them."""
    if not message.include_topic_authorized_operations:
        return
    security = services.security
    for topic in topics:
        if topic.name is not None and topic.error_code not in UNAUTHORIZED:
            topic.topic_authorized_operations = security.operations(context, ResourceType.TOPIC, topic.name)
        yield None


def _is_current(image: Image, went_offline: int, services: MetadataServices) -> bool:
    """Whether a response is still correct that started from this image and offline count."""
    return services.control.image is image and services.partitions.went_offline == went_offline


def _find(
    requested: MetadataRequestTopic, context: RequestContext, services: MetadataServices
) -> MetadataResponseTopic:
    """Describe a requested topic. A client that may not describe it does not learn whether it exists."""
    topics = services.control.image.topics
    if requested.topic_id != ZERO_UUID:
        hosted = services.partitions.by_id.get(requested.topic_id)
        if hosted is None or hosted.name not in topics:
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, requested.topic_id)
        if not services.security.allows_topic(context, Operation.DESCRIBE, hosted.name):
            return MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, requested.topic_id)
        return _known(topics[hosted.name], services)
    name = requested.name or ""
    if not services.security.allows_topic(context, Operation.DESCRIBE, name):
        return MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
    topic = topics.get(name)
    if topic is None:
        return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
    return _known(topic, services)


def _known(topic: Topic, services: MetadataServices) -> MetadataResponseTopic:
    """Describe a topic with its first SLICE partitions; `_complete` adds the others."""
    partitions = _partitions(topic, range(min(topic.partitions, SLICE)), services)
    return MetadataResponseTopic(ErrorCode.NONE, topic.name, topic.topic_id, topic.internal, partitions)


def _complete(response: MetadataResponseTopic, services: MetadataServices) -> Slices[None]:
    topic = services.control.image.topics.get(response.name or "")
    if topic is None or topic.topic_id != response.topic_id:
        return
    for some in pieces(range(SLICE, topic.partitions)):
        yield None
        response.partitions += _partitions(topic, some, services)


def _partitions(
    topic: Topic, indexes: Iterable[int], services: MetadataServices
) -> list[MetadataResponsePartition]:
    node = services.node_id
    offline = services.partitions.offline(topic.name)
    return [
        MetadataResponsePartition(ErrorCode.NONE, index, node, LEADER_EPOCH, [node], [node], [])
        if index not in offline
        else MetadataResponsePartition(
            ErrorCode.KAFKA_STORAGE_ERROR, index, NO_LEADER, LEADER_EPOCH, [node], [], [node]
        )
        for index in indexes
    ]


def _reply(
    topics: list[MetadataResponseTopic],
    message: MetadataRequest,
    context: RequestContext,
    services: MetadataServices,
) -> MetadataResponse:
    endpoint = services.endpoints[context.connection.listener]
    node = services.node_id
    reply = MetadataResponse(
        brokers=[MetadataResponseBroker(node, endpoint.host, endpoint.port, None)],
        cluster_id=services.control.image.cluster_id,
        controller_id=node,
        topics=topics,
    )
    if message.include_cluster_authorized_operations:
        reply.cluster_authorized_operations = services.security.cluster_operations(context)
    return reply

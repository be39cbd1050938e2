"""DeleteTopics: deletes topics and their records.

Versions 1-6; from 6 a topic can be named by its id (KIP-516). The metadata commit is the deletion: when the
response is sent, no client can see the topic, and its files are removed later. From 5 a client that has
exhausted its controller mutation quota is refused (KIP-599); before that the topic is deleted and the client
is throttled.
"""

from collections.abc import Awaitable
from typing import Final

from broker.api.registry import api
from broker.api.requests.change_limits import applied, entries_of, refused
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome
from broker.api.requests.services import TopicServices
from broker.common.errors import ErrorCode
from broker.common.slices import Slices
from broker.controller.commands import DeleteTopics, TopicOutcome, TopicRef
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from broker.protocol.schema import ZERO_UUID
from broker.security.acl.acl import Operation

DENIED: Final = "Topic authorization failed."


@api(ApiKey.DELETE_TOPICS, versions=(1, 6), services=TopicServices)
def handle(
    message: DeleteTopicsRequest, context: RequestContext, services: TopicServices
) -> Slices[Outcome | Awaitable[Outcome]]:
    requested: list[str | DeleteTopicState] = [*message.topic_names, *message.topics]
    doomed = yield from entries_of(requested, _wanted)
    if doomed is None:
        return (yield from refused(requested, _refused, lambda each: DeleteTopicsResponse(responses=each)))
    denied: list[TopicOutcome] = []
    if not services.security.allows_cluster(context, Operation.DELETE, logs=False):
        doomed, denied = yield from _authorized(doomed, context, services)
    mutations, version = services.mutations.of(context, strict_from=5), context.api_version
    return applied(
        lambda topics: DeleteTopics(topics, mutations.charge),
        doomed,
        services.security.actor(context, authorized=True),
        services.control,
        lambda each: DeletableTopicResult(
            each.name, each.topic_id, _wire_code(each.error, version), each.message
        ),
        lambda each: DeleteTopicsResponse(responses=each),
        denied,
        mutations,
    )


def _authorized(
    doomed: list[TopicRef], context: RequestContext, services: TopicServices
) -> Slices[tuple[list[TopicRef], list[TopicOutcome]]]:
    """Return the topics that the client may delete, and the outcomes of the others. An id does not reveal its
    name to a client that may not describe the topic, and a name not whether there is such a topic.
    """
    security, image = services.security, services.control.image
    allowed: list[TopicRef] = []
    denied: dict[TopicRef, TopicOutcome] = {}
    for each in doomed:
        yield None
        name = each.name
        if name is None and each.topic_id is not None:
            topic = image.topics_by_id.get(each.topic_id)
            name = None if topic is None else topic.name
        if name is None or (each.name is not None and each.topic_id is not None):
            allowed.append(each)  # an unknown id, or an invalid reference
            continue
        may_describe = security.allows_topic(context, Operation.DESCRIBE, name)
        if each.topic_id is None and (not may_describe or name not in image.topics):
            may_delete = may_describe  # the answer for a missing topic is that it is unknown
        else:
            may_delete = security.allows_topic(context, Operation.DELETE, name)
        if may_delete:
            allowed.append(each)
        else:
            denied[each] = TopicOutcome(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                DENIED,
                name if may_describe or each.topic_id is None else None,
                each.topic_id or ZERO_UUID,
            )
    return allowed, list(denied.values())


def _wanted(topic: str | DeleteTopicState) -> TopicRef:
    if isinstance(topic, str):
        return TopicRef(topic)
    return TopicRef(topic.name, None if topic.topic_id == ZERO_UUID else topic.topic_id)


def _refused(topic: str | DeleteTopicState, error: ErrorCode, message: str) -> DeletableTopicResult:
    wanted = _wanted(topic)
    return DeletableTopicResult(wanted.name, wanted.topic_id or ZERO_UUID, error, message)


def _wire_code(error: ErrorCode, version: int) -> ErrorCode:
    """Return the code for `version`: TOPIC_DELETION_DISABLED exists from version 3 only."""
    is_unknown_code = version < 3 and error is ErrorCode.TOPIC_DELETION_DISABLED
    return ErrorCode.INVALID_REQUEST if is_unknown_code else error

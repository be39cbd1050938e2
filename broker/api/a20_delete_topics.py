"""DeleteTopics: removes topics and their records.

Versions 1-6; from 6 on a topic can be named by its id (KIP-516). The metadata commit is the deletion: when
the answer leaves, the topic is gone for every client, and its files go later. From 5 on a topic stays where
the client has used up its controller mutation quota (KIP-599); before that it goes, and the client waits.
"""

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.mutations import Mutations
from broker.api.outcome import Answered, Outcome
from broker.api.registry import api
from broker.api.wire_actor import wire_actor
from broker.control.commands import DeleteTopics, TopicRef
from broker.errors import ErrorCode
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from broker.protocol.schema import ZERO_UUID


@api(ApiKey.DELETE_TOPICS, versions=(1, 6))
async def handle(message: DeleteTopicsRequest, context: RequestContext, broker: Broker) -> Outcome:
    by_name = [TopicRef(name) for name in message.topic_names]
    by_id = [
        TopicRef(topic.name, None if topic.topic_id == ZERO_UUID else topic.topic_id)
        for topic in message.topics
    ]
    mutations = Mutations(context, broker, strict_from=5)
    command = DeleteTopics((*by_name, *by_id), mutations.charge)
    outcomes = await broker.control.apply(command, wire_actor(context, broker))
    results = [
        DeletableTopicResult(each.name, each.topic_id, _said(each.error, context.api_version), each.message)
        for each in outcomes
    ]
    throttle = mutations.throttle()
    return Answered(DeleteTopicsResponse(throttle.throttle_ms if throttle else 0, results), throttle)


def _said(error: ErrorCode, version: int) -> ErrorCode:
    """Before version 3 nobody had heard of TOPIC_DELETION_DISABLED."""
    unheard_of = version < 3 and error is ErrorCode.TOPIC_DELETION_DISABLED
    return ErrorCode.INVALID_REQUEST if unheard_of else error

"""DeleteTopics at the gateway: forwards the topics that the client's controller mutation quota allows.

Forwarded untouched while no such quota is set. A topic is charged the number of its partitions, which the
upstream cluster's metadata has by name and by id; one that does not exist is free. From version 5 a client
that has exhausted its quota is refused; before that it is throttled.
The gateways' own topics are always refused.
"""

from collections.abc import Awaitable
from functools import partial
from typing import Final

import trio

from broker.api.requests.change_limits import entries_of, refused
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, in_slices
from broker.common.slices import Slices, SliceTimer
from broker.controller.commands import TopicRef
from broker.gateway.apis.mutations import MutationServices, TopicCharges
from broker.gateway.apis.work import encoded, forward, in_own_task
from broker.gateway.asking import ask
from broker.gateway.own_topics import is_ours
from broker.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from broker.protocol.schema import ZERO_UUID

STRICT_FROM: Final = 5


def handle(
    message: DeleteTopicsRequest, context: RequestContext, services: MutationServices
) -> Outcome | Awaitable[Outcome]:
    return in_slices(_read(message, context, services))


def _read(
    message: DeleteTopicsRequest, context: RequestContext, services: MutationServices
) -> Slices[Outcome | Awaitable[Outcome]]:
    requested: list[str | DeleteTopicState] = [*message.topic_names, *message.topics]
    topics = yield from entries_of(requested, _ref)
    if topics is None:
        return (yield from refused(requested, _of_topic, lambda each: DeleteTopicsResponse(responses=each)))
    return in_own_task(partial(_delete, message, topics, context, services))


async def _delete(
    message: DeleteTopicsRequest, topics: list[TopicRef], context: RequestContext, services: MutationServices
) -> Outcome:
    charges: TopicCharges[TopicRef] = TopicCharges(services, context, STRICT_FROM)
    for topic in topics:
        if is_ours(topic.name) or (topic.topic_id is not None and services.own.has_id(topic.topic_id)):
            charges.refuse_own(topic)
    if not charges.is_limited and not charges.refused:
        return await forward(context, message)
    counts: dict[TopicRef, int | None] = {}
    if charges.is_limited:
        counts = await services.counts.of([each for each in topics if _is_valid(each)])
    timer = SliceTimer()
    for topic in topics:
        charges.charge(topic, counts.get(topic) or 0)
        if timer.is_over():
            await trio.lowlevel.checkpoint()
    reply = DeleteTopicsResponse()
    if charges.refused:
        message.topic_names = [each for each in message.topic_names if _ref(each) not in charges.refused]
        message.topics = [each for each in message.topics if _ref(each) not in charges.refused]
    if message.topic_names or message.topics or not charges.refused:
        reply = await ask(context, message)
        services.counts.forget(topics)
    for result in reply.responses:
        if result.error_code:
            # The response has both the name and the id of a topic, however the request named it.
            charges.settle(TopicRef(result.name), 0)
            charges.settle(TopicRef(None, result.topic_id), 0)
        if timer.is_over():
            await trio.lowlevel.checkpoint()
    reply.responses += charges.refusals(_refusal)
    return encoded(charges.response(reply), len(reply.responses))


def _ref(topic: str | DeleteTopicState) -> TopicRef:
    if isinstance(topic, str):
        return TopicRef(topic)
    return TopicRef(topic.name, None if topic.topic_id == ZERO_UUID else topic.topic_id)


def _is_valid(topic: TopicRef) -> bool:
    """Return whether a topic is named by its name or by its id, and not by both."""
    return (topic.name is None) is not (topic.topic_id is None)


def _of_topic(topic: str | DeleteTopicState, error: int, message: str | None) -> DeletableTopicResult:
    return _refusal(_ref(topic), error, message)


def _refusal(topic: TopicRef, error: int, message: str | None) -> DeletableTopicResult:
    return DeletableTopicResult(topic.name, topic.topic_id or ZERO_UUID, error, message)

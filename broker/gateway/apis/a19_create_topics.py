"""CreateTopics at the gateway: forwards the topics that the client's controller mutation quota allows, and
none of Weir's.

Forwarded untouched while no such quota is set and no name looks like one of Weir's. A topic is charged its
number of partitions: of its assignments, or `num_partitions`; for -1 the upstream cluster's num.partitions,
and from version 5 what the response says. From 6 a client that has exhausted its quota is refused; before
that it is throttled.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import trio

from broker.api.requests.change_limits import entries_of, refused
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, in_slices
from broker.common.errors import ErrorCode
from broker.common.slices import Slices, SliceTimer
from broker.controller.topics import ONLY_BY_WEIR
from broker.gateway.apis.deciding import may_name_reserved
from broker.gateway.apis.mutations import MutationServices, TopicCharges
from broker.gateway.apis.work import encoded, forward, in_own_task
from broker.gateway.asking import ask
from broker.gateway.routes import AnswersVersion
from broker.metadata.image import is_reserved
from broker.network.connection.channel import Channel
from broker.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

STRICT_FROM: Final = 6
COUNTS_FROM: Final = 5
"""The first version whose response has the number of partitions."""


def answers_reserved(has_quota: Callable[[], bool]) -> AnswersVersion:
    """Return the answer for all versions: whether any client has a controller mutation quota now, or a name
    may be one of Weir's.
    """

    def answers(frame: memoryview | None, _channel: Channel) -> bool:
        return has_quota() or may_name_reserved(frame)

    return lambda _version: answers


def handle(
    message: CreateTopicsRequest, context: RequestContext, services: MutationServices
) -> Outcome | Awaitable[Outcome]:
    return in_slices(_read(message, context, services))


def _read(
    message: CreateTopicsRequest, context: RequestContext, services: MutationServices
) -> Slices[Outcome | Awaitable[Outcome]]:
    topics = yield from entries_of(message.topics, lambda topic: topic, _parts)
    if topics is None:
        return (yield from refused(message.topics, _of_topic, lambda each: CreateTopicsResponse(topics=each)))
    return in_own_task(partial(_create, message, context, services))


async def _create(
    message: CreateTopicsRequest, context: RequestContext, services: MutationServices
) -> Outcome:
    charges: TopicCharges[str] = TopicCharges(services, context, STRICT_FROM)
    reserved = {each.name for each in message.topics if is_reserved(each.name)}
    if not charges.is_limited and not reserved:
        return await forward(context, message)
    timer = SliceTimer()
    for topic in message.topics if charges.is_limited else ():
        if topic.name in reserved:
            continue
        partitions = len(topic.assignments) or topic.num_partitions
        charges.charge(topic.name, await services.counts.default() if partitions == -1 else partitions)
        if timer.is_over():
            await trio.lowlevel.checkpoint()
    reply = CreateTopicsResponse()
    refused = charges.refused.keys() | reserved
    if refused:
        message.topics = [each for each in message.topics if each.name not in refused]
    if message.topics or not refused:
        reply = await ask(context, message)
    for result in reply.topics:
        charges.settle(result.name, _created(result, context.api_version))
        if timer.is_over():
            await trio.lowlevel.checkpoint()
    reply.topics += charges.refusals(_refusal)
    reply.topics += [_refusal(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ONLY_BY_WEIR) for name in reserved]
    return encoded(charges.response(reply), len(reply.topics))


def _created(result: CreatableTopicResult, version: int) -> int | None:
    """Return the number of partitions that were created, None if the response does not say it."""
    if result.error_code:
        return 0
    return result.num_partitions if version >= COUNTS_FROM and result.num_partitions >= 0 else None


def _parts(topic: CreatableTopic) -> int:
    return len(topic.configs) + len(topic.assignments) // 10


def _of_topic(topic: CreatableTopic, error: int, message: str | None) -> CreatableTopicResult:
    return _refusal(topic.name, error, message)


def _refusal(name: str, error: int, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name, error_code=error, error_message=message, configs=[])

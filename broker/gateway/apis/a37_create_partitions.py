"""CreatePartitions at the gateway: forwards the topics that the client's controller mutation quota allows.

Forwarded untouched while no such quota is set. A topic is charged the partitions that it gains, by the
upstream cluster's metadata. From version 3 a client that has exhausted its quota is refused; before that it
is throttled.
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
from broker.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

STRICT_FROM: Final = 3


def handle(
    message: CreatePartitionsRequest, context: RequestContext, services: MutationServices
) -> Outcome | Awaitable[Outcome]:
    return in_slices(_read(message, context, services))


def _read(
    message: CreatePartitionsRequest, context: RequestContext, services: MutationServices
) -> Slices[Outcome | Awaitable[Outcome]]:
    topics = yield from entries_of(message.topics, lambda topic: TopicRef(topic.name), _parts)
    if topics is None:
        return (
            yield from refused(message.topics, _of_topic, lambda each: CreatePartitionsResponse(results=each))
        )
    return in_own_task(partial(_create, message, topics, context, services))


async def _create(
    message: CreatePartitionsRequest,
    topics: list[TopicRef],
    context: RequestContext,
    services: MutationServices,
) -> Outcome:
    charges: TopicCharges[str] = TopicCharges(services, context, STRICT_FROM)
    for topic in message.topics:
        if is_ours(topic.name):
            charges.refuse_own(topic.name)
    if not charges.is_limited and not charges.refused:
        return await forward(context, message)
    counts = await services.counts.of(topics) if charges.is_limited else {}
    timer = SliceTimer()
    for ref, topic in zip(topics, message.topics, strict=True):
        before = counts.get(ref)
        charges.charge(topic.name, 0 if before is None else topic.count - before)
        if timer.is_over():
            await trio.lowlevel.checkpoint()
    reply = CreatePartitionsResponse()
    if charges.refused:
        message.topics = [each for each in message.topics if each.name not in charges.refused]
    if message.topics or not charges.refused:
        reply = await ask(context, message)
        services.counts.forget(topics)
    for result in reply.results:
        charges.settle(result.name, 0 if result.error_code else None)
        if timer.is_over():
            await trio.lowlevel.checkpoint()
    reply.results += charges.refusals(CreatePartitionsTopicResult)
    return encoded(charges.response(reply), len(reply.results))


def _parts(topic: CreatePartitionsTopic) -> int:
    return len(topic.assignments or ()) // 10


def _of_topic(topic: CreatePartitionsTopic, error: int, message: str | None) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(topic.name, error, message)

"""CreatePartitions: more partitions for topics that exist.

Versions 0-3. `count` is the new total. Each topic is accepted or refused by itself.
Left out: the controller mutation quota of version 3 (KIP-599); it belongs to a later issue.
"""

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.outcome import Answered, Outcome
from broker.api.registry import api
from broker.api.wire_actor import wire_actor
from broker.control.commands import CreatePartitions, NewPartitions
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


@api(ApiKey.CREATE_PARTITIONS, versions=(0, 3))
async def handle(message: CreatePartitionsRequest, context: RequestContext, broker: Broker) -> Outcome:
    command = CreatePartitions(tuple(_wanted(topic) for topic in message.topics), message.validate_only)
    outcomes = await broker.control.apply(command, wire_actor(context, broker))
    return Answered(
        CreatePartitionsResponse(
            results=[CreatePartitionsTopicResult(each.topic, each.error, each.message) for each in outcomes]
        )
    )


def _wanted(topic: CreatePartitionsTopic) -> NewPartitions:
    assignments = topic.assignments
    if assignments is None:
        return NewPartitions(topic.name, topic.count)
    return NewPartitions(topic.name, topic.count, tuple(tuple(each.broker_ids) for each in assignments))

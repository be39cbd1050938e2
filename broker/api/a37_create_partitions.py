"""CreatePartitions: more partitions for topics that exist.

Versions 0-3. `count` is the new total. Each topic is accepted or refused by itself. From 3 on a topic is
refused where the client has used up its controller mutation quota (KIP-599); before that it gets its
partitions, and the client waits.
"""

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.mutations import Mutations
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
    mutations = Mutations(context, broker, strict_from=3)
    wanted = tuple(_wanted(topic) for topic in message.topics)
    command = CreatePartitions(wanted, message.validate_only, mutations.charge)
    outcomes = await broker.control.apply(command, wire_actor(context, broker))
    results = [CreatePartitionsTopicResult(each.topic, each.error, each.message) for each in outcomes]
    throttle = mutations.throttle()
    return Answered(CreatePartitionsResponse(throttle.throttle_ms if throttle else 0, results), throttle)


def _wanted(topic: CreatePartitionsTopic) -> NewPartitions:
    assignments = topic.assignments
    if assignments is None:
        return NewPartitions(topic.name, topic.count)
    return NewPartitions(topic.name, topic.count, tuple(tuple(each.broker_ids) for each in assignments))

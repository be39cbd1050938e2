"""CreatePartitions: adds partitions to existing topics.

Versions 0-3. `count` is the new total. Each topic succeeds or fails alone. __consumer_offsets,
__transaction_state and __share_group_state do not grow (INVALID_REQUEST): keys choose their partitions, and
Kafka, which lets them grow, finds no state of most keys after the next start. From 3 a client that has
exhausted its controller mutation quota is refused (KIP-599); before that the partitions are created and the
client is throttled.
"""

from collections.abc import Awaitable

from broker.api.registry import api
from broker.api.requests.change_limits import applied, divided, entries_of, refused
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome
from broker.api.requests.services import TopicServices
from broker.common.errors import ErrorCode
from broker.common.slices import Slices
from broker.controller.commands import CreatePartitions, NewPartitions, PartitionsOutcome
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from broker.security.acl.acl import Operation


@api(ApiKey.CREATE_PARTITIONS, versions=(0, 3), services=TopicServices)
def handle(
    message: CreatePartitionsRequest, context: RequestContext, services: TopicServices
) -> Slices[Outcome | Awaitable[Outcome]]:
    wanted = yield from entries_of(message.topics, _wanted, _parts)
    if wanted is None:
        return (
            yield from refused(
                message.topics,
                lambda topic, error, why: CreatePartitionsTopicResult(topic.name, error, why),
                lambda each: CreatePartitionsResponse(results=each),
            )
        )
    security = services.security
    wanted, denied = yield from divided(
        wanted,
        lambda each: each.topic,
        lambda name: security.allows_topic(context, Operation.ALTER, name),
    )
    validate_only, mutations = message.validate_only, services.mutations.of(context, strict_from=3)
    return applied(
        lambda topics: CreatePartitions(topics, validate_only, mutations.charge),
        wanted,
        security.actor(context, authorized=True),
        services.control,
        lambda each: CreatePartitionsTopicResult(each.topic, each.error, each.message),
        lambda each: CreatePartitionsResponse(results=each),
        [PartitionsOutcome(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, name) for name in denied],
        mutations,
    )


def _parts(topic: CreatePartitionsTopic) -> int:
    # The number of assignments is bounded by the limit on partitions.
    return len(topic.assignments or ()) // 10


def _wanted(topic: CreatePartitionsTopic) -> NewPartitions:
    assignments = topic.assignments
    if assignments is None:
        return NewPartitions(topic.name, topic.count)
    return NewPartitions(topic.name, topic.count, tuple(tuple(each.broker_ids) for each in assignments))

"""CreateTopics: creates topics.

Versions 2-7. Each topic succeeds or fails alone; partitions and replicas of -1 (from 4) mean the broker's
defaults. The response describes the topic with its configs from version 5 and its id from 7. `validate_only`
returns the same response and changes nothing. When the response is sent, the topic accepts writes. From 6 a
client that has exhausted its controller mutation quota is refused (KIP-599); before that the topic is created
and the client is throttled.
"""

from collections.abc import Awaitable

from broker.api.a32_describe_configs import as_kafka_describes
from broker.api.registry import api
from broker.api.requests.change_limits import applied, divided, entries_of, refused
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome
from broker.api.requests.services import TopicServices
from broker.common.errors import ErrorCode
from broker.common.slices import Slices
from broker.controller.commands import CreateTopics, NewTopic, TopicOutcome
from broker.controller.describe import describe_topic
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from broker.security.acl.acl import Operation

Described = dict[frozenset[tuple[str, str]], list[CreatableTopicConfigs]]
"""The described configs of a topic, by its own configs."""


@api(ApiKey.CREATE_TOPICS, versions=(2, 7), services=TopicServices)
def handle(
    message: CreateTopicsRequest, context: RequestContext, services: TopicServices
) -> Slices[Outcome | Awaitable[Outcome]]:
    wanted = yield from entries_of(message.topics, _wanted, _parts)
    if wanted is None:
        return (yield from refused(message.topics, _refused, lambda each: CreateTopicsResponse(topics=each)))
    security = services.security
    denied: list[str] = []
    if not security.allows_cluster(context, Operation.CREATE, logs=False):
        wanted, denied = yield from divided(
            wanted,
            lambda each: each.name,
            lambda name: security.allows_topic(context, Operation.CREATE, name),
        )
    validate_only, mutations = message.validate_only, services.mutations.of(context, strict_from=6)
    described: Described = {}
    return applied(
        lambda topics: CreateTopics(topics, validate_only, mutations.charge),
        wanted,
        security.actor(context, authorized=True),
        services.control,
        lambda each: _result(each, context, services, described),
        lambda each: CreateTopicsResponse(topics=each),
        [
            TopicOutcome(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.", name)
            for name in denied
        ],
        mutations,
    )


def _parts(topic: CreatableTopic) -> int:
    # The number of assignments is bounded by the limit on partitions.
    return len(topic.configs) + len(topic.assignments) // 10


def _refused(topic: CreatableTopic, error: ErrorCode, message: str) -> CreatableTopicResult:
    return CreatableTopicResult(topic.name, error_code=error, error_message=message, configs=[])


def _wanted(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple((config.name, config.value) for config in topic.configs),
        tuple((each.partition_index, tuple(each.broker_ids)) for each in topic.assignments),
    )


def _result(
    outcome: TopicOutcome, context: RequestContext, services: TopicServices, described: Described
) -> CreatableTopicResult:
    if not outcome.ok:
        return CreatableTopicResult(
            outcome.name or "", error_code=outcome.error, error_message=outcome.message, configs=[]
        )
    name, control = outcome.name or "", services.control
    if not services.security.allows_topic(context, Operation.DESCRIBE_CONFIGS, name, logs=False):
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return CreatableTopicResult(name, outcome.topic_id, topic_config_error_code=error, configs=[])
    configs = frozenset(outcome.configs)
    if configs not in described:
        # Thousands of topics in one request are usually alike, and describing one takes 0.1 ms.
        described[configs] = [
            CreatableTopicConfigs(row.name, row.value, row.read_only, row.source, row.sensitive)
            for row in as_kafka_describes(describe_topic(dict(configs), control.image, control.configuration))
        ]
    return CreatableTopicResult(
        name,
        outcome.topic_id,
        num_partitions=outcome.partitions,
        replication_factor=outcome.replication_factor,
        configs=described[configs],
    )

"""CreateTopics: new topics.

Versions 2-7. Each topic is accepted or refused by itself; partitions and replicas of -1 (4 on) stand for
the broker's defaults. From 5 on the answer says what the topic has become, settings included, from 7 on its
id. `validate_only` answers the same and changes nothing. When the answer leaves, the topic can be written
to. From 6 on a topic is refused where the client has used up its controller mutation quota (KIP-599);
before that it is made, and the client waits.
"""

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.mutations import Mutations
from broker.api.outcome import Answered, Outcome
from broker.api.registry import api
from broker.api.wire_actor import wire_actor
from broker.control.commands import CreateTopics, NewTopic, TopicOutcome
from broker.control.control import Control
from broker.control.describe import describe_topic
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

Described = dict[frozenset[tuple[str, str]], list[CreatableTopicConfigs]]
"""The settings of a topic as they are told, by those of its own."""


@api(ApiKey.CREATE_TOPICS, versions=(2, 7))
async def handle(message: CreateTopicsRequest, context: RequestContext, broker: Broker) -> Outcome:
    mutations = Mutations(context, broker, strict_from=6)
    wanted = tuple(_wanted(topic) for topic in message.topics)
    command = CreateTopics(wanted, message.validate_only, mutations.charge)
    outcomes = await broker.control.apply(command, wire_actor(context, broker))
    described: Described = {}
    topics = [_result(each, broker.control, described) for each in outcomes]
    throttle = mutations.throttle()
    return Answered(CreateTopicsResponse(throttle.throttle_ms if throttle else 0, topics), throttle)


def _wanted(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple((config.name, config.value) for config in topic.configs),
        tuple((each.partition_index, tuple(each.broker_ids)) for each in topic.assignments),
    )


def _result(outcome: TopicOutcome, control: Control, described: Described) -> CreatableTopicResult:
    if not outcome.ok:
        return CreatableTopicResult(
            outcome.name or "", error_code=outcome.error, error_message=outcome.message, configs=[]
        )
    configs = frozenset(outcome.configs)
    if configs not in described:
        # Thousands of topics in one request are usually alike, and one takes a tenth of a millisecond.
        described[configs] = [
            CreatableTopicConfigs(row.name, row.value, row.read_only, row.source, row.sensitive)
            for row in describe_topic(dict(configs), control.image, control.configuration)
        ]
    return CreatableTopicResult(
        outcome.name or "",
        outcome.topic_id,
        num_partitions=outcome.partitions,
        replication_factor=outcome.replication_factor,
        configs=described[configs],
    )

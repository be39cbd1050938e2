"""DeleteTopics: deletes topics and their records.

Versions 1-6; from 6 a topic can be named by its id (KIP-516). The metadata commit is the deletion: when the
response is sent, no client can see the topic, and its files are removed later. From 5 a client that has
exhausted its controller mutation quota is refused (KIP-599); before that the topic is deleted and the client
is throttled.
"""

from collections.abc import Awaitable

from broker.api.change_limits import Mutations, entries_of, refused, results_of
from broker.api.context import RequestContext
from broker.api.outcome import Outcome, Response, in_slices, outcome_of
from broker.api.pacing import Pace
from broker.api.registry import api
from broker.api.services import TopicServices
from broker.control.commands import DeleteTopics, TopicOutcome, TopicRef
from broker.errors import ErrorCode
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from broker.protocol.schema import ZERO_UUID
from broker.records.slices import Slices


@api(ApiKey.DELETE_TOPICS, versions=(1, 6), services=TopicServices)
def handle(
    message: DeleteTopicsRequest, context: RequestContext, services: TopicServices
) -> Outcome | Awaitable[Outcome]:
    return in_slices(_read(message, context, services))


def _read(
    message: DeleteTopicsRequest, context: RequestContext, services: TopicServices
) -> Slices[Outcome | Awaitable[Outcome]]:
    requested: list[str | DeleteTopicState] = [*message.topic_names, *message.topics]
    doomed = yield from entries_of(requested, _wanted, Pace())
    if doomed is None:
        return (yield from refused(requested, _refused, lambda each: DeleteTopicsResponse(responses=each)))
    return _delete(doomed, context, services)


def _wanted(topic: str | DeleteTopicState) -> TopicRef:
    if isinstance(topic, str):
        return TopicRef(topic)
    return TopicRef(topic.name, None if topic.topic_id == ZERO_UUID else topic.topic_id)


def _refused(topic: str | DeleteTopicState, error: ErrorCode, message: str) -> DeletableTopicResult:
    wanted = _wanted(topic)
    return DeletableTopicResult(wanted.name, wanted.topic_id or ZERO_UUID, error, message)


async def _delete(doomed: list[TopicRef], context: RequestContext, services: TopicServices) -> Outcome:
    mutations = services.mutations.of(context, strict_from=5)
    command = DeleteTopics(tuple(doomed), mutations.charge)
    outcomes = await services.control.apply(command, services.security.actor(context))
    del command
    return outcome_of(_results(outcomes, doomed, mutations, context))


def _results(
    outcomes: list[TopicOutcome], done: list[TopicRef], mutations: Mutations, context: RequestContext
) -> Slices[Outcome]:
    results = yield from results_of(
        lambda each: DeletableTopicResult(
            each.name, each.topic_id, _wire_code(each.error, context.api_version), each.message
        ),
        outcomes,
        done,
        Pace(),
    )
    throttle = mutations.throttle()
    return Response(DeleteTopicsResponse(throttle.throttle_ms if throttle else 0, results), throttle)


def _wire_code(error: ErrorCode, version: int) -> ErrorCode:
    """Return the code for `version`: TOPIC_DELETION_DISABLED exists from version 3 only."""
    unheard_of = version < 3 and error is ErrorCode.TOPIC_DELETION_DISABLED
    return ErrorCode.INVALID_REQUEST if unheard_of else error

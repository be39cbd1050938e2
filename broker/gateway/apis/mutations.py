"""CreateTopics, DeleteTopics and CreatePartitions at the gateway: forwards the topics that the client's
controller mutation quota allows, and none of Weir's. (KIP-599)

A request is forwarded untouched while no such quota is set and no name can be one of Weir's. A topic is
charged the number of partitions

* that it gets, if it is created: of its assignments, or `num_partitions`; for -1 the upstream cluster's
  num.partitions, and from version 5 what the response says;
* that it has, if it is deleted by name or by id; one that does not exist is free;
* that it gains.

The gateway charges a topic before the request goes upstream, and corrects the charge when the upstream
cluster has answered: a topic that it refuses costs nothing, as on a broker. So clients pay for what they
change, and a topic that the quota refuses never reaches the cluster. From the versions below, a client that
has exhausted its quota is refused; before them it is throttled.
"""

from collections.abc import Awaitable, Callable, Collection, Coroutine, Hashable
from functools import partial
from typing import Any, Final, Generic, TypeVar

import msgspec
import trio

from broker.api.requests.change_limits import ControllerMutations, Mutations, entries_of, refused
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Hangup, Outcome, Response, in_slices
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices, SliceTimer
from broker.controller.commands import TopicRef
from broker.controller.topics import ONLY_BY_WEIR
from broker.gateway.apis.asking import ask, encoded, forward, in_own_task, may_name_reserved
from broker.gateway.apis.own_topics import MESSAGE
from broker.gateway.apis.partition_counts import PartitionCounts
from broker.gateway.own_topics import UNKNOWN, OwnTopics, is_ours
from broker.gateway.routes import AnswersVersion
from broker.metadata.image import is_reserved
from broker.network.connection.channel import Channel
from broker.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from broker.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from broker.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from broker.protocol.schema import ZERO_UUID

CREATION_STRICT_FROM: Final = 6
DELETION_STRICT_FROM: Final = 5
PARTITIONS_STRICT_FROM: Final = 3
"""The first versions whose clients are refused."""

COUNTS_FROM: Final = 5
"""The first version of CreateTopics whose response has the number of partitions."""

Key = TypeVar("Key", bound=Hashable)
Read = TypeVar("Read")


class MutationServices(msgspec.Struct, frozen=True):
    """For the three APIs."""

    mutations: ControllerMutations
    counts: PartitionCounts
    own: OwnTopics


class TopicCharges(Generic[Key]):
    """The charges of one request, topic by topic. From version `strict_from`, topics are refused once the
    quota is exhausted; older versions are forwarded and throttled.
    """

    def __init__(self, services: MutationServices, context: RequestContext, strict_from: int) -> None:
        self._mutations: Mutations = services.mutations.of(context, strict_from)
        self._charged: dict[Key, int] = {}
        self.refused: dict[Key, ApiError] = {}

    @property
    def is_limited(self) -> bool:
        """Whether the client has a quota."""
        return self._mutations.is_limited

    @property
    def changes_nothing(self) -> bool:
        """Whether the request is forwarded as it is."""
        return not self.is_limited and not self.refused

    def refuse(self, topic: Key, message: str = MESSAGE) -> None:
        """Refuse a change of a topic that only Weir makes."""
        self.refused[topic] = ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, message)

    def charge(self, topic: Key, partitions: int) -> None:
        """Charge a topic, once. A request without effect, with no partitions, is free."""
        if partitions <= 0 or topic in self._charged or topic in self.refused:
            return
        try:
            self._charged[topic] = self._mutations.charge_for(partitions)
        except ApiError as error:
            self.refused[topic] = error

    def settle(self, topic: Key, partitions: int | None) -> None:
        """Correct the charge of a topic, once, now that the number of its partitions is known; None: it was
        as estimated.
        """
        charged = self._charged.pop(topic, 0)
        if charged and partitions is not None and partitions != charged:
            self._mutations.correct(partitions - charged)

    def allowed(self, topics: list[Read], key: Callable[[Read], Key]) -> list[Read]:
        """Return the topics that are not refused."""
        return topics if not self.refused else [each for each in topics if key(each) not in self.refused]

    def response(
        self, reply: Any, results: list[Any], refusal: Callable[[Key, int, str | None], Any]
    ) -> Outcome:
        """Return the response with `refusal(topic, error code, message)` of each refused topic among its
        `results`, and the larger throttle time, the upstream broker's or the gateway's.
        """
        results += [refusal(topic, int(error.code), error.message) for topic, error in self.refused.items()]
        throttle = self._mutations.throttle()
        if throttle is not None:
            reply.throttle_time_ms = max(reply.throttle_time_ms, throttle.throttle_ms)
        return encoded(Response(reply, throttle), len(results))


def answers_creation(has_quota: Callable[[], bool]) -> AnswersVersion:
    """Return the answer for all versions of CreateTopics: whether any client has a controller mutation quota
    now, or a name may be one of Weir's.
    """

    def answers(frame: memoryview | None, _channel: Channel) -> bool:
        return has_quota() or may_name_reserved(frame)

    return lambda _version: answers


def _read(
    entries: Collection[Read],
    key: Callable[[Read], Key],
    parts: Callable[[Read], int],
    refusal: Callable[[Key, int, str | None], Any],
    reply: Callable[[list[Any]], Any],
    change: Callable[[list[Key]], Coroutine[Any, Any, Outcome]],
) -> Slices[Outcome | Awaitable[Outcome]]:
    """Make the change of the topics in a task of its own, or refuse a request with too many."""
    topics = yield from entries_of(entries, key, parts)
    if topics is None:
        return (yield from refused(entries, lambda each, *error: refusal(key(each), *error), reply))
    return in_own_task(partial(change, topics))


def handle_create_topics(
    message: CreateTopicsRequest, context: RequestContext, services: MutationServices
) -> Outcome | Awaitable[Outcome]:
    return in_slices(
        _read(
            message.topics,
            lambda topic: topic.name,
            lambda topic: len(topic.configs) + len(topic.assignments) // 10,
            _refused_topic,
            lambda results: CreateTopicsResponse(topics=results),
            lambda names: _create_topics(message, names, context, services),
        )
    )


async def _create_topics(
    message: CreateTopicsRequest, names: list[str], context: RequestContext, services: MutationServices
) -> Outcome:
    charges: TopicCharges[str] = TopicCharges(services, context, CREATION_STRICT_FROM)
    for name in filter(is_reserved, names):
        charges.refuse(name, ONLY_BY_WEIR)
    if charges.changes_nothing:
        return await forward(context, message)
    timer = SliceTimer()
    for topic in message.topics if charges.is_limited else ():
        if topic.name not in charges.refused:
            partitions = len(topic.assignments) or topic.num_partitions
            charges.charge(topic.name, await services.counts.default() if partitions == -1 else partitions)
        if timer.is_over():
            await trio.lowlevel.checkpoint()
    reply = CreateTopicsResponse()
    message.topics = charges.allowed(message.topics, lambda topic: topic.name)
    if message.topics or not charges.refused:
        reply = await ask(context, message)
    for result in reply.topics:
        charges.settle(result.name, _created(result, context.api_version))
        if timer.is_over():
            await trio.lowlevel.checkpoint()
    return charges.response(reply, reply.topics, _refused_topic)


def _created(result: CreatableTopicResult, version: int) -> int | None:
    """Return the number of partitions that were created, None if the response does not say it."""
    if result.error_code:
        return 0
    return result.num_partitions if version >= COUNTS_FROM and result.num_partitions >= 0 else None


def _refused_topic(name: str, error: int, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name, error_code=error, error_message=message, configs=[])


def handle_delete_topics(
    message: DeleteTopicsRequest, context: RequestContext, services: MutationServices
) -> Outcome | Awaitable[Outcome]:
    requested: list[str | DeleteTopicState] = [*message.topic_names, *message.topics]
    return in_slices(
        _read(
            requested,
            _ref,
            lambda _topic: 0,
            _refused_deletion,
            lambda results: DeleteTopicsResponse(responses=results),
            lambda topics: _delete_topics(message, topics, context, services),
        )
    )


async def _delete_topics(
    message: DeleteTopicsRequest, topics: list[TopicRef], context: RequestContext, services: MutationServices
) -> Outcome:
    if not services.own.is_known and any(each.topic_id is not None for each in topics):
        return Hangup(UNKNOWN)
    charges: TopicCharges[TopicRef] = TopicCharges(services, context, DELETION_STRICT_FROM)
    for topic in topics:
        if is_ours(topic.name) or (topic.topic_id is not None and services.own.has_id(topic.topic_id)):
            charges.refuse(topic)
    if charges.changes_nothing:
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
    message.topic_names = charges.allowed(message.topic_names, _ref)
    message.topics = charges.allowed(message.topics, _ref)
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
    return charges.response(reply, reply.responses, _refused_deletion)


def _ref(topic: str | DeleteTopicState) -> TopicRef:
    if isinstance(topic, str):
        return TopicRef(topic)
    return TopicRef(topic.name, None if topic.topic_id == ZERO_UUID else topic.topic_id)


def _is_valid(topic: TopicRef) -> bool:
    """Return whether a topic is named by its name or by its id, and not by both."""
    return (topic.name is None) is not (topic.topic_id is None)


def _refused_deletion(topic: TopicRef, error: int, message: str | None) -> DeletableTopicResult:
    return DeletableTopicResult(topic.name, topic.topic_id or ZERO_UUID, error, message)


def handle_create_partitions(
    message: CreatePartitionsRequest, context: RequestContext, services: MutationServices
) -> Outcome | Awaitable[Outcome]:
    return in_slices(
        _read(
            message.topics,
            lambda topic: topic.name,
            lambda topic: len(topic.assignments or ()) // 10,
            CreatePartitionsTopicResult,
            lambda results: CreatePartitionsResponse(results=results),
            lambda names: _create_partitions(message, names, context, services),
        )
    )


async def _create_partitions(
    message: CreatePartitionsRequest, names: list[str], context: RequestContext, services: MutationServices
) -> Outcome:
    charges: TopicCharges[str] = TopicCharges(services, context, PARTITIONS_STRICT_FROM)
    for name in filter(is_ours, names):
        charges.refuse(name)
    if charges.changes_nothing:
        return await forward(context, message)
    topics = list(map(TopicRef, names))
    counts = await services.counts.of(topics) if charges.is_limited else {}
    timer = SliceTimer()
    for ref, topic in zip(topics, message.topics, strict=True):
        before = counts.get(ref)
        charges.charge(topic.name, 0 if before is None else topic.count - before)
        if timer.is_over():
            await trio.lowlevel.checkpoint()
    reply = CreatePartitionsResponse()
    message.topics = charges.allowed(message.topics, lambda topic: topic.name)
    if message.topics or not charges.refused:
        reply = await ask(context, message)
        services.counts.forget(topics)
    for result in reply.results:
        charges.settle(result.name, 0 if result.error_code else None)
        if timer.is_over():
            await trio.lowlevel.checkpoint()
    return charges.response(reply, reply.results, CreatePartitionsTopicResult)

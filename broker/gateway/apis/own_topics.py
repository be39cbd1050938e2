"""Requests of clients for the topics `__weir_*`: refuses what names one, and forwards the rest.

Produce and Fetch, ShareFetch, DeleteRecords, WriteTxnMarkers, CreateAcls, DeleteAcls, ElectLeaders and
AlterPartitionReassignments; `configs` and `mutations` refuse theirs. A
request that names none is forwarded untouched.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, NamedTuple

from broker.api.requests.byte_quotas import record_produce
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Hangup, Outcome, Response
from broker.common.errors import ErrorCode
from broker.controller.commands import ResourceType
from broker.gateway.apis.asking import (
    Addresses,
    Handle,
    ask,
    encoded,
    forward,
    forward_readdressed,
    in_own_task,
)
from broker.gateway.channel import GatewayChannel
from broker.gateway.own_topics import IDS_FROM, UNKNOWN, OwnTopics, is_ours, is_secret
from broker.gateway.routes import Answers, AnswersVersion
from broker.network.connection.channel import Channel
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.acls import (
    AclCreationResult,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsResponse,
)
from broker.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from broker.protocol.messages.elect_leaders import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from broker.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from broker.protocol.messages.partition_reassignments import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from broker.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from broker.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from broker.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from broker.quotas.throttled import Throttle

CODE: Final = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
MESSAGE: Final = "Only Weir's gateways use the topics __weir_*; see docs/gateway.md"


class Entries(NamedTuple):
    """An API whose request is a list: the names of the lists of request and response, which entries are ours,
    and the result of a refused one. Results are in the order of the request if `in_order`.
    """

    asked: str
    answered: str
    response: type
    is_ours: Callable[[Any], bool]
    refusal: Callable[[Any], Any]
    in_order: bool = False


def _records(topic: Any) -> DeleteRecordsTopicResult:
    partitions = [DeleteRecordsPartitionResult(each.partition_index, -1, CODE) for each in topic.partitions]
    return DeleteRecordsTopicResult(topic.name, partitions)


def _election(topic: Any) -> ReplicaElectionResult:
    return ReplicaElectionResult(
        topic.topic, [PartitionResult(each, CODE, MESSAGE) for each in topic.partitions]
    )


def _reassignment(topic: Any) -> ReassignableTopicResponse:
    partitions = [
        ReassignablePartitionResponse(each.partition_index, CODE, MESSAGE) for each in topic.partitions
    ]
    return ReassignableTopicResponse(topic.name, partitions)


ENTRIES: Final = {
    ApiKey.DELETE_RECORDS: Entries(
        "topics", "topics", DeleteRecordsResponse, lambda each: is_ours(each.name), _records
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Entries(
        "topics",
        "responses",
        AlterPartitionReassignmentsResponse,
        lambda each: is_ours(each.name),
        _reassignment,
    ),
    ApiKey.ELECT_LEADERS: Entries(
        "topic_partitions",
        "replica_election_results",
        ElectLeadersResponse,
        lambda each: is_ours(each.topic),
        _election,
    ),
    ApiKey.CREATE_ACLS: Entries(
        "creations",
        "results",
        CreateAclsResponse,
        lambda each: each.resource_type == ResourceType.TOPIC and is_ours(each.resource_name),
        lambda _: AclCreationResult(CODE, MESSAGE),
        in_order=True,
    ),
    ApiKey.DELETE_ACLS: Entries(
        "filters",
        "filter_results",
        DeleteAclsResponse,
        lambda each: is_ours(each.resource_name_filter),
        lambda _: DeleteAclsFilterResult(CODE, MESSAGE, []),
        in_order=True,
    ),
}


def answers_own(own: OwnTopics) -> AnswersVersion:
    """Return the answer for all versions: whether a request may name one of the topics."""

    def answers(frame: memoryview | None, _channel: Channel) -> bool:
        return frame is None or own.are_named(frame)

    return lambda _version: answers


def answers_too(first: AnswersVersion, second: AnswersVersion) -> AnswersVersion:
    """Return the answer whether one of both answers a request."""

    def of(version: int) -> Answers:
        both = [each for each in (first(version), second(version)) if each is not None]
        return lambda frame, channel: any(answers(frame, channel) for answers in both)

    return of


def handler(key: ApiKey) -> Handle:
    """Return the handler of an API of `ENTRIES`."""
    entries = ENTRIES[key]

    def handle(message: Any, context: RequestContext, _own: OwnTopics) -> Outcome | Awaitable[Outcome]:
        return in_own_task(partial(_split, entries, message, context))

    return handle


async def _split(entries: Entries, message: Any, context: RequestContext) -> Outcome:
    asked = getattr(message, entries.asked)
    theirs = [each for each in asked or () if not entries.is_ours(each)]
    if asked is None or len(theirs) == len(asked):
        return await forward(context, message)
    reply = entries.response()
    results: list[Any] = []
    if theirs:
        setattr(message, entries.asked, theirs)
        reply = await ask(context, message)
        results = list(getattr(reply, entries.answered))
    if entries.in_order:
        left = iter(results)
        results = [entries.refusal(each) if entries.is_ours(each) else next(left) for each in asked]
    else:
        results += [entries.refusal(each) for each in asked if entries.is_ours(each)]
    setattr(reply, entries.answered, results)
    return encoded(Response(reply), len(results))


def handle_markers(
    message: WriteTxnMarkersRequest, context: RequestContext, _own: OwnTopics
) -> Outcome | Awaitable[Outcome]:
    """Refuse all markers of a request that has one for a topic of ours: only brokers write them."""
    if not any(is_ours(topic.name) for marker in message.markers for topic in marker.topics):
        return in_own_task(partial(forward, context, message))
    markers = [
        WritableTxnMarkerResult(
            marker.producer_id,
            [
                WritableTxnMarkerTopicResult(
                    topic.name,
                    [WritableTxnMarkerPartitionResult(each, CODE) for each in topic.partition_indexes],
                )
                for topic in marker.topics
            ],
        )
        for marker in message.markers
    ]
    return Response(WriteTxnMarkersResponse(markers))


def handle_produce(
    addresses: Addresses, message: ProduceRequest, context: RequestContext, own: OwnTopics
) -> Outcome | Awaitable[Outcome]:
    """Charge the request, as `client_receive` charges those that it forwards. Refuse all topics of one that
    names one of ours; a client that expects no response is disconnected, as a broker does.
    """
    assert isinstance(context.connection, GatewayChannel)
    throttle = record_produce(context.connection.quotas, context)
    if not message.acks:
        return Hangup(MESSAGE)
    by_id = context.api_version >= IDS_FROM
    if not any(own.has_id(each.topic_id) if by_id else is_ours(each.name) for each in message.topic_data):
        return in_own_task(partial(_forward_produce, message, context, addresses, throttle))
    topics = [
        TopicProduceResponse(
            topic.name,
            topic.topic_id,
            [
                PartitionProduceResponse(each.index, CODE, -1, error_message=MESSAGE)
                for each in topic.partition_data
            ],
        )
        for topic in message.topic_data
    ]
    return Response(
        ProduceResponse(topics, throttle_time_ms=throttle.throttle_ms if throttle else 0), throttle
    )


async def _forward_produce(
    message: ProduceRequest, context: RequestContext, addresses: Addresses, throttle: Throttle | None
) -> Outcome:
    outcome = await forward_readdressed(context, message, addresses)
    outcome.lengthen(throttle)
    return outcome


def handle_fetch(
    message: FetchRequest, context: RequestContext, own: OwnTopics
) -> Outcome | Awaitable[Outcome]:
    """Refuse the partitions of topics that clients may not read. The others of the request have no records
    this time, and the client's fetch session ends.
    """
    by_id = context.api_version >= IDS_FROM
    secret = [own.has_secret_id(each.topic_id) if by_id else is_secret(each.topic) for each in message.topics]
    if not any(secret):
        return in_own_task(partial(forward, context, message))
    topics = [
        FetchableTopicResponse(
            topic.topic,
            topic.topic_id,
            [
                PartitionData(each.partition, CODE if refused else 0, -1, records=b"")
                for each in topic.partitions
            ],
        )
        for topic, refused in zip(message.topics, secret, strict=True)
    ]
    return Response(FetchResponse(responses=topics))


def handle_share_fetch(
    addresses: Addresses, message: ShareFetchRequest, context: RequestContext, own: OwnTopics
) -> Outcome | Awaitable[Outcome]:
    if message.topics and not own.is_known:
        return Hangup(UNKNOWN)
    if not any(own.has_secret_id(each.topic_id) for each in message.topics):
        return in_own_task(partial(forward_readdressed, context, message, addresses))
    return Response(ShareFetchResponse(error_code=CODE, error_message=MESSAGE))


GUARDED: Final[dict[ApiKey, Handle]] = {
    ApiKey.WRITE_TXN_MARKERS: handle_markers,
    **{key: handler(key) for key in ENTRIES},
}
"""The handlers of APIs whose clients need a role, too."""

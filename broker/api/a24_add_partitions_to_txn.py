"""AddPartitionsToTxn: adds partitions to a producer's transaction, or begins it with them. (KIP-98)

Versions 0-5. Up to version 3 of one transaction; if a partition does not exist, it is
UNKNOWN_TOPIC_OR_PARTITION, the others are OPERATION_NOT_ATTEMPTED, and none is added; so it is if the client
may not write to a topic. From version 4 of
several transactions, as other brokers send it (KIP-890), which requires the admin role; `verify_only` adds
nothing, and a partition that is not in the transaction is TRANSACTION_ABORTABLE. PRODUCER_FENCED is
INVALID_PRODUCER_EPOCH before version 2.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.group_replies import now_of
from broker.api.requests.outcome import Outcome, Response, Sliced, StagedAppends
from broker.api.requests.pacing import emptied
from broker.api.requests.services import TransactionServices
from broker.api.requests.transaction_outcomes import denial, fenced, note_refused, unavailable
from broker.api.security.client_security import ACCESS
from broker.common.errors import ErrorCode
from broker.common.slices import Slices
from broker.coordinator.transaction.state import TopicPartition, TransactionChange
from broker.coordinator.transaction_service import WrittenChange
from broker.partitions.partitions import Partitions
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from broker.security.acl.acl import Operation

BATCHED_SINCE: Final = ACCESS[ApiKey.ADD_PARTITIONS_TO_TXN].brokers_since
FENCED_SINCE: Final = 2

STAGED_TOGETHER: Final = 64
"""Transactions whose records are staged without a pause; ours."""

EXPLICIT_VERSION: Final = 1
"""The transaction version of a client that adds its partitions itself (TV1)."""


class _Wanted(NamedTuple):
    """The partitions of one transaction. `error` refuses all; `missing` are those that do not exist, and
    `denied` the topics that the client may not write to.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    verify_only: bool
    topics: Sequence[AddPartitionsToTxnTopic]
    error: ErrorCode
    partitions: set[TopicPartition]
    missing: set[TopicPartition]
    denied: AbstractSet[str]


@api(ApiKey.ADD_PARTITIONS_TO_TXN, versions=(0, 5), services=TransactionServices)
def handle(
    message: AddPartitionsToTxnRequest, context: RequestContext, services: TransactionServices
) -> Slices[Outcome]:
    if context.api_version >= BATCHED_SINCE and not services.security.is_broker(context):
        return Response(AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    wanted: list[_Wanted] = []
    if context.api_version < BATCHED_SINCE:
        wanted.append(
            (
                yield from _checked(
                    message.v3_and_below_transactional_id,
                    message.v3_and_below_producer_id,
                    message.v3_and_below_producer_epoch,
                    message.v3_and_below_topics,
                    context,
                    services,
                )
            )
        )
    for each in message.transactions:
        one = yield from _checked(
            each.transactional_id, each.producer_id, each.producer_epoch, each.topics, context, services
        )
        wanted.append(one._replace(verify_only=each.verify_only))
    return (yield from _stage(wanted, [], context, services))


def _stage(
    wanted: list[_Wanted], errors: list[ErrorCode], context: RequestContext, services: TransactionServices
) -> Slices[Outcome]:
    """Stage the changes of some transactions, and go on after their commit. `errors` are those of the
    transactions so far.

    There is no pause between the first change and the commit: another request may change a transaction in a
    pause, and a client that goes away would leave it pending for ever.
    """
    transactions, now = services.transactions, now_of(context)
    written: list[tuple[int, WrittenChange]] = []
    while len(errors) < len(wanted) and len(written) < STAGED_TOGETHER:
        if not written:
            yield None
        each = wanted[len(errors)]
        decided = _decide(each, context, services)
        result = decided if isinstance(decided, ErrorCode) else transactions.stage(decided, now)
        if isinstance(result, ErrorCode):
            producer = each.producer_id, each.epoch
            note_refused(each.transactional_id, producer, result, context, transactions)
            errors.append(result)
        else:
            written.append((len(errors), result))
            errors.append(ErrorCode.NONE)
    if not written:
        return Sliced(_respond(wanted, errors, context.api_version, services), None)

    def settle() -> Outcome:
        for number, change in written:
            errors[number] = transactions.settle(change, now)
        return Sliced(_stage(wanted, errors, context, services), None)

    return StagedAppends([change.log.log for _, change in written], settle)


def _respond(
    wanted: list[_Wanted], errors: Sequence[ErrorCode], version: int, services: TransactionServices
) -> Slices[Outcome]:
    """Build the response, and free `wanted` on the way: all at once, many transactions take 6 ms."""
    results = []
    wanted.reverse()
    for error in errors:
        each = wanted.pop()
        topics = yield from _results(each, fenced(error, version, FENCED_SINCE), services)
        results.append(AddPartitionsToTxnResult(each.transactional_id, topics))
        yield from emptied(each.partitions)
        yield from emptied(each.missing)
        yield None
    if version >= BATCHED_SINCE:
        return Response(AddPartitionsToTxnResponse(results_by_transaction=results))
    return Response(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results))


def _checked(
    transactional_id: str,
    producer_id: int,
    epoch: int,
    topics: Sequence[AddPartitionsToTxnTopic],
    context: RequestContext,
    services: TransactionServices,
) -> Slices[_Wanted]:
    existing: set[TopicPartition] = set()
    missing: set[TopicPartition] = set()
    denied: set[str] = set()
    security, is_batched = services.security, context.api_version >= BATCHED_SINCE
    for topic in topics:
        # Other brokers, which send newer versions, have asked for their clients.
        if not is_batched and not security.allows_topic(context, Operation.WRITE, topic.name):
            denied.add(topic.name)
        for index in topic.partitions:
            exists = _exists(topic.name, index, services.partitions)
            (existing if exists else missing).add((topic.name, index))
            yield None
        yield None
    error = ErrorCode.NONE if is_batched else denial(transactional_id, context, security)
    error = error or unavailable(transactional_id, services.transactions)
    return _Wanted(transactional_id, producer_id, epoch, False, topics, error, existing, missing, denied)


def _exists(topic: str, index: int, partitions: Partitions) -> bool:
    hosted = partitions.by_name.get(topic)
    return hosted is not None and 0 <= index < hosted.count


def _decide(
    wanted: _Wanted, context: RequestContext, services: TransactionServices
) -> ErrorCode | TransactionChange:
    if wanted.error:
        return wanted.error
    if wanted.missing or wanted.denied:
        return ErrorCode.OPERATION_NOT_ATTEMPTED
    if wanted.verify_only:
        return ErrorCode.NONE  # `_results` verifies each partition
    return services.transactions.coordinator.add_partitions(
        wanted.transactional_id,
        wanted.producer_id,
        wanted.epoch,
        wanted.partitions,
        EXPLICIT_VERSION,
        context.wall_ms,
    )


def _results(
    wanted: _Wanted, error: ErrorCode, services: TransactionServices
) -> Slices[list[AddPartitionsToTxnTopicResult]]:
    def error_of(partition: TopicPartition) -> ErrorCode:
        if not wanted.error and partition[0] in wanted.denied:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if not wanted.error and partition in wanted.missing:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if error or not wanted.verify_only:
            return error
        coordinator = services.transactions.coordinator
        return coordinator.verify(wanted.transactional_id, wanted.producer_id, wanted.epoch, partition)

    topics = []
    for topic in wanted.topics:
        results = []
        for index in topic.partitions:
            results.append(AddPartitionsToTxnPartitionResult(index, error_of((topic.name, index))))
            yield None
        topics.append(AddPartitionsToTxnTopicResult(topic.name, results))
        yield None
    return topics

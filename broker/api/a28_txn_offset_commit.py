"""TxnOffsetCommit: commits offsets of a group in a transaction. (KIP-98, KIP-447)

Versions 0-6. The offsets take effect with the transaction's commit marker; until then, OffsetFetch of stable
offsets is UNSTABLE_OFFSET_COMMIT. Each partition succeeds or fails alone. Member and generation (from 3) are
checked if they are stated; a member of a consumer group states its epoch as the generation. The transaction
must have the group's partition; version 5 adds it (KIP-890), and before version 4 the error is
INVALID_TXN_STATE. Version 6 names topics by id (KIP-1319), of which an unknown one is UNKNOWN_TOPIC_ID; a
generation of an unknown group is GROUP_ID_NOT_FOUND, and another epoch of a member STALE_MEMBER_EPOCH, before
that ILLEGAL_GENERATION.
"""

from collections.abc import Awaitable, Sequence
from typing import Final

from msgspec.structs import replace

from broker.api.a08_offset_commit import commit_offsets
from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.group_replies import LONGEST_NAME, now_of
from broker.api.requests.group_requests import group_refusal
from broker.api.requests.outcome import Outcome, Sliced, StagedAppends, in_slices
from broker.api.requests.services import GroupServices
from broker.api.requests.transaction_outcomes import denial, note_refused, unavailable
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices
from broker.coordinator.group.messages import CommitReply, CommitRequest, Effects, OffsetToCommit, Token
from broker.coordinator.transaction.changes import BUMPS_EPOCH
from broker.coordinator.transaction.state import TransactionChange
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

RESPONSE: Final = (TxnOffsetCommitResponse, TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition)

ABORTABLE_SINCE: Final = 4
ADDS_SINCE: Final = 5
IDS_SINCE: Final = 6


@api(ApiKey.TXN_OFFSET_COMMIT, versions=(0, 6), services=GroupServices)
def handle(
    message: TxnOffsetCommitRequest, context: RequestContext, services: GroupServices
) -> Outcome | Awaitable[Outcome]:
    refusal = _refusal(message, context, services)
    if refusal or context.api_version < ADDS_SINCE or not _lacks_group(message, services):
        return in_slices(_commit(message, context, services, refusal))
    transactions = services.transactions
    decided = transactions.coordinator.add_partitions(
        message.transactional_id,
        message.producer_id,
        message.producer_epoch,
        [transactions.offsets_partition(message.group_id, 1)],
        BUMPS_EPOCH,
        context.wall_ms,
    )
    now = now_of(context)
    written = transactions.stage(decided, now) if isinstance(decided, TransactionChange) else decided
    if isinstance(written, ErrorCode):
        return in_slices(_commit(message, context, services, written))

    def settle() -> Outcome:
        error = transactions.settle(written, now)
        return Sliced(_commit(message, context, services, error), None)

    return StagedAppends([written.log.log], settle)


def _commit(
    message: TxnOffsetCommitRequest, context: RequestContext, services: GroupServices, error: ErrorCode
) -> Slices[Outcome]:
    """Commit the offsets, unless the request is refused or the partition could not be added: `error`."""
    by_id = context.api_version >= IDS_SINCE
    request = CommitRequest(
        message.group_id,
        message.generation_id,
        message.member_id,
        message.group_instance_id,
        (),
        knows_missing_groups=by_id,
        knows_member_epochs=by_id,
    )
    transactional_id = message.transactional_id
    producer = message.producer_id, message.producer_epoch

    def commit(some: Sequence[OffsetToCommit], token: Token) -> Effects:
        error = _verified(request.group_id, transactional_id, producer, services)
        refused = _told(error, context.api_version)
        if refused:
            note_refused(transactional_id, producer, error, context, services.transactions)
            return Effects([(token, CommitReply((refused,) * len(some)))])
        return services.groups.coordinator.offsets.commit_in_transaction(
            replace(request, offsets=some), token, now_of(context)
        )

    refusal = _told(error, context.api_version)
    return (
        yield from commit_offsets(
            message.topics, RESPONSE, refusal, commit, context, services, producer, by_id=by_id
        )
    )


def _refusal(message: TxnOffsetCommitRequest, context: RequestContext, services: GroupServices) -> ErrorCode:
    """Return the error of every partition if the whole request is refused, else NONE."""
    refusal = denial(message.transactional_id, context, services.security)
    if refusal := refusal or group_refusal(message.group_id, context, services):
        return refusal
    if not message.group_id or len(message.group_id) > LONGEST_NAME:
        return ErrorCode.INVALID_GROUP_ID
    return unavailable(message.transactional_id, services.transactions)


def _lacks_group(message: TxnOffsetCommitRequest, services: GroupServices) -> bool:
    producer = message.producer_id, message.producer_epoch
    error = _verified(message.group_id, message.transactional_id, producer, services)
    return error is not ErrorCode.NONE


def _verified(
    group_id: str, transactional_id: str, producer: tuple[int, int], services: GroupServices
) -> ErrorCode:
    """Return whether the transaction has the partition with the group's offsets."""
    try:
        log = services.groups.log_of(group_id)
    except ApiError as error:
        return error.code
    return services.transactions.verify(transactional_id, *producer, log)


def _told(error: ErrorCode, version: int) -> ErrorCode:
    """Return the code that this version knows."""
    match error:
        case ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        case ErrorCode.TRANSACTION_ABORTABLE if version < ABORTABLE_SINCE:
            return ErrorCode.INVALID_TXN_STATE
        case ErrorCode.CONCURRENT_TRANSACTIONS if version < ADDS_SINCE:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        case _:
            return error

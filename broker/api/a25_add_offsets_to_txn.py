"""AddOffsetsToTxn: adds the partition with a group's offsets to a transaction. (KIP-98)

Versions 0-4. TxnOffsetCommit follows. PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before version 2.
"""

from typing import Final

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import TransactionServices
from broker.api.requests.transaction_outcomes import conclude, denial, fenced, note_refused, unavailable
from broker.common.errors import ErrorCode
from broker.coordinator.transaction.state import TransactionChange
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from broker.security.acl.acl import Operation

FENCED_SINCE: Final = 2

EXPLICIT_VERSION: Final = 1
"""The transaction version of a client that adds its groups itself (TV1)."""


@api(ApiKey.ADD_OFFSETS_TO_TXN, versions=(0, 4), services=TransactionServices)
def handle(
    message: AddOffsetsToTxnRequest, context: RequestContext, services: TransactionServices
) -> Outcome:
    transactions = services.transactions

    def respond(error: ErrorCode) -> Outcome:
        producer = message.producer_id, message.producer_epoch
        note_refused(message.transactional_id, producer, error, context, transactions)
        code = fenced(error, context.api_version, FENCED_SINCE)
        return Response(AddOffsetsToTxnResponse(error_code=code))

    decided: ErrorCode | TransactionChange = denial(message.transactional_id, context, services.security)
    if not decided and not services.security.allows_group(context, Operation.READ, message.group_id):
        decided = ErrorCode.GROUP_AUTHORIZATION_FAILED
    decided = decided or unavailable(message.transactional_id, transactions)
    if not decided and not message.group_id:
        decided = ErrorCode.INVALID_GROUP_ID
    if not decided:
        count = services.control.config.groups.offsets_topic_partitions
        decided = transactions.coordinator.add_partitions(
            message.transactional_id,
            message.producer_id,
            message.producer_epoch,
            [transactions.offsets_partition(message.group_id, count)],
            EXPLICIT_VERSION,
            context.wall_ms,
        )
    return conclude(decided, context, transactions, respond)

"""EndTxn: commits or aborts a producer's transaction. (KIP-98)

Versions 0-5. The response is sent when the decision is in the log; the markers follow at once, and until they
are written another request of the transactional id is CONCURRENT_TRANSACTIONS. From version 5 (KIP-890) the
producer gets its next epoch with the response, and the same again if it repeats the request, or aborts a
transaction that has timed out; where an older version has ended the transaction, that is PRODUCER_FENCED,
which Kafka takes for a repetition. An abort of a transaction without partitions succeeds. PRODUCER_FENCED is
INVALID_PRODUCER_EPOCH before version 2.
"""

from collections.abc import Awaitable
from functools import partial
from typing import Final

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import TransactionServices
from broker.api.requests.transaction_outcomes import (
    conclude,
    denial,
    fenced,
    note_refused,
    unavailable,
    with_producer_ids,
)
from broker.common.errors import ErrorCode
from broker.coordinator.transaction.changes import BUMPS_EPOCH, EndRequest, complete
from broker.coordinator.transaction.state import TransactionChange
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

BUMPS_SINCE: Final = 5
FENCED_SINCE: Final = 2

EXPLICIT_VERSION: Final = 1
"""The transaction version of older clients (TV1)."""


@api(ApiKey.END_TXN, versions=(0, 5), services=TransactionServices)
def handle(
    message: EndTxnRequest, context: RequestContext, services: TransactionServices
) -> Outcome | Awaitable[Outcome]:
    error = denial(message.transactional_id, context, services.security) or unavailable(
        message.transactional_id, services.transactions
    )
    if error:
        return _refused(error)
    return with_producer_ids(partial(_end, message, context, services), _refused, services)


def _end(message: EndTxnRequest, context: RequestContext, services: TransactionServices) -> Outcome:
    transactions, version = services.transactions, context.api_version
    request = EndRequest(
        message.producer_id,
        message.producer_epoch,
        message.committed,
        BUMPS_EPOCH if version >= BUMPS_SINCE else EXPLICIT_VERSION,
    )
    coordinator = transactions.coordinator
    decided = coordinator.end(message.transactional_id, request, services.producer_ids.take, context.wall_ms)

    def respond(error: ErrorCode) -> Outcome:
        if error:
            producer = message.producer_id, message.producer_epoch
            note_refused(message.transactional_id, producer, error, context, transactions)
            return _refused(fenced(error, version, FENCED_SINCE))
        if version < BUMPS_SINCE:
            return Response(EndTxnResponse())
        if isinstance(decided, TransactionChange):
            data = complete(decided.data, context.wall_ms)
        else:
            transaction = coordinator.get(message.transactional_id)
            assert transaction is not None
            data = transaction.data
        return Response(EndTxnResponse(producer_id=data.producer_id, producer_epoch=data.producer_epoch))

    return conclude(decided, context, transactions, respond)


def _refused(error: ErrorCode) -> Outcome:
    return Response(EndTxnResponse(error_code=error))

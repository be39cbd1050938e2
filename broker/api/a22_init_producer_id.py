"""InitProducerId: assigns an id and an epoch to an idempotent or transactional producer.

Versions 0-5. Without a transactional id, every request gets a new id at epoch 0, even if it names its current
id (from version 3, KIP-360), as in Kafka. An id is never reused, even after a restart. With a transactional
id, its producer gets the next epoch, which fences the earlier ones; an ongoing transaction is aborted first,
and the response is CONCURRENT_TRANSACTIONS until it is. The timeout is checked against
transaction.max.timeout.ms. PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before version 4. Left out: two-phase
commit (version 6).
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
from broker.api.security.client_security import ClientSecurity
from broker.common.errors import ErrorCode
from broker.common.principal import Principal
from broker.coordinator.transaction.changes import KnownProducer, NeedsProducerId
from broker.coordinator.transaction.state import TransactionChange, TransactionClient, TransactionState
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker.security.acl.acl import Operation, ResourceType

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
FIRST_EPOCH: Final = 0
FENCED_SINCE: Final = 4


@api(ApiKey.INIT_PRODUCER_ID, versions=(0, 5), services=TransactionServices)
def handle(
    message: InitProducerIdRequest, context: RequestContext, services: TransactionServices
) -> Outcome | Awaitable[Outcome]:
    if message.transactional_id is not None:
        denied = denial(message.transactional_id, context, services.security)
    elif not _may_produce(context, services.security):
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    else:
        denied = ErrorCode.NONE
    if denied:
        return _refused(denied)
    if (message.producer_id == NO_PRODUCER_ID) != (message.producer_epoch == NO_EPOCH):
        return _refused(ErrorCode.INVALID_REQUEST)
    if message.transactional_id is None:
        return with_producer_ids(partial(_new_id, services), _refused, services)
    error = unavailable(message.transactional_id, services.transactions)
    if error:
        return _refused(error)
    return with_producer_ids(partial(_next_epoch, message, context, services), _refused, services)


def _may_produce(context: RequestContext, security: ClientSecurity) -> bool:
    """Whether the client may write to the cluster or to any topic."""
    return security.allows_any(context, Operation.WRITE, ResourceType.TOPIC) or security.allows_cluster(
        context, Operation.IDEMPOTENT_WRITE
    )


def _new_id(services: TransactionServices) -> Outcome:
    producer_id = services.producer_ids.take()
    if producer_id is None:
        raise NeedsProducerId
    return Response(InitProducerIdResponse(producer_id=producer_id, producer_epoch=FIRST_EPOCH))


def _next_epoch(
    message: InitProducerIdRequest, context: RequestContext, services: TransactionServices
) -> Outcome:
    known = None
    if message.producer_id != NO_PRODUCER_ID:
        known = KnownProducer(message.producer_id, message.producer_epoch)
    transactional_id = message.transactional_id
    assert transactional_id is not None
    transactions = services.transactions
    decided = transactions.coordinator.initialize(
        transactional_id,
        message.transaction_timeout_ms,
        known,
        services.producer_ids.take,
        context.wall_ms,
    )

    def respond(error: ErrorCode) -> Outcome:
        if error:
            producer = message.producer_id, message.producer_epoch
            note_refused(transactional_id, producer, error, context, transactions)
            return _refused(fenced(error, context.api_version, FENCED_SINCE))
        assert isinstance(decided, TransactionChange)
        connection = context.connection
        decided.transaction.client = TransactionClient(
            str(Principal(connection.principal)), context.client_id or "", connection.address
        )
        if decided.data.state is not TransactionState.EMPTY:
            return _refused(ErrorCode.CONCURRENT_TRANSACTIONS)  # the abort of the ongoing transaction began
        data = decided.data
        return Response(
            InitProducerIdResponse(producer_id=data.producer_id, producer_epoch=data.producer_epoch)
        )

    return conclude(decided, context, transactions, respond)


def _refused(error: ErrorCode) -> Outcome:
    return Response(InitProducerIdResponse(error_code=error, producer_epoch=NO_EPOCH))

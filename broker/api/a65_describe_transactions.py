"""DescribeTransactions: the state of transactional ids. (KIP-664)

Version 0. An unknown id is TRANSACTIONAL_ID_NOT_FOUND. The partitions are those of the ongoing transaction,
or of one whose markers are being written.
"""

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import TransactionServices
from broker.api.requests.transaction_outcomes import unavailable
from broker.common.errors import ErrorCode
from broker.common.slices import Slices
from broker.coordinator.transaction.state import NAMES
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from broker.security.acl.acl import Operation


@api(ApiKey.DESCRIBE_TRANSACTIONS, versions=(0, 0), services=TransactionServices)
def handle(
    message: DescribeTransactionsRequest, context: RequestContext, services: TransactionServices
) -> Slices[Outcome]:
    states = []
    for transactional_id in message.transactional_ids:
        yield None
        states.append((yield from _state(transactional_id, context, services)))
    return Response(DescribeTransactionsResponse(transaction_states=states))


def _state(
    transactional_id: str, context: RequestContext, services: TransactionServices
) -> Slices[TransactionState]:
    security, state = services.security, TransactionState(transactional_id=transactional_id)
    if not security.allows_transactional_id(context, Operation.DESCRIBE, transactional_id):
        state.error_code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return state
    if not transactional_id:
        state.error_code = ErrorCode.INVALID_REQUEST
        return state
    state.error_code = unavailable(transactional_id, services.transactions)
    if state.error_code:
        return state
    transaction = services.transactions.coordinator.get(transactional_id)
    if transaction is None:
        state.error_code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return state
    data = transaction.data
    state.transaction_state = NAMES[data.state]
    state.transaction_timeout_ms = data.timeout_ms
    state.transaction_start_time_ms = data.started_ms
    state.producer_id, state.producer_epoch = data.producer_id, data.producer_epoch
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(data.partitions):
        topics.setdefault(topic, []).append(partition)
        yield None
    state.topics = [
        TopicData(topic, partitions)
        for topic, partitions in topics.items()
        if security.allows_topic(context, Operation.DESCRIBE, topic, logs=False)
    ]
    return state

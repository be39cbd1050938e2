"""ListTransactions: the transactional ids and their states. (KIP-664)

Versions 0-2. Filters by state and by producer id; an empty filter selects all. Unknown states are named in
the response, and no id has them. Version 1 adds the least duration of the transaction, which every id without
one exceeds, 2 a pattern of the id in RE2's syntax (INVALID_REGULAR_EXPRESSION if it has none), as in Kafka.
"""

from collections.abc import Callable
from typing import Final

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import TransactionServices
from broker.common.errors import ErrorCode
from broker.common.patterns import Pattern
from broker.common.slices import Slices
from broker.coordinator.transaction.state import NAMES, TransactionState
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from broker.protocol.messages.list_transactions import TransactionState as ListedTransaction
from broker.security.acl.acl import Operation, ResourceType

KNOWN: Final = frozenset(NAMES.values())


@api(ApiKey.LIST_TRANSACTIONS, versions=(0, 2), services=TransactionServices)
def handle(
    message: ListTransactionsRequest, context: RequestContext, services: TransactionServices
) -> Slices[Outcome]:
    states: set[str] = set()
    unknown: dict[str, None] = {}
    for state in message.state_filters:
        if state in KNOWN:
            states.add(state)
        else:
            unknown[state] = None
        yield None
    producers: set[int] = set()
    for producer_id in message.producer_id_filters:
        producers.add(producer_id)
        yield None
    reply = ListTransactionsResponse(unknown_state_filters=list(unknown))
    if services.transactions.is_unreadable:
        reply.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return Response(reply)
    matches: Callable[[str], object] = bool
    if message.transactional_id_pattern:
        try:
            pattern = Pattern(message.transactional_id_pattern)
        except ValueError:
            reply.error_code = ErrorCode.INVALID_REGULAR_EXPRESSION
            return Response(reply)
        matches = pattern.fullmatch
    for transaction in services.transactions.coordinator.transactions():
        yield None
        data = transaction.data
        if not matches(transaction.transactional_id):
            continue
        if message.state_filters and NAMES[data.state] not in states:
            continue
        if producers and data.producer_id not in producers:
            continue
        if 0 <= message.duration_filter >= context.wall_ms - data.started_ms:
            continue
        is_allowed = services.security.allows(
            context,
            Operation.DESCRIBE,
            ResourceType.TRANSACTIONAL_ID,
            transaction.transactional_id,
            logs=False,
        )
        if is_allowed and data.state is not TransactionState.DEAD:
            reply.transaction_states.append(
                ListedTransaction(transaction.transactional_id, data.producer_id, NAMES[data.state])
            )
    return Response(reply)

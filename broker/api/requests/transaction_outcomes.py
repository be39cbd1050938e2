"""Outcomes of requests that change a transaction: staged, committed, applied, answered.

Called by the transaction handlers. A change that needs a producer id waits for the next block of them.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from broker.api.requests.context import RequestContext
from broker.api.requests.group_replies import now_of
from broker.api.requests.outcome import Outcome, StagedAppends
from broker.api.requests.services import TransactionServices
from broker.api.security.client_security import ClientSecurity
from broker.common.errors import ApiError, ErrorCode
from broker.controller.commands import BROKER_ITSELF, AllocateProducerIds
from broker.coordinator.transaction.changes import NeedsProducerId
from broker.coordinator.transaction.state import TransactionChange
from broker.coordinator.transaction_service import RefusedRequest, TransactionService
from broker.protocol.api_key import NAMES
from broker.security.acl.acl import Operation

LONGEST_ID: Final = 8_000
"""Longest transactional id in characters; it must fit 32,767 bytes in a record."""

Respond = Callable[[ErrorCode], Outcome]


def conclude(
    decided: ErrorCode | TransactionChange,
    context: RequestContext,
    transactions: TransactionService,
    respond: Respond,
) -> Outcome:
    """Write the change, if there is one, and return the outcome of `respond` with the error or NONE."""
    now = now_of(context)
    written = decided if isinstance(decided, ErrorCode) else transactions.stage(decided, now)
    if isinstance(written, ErrorCode):
        return respond(written)
    return StagedAppends([written.log.log], lambda: respond(transactions.settle(written, now)))


def with_producer_ids(
    attempt: Callable[[], Outcome], refuse: Respond, services: TransactionServices
) -> Outcome | Awaitable[Outcome]:
    """Return the outcome of `attempt`, with another block of producer ids if it needs one."""
    try:
        return attempt()
    except NeedsProducerId:
        return _with_next_block(attempt, refuse, services)


async def _with_next_block(
    attempt: Callable[[], Outcome], refuse: Respond, services: TransactionServices
) -> Outcome:
    try:
        block = await services.control.apply(AllocateProducerIds(), BROKER_ITSELF)
    except ApiError:
        # A disk error. Kafka responds with this code if no block arrives in time, and producers retry.
        return refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    services.producer_ids.add(range(block.first, block.first + block.count))
    return attempt()


def denial(transactional_id: str, context: RequestContext, security: ClientSecurity) -> ErrorCode:
    """Return the error if the client may not write in transactions of this id, or NONE."""
    is_allowed = security.allows_transactional_id(context, Operation.WRITE, transactional_id)
    return ErrorCode.NONE if is_allowed else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def note_refused(
    transactional_id: str,
    producer: tuple[int, int],
    error: ErrorCode,
    context: RequestContext,
    transactions: TransactionService,
) -> None:
    """Log a refusal of `producer`, an id and an epoch, that a repeated request does not mend."""
    connection = context.connection
    transactions.note_refused(
        RefusedRequest(
            transactional_id,
            *producer,
            error,
            NAMES.get(context.api_key, ""),
            f"User:{connection.principal}",
            connection.address,
        ),
        context.now_ms,
    )


def unavailable(transactional_id: str, transactions: TransactionService) -> ErrorCode:
    """Return why no transaction of this id can be looked up, or NONE."""
    if len(transactional_id) > LONGEST_ID:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE if transactions.is_available else ErrorCode.NOT_COORDINATOR


def fenced(error: ErrorCode, version: int, since: int) -> ErrorCode:
    """Return INVALID_PRODUCER_EPOCH for PRODUCER_FENCED in versions that do not have it. (KIP-588)"""
    if error is ErrorCode.PRODUCER_FENCED and version < since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error

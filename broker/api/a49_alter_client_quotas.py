"""AlterClientQuotas: sets and removes quotas of users, client-ids and addresses. (KIP-546)

Versions 0-1. One entry is echoed for every entity asked for, in order (the Java client waits for ever
otherwise); each is accepted or refused by itself, all of its keys together. A null name is the default entity
of its type.
"""

import logging

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.outcome import Answered, Outcome
from broker.api.registry import api
from broker.api.wire_actor import wire_actor
from broker.control.commands import AlterClientQuotas, QuotaAlteration, QuotaOp, QuotaOutcome
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    RequestEntryData,
    ResponseEntryData,
)

logger = logging.getLogger(__name__)


@api(ApiKey.ALTER_CLIENT_QUOTAS, versions=(0, 1))
async def handle(message: AlterClientQuotasRequest, context: RequestContext, broker: Broker) -> Outcome:
    command = AlterClientQuotas(tuple(_alteration(entry) for entry in message.entries), message.validate_only)
    outcomes = await broker.control.apply(command, wire_actor(context, broker))
    for outcome in outcomes:
        for warning in outcome.warnings:  # the response has no place for it
            logger.warning(
                warning, extra={"entity": dict(outcome.entity), "principal": context.connection.principal}
            )
    return Answered(AlterClientQuotasResponse(entries=[_echo(each) for each in outcomes]))


def _alteration(entry: RequestEntryData) -> QuotaAlteration:
    return QuotaAlteration(
        tuple((part.entity_type, part.entity_name) for part in entry.entity),
        tuple(QuotaOp(op.key, None if op.remove else op.value) for op in entry.ops),
    )


def _echo(outcome: QuotaOutcome) -> ResponseEntryData:
    return ResponseEntryData(
        outcome.error, outcome.message, [EntityData(kind, name) for kind, name in outcome.entity]
    )

"""AlterClientQuotas: sets and removes quotas of users, client ids and addresses. (KIP-546)

Versions 0-1. The response has one entry for every requested entity, in order (the Java client waits forever
otherwise); each entity succeeds or fails alone, with all of its keys together. A null name is the default
entity of its type.
"""

import logging
from collections.abc import Awaitable

from broker.api.registry import api
from broker.api.requests.change_limits import applied, entries_of, refused
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome
from broker.api.requests.services import ControlServices
from broker.common.slices import Slices
from broker.controller.commands import AlterClientQuotas, QuotaAlteration, QuotaOp, QuotaOutcome
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    RequestEntryData,
    ResponseEntryData,
)
from broker.security.acl.acl import Operation

logger = logging.getLogger(__name__)


@api(ApiKey.ALTER_CLIENT_QUOTAS, versions=(0, 1), services=ControlServices)
def handle(
    message: AlterClientQuotasRequest, context: RequestContext, services: ControlServices
) -> Slices[Outcome | Awaitable[Outcome]]:
    wanted = yield from entries_of(
        message.entries, _alteration, lambda each: len(each.entity) + len(each.ops)
    )
    if wanted is None:
        return (
            yield from refused(
                message.entries,
                lambda each, error, why: ResponseEntryData(error, why, []),
                lambda each: AlterClientQuotasResponse(entries=each),
            )
        )
    validate_only, principal = message.validate_only, context.connection.principal
    return applied(
        lambda alterations: AlterClientQuotas(alterations, validate_only),
        wanted,
        services.security.actor(context, Operation.ALTER_CONFIGS),
        services.control,
        lambda each: _result(each, principal),
        lambda each: AlterClientQuotasResponse(entries=each),
    )


def _alteration(entry: RequestEntryData) -> QuotaAlteration:
    return QuotaAlteration(
        tuple((part.entity_type, part.entity_name) for part in entry.entity),
        tuple(QuotaOp(op.key, None if op.remove else op.value) for op in entry.ops),
    )


def _result(outcome: QuotaOutcome, principal: str) -> ResponseEntryData:
    for warning in outcome.warnings:  # the response has no field for it
        logger.warning(warning, extra={"entity": dict(outcome.entity), "principal": principal})
    return ResponseEntryData(
        outcome.error, outcome.message, [EntityData(kind, name) for kind, name in outcome.entity]
    )

"""DescribeClientQuotas: the quotas that are set, by filter. (KIP-546)

Versions 0-1. Every component of the filter must match; `strict` leaves out entities that have other parts
besides. What matches nothing is answered with an empty list and never with null, which the Java client takes
for an error.
"""

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.outcome import Answered, Outcome
from broker.api.registry import api
from broker.errors import ApiError
from broker.metadata.image import QuotaEntry
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from broker.quotas.entity import Entity
from broker.quotas.filters import Component, EntityFilter


@api(ApiKey.DESCRIBE_CLIENT_QUOTAS, versions=(0, 1))
def handle(message: DescribeClientQuotasRequest, _context: RequestContext, broker: Broker) -> Outcome:
    components = [Component(each.entity_type, each.match_type, each.match) for each in message.components]
    try:
        wanted = EntityFilter(components, strict=message.strict)
    except ApiError as error:
        return Answered(DescribeClientQuotasResponse(0, error.code, error.message, None))
    quotas = broker.control.image.quotas
    entries = [_entry(entry) for pairs, entry in quotas.items() if wanted.matches(Entity.of(pairs))]
    return Answered(DescribeClientQuotasResponse(entries=entries))


def _entry(entry: QuotaEntry) -> EntryData:
    return EntryData(
        [EntityData(kind, name) for kind, name in entry.entity],
        [ValueData(key, limit.value) for key, limit in entry.limits.items()],
    )

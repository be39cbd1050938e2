"""DescribeClientQuotas: lists the quotas that match a filter. (KIP-546)

Versions 0-1. Every component of the filter must match; `strict` excludes entities with additional components.
A filter that matches nothing gets an empty list, never null, which the Java client takes for an error. Left
out: temporary limits, so that the response has what AlterClientQuotas sets.
"""

from typing import Final

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import ControlServices
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices
from broker.metadata.image import QuotaEntry
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from broker.quotas.client_quota_requests import Component, EntityFilter
from broker.quotas.entity import Entity
from broker.security.acl.acl import Operation

MAX_COMPONENTS: Final = 8
"""There are three entity types, and a filter may name each once."""


@api(ApiKey.DESCRIBE_CLIENT_QUOTAS, versions=(0, 1), services=ControlServices)
def handle(
    message: DescribeClientQuotasRequest, context: RequestContext, services: ControlServices
) -> Slices[Outcome]:
    if not services.security.allows_cluster(context, Operation.DESCRIBE_CONFIGS):
        return Response(DescribeClientQuotasResponse(0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None, None))
    # A filter with more components repeats a type, and the filter refuses it.
    requested = message.components[: MAX_COMPONENTS + 1]
    components = [Component(each.entity_type, each.match_type, each.match) for each in requested]
    try:
        wanted = EntityFilter(components, strict=message.strict)
    except ApiError as error:
        return Response(DescribeClientQuotasResponse(0, error.code, error.message, None))
    entries = []
    for pairs, entry in services.control.image.quotas.items():
        if entry.permanent and wanted.matches(Entity.of(pairs)):
            entries.append(_entry(entry))
        yield None
    return Response(DescribeClientQuotasResponse(entries=entries))


def _entry(entry: QuotaEntry) -> EntryData:
    return EntryData(
        [EntityData(kind, name) for kind, name in entry.entity],
        [ValueData(key, limit.value) for key, limit in entry.permanent.items()],
    )

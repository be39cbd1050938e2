"""DescribeConfigs: the settings of topics, of the broker, of its loggers and of client metrics, and where
each comes from.

Versions 1-4. A null list of keys, or an empty one, asks for all. Synonyms, the places where a value is looked
for in their order, only where asked for; type and documentation from 3 on (the latter where asked for).
Secrets have no value.
Left out: groups; such a resource is an invalid request.
"""

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.outcome import Answered, Outcome
from broker.api.registry import api
from broker.control.commands import ConfigResource
from broker.control.describe import describe
from broker.control.views import ConfigRow
from broker.errors import ApiError, ErrorCode
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


@api(ApiKey.DESCRIBE_CONFIGS, versions=(1, 4))
def handle(message: DescribeConfigsRequest, _context: RequestContext, broker: Broker) -> Outcome:
    results = [_describe(resource, message, broker) for resource in message.resources]
    return Answered(DescribeConfigsResponse(results=results))


def _describe(
    resource: DescribeConfigsResource, message: DescribeConfigsRequest, broker: Broker
) -> DescribeConfigsResult:
    kind, name, keys = resource.resource_type, resource.resource_name, resource.configuration_keys
    control = broker.control
    try:
        rows = describe(ConfigResource(kind, name), control.image, control.configuration)
    except ApiError as error:
        return DescribeConfigsResult(error.code, error.message, kind, name)
    return DescribeConfigsResult(
        ErrorCode.NONE,
        None,
        kind,
        name,
        [_config(row, message) for row in rows if not keys or row.name in keys],
    )


def _config(row: ConfigRow, message: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = [DescribeConfigsSynonym(each.name, each.value, each.source) for each in row.synonyms]
    return DescribeConfigsResourceResult(
        row.name,
        row.value,
        row.read_only,
        row.source,
        row.sensitive,
        synonyms if message.include_synonyms else [],
        row.type,
        (row.documentation or None) if message.include_documentation else None,
    )

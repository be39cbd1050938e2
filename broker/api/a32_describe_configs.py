"""DescribeConfigs: configs of topics, the broker, its loggers, client metrics and groups, and their sources.

Versions 1-4. A null or empty list of keys selects all. The response has synonyms, the candidate sources in
lookup order, only on request; types from version 3, and documentation from 3 on request. Sensitive configs
have no value. A repeated resource has one entry. min.insync.replicas always has a default of all brokers, as
in Kafka 4.1 (KIP-966).
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from broker.api.a33_alter_configs import MESSAGES, config_refusal
from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.pacing import Distinct, pieces
from broker.api.requests.services import ControlServices
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices
from broker.config.load import Configuration
from broker.controller.commands import ConfigResource, ResourceType
from broker.controller.describe import ConfigSource, describe, describe_topic
from broker.controller.rows.broker import ConfigRow, ConfigSynonym
from broker.metadata.image import Image
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from broker.security.acl.acl import Operation


@api(ApiKey.DESCRIBE_CONFIGS, versions=(1, 4), services=ControlServices)
def handle(
    message: DescribeConfigsRequest, context: RequestContext, services: ControlServices
) -> Slices[Outcome]:
    results: list[DescribeConfigsResult] = []
    described: Distinct[tuple[int, str]] = Distinct()
    for resource in message.resources:
        if not described.add((resource.resource_type, resource.resource_name)):
            yield None
            continue
        kind, name = resource.resource_type, resource.resource_name
        denied = config_refusal(kind, name, Operation.DESCRIBE_CONFIGS, context, services.security)
        if denied:
            results.append(DescribeConfigsResult(denied, MESSAGES[denied], kind, name))
        else:
            results.append((yield from _describe(resource, message, services)))
        yield None
    yield from described.release()
    return Response(DescribeConfigsResponse(results=results))


def _describe(
    resource: DescribeConfigsResource, message: DescribeConfigsRequest, services: ControlServices
) -> Slices[DescribeConfigsResult]:
    kind, name = resource.resource_type, resource.resource_name
    control = services.control
    try:
        rows = as_kafka_describes(describe(ConfigResource(kind, name), control.image, control.configuration))
        if kind == ResourceType.BROKER and not name:
            rows = of_all_brokers(rows, control.image, control.configuration)
    except ApiError as error:
        return DescribeConfigsResult(error.code, error.message, kind, name)
    if resource.configuration_keys:
        requested = yield from _known(resource.configuration_keys, {row.name for row in rows})
        rows = [row for row in rows if row.name in requested]
    configs = [_config(row, message) for row in rows]
    return DescribeConfigsResult(ErrorCode.NONE, None, kind, name, configs)


def _known(keys: Sequence[str], names: set[str]) -> Slices[set[str]]:
    """Return the keys that are in `names`."""
    known: set[str] = set()
    for some in pieces(keys):
        known.update(names.intersection(some))
        yield None
    return known


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


MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
_SET_BY_NOBODY: Final = (ConfigSource.STATIC_BROKER, ConfigSource.DEFAULT)


def as_kafka_describes(rows: Iterable[ConfigRow]) -> list[ConfigRow]:
    """Return the rows of a topic or of one broker, min.insync.replicas with a default of all brokers.

    Kafka 4.1 sets it for all brokers at its first start, to the value of the file or to 1, so that clients
    find it among the settings that are not defaults. This broker stores no such setting and describes it
    alike, here and in CreateTopics. (Kafka: ActivationRecordsGenerator)
    """
    return [_with_default(row) if row.name == MIN_INSYNC_REPLICAS else row for row in rows]


def of_all_brokers(rows: Iterable[ConfigRow], image: Image, configuration: Configuration) -> list[ConfigRow]:
    """Return the rows of all brokers, and that of min.insync.replicas if it is not among them."""
    found = {row.name: row for row in rows}
    if MIN_INSYNC_REPLICAS not in found:
        topic = describe_topic({}, image, configuration)
        (row,) = as_kafka_describes(row for row in topic if row.name == MIN_INSYNC_REPLICAS)
        own = tuple(each for each in row.synonyms if each.source == ConfigSource.DYNAMIC_DEFAULT_BROKER)
        found[row.name] = replace(row, synonyms=own)
    return [found[name] for name in sorted(found)]


def _with_default(row: ConfigRow) -> ConfigRow:
    if any(each.source == ConfigSource.DYNAMIC_DEFAULT_BROKER for each in row.synonyms):
        return row
    place = next(i for i, each in enumerate(row.synonyms) if each.source in _SET_BY_NOBODY)
    value = row.synonyms[place].value
    default = ConfigSynonym(MIN_INSYNC_REPLICAS, value, ConfigSource.DYNAMIC_DEFAULT_BROKER)
    synonyms = (*row.synonyms[:place], default, *row.synonyms[place:])
    return replace(row, source=synonyms[0].source, synonyms=synonyms)

"""All settings of one topic or node of the upstream cluster, as DescribeConfigs tells them."""

from collections.abc import Iterable
from typing import Any, Final

from broker.common.errors import ApiError, ErrorCode
from broker.controller.commands import ResourceType
from broker.controller.describe import ConfigSource
from broker.controller.rows.broker import ConfigRow, ConfigSynonym
from broker.gateway.contents.asking import Asking
from broker.gateway.contents.refusals import error_of
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

SOURCES: Final = frozenset(
    {
        ConfigSource.DYNAMIC_TOPIC,
        ConfigSource.DYNAMIC_BROKER,
        ConfigSource.DYNAMIC_DEFAULT_BROKER,
        ConfigSource.STATIC_BROKER,
        ConfigSource.DEFAULT,
    }
)
LAST_TYPE: Final = 9
LONGEST_DOCUMENTATION: Final = 8_192


async def read_configs(asking: Asking, kind: ResourceType, name: str) -> list[ConfigRow]:
    """Return the settings by name. Raises UpstreamError, and ApiError for what the cluster refuses."""
    resource = DescribeConfigsResource(kind, name, None)
    request = DescribeConfigsRequest([resource], include_synonyms=True, include_documentation=True)
    node_id = int(name) if kind is ResourceType.BROKER else None
    response = await asking.ask(node_id, request)
    if not response.results:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "DescribeConfigs: the response has no result.")
    result = response.results[0]
    if result.error_code:
        raise error_of(ApiKey.DESCRIBE_CONFIGS, result.error_code, name, result.error_message)
    return sorted(map(_row, result.configs), key=lambda row: row.name)


def _row(config: Any) -> ConfigRow:
    return ConfigRow(
        config.name,
        config.value,
        _source(config.config_source),
        config.config_type if 0 <= config.config_type <= LAST_TYPE else 0,
        config.read_only,
        config.is_sensitive,
        (config.documentation or "")[:LONGEST_DOCUMENTATION],
        tuple(_synonyms(config.synonyms)),
    )


def _synonyms(synonyms: Iterable[Any]) -> Iterable[ConfigSynonym]:
    return (ConfigSynonym(each.name, each.value, _source(each.source)) for each in synonyms)


def _source(number: int) -> int:
    """Return a source that the console knows."""
    return number if number in SOURCES else ConfigSource.DEFAULT

"""Describes every setting of a topic, the broker, its loggers, a client metrics subscription or a
group, for DescribeConfigs: value and source.

(Kafka: ConfigHelper, KIP-226.) Called by `Views`. A topic's setting comes from the topic, else from
this broker, all brokers, the file, or the default.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from functools import cache
from typing import Final

import msgspec

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Steps, run_through
from broker.config.group_settings import GROUP_SETTINGS
from broker.config.kinds import ConfigType
from broker.config.load import Configuration
from broker.config.sections.streams_groups import ASSIGNOR_NAME
from broker.config.sections.topics import TOPIC_SETTINGS
from broker.config.setting import Setting, split_listener
from broker.config.table import SETTINGS, setting_of
from broker.controller.commands import ConfigResource, ResourceType
from broker.controller.loggers import levels
from broker.controller.rows.broker import ConfigRange, ConfigRow, ConfigSynonym
from broker.controller.topics import validate_topic_name
from broker.metadata.image import Image
from broker.telemetry.subscription import SETTINGS as SUBSCRIPTION_SETTINGS

UNKNOWN_TYPE: Final = 0
"""DescribeConfigs' ConfigType of a logger, and of an unknown key."""

UNKNOWN_KEY: Final = "An unknown key, which nothing here reads."


class ConfigSource(IntEnum):
    """DescribeConfigs' ConfigSource, as on the wire."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


def describe(resource: ConfigResource, image: Image, configuration: Configuration) -> list[ConfigRow]:
    """Raise ApiError INVALID_REQUEST, INVALID_TOPIC_EXCEPTION or UNKNOWN_TOPIC_OR_PARTITION on failure."""
    return run_through(describe_in_steps(resource, image, configuration))


def describe_in_steps(
    resource: ConfigResource, image: Image, configuration: Configuration
) -> Steps[list[ConfigRow]]:
    """As `describe`, yielding after each of the broker's hundreds of settings."""
    match resource.type:
        case ResourceType.TOPIC:
            validate_topic_name(resource.name)
            topic = image.topics.get(resource.name)
            if topic is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return describe_topic(topic.configs, image, configuration)
        case ResourceType.BROKER:
            return (yield from _describe_broker(resource.name, image, configuration))
        case ResourceType.CLIENT_METRICS:
            return _describe_subscription(resource.name, image)
        case ResourceType.BROKER_LOGGER:
            return _describe_loggers(resource.name, configuration)
        case ResourceType.GROUP:
            return _describe_group(resource.name, image, configuration)
    raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {int(resource.type)}")


def named_resources(image: Image, configuration: Configuration) -> dict[ResourceType, list[str]]:
    """Return the names of all describable resources by type, in Kafka's order."""
    brokers = [str(configuration.config.broker.node_id)]
    return {
        ResourceType.GROUP: list(image.group_configs),
        ResourceType.CLIENT_METRICS: list(image.client_metrics),
        ResourceType.BROKER_LOGGER: brokers,
        ResourceType.BROKER: brokers,
        ResourceType.TOPIC: list(image.topics),
    }


def describe_topic(configs: Mapping[str, str], image: Image, configuration: Configuration) -> list[ConfigRow]:
    """Return every setting of a topic with these settings; the topic need not exist."""
    rows = []
    for key, setting in sorted(TOPIC_SETTINGS.items()):
        if setting.internal and key not in configs:
            continue
        synonyms = list(_broker_synonyms(setting, image, configuration)) if setting.key in SETTINGS else []
        if synonyms and synonyms[0].source is ConfigSource.DEFAULT and synonyms[0].name != setting.key:
            synonyms.clear()  # Kafka does not show log.retention.hours here unless log.retention.ms is set
        if key in configs:
            synonyms.insert(0, ConfigSynonym(key, configs[key], ConfigSource.DYNAMIC_TOPIC))
        row = _row(key, setting, synonyms, read_only=False, otherwise=setting.write(setting.default))
        rows.append(_in_its_unit(row, setting))
    return rows


def _in_its_unit(row: ConfigRow, setting: Setting) -> ConfigRow:
    """Return the row with a value in the unit of its key: one hour in the coarser spelling is 3600000."""
    source = row.synonyms[0].name if row.synonyms else row.name
    if row.value is None or source in (row.name, setting.key) or source not in dict(setting.spellings):
        return row
    return msgspec.structs.replace(row, value=setting.write(setting.read_spelling(source, row.value)))


def _describe_subscription(name: str, image: Image) -> list[ConfigRow]:
    """Return the subscription's settings. As in Kafka, an unknown one has the defaults, without synonyms."""
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
    entry = image.client_metrics.get(name)
    configs = {} if entry is None else entry.configs
    rows = []
    for key, setting in SUBSCRIPTION_SETTINGS.items():
        text = configs.get(key)
        value = setting.write(setting.default if text is None else setting.read(text))
        own = () if text is None else (ConfigSynonym(key, value, ConfigSource.CLIENT_METRICS),)
        source = ConfigSource.CLIENT_METRICS if own else ConfigSource.DEFAULT
        kind = setting.kind.type
        rows.append(ConfigRow(key, value, source, kind, False, False, setting.documentation, own))
    return rows


def _describe_group(name: str, image: Image, configuration: Configuration) -> list[ConfigRow]:
    """Return every setting of a group of any type; the group need not exist."""
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    configs = image.group_configs.get(name, {})
    rows = []
    for key, setting in GROUP_SETTINGS.items():
        if setting.internal and key not in configs and setting.key not in configuration.static:
            continue
        of_broker = SETTINGS["group.streams.assignors"] if setting is ASSIGNOR_NAME else setting
        synonyms = list(_broker_synonyms(of_broker, image, configuration))
        if key in configs:
            synonyms.insert(0, ConfigSynonym(key, configs[key], ConfigSource.GROUP))
        rows.append(_row(key, setting, synonyms, read_only=False))
    return rows


def _describe_loggers(name: str, configuration: Configuration) -> list[ConfigRow]:
    node_id = configuration.config.broker.node_id
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    _check_broker_id(name, node_id, f"expected {node_id} but received {name}")
    return [
        ConfigRow(key, level, ConfigSource.DYNAMIC_BROKER_LOGGER, UNKNOWN_TYPE, False, False, "")
        for key, level in levels().items()
    ]


def _check_broker_id(name: str, node_id: int, expectation: str) -> None:
    if not (name.isascii() and name.isdigit()):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if name != str(node_id):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, {expectation}")


def _describe_broker(name: str, image: Image, configuration: Configuration) -> Steps[list[ConfigRow]]:
    node_id = configuration.config.broker.node_id
    if not name:
        return [
            _row(
                key,
                setting,
                [ConfigSynonym(key, value, ConfigSource.DYNAMIC_DEFAULT_BROKER)],
                read_only=False,
            )
            if (setting := setting_of(key)) is not None
            else _unknown_row(key, [ConfigSource.DYNAMIC_DEFAULT_BROKER])
            for key, value in sorted(image.broker_configs.get("", {}).items())
        ]
    _check_broker_id(name, node_id, f"expected {node_id} or empty string, but received {name}")
    rows: list[ConfigRow] = []
    places = _places(image, configuration)
    for setting in SETTINGS.values():
        yield
        is_hidden = setting.internal and not any(setting.key in values for values, _ in places)
        if not setting.per_listener and not is_hidden:
            rows.extend(_describe_spellings(setting, image, configuration))
    for key in dict.fromkeys(key for values, _ in places for key in values):
        yield
        known = setting_of(key)
        if known is None:
            rows.append(_unknown_row(key, [source for values, source in places if key in values]))
        elif split_listener(key)[0]:
            rows.append(_describe_override(key, known, image, configuration))
    return sorted(rows, key=lambda row: row.name)


def _describe_spellings(setting: Setting, image: Image, configuration: Configuration) -> Iterator[ConfigRow]:
    """Describe each spelling of a broker's key, in its own unit and from its own sources, as Kafka does.

    Unless they are set, `log.retention.hours` is 168 and `log.retention.ms` null.
    """
    synonyms = list(_broker_synonyms(setting, image, configuration))
    renamed = bool(setting.also) and not setting.default_spelling  # broker.id is node.id
    for key, factor in setting.spellings:
        if renamed:
            own = [ConfigSynonym(key, each.value, each.source) for each in synonyms]
        else:
            first = next((at for at, each in enumerate(synonyms) if each.name == key), len(synonyms))
            own = synonyms[first:]
        row = _row(key, setting, own, read_only=not setting.changes(key))
        # Hours and minutes are an INT in Kafka, milliseconds a LONG.
        yield row if factor == 1 else msgspec.structs.replace(row, type=ConfigType.INT)


def _describe_override(key: str, setting: Setting, image: Image, configuration: Configuration) -> ConfigRow:
    """Describe `listener.name.<name>.<key>`; the common value is its last synonym."""
    own = [
        ConfigSynonym(key, values[key], source)
        for values, source in _places(image, configuration)
        if key in values
    ]
    common = [] if setting.per_listener else _broker_synonyms(setting, image, configuration)
    return _row(key, setting, [*own, *common], read_only=not setting.dynamic)


def _unknown_row(key: str, sources: list[ConfigSource]) -> ConfigRow:
    """Return the row of a dynamic setting that has no reader, as Kafka describes it."""
    synonyms = tuple(ConfigSynonym(key, None, source) for source in sources)
    return ConfigRow(key, None, sources[0], UNKNOWN_TYPE, True, True, UNKNOWN_KEY, synonyms)


def _places(image: Image, configuration: Configuration) -> tuple[tuple[Mapping[str, str], ConfigSource], ...]:
    """Return the sources of a value in order of precedence."""
    node_id = configuration.config.broker.node_id
    return (
        (image.broker_configs.get(str(node_id), {}), ConfigSource.DYNAMIC_BROKER),
        (image.broker_configs.get("", {}), ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (configuration.static, ConfigSource.STATIC_BROKER),
    )


def _broker_synonyms(setting: Setting, image: Image, configuration: Configuration) -> Iterator[ConfigSynonym]:
    for key, _ in setting.spellings:
        for values, source in _places(image, configuration):
            if key in values:
                yield ConfigSynonym(key, values[key], source)
    if setting.reported_default is not None:
        yield ConfigSynonym(*setting.reported_default, ConfigSource.DEFAULT)


def _row(
    key: str,
    setting: Setting,
    synonyms: list[ConfigSynonym],
    *,
    read_only: bool,
    otherwise: str | None = None,
) -> ConfigRow:
    """Return the row of a key, with the value and the source of its first synonym, or else the default."""
    value, source = (synonyms[0].value, synonyms[0].source) if synonyms else (otherwise, ConfigSource.DEFAULT)
    if setting.sensitive:
        value, synonyms = None, [ConfigSynonym(each.name, None, each.source) for each in synonyms]
    return ConfigRow(
        key,
        value,
        source,
        setting.kind.type,
        read_only,
        setting.sensitive,
        setting.documentation,
        tuple(synonyms),
        range_of(setting),
    )


@cache
def range_of(setting: Setting) -> ConfigRange:
    return ConfigRange(
        None if setting.sensitive else setting.write(setting.default),
        setting.default_words,
        setting.kind.allowed,
        setting.kind.choices,
        setting.unit,
        setting.per_broker,
    )

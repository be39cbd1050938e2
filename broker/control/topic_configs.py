"""Looks up and parses one setting of a topic. (Kafka: LogConfig.validate, with its messages)"""

from typing import Any

from broker.config.sections.replication import THROTTLED_REPLICAS
from broker.config.setting import Setting
from broker.config.topic import TOPIC_SETTINGS
from broker.errors import ApiError, ChangeRefused, ConfigError, ErrorCode


def topic_setting(key: str) -> Setting:
    """Return the setting. Raises ApiError INVALID_CONFIG for an unknown key."""
    setting = TOPIC_SETTINGS.get(key)
    if setting is None:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {key}")
    return setting


def read_topic_config(key: str, text: str) -> Any:
    """Parse the value. Raises ApiError INVALID_CONFIG."""
    try:
        return topic_setting(key).read(text, key=key)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, invalid_value(error)) from error


def invalid_value(error: ConfigError) -> str:
    if isinstance(error, ChangeRefused):
        return error.allowed
    if error.allowed == THROTTLED_REPLICAS.allowed:
        items = ", ".join(item.strip() for item in str(error.value).split(","))
        return f"Invalid value [{items}] for configuration {error.key}: {error.key} must be {error.allowed}"
    return f"Invalid value {error.value} for configuration {error.key}: must be {error.allowed}"

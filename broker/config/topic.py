"""A topic's settings, laid over the broker's. For broker.control (validation) and broker.services (effective
values).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from broker.config.sections.replication import TopicThrottles
from broker.config.sections.topics import TopicSettings
from broker.config.setting import Setting, settings_of

TOPIC_SETTINGS: Final[dict[str, Setting]] = {
    setting.topic_key: setting
    for section in (TopicSettings, TopicThrottles)
    for _, setting in settings_of(section)
    if setting.topic_key is not None
}
"""By the topic's key: `retention.ms`, not `log.retention.ms`."""

_FIELDS: Final[dict[str, str]] = {
    setting.topic_key: field.name
    for field, setting in settings_of(TopicSettings)
    if setting.topic_key is not None
}

_THROTTLES: Final[dict[str, str]] = {
    setting.key: field.name for field, setting in settings_of(TopicThrottles)
}


def topic_settings(defaults: TopicSettings, configs: Mapping[str, str]) -> TopicSettings:
    """Return the effective settings of a topic. Raises ConfigError; KeyError for a key that topics do not
    have.
    """
    if not configs:
        return defaults
    return replace(defaults, **_values(_FIELDS, configs))


def topic_throttles(configs: Mapping[str, str]) -> TopicThrottles:
    """Return which replicas of a topic are throttled. Raises ConfigError."""
    return TopicThrottles(**_values(_THROTTLES, configs))


def _values(fields: Mapping[str, str], configs: Mapping[str, str]) -> dict[str, Any]:
    read = {key: TOPIC_SETTINGS[key].read(text, key=key) for key, text in configs.items()}
    return {fields[key]: value for key, value in read.items() if key in fields}


def default_text(defaults: TopicSettings, key: str) -> str | None:
    """Return the default of a topic's key, as text."""
    setting = TOPIC_SETTINGS[key]
    return setting.write(setting.default if key in _THROTTLES else getattr(defaults, _FIELDS[key]))

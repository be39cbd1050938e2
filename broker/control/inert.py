"""Logs settings that are accepted but have no effect: when they change, and at every start.

`Control` passes committed changes, `server` the settings from before the start. `broker.config.load` warns of
settings in the file and on the command line.
"""

import logging
from collections.abc import Iterable
from typing import Final

from broker.config.sections.topics import TOPIC_SETTINGS
from broker.config.table import setting_of
from broker.metadata.changes import Change, Kind
from broker.metadata.image import Image
from broker.steps import Steps

logger = logging.getLogger(__name__)

AT_ONCE: Final = 32
"""Changes per step."""


def warn_of_changes(changes: Iterable[Change]) -> Steps[None]:
    """Warn of each setting without effect that these changes make on a topic or a broker."""
    for number, change in enumerate(changes):
        if number % AT_ONCE == AT_ONCE - 1:
            yield
        if change.new is not None and change.kind in (Kind.TOPIC_CONFIG, Kind.BROKER_CONFIG):
            _warn(change.kind, change.entity, change.key)


def warn_of_kept(image: Image) -> None:
    """Warn of each setting without effect that was made before the start."""
    for broker, configs in image.broker_configs.items():
        for key in configs:
            _warn(Kind.BROKER_CONFIG, broker, key)
    for name, topic in image.topics.items():
        for key in topic.configs:
            _warn(Kind.TOPIC_CONFIG, name, key)


def _warn(kind: Kind, name: str, key: str) -> None:
    setting = TOPIC_SETTINGS.get(key) if kind is Kind.TOPIC_CONFIG else setting_of(key)
    if setting is None or not setting.inert:
        return
    resource = f"topic {name}" if kind is Kind.TOPIC_CONFIG else f"broker {name}" if name else "all brokers"
    logger.warning(f"{key} has no effect: {setting.inert}", extra={"resource": resource})

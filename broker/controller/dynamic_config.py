"""Dynamic settings: the effective configuration and its listeners, settings without effect, and settings that
prevent the start. (Kafka: DynamicBrokerConfig, BrokerReconfigurable)

`Control` owns the configuration; broker.server.broker registers a listener for each part. All listeners check
a change before it is written, and apply it before its response. A part is any selection from the sections.

`--forget KEY` deletes a setting before broker.server.broker builds anything, and a start that fails because
of a dynamic setting says so. (Kafka ignores such a setting and continues; here, described settings are always
in force.) Settings without effect are logged when they change, and at every start; `broker.config.load` warns
of those in the file and on the command line.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec

from broker.common.errors import ConfigError
from broker.common.slices import Steps
from broker.config.sections.topics import TOPIC_SETTINGS
from broker.config.table import BrokerConfig, setting_of
from broker.config.unknown_keys import hint
from broker.metadata.changes import Change, ChangeKind
from broker.metadata.image import Image

logger = logging.getLogger(__name__)


Part = TypeVar("Part")


class _Listener(msgspec.Struct, frozen=True):
    part: Callable[[BrokerConfig], Any]
    apply: Callable[[Any, Any], Steps[None] | None]
    check: Callable[[Any, Any], Steps[None] | None] | None


class DynamicConfig:
    """`config` is replaced, never modified."""

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self._listeners: list[_Listener] = []

    def on_change(
        self,
        part: Callable[[BrokerConfig], Part],
        apply: Callable[[Part, Part], Steps[None] | None],
        check: Callable[[Part, Part], Steps[None] | None] | None = None,
    ) -> None:
        """Register a listener for a part of the configuration.

        `apply(old, new)` runs on the event loop each time the part changes; it must neither block nor raise.
        `check(old, new)` runs before, and can refuse the change with ConfigError; it must not change
        anything, because the change may only be validated. Either returns its steps if it has much to do.
        """
        self._listeners.append(_Listener(part, apply, check))

    def check(self, new: BrokerConfig) -> Steps[None]:
        """Check that the running broker can switch to `new`. Raises ConfigError."""
        for each in self._listeners:
            before, after = each.part(self.config), each.part(new)
            if each.check is not None and before != after:
                yield from each.check(before, after) or ()
                yield

    def adopt(self, new: BrokerConfig) -> Steps[None]:
        """Switch to `new` at the first step; all listeners have applied it after the last."""
        old, self.config = self.config, new
        for each in self._listeners:
            before, after = each.part(old), each.part(new)
            if before != after:
                yield from each.apply(before, after) or ()
            yield


def warn_of_inert_changes(changes: Iterable[Change]) -> Steps[None]:
    """Warn of each setting without effect that these changes make on a topic or a broker."""
    for change in changes:
        yield
        if change.new is not None and change.kind in (ChangeKind.TOPIC_CONFIG, ChangeKind.BROKER_CONFIG):
            _warn(change.kind, change.entity, change.key)


def warn_of_inert_settings(image: Image) -> None:
    """Warn of each setting without effect that was made before the start."""
    for broker, configs in image.broker_configs.items():
        for key in configs:
            _warn(ChangeKind.BROKER_CONFIG, broker, key)
    for name, topic in image.topics.items():
        for key in topic.configs:
            _warn(ChangeKind.TOPIC_CONFIG, name, key)


def _warn(kind: ChangeKind, name: str, key: str) -> None:
    setting = TOPIC_SETTINGS.get(key) if kind is ChangeKind.TOPIC_CONFIG else setting_of(key)
    why = f"unknown key, which nothing reads{hint(key)}" if setting is None else setting.inert
    if not why:
        return
    resource = (
        f"topic {name}" if kind is ChangeKind.TOPIC_CONFIG else f"broker {name}" if name else "all brokers"
    )
    logger.warning(f"{key} has no effect: {why}", extra={"resource": resource})


def changes_to_forget(keys: Iterable[str], image: Image) -> list[Change]:
    """Return the changes that delete these settings of brokers at all levels; keys that are not set are
    skipped.
    """
    wanted = set(keys)
    return [
        Change(ChangeKind.BROKER_CONFIG, resource, key, None)
        for resource, settings in image.broker_configs.items()
        for key in settings
        if key in wanted
    ]


def forget_warnings(keys: Iterable[str], image: Image) -> list[str]:
    """Return a log sentence for each of these keys that `changes_to_forget` does not find."""
    was_set = {key for settings in image.broker_configs.values() for key in settings}
    return [
        f"--forget {key}: unknown key, nothing deleted{hint(key)}"
        if setting_of(key) is None
        else f"--forget {key}: the key has no dynamic setting, nothing deleted"
        for key in dict.fromkeys(keys)
        if key not in was_set
    ]


@contextmanager
def explaining_dynamic_settings(image: Image, node_id: int) -> Iterator[None]:
    """Add to any ConfigError raised in the block that the setting is dynamic, and how to delete it."""
    try:
        yield
    except ConfigError as error:
        if error.key not in image.dynamic_configs(node_id):
            raise
        allowed = f"{error.allowed}. It is a dynamic setting; --forget {error.key} deletes it"
        raise ConfigError(error.key, error.value, allowed) from error

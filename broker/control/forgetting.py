"""Removes dynamic settings that prevent the broker from starting.

Used by broker.server before it builds anything: `--forget KEY` deletes the setting, and a start that fails
because of a dynamic setting says so. (Kafka ignores such a setting and continues; here, described settings
are always in force.)
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from broker.config.load import hint
from broker.config.table import setting_of
from broker.errors import ConfigError
from broker.metadata.changes import Change, Kind
from broker.metadata.image import Image


def changes_to_forget(keys: Iterable[str], image: Image) -> list[Change]:
    """Return the changes that delete these settings of brokers at all levels; keys that are not set are
    skipped.
    """
    wanted = set(keys)
    return [
        Change(Kind.BROKER_CONFIG, resource, key, None)
        for resource, settings in image.broker_configs.items()
        for key in settings
        if key in wanted
    ]


def not_forgotten(keys: Iterable[str], image: Image) -> list[str]:
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
def blaming_dynamic(image: Image, node_id: int) -> Iterator[None]:
    """Add to any ConfigError raised in the block that the setting is dynamic, and how to delete it."""
    try:
        yield
    except ConfigError as error:
        if error.key not in image.dynamic_configs(node_id):
            raise
        words = f"{error.allowed}. It is a dynamic setting; --forget {error.key} deletes it"
        raise ConfigError(error.key, error.value, words) from error

"""The way back from a setting that was changed while the broker ran and now keeps it from starting.

Used by broker.server before anything else is built: `--forget KEY` takes the setting back, and a start that
fails because of one says so. (Kafka ignores such a setting and goes on; here what is described is what
holds.)
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from broker.config.load import hint
from broker.config.table import setting_of
from broker.errors import ConfigError
from broker.metadata.changes import Change, Kind
from broker.metadata.image import Image


def changes_to_forget(keys: Iterable[str], image: Image) -> list[Change]:
    """Takes these settings of brokers back, at whichever level they were made; what is not set is not
    there.
    """
    wanted = set(keys)
    return [
        Change(Kind.BROKER_CONFIG, resource, key, None)
        for resource, settings in image.broker_configs.items()
        for key in settings
        if key in wanted
    ]


def not_forgotten(keys: Iterable[str], image: Image) -> list[str]:
    """A sentence for each of these keys that `changes_to_forget` finds nowhere, for the log."""
    was_set = {key for settings in image.broker_configs.values() for key in settings}
    return [
        f"--forget {key}: there is no such key, nothing is taken back{hint(key)}"
        if setting_of(key) is None
        else f"--forget {key}: it was not set while the broker ran, nothing is taken back"
        for key in dict.fromkeys(keys)
        if key not in was_set
    ]


@contextmanager
def blaming_dynamic(image: Image, node_id: int) -> Iterator[None]:
    """Around what may raise ConfigError at the start: says where the setting comes from, and what to do."""
    try:
        yield
    except ConfigError as error:
        if error.key not in image.dynamic_configs(node_id):
            raise
        words = f"{error.allowed}. It was set while the broker ran; --forget {error.key} takes that back"
        raise ConfigError(error.key, error.value, words) from error

"""Tiered storage (KIP-405), which this broker does not have. Topics accept the keys, with a warning.

Topic-only keys, as in Kafka; `.topics` has those with a default of the broker.
"""

from dataclasses import dataclass
from typing import Final

from broker.config.kinds import BOOLEAN, ConfigKind, ConfigType
from broker.config.setting import Setting

NO_TIERED_STORAGE: Final = "this broker has no tiered storage"


def _read_false(text: str) -> bool:
    if BOOLEAN.read(text):
        raise ValueError("tiered storage is disabled")
    return False


DISABLED: Final = ConfigKind(
    ConfigType.BOOLEAN, "false, because tiered storage is disabled", _read_false, BOOLEAN.write
)


@dataclass(frozen=True, slots=True)
class TieredStorage:
    """Whether segments of a topic are copied to remote storage, and what happens when that ends."""

    remote_storage_enable: bool = Setting(
        "remote.storage.enable", False, DISABLED, topic_key="remote.storage.enable"
    ).described("Whether segments are copied to remote storage.")
    remote_log_copy_disable: bool = Setting(
        "remote.log.copy.disable",
        False,
        BOOLEAN,
        topic_key="remote.log.copy.disable",
        inert=NO_TIERED_STORAGE,
    ).described("Whether no further segments are copied to remote storage.")
    remote_log_delete_on_disable: bool = Setting(
        "remote.log.delete.on.disable",
        False,
        BOOLEAN,
        topic_key="remote.log.delete.on.disable",
        inert=NO_TIERED_STORAGE,
    ).described("Whether the end of tiered storage deletes what is in remote storage.")

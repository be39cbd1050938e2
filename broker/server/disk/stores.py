"""Opens the stores of a broker: the metadata and the logs. Logs what their recovery found.

Called by `server` once, before anything else is built.
"""

import logging
import resource
from collections.abc import Collection
from pathlib import Path
from typing import Final

from broker.api.requests.automatic_topics import own_topic
from broker.config.load import Configuration
from broker.config.sections import LogConfig
from broker.config.sections.topics import TopicSettings
from broker.config.table import BrokerConfig
from broker.controller.adoption import (
    changes_to_adopt,
    check_all_known,
    check_metadata_exists,
    cluster_id_in,
    mark_directories,
)
from broker.controller.dynamic_config import changes_to_forget, forget_warnings
from broker.log.directories import PartitionFolder, partition_folders
from broker.log.recovery import Exposure, Recovery
from broker.log.store import LogStore
from broker.metadata.actor import COMMAND_LINE
from broker.metadata.secret_key import DEFAULT_FILE, KeyFiles
from broker.metadata.store import MetadataStore

logger = logging.getLogger(__name__)

METADATA_FILE: Final = "weir-metadata.sqlite"


def open_metadata(configuration: Configuration, now_wall_ms: int) -> MetadataStore:
    """Open the metadata, which must list every partition on disk, and commit what the operator forgets.

    Raises MetadataUnusable, OSError.
    """
    directories, rebuild = configuration.config.log.dirs, configuration.rebuild_metadata
    path = Path(directories[0]) / METADATA_FILE
    path.parent.mkdir(0o750, parents=True, exist_ok=True)
    folders = partition_folders(directories)
    security = configuration.config.security
    keys = KeyFiles(path.with_name(DEFAULT_FILE), security.secret_key_file, security.secret_old_key_file)
    if not rebuild:
        check_metadata_exists(path, folders, directories, keys)
    store = MetadataStore.open(
        path,
        now_wall_ms,
        salvage=rebuild,
        keys=keys,
        forget=configuration.forget,
        cluster_id=cluster_id_in(directories),
    )
    try:
        if rebuild:
            _adopt(store, folders, configuration.config, now_wall_ms)
        else:
            check_all_known(path, store, folders)
        _forget(store, configuration.forget, now_wall_ms)
        mark_directories(directories, store.image.cluster_id, configuration.config.broker.node_id)
    except BaseException:
        store.close()
        raise
    return store


def _adopt(
    store: MetadataStore, folders: list[PartitionFolder], config: BrokerConfig, now_wall_ms: int
) -> None:
    """Create topics for partitions that the metadata does not list. Raises MetadataUnusable."""

    def settings_of(name: str) -> dict[str, str] | None:
        own = own_topic(name, config.groups, config.transactions, config.share_coordinator, config.events)
        return None if own is None else {key: value for key, value in own.configs if value is not None}

    changes = changes_to_adopt(store, folders, settings_of)
    if changes:
        store.commit(changes, COMMAND_LINE, now_wall_ms)
    for name in dict.fromkeys(change.entity for change in changes):
        topic = store.image.topics[name]
        logger.warning("a topic was adopted", extra={"topic": name, "partitions": topic.partitions})


def _forget(store: MetadataStore, names: Collection[str], now_wall_ms: int) -> None:
    for warning in forget_warnings(names, store.image):
        logger.warning(warning)
    forgotten = changes_to_forget(names, store.image)
    if forgotten:
        store.commit(forgotten, COMMAND_LINE, now_wall_ms)


def open_logs(config: LogConfig, topics: TopicSettings) -> LogStore:
    """Open the logs, with as many open files as RLIMIT_NOFILE allows beside connections, and report what
    recovery found. `topics` are the settings of a topic that overrides none.
    """
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    store = LogStore(config, descriptors)
    if store.max_open_files < config.max_open_files:
        logger.warning(
            "log.max.open.files is more than half of RLIMIT_NOFILE",
            extra={
                "configured": config.max_open_files,
                "limit": descriptors,
                "in_force": store.max_open_files,
            },
        )
    _report(store.open(topics))
    return store


def _report(recovery: Recovery) -> None:
    """Log the result of recovery."""
    for directory in recovery.unclean:
        logger.warning(
            "the last stop was not clean",
            extra={"directory": directory, "checked_bytes": recovery.scanned_bytes},
        )
    for gone in recovery.offline:
        logger.error(
            "a log directory is offline",
            extra={"directory": gone.directory, "reason": str(gone.error)},
        )
    for exposed in recovery.exposed:
        _report_exposed(exposed)
    for two in recovery.duplicates:
        logger.warning(
            "a partition exists in two log directories",
            extra={
                "partition": f"{two.topic}-{two.partition}",
                "kept": two.directory,
                "put_aside": two.renamed_to,
            },
        )
    for cut in recovery.truncated:
        logger.warning(
            "truncated an incomplete batch at the end of a log",
            extra={
                "partition": f"{cut.topic}-{cut.partition}",
                "end": cut.end_offset,
                "bytes": cut.bytes_cut,
            },
        )
    for damage in recovery.damage:
        logger.error("damaged records are not served", extra={"where": str(damage)})
    for path in recovery.rebuilt:
        logger.warning("an index did not agree with its log and was rebuilt", extra={"file": path})
    for repaired in recovery.repaired:
        logger.warning("a checkpoint file was repaired", extra=repaired._asdict())
    for gap in recovery.missing:
        logger.error("records are missing", extra=gap._asdict())
    for lost in recovery.unreadable:
        logger.error(
            "a partition is offline",
            extra={"partition": f"{lost.topic}-{lost.partition}", "reason": str(lost.error)},
        )


def _report_exposed(exposed: Exposure) -> None:
    directory = exposed.directory
    if exposed.tightened:
        logger.info(
            "made files private that other users could read",
            extra={"directory": directory, "changed": exposed.tightened},
        )
    if exposed.error is not None:
        reason = str(exposed.error)
        logger.warning(
            "a file remains readable by other users", extra={"directory": directory, "reason": reason}
        )
    if exposed.mode:
        logger.warning(
            "other users of this machine can list a log directory",
            extra={"directory": directory, "mode": f"{exposed.mode:04o}", "way_out": f"chmod o= {directory}"},
        )

"""The log directories on /metrics."""

import errno
import os
from pathlib import Path

import pytest

from broker.config.sections.log import LogConfig
from broker.log import disk
from broker.log.store import LogStore
from broker.prometheus.logs import log_directory_families


def told(store: LogStore, name: str) -> dict[str, float]:
    """Return the samples by directory."""
    (family,) = [each for each in log_directory_families(store) if each.name == name]
    return {dict(sample.labels)["logDirectory"]: sample.value for sample in family.samples}


def test_the_space_of_each_directory_is_told_and_of_none_that_does_not_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    store = LogStore(LogConfig(dirs=(one, two)))
    store.open()

    def space(path: str) -> tuple[int, int]:
        if path == two:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return 1_000, 400

    monkeypatch.setattr(disk, "space", space)
    assert told(store, "weir_log_directory_free_bytes") == {one: 400}
    assert told(store, "weir_log_directory_total_bytes") == {one: 1_000}
    store.directories.named(two).go_offline(OSError(errno.EIO, "broken"))
    assert told(store, "weir_log_directory_free_bytes") == {one: 400}
    assert told(store, "kafka_log_logmanager_logdirectoryoffline") == {one: 0, two: 1}
    store.close()

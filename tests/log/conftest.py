"""A store on an empty directory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.log.partition import PartitionLog
from broker.log.store import LogStore
from tests.log.harness import make, open_store


@pytest.fixture
def where(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def store(where: Path) -> Iterator[LogStore]:
    opened, _ = open_store(where)
    yield opened
    opened.close()


@pytest.fixture
def log(store: LogStore) -> PartitionLog:
    return make(store)

"""Provides a `Harness` in a temporary directory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.harness import Harness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    made = Harness(tmp_path)
    yield made
    made.close()

"""A `House` in a directory of the test's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.house import House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.close()

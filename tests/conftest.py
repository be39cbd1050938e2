"""What holds for every test: connections that it opened are closed with it, and not when the collector
comes by.
"""

from collections.abc import Iterator

import pytest

from tests.support.wire import OPENED


@pytest.fixture(autouse=True)
def _connections_end_with_their_test() -> Iterator[None]:
    yield
    for stream in OPENED:
        stream.socket._sock.close()
    OPENED.clear()

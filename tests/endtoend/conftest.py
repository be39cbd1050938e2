"""What holds for every test with real clients."""

import socket
from collections.abc import Iterator
from pathlib import Path
from sys import _getframe
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _kafka_python_leaves_no_sockets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the pairs of sockets that kafka-python leaves after a refused login: the collector would blame
    another test for them.
    """
    made: list[socket.socket] = []
    real = socket.socketpair

    def pair(*arguments: Any) -> tuple[socket.socket, socket.socket]:
        both = real(*arguments)
        if "kafka" in Path(_getframe(1).f_code.co_filename).parts:
            made.extend(both)
        return both

    monkeypatch.setattr(socket, "socketpair", pair)
    yield
    for each in made:
        each.close()

"""The ports of the demo's own broker, beside others that are taken."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import click
import pytest

from demo import place
from demo.place import PORT_STEP, free_address

HIGHEST = 65_535


@contextmanager
def taken(*ports: int) -> Iterator[None]:
    with ExitStack() as stack:
        for port in ports:
            listener = stack.enter_context(socket.socket())
            listener.bind(("127.0.0.1", port))
            listener.listen()
        yield


@pytest.fixture
def port() -> int:
    """A port that is free, as is the one after it, and both a step further."""
    for port in range(20_000, 30_000, 7):
        if place.free_address(f"127.0.0.1:{port}", (0, 1, PORT_STEP, PORT_STEP + 1)).endswith(f":{port}"):
            return port
    raise AssertionError


def test_a_free_port_is_kept(port: int) -> None:
    assert free_address(f"127.0.0.1:{port}") == f"127.0.0.1:{port}"


def test_a_taken_port_gives_way_to_the_next_step(port: int) -> None:
    with taken(port):
        assert free_address(f"127.0.0.1:{port}") == f"127.0.0.1:{port + PORT_STEP}"


def test_every_port_above_it_that_is_needed_counts(port: int) -> None:
    with taken(port + 1):
        assert free_address(f"127.0.0.1:{port}", (0, 1)) == f"127.0.0.1:{port + PORT_STEP}"
        assert free_address(f"127.0.0.1:{port}") == f"127.0.0.1:{port}"


@pytest.mark.parametrize(("offset", "is_there"), [(0, True), (1, True), (2, False)])
def test_no_port_above_the_highest_is_tried(
    monkeypatch: pytest.MonkeyPatch, offset: int, is_there: bool
) -> None:
    monkeypatch.setattr(place, "_is_free", lambda _host, _port: True)
    address = f"127.0.0.1:{HIGHEST - 1}"
    if is_there:
        assert free_address(address, (0, offset)) == address
    else:
        with pytest.raises(click.ClickException, match="no port is free"):
            free_address(address, (0, offset))


def test_where_all_are_taken_the_first_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "_is_free", lambda _host, _port: False)
    with pytest.raises(click.ClickException, match=r"no port is free at 127\.0\.0\.1: 9092 and"):
        free_address("127.0.0.1:9092")

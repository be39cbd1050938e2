"""Reads the console's live stream of server-sent events.

Used by broker.commands.top. Independent of the events' contents; like console_client, turns every failure
into a message for the user.
"""

import contextlib
import json
import socket
from collections.abc import Iterable, Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final
from urllib.parse import urlencode, urljoin, urlsplit

import click

from broker.commands.console_client import Console, RefusedError, problem_of
from broker.commands.plain import shown

PATH: Final = "/api/v1/events"
SILENCE_S: Final = 20.0
"""The console sends at least a heartbeat every 15 seconds."""

LONGEST_LINE: Final = 16 * 1024 * 1024


def events_in(lines: Iterable[bytes]) -> Iterator[tuple[str, Any]]:
    """Yield the name and JSON value of each complete event. Raises ValueError for an invalid event."""
    name = data = b""
    for line in lines:
        text = line.rstrip(b"\r\n")
        if not text:
            if data:
                yield name.decode("utf-8", "replace"), json.loads(data)
            name = data = b""
            continue
        field, _, value = text.partition(b":")
        if field == b"event":
            name = value.strip()
        elif field == b"data":
            data += value


class EventStream:
    """A stream that is open from construction. One thread iterates it; any thread may `cut` it."""

    def __init__(self, console: Console, query: Mapping[str, Any]) -> None:
        """Open the stream. Raises RefusedError for a refusal and click.ClickException if no console
        responds.
        """
        self._console = console
        place = urlsplit(console.url)
        self._connection: HTTPConnection
        try:
            if place.scheme == "https":
                self._connection = HTTPSConnection(place.netloc, timeout=SILENCE_S, context=console.trust)
            else:
                self._connection = HTTPConnection(place.netloc, timeout=SILENCE_S)
        except (HTTPException, ValueError) as error:
            raise self._unavailable(error) from error
        try:
            self._response = self._begin(f"{place.path.rstrip('/')}{PATH}?{urlencode(query)}")
        except (OSError, HTTPException, ValueError) as error:
            self._connection.close()
            raise self._unavailable(error) from error
        if self._response.status != 200:
            with contextlib.closing(self._connection), self._response:
                status = f"{self._response.status} {self._response.reason}"
                target = self._response.getheader("Location")
                if target is not None and 300 <= self._response.status < 400:
                    raise console.redirected(urljoin(console.url, target))
                raise RefusedError(
                    {"status": self._response.status} | problem_of(self._response.read(LONGEST_LINE), status)
                )

    def _begin(self, target: str) -> HTTPResponse:
        self._connection.connect()
        self._socket: socket.socket = self._connection.sock
        self._connection.request("GET", target, headers={"Authorization": f"Bearer {self._console.token}"})
        return self._connection.getresponse()

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Yield events until the console ends the stream or `cut` is called. Raises click.ClickException if
        it breaks off.
        """
        try:
            with self._response:
                yield from events_in(self._lines())
        except (OSError, HTTPException, ValueError) as error:
            raise self._unavailable(error) from error
        finally:
            self._connection.close()

    def _lines(self) -> Iterator[bytes]:
        while line := self._response.readline(LONGEST_LINE):
            if not line.endswith(b"\n"):
                raise ValueError("the last line of the stream is incomplete")
            yield line

    def cut(self) -> None:
        """End the iteration as if the console had ended the stream. Closing would wait for the reading
        thread.
        """
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _unavailable(self, error: Exception) -> click.ClickException:
        return click.ClickException(
            f"no console responds at {self._console.url}: {shown(str(error).strip())}"
        )

"""Reads the console's streams of server-sent events in threads and keeps the latest events.

Used by the command and its loop. There are two streams, because the console sorts them differently before
it cuts them to a page; one thread reads each and reconnects when it breaks. Independent of the events'
contents; like console_client, turns every failure into a message for the user.
"""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final
from urllib.parse import urlencode, urljoin, urlsplit

import click

from broker.tools.console_client import Console, RefusedError, problem_of
from broker.tools.escaping import printable

PATH: Final = "/api/v1/events"
SILENCE_TIMEOUT_S: Final = 20.0
"""The console sends at least a heartbeat every 15 seconds."""

MAX_LINE: Final = 16 * 1024 * 1024

TOPICS: Final = ("overview", "throttled", "quotas", "usage")
QUOTAS_QUERY: Final = {"topics": "quotas", "sort": "used", "order": "desc", "limit": "100"}
REST_QUERY: Final = {"topics": "overview,throttled,usage", "limit": "100"}
RETRY_S: Final = 1.0
STALE_S: Final = 3.0
"""The console sends the overview twice a second."""

PERMANENT: Final = (401, 403)
"""Statuses that a retry does not change."""


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
                self._connection = HTTPSConnection(
                    place.netloc, timeout=SILENCE_TIMEOUT_S, context=console.trust
                )
            else:
                self._connection = HTTPConnection(place.netloc, timeout=SILENCE_TIMEOUT_S)
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
                    {"status": self._response.status} | problem_of(self._response.read(MAX_LINE), status)
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
        while line := self._response.readline(MAX_LINE):
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
            f"no console responds at {self._console.url}: {printable(str(error).strip())}"
        )


class Watch:
    """The latest events. Entering starts the threads, leaving ends them.

    `sort` is the initial order of the busiest clients; `clock` is in seconds.
    """

    def __init__(
        self, console: Console, sort: Mapping[str, str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._clock = clock
        self._changed = threading.Condition()
        self._topics: dict[str, Any] = {}
        self._latest_overview = clock()
        self._troubles: dict[str, str] = {}
        self._refusal: click.ClickException | None = None
        self._sort = dict(sort)
        self._readers = {name: self._reader(name) for name in ("rest", "rules")}

    def __enter__(self) -> "Watch":
        for reader in self._readers.values():
            reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        for reader in self._readers.values():
            reader.end()

    def topics(self) -> dict[str, Any]:
        """Return the latest event of each topic, or nothing until each has one. Raises click.ClickException
        after a permanent refusal.
        """
        with self._changed:
            if self._refusal is not None:
                raise self._refusal
            return dict(self._topics) if len(self._topics) == len(TOPICS) else {}

    def first(self, timeout_s: float) -> dict[str, Any]:
        """Wait until each topic has an event. Raises click.ClickException if there is no console."""
        with self._changed:
            self._changed.wait_for(
                lambda: len(self._topics) == len(TOPICS) or self._refusal or self._troubles, timeout_s
            )
            if self._troubles and self._refusal is None:
                raise click.ClickException(next(iter(self._troubles.values())))
        topics = self.topics()
        if not topics:
            raise click.ClickException(f"no console responds at {self._console.url} within {timeout_s:g} s")
        return topics

    def trouble(self) -> str | None:
        """Return why the metrics are stale, and since when; None if they are current."""
        with self._changed:
            silent_s = self._clock() - self._latest_overview
            why = next(iter(self._troubles.values()), None)
        if why is None and silent_s <= STALE_S:
            return None
        return f"{silent_s:.0f} s old; {why or 'the console sends nothing'}"

    def sort_clients(self, sort: Mapping[str, str]) -> None:
        """Change the order in which the console sorts the busiest clients before it cuts them to a page.

        Opens another stream if the order differs.
        """
        if sort != self._sort:
            self._sort = dict(sort)
            self._readers["rest"].end()
            self._readers["rest"] = self._reader("rest")
            self._readers["rest"].start()

    def _reader(self, name: str) -> "Reader":
        query = QUOTAS_QUERY if name == "rules" else REST_QUERY | self._sort
        return Reader(name, self, lambda: EventStream(self._console, query))

    def receive(self, reader: "Reader", name: str, value: Any) -> None:
        """Store an event. Readers call this and `fail`; those of a replaced reader are ignored."""
        with self._changed:
            if self._readers[reader.label] is not reader:
                return
            self._troubles.pop(reader.label, None)
            if name in TOPICS:
                self._topics[name] = value
            if name == "overview":
                self._latest_overview = self._clock()
            if name == "signed-out":
                self._refusal = click.ClickException("the console no longer accepts this token")
            self._changed.notify_all()

    def fail(self, reader: "Reader", error: click.ClickException) -> None:
        with self._changed:
            if self._readers[reader.label] is not reader:
                return
            if isinstance(error, RefusedError) and error.problem.get("status") in PERMANENT:
                self._refusal = error
            self._troubles[reader.label] = error.message
            self._changed.notify_all()


class Reader(threading.Thread):
    """A thread that reads one stream after the other until it is ended."""

    def __init__(self, label: str, watch: Watch, open_stream: Callable[[], EventStream]) -> None:
        super().__init__(name=f"weir-top-{label}", daemon=True)
        self.label = label
        self._watch = watch
        self._open = open_stream
        self._ended = threading.Event()
        self._stream: EventStream | None = None

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                self._stream = self._open()
                if self._ended.is_set():
                    self._stream.cut()
                for name, value in self._stream:
                    self._watch.receive(self, name, value)
                self._watch.fail(self, click.ClickException("the console ended the stream"))
            except click.ClickException as error:
                self._watch.fail(self, error)
            self._ended.wait(RETRY_S)

    def end(self) -> None:
        """End the thread without waiting for it, so that drawing and leaving do not block."""
        self._ended.set()
        if self._stream is not None:
            self._stream.cut()

"""Reads the console's streams in threads and keeps the latest events.

Used by the command and its loop. There are two streams, because the console sorts them differently before
it cuts them to a page; one thread reads each and reconnects when it breaks. Independent of the events'
contents.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from broker.commands.console_client import Console, RefusedError
from broker.commands.event_stream import EventStream

TOPICS: Final = ("overview", "throttled", "quotas", "usage")
RULES_QUERY: Final = {"topics": "quotas", "sort": "used", "order": "desc", "limit": "100"}
REST_QUERY: Final = {"topics": "overview,throttled,usage", "limit": "100"}
AGAIN_S: Final = 1.0
STALE_S: Final = 3.0
"""The console sends the overview twice a second."""

NO_MORE: Final = (401, 403)
"""Statuses that a retry does not change."""


class Watch:
    """The latest events. Entering starts the threads, leaving ends them.

    `sort` is the initial order of the busiest clients; `clock` is in seconds.
    """

    def __init__(
        self, console: Console, sort: Mapping[str, str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._clock = clock
        self._heard = threading.Condition()
        self._topics: dict[str, Any] = {}
        self._overview_at = clock()
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
        with self._heard:
            if self._refusal is not None:
                raise self._refusal
            return dict(self._topics) if len(self._topics) == len(TOPICS) else {}

    def first(self, patience_s: float) -> dict[str, Any]:
        """Wait until each topic has an event. Raises click.ClickException if there is no console."""
        with self._heard:
            self._heard.wait_for(
                lambda: len(self._topics) == len(TOPICS) or self._refusal or self._troubles, patience_s
            )
            if self._troubles and self._refusal is None:
                raise click.ClickException(next(iter(self._troubles.values())))
        topics = self.topics()
        if not topics:
            raise click.ClickException(f"no console responds at {self._console.url} within {patience_s:g} s")
        return topics

    def trouble(self) -> str | None:
        """Return why the metrics are stale, and since when; None if they are current."""
        with self._heard:
            silent_s = self._clock() - self._overview_at
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
        query = RULES_QUERY if name == "rules" else REST_QUERY | self._sort
        return Reader(name, self, lambda: EventStream(self._console, query))

    def hear(self, reader: "Reader", name: str, value: Any) -> None:
        """Store an event. Readers call this and `lose`; those of a replaced reader are ignored."""
        with self._heard:
            if self._readers[reader.label] is not reader:
                return
            self._troubles.pop(reader.label, None)
            if name in TOPICS:
                self._topics[name] = value
            if name == "overview":
                self._overview_at = self._clock()
            if name == "signed-out":
                self._refusal = click.ClickException("the console no longer accepts this token")
            self._heard.notify_all()

    def lose(self, reader: "Reader", error: click.ClickException) -> None:
        with self._heard:
            if self._readers[reader.label] is not reader:
                return
            if isinstance(error, RefusedError) and error.problem.get("status") in NO_MORE:
                self._refusal = error
            self._troubles[reader.label] = error.message
            self._heard.notify_all()


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
                    self._watch.hear(self, name, value)
                self._watch.lose(self, click.ClickException("the console ended the stream"))
            except click.ClickException as error:
                self._watch.lose(self, error)
            self._ended.wait(AGAIN_S)

    def end(self) -> None:
        """End the thread without waiting for it, so that drawing and leaving do not block."""
        self._ended.set()
        if self._stream is not None:
            self._stream.cut()

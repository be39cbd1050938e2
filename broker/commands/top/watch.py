"""Listens to the console in threads of its own, and keeps what it said last.

Used by the command and its loop. Two streams, because they are sorted differently before they are cut to a
page; each is read by one thread, which comes back by itself when its stream breaks. Knows nothing of what is
in an event but its name.
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
"""The overview comes twice a second."""

NO_MORE: Final = (401, 403)
"""Statuses that trying again does not change."""


class Watch:
    """Enter it to listen; leaving ends the threads. `sort` is how the busiest clients are sorted at first,
    `clock` is in seconds.
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
        """The latest of each; empty until there is one of each. Raises click.ClickException where asking
        again would change nothing.
        """
        with self._heard:
            if self._refusal is not None:
                raise self._refusal
            return dict(self._topics) if len(self._topics) == len(TOPICS) else {}

    def first(self, patience_s: float) -> dict[str, Any]:
        """Waits until there is one of each. Raises click.ClickException where there is no console."""
        with self._heard:
            self._heard.wait_for(
                lambda: len(self._topics) == len(TOPICS) or self._refusal or self._troubles, patience_s
            )
            if self._troubles and self._refusal is None:
                raise click.ClickException(next(iter(self._troubles.values())))
        topics = self.topics()
        if not topics:
            raise click.ClickException(f"no console answers at {self._console.url} within {patience_s:g} s")
        return topics

    def trouble(self) -> str | None:
        """Why the figures are not those of now, and since when."""
        with self._heard:
            silent_s = self._clock() - self._overview_at
            why = next(iter(self._troubles.values()), None)
        if why is None and silent_s <= STALE_S:
            return None
        return f"{silent_s:.0f} s old; {why or 'the console says nothing'}"

    def sort_clients(self, sort: Mapping[str, str]) -> None:
        """How the busiest clients are sorted before they are cut to a page: by another stream, if need be."""
        if sort != self._sort:
            self._sort = dict(sort)
            self._readers["rest"].end()
            self._readers["rest"] = self._reader("rest")
            self._readers["rest"].start()

    def _reader(self, name: str) -> "Reader":
        query = RULES_QUERY if name == "rules" else REST_QUERY | self._sort
        return Reader(name, self, lambda: EventStream(self._console, query))

    def hear(self, reader: "Reader", name: str, value: Any) -> None:
        """Called by readers, as `lose` is. One that was replaced is not listened to."""
        with self._heard:
            if self._readers[reader.label] is not reader:
                return
            self._troubles.pop(reader.label, None)
            if name in TOPICS:
                self._topics[name] = value
            if name == "overview":
                self._overview_at = self._clock()
            if name == "signed-out":
                self._refusal = click.ClickException("the console knows this token no more")
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
    """Reads one stream after the other until it is ended."""

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
        """Does not wait for it: whoever ends it is about to draw, or to leave."""
        self._ended.set()
        if self._stream is not None:
            self._stream.cut()

"""What every open page is told: one look at the broker per beat, shared by all of them.

Run by webui.serving; streams of webui.rest.events wait on it. A stream that is still sending when the next
beat comes simply takes the one after: the latest wins, nothing queues, and a browser costs one reference to
a snapshot. While nobody watches, only the history is fed.
"""

import json
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final, Generic

import trio

from broker.control.views import Overview, QuotaRow, ThrottledRow, Views
from webui.addresses.listing import ADDRESSES, limit_json
from webui.doctor.answer import doctor_json
from webui.doctor.recent import Recent
from webui.doctor.symptoms import totals_of
from webui.held import HELD, HeldLately
from webui.history import History, Sample, sample_json
from webui.listing import Page, Row, Table
from webui.quotas.listing import RULES
from webui.quotas.usage import USAGE
from webui.shapes import overview_json, task_json, throttled_json
from webui.tables import CONNECTIONS, GROUPS, TOPICS
from webui.telemetry.listing import INSTANCES, subscription_json

BEAT_S: Final = 0.5
"""Half a second: an edit shows in every browser within one, and a short throttle is seldom missed."""

EXAMINED_EVERY_MS: Final = 2_000

MOST_THROTTLED: Final = 500
"""Rows of one live event, longest wait first; its `total` says how many there are."""


class Snapshot:
    """The broker at one beat. Each figure is asked for once, when the first stream wants it, however many
    want it.
    """

    def __init__(
        self,
        views: Views,
        tables: Mapping[str, "LiveTable[Any]"],
        diagnosis: "Diagnosis",
        now_ms: int,
        sample: Sample | None,
    ) -> None:
        self._views = views
        self._tables = tables
        self._diagnosis = diagnosis
        self.now_ms = now_ms
        self.sample = sample

    @cached_property
    def overview_row(self) -> Overview:
        return self._views.overview()

    @cached_property
    def throttled_rows(self) -> list[ThrottledRow]:
        return self._views.throttled()

    @cached_property
    def overview_data(self) -> bytes:
        overview = overview_json(self.overview_row, self.now_ms)
        return encode(overview | {"sample": sample_json(self.sample), "version": self._views.version})

    @cached_property
    def throttled_data(self) -> bytes:
        rows = self.throttled_rows
        items = throttled_json(rows[:MOST_THROTTLED], self.now_ms)
        return encode({"items": items, "total": len(rows)})

    @cached_property
    def tasks_data(self) -> bytes:
        return encode({"items": [task_json(row) for row in self._views.tasks()]})

    @property
    def doctor_data(self) -> bytes:
        return self._diagnosis.data(self.now_ms)

    def table_data(self, name: str, page: Page) -> bytes:
        return self._tables[name].page(page, self)


class Diagnosis:
    """What the doctor says, made anew every `EXAMINED_EVERY_MS` while somebody looks; it asks every view."""

    def __init__(self, views: Views, recent: Recent) -> None:
        self._views = views
        self._recent = recent
        self._made_ms = 0
        self._data = b""

    def data(self, now_ms: int) -> bytes:
        """As JSON."""
        if not self._data or now_ms - self._made_ms >= EXAMINED_EVERY_MS:
            self._made_ms = now_ms
            self._data = encode(doctor_json(self._views, self._recent, now_ms))
        return self._data


class LiveTable(Generic[Row]):
    """One table, as every open page of it wants to see it. Ten thousand rules take a while to gather and to
    sort, so rows are not gathered again until twenty times that while has passed, unless somebody changed
    something: at most a twentieth of the thread goes into it.
    """

    def __init__(
        self,
        table: Table[Row],
        gather: Callable[[], list[Row]],
        views: Views,
        beside: Callable[[], dict[str, Any]] = dict,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`beside` goes out with every page of it."""
        self.table = table
        self._gather = gather
        self._views = views
        self._beside = beside
        self._clock = clock
        self._rows: list[Row] = []
        self._pages: dict[Page, bytes] = {}
        self._version = -1
        self._snapshot: object = None
        self._gathered_at = self._cost = 0.0

    def page(self, page: Page, snapshot: object) -> bytes:
        """As JSON; the same for everybody who asks for the same page at the same beat."""
        begun = self._clock()
        if snapshot is not self._snapshot and self._is_old(begun):
            self._version = self._views.version
            self._rows = self._gather()
            self._pages = {}
            self._gathered_at, self._cost = begun, 0.0
        self._snapshot = snapshot
        if page not in self._pages:
            self._pages[page] = encode(self.table.cut(self._rows, page) | self._beside())
            self._cost += self._clock() - begun
        return self._pages[page]

    def _is_old(self, now: float) -> bool:
        return self._views.version != self._version or now - self._gathered_at >= 20 * self._cost


def live_tables(views: Views) -> dict[str, LiveTable[Any]]:
    """By the name of their event."""

    def client_rules() -> list[QuotaRow]:
        """Those for addresses have a table of their own."""
        return [row for row in views.quotas() if row.entity[0][0] != "ip"]

    def limits() -> dict[str, Any]:
        return {"limits": [limit_json(row) for row in views.connection_limits()]}

    telemetry = views.client_telemetry

    def subscriptions() -> dict[str, Any]:
        return {"subscriptions": [subscription_json(row) for row in telemetry.subscriptions()]}

    return {
        "quotas": LiveTable(RULES, client_rules, views),
        "usage": LiveTable(USAGE, views.usage, views),
        "connections": LiveTable(CONNECTIONS, views.connections, views),
        "topics": LiveTable(TOPICS, views.topics, views),
        "groups": LiveTable(GROUPS, views.groups, views),
        "ip-quotas": LiveTable(ADDRESSES, views.addresses, views, limits),
        "client-instances": LiveTable(INSTANCES, telemetry.instances, views, subscriptions),
    }


class Live:
    """`now_ms` is the wall clock. Every second beat feeds the history."""

    def __init__(self, views: Views, now_ms: Callable[[], int]) -> None:
        self._views = views
        self.tables = live_tables(views)
        self.held = HeldLately()
        self.tables["held"] = LiveTable(HELD, lambda: self.held.rows(now_ms()), views)
        self.recent = Recent()
        self.diagnosis = Diagnosis(views, self.recent)
        self._now_ms = now_ms
        self._beat = trio.Event()
        self._nudge = trio.Event()
        self.history = History()
        self.watchers = 0
        self.ended = False
        self.snapshot = Snapshot(views, self.tables, self.diagnosis, now_ms(), None)

    async def run(self) -> None:
        """Beats until cancelled."""
        sampled_at = -1.0
        while True:
            if trio.current_time() - sampled_at >= 2 * BEAT_S:
                sampled_at = trio.current_time()
                self.history.add(self._views.overview().figures, self._now_ms())
                self.held.add(self._views.throttled(), self._now_ms())
                if self.recent.is_due(self._now_ms()):
                    self.recent.add(totals_of(self._views), self._now_ms())
            if self.watchers:
                self.take()
            with trio.move_on_after(BEAT_S):
                await self._nudge.wait()
            self._nudge = trio.Event()

    def take(self) -> None:
        """A new snapshot for everybody who waits."""
        self.snapshot = Snapshot(self._views, self.tables, self.diagnosis, self._now_ms(), self.history.last)
        self._wake()

    def nudge(self) -> None:
        """Something was changed through this console: do not wait for the next beat to show it."""
        self._nudge.set()

    def end(self) -> None:
        """Ends every stream; the broker is going down."""
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        self._beat.set()
        self._beat = trio.Event()

    def join(self) -> None:
        """A stream begins; `leave` when it ends. The first one finds figures of now, not of the last time
        that somebody looked.
        """
        if not self.watchers:
            self.snapshot = Snapshot(
                self._views, self.tables, self.diagnosis, self._now_ms(), self.history.last
            )
        self.watchers += 1

    def leave(self) -> None:
        self.watchers -= 1

    async def next(self, seen: Snapshot | None) -> Snapshot | None:
        """The newest snapshot, as soon as it is not the one already seen; None when there will be no more."""
        while self.snapshot is seen and not self.ended:
            await self._beat.wait()
        return None if self.ended else self.snapshot


def encode(value: Any) -> bytes:
    """Compact JSON; a NaN that slipped through is a bug, not an answer."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()

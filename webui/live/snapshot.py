"""The broker at one moment for all open pages: each value is read and encoded once, on first use.

Created by live.broadcaster for every interval, read by live.sse_client. Tables outlive a snapshot, since ten
thousand rows are not collected for each. Independent of streams.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import chain
from typing import Any, Final, Generic

import trio

from broker.controller.rows.alerts import AlertViews
from broker.controller.rows.broker import Overview
from broker.controller.rows.connections import ThrottledRow
from broker.views.console import Views
from webui.live.history import Sample, sample_json
from webui.tables.answers import as_json
from webui.tables.json_output import encode, encode_in_slices, utc
from webui.tables.listing import Page, RemoteRows, Row, Table
from webui.tables.slices import collect, yield_to_others

EXAMINED_EVERY_MS: Final = 2_000

GATHERED_EVERY_S: Final = 0.9
"""Every interval, unless collecting takes too long; at once after a change."""

MAX_THROTTLED: Final = 500
"""Rows of one live event, longest wait first; its `total` is the number of all throttled connections."""


def overview_json(row: Overview, now_ms: int) -> dict[str, Any]:
    return {"at": utc(now_ms)} | as_json(row)


def throttled_json(row: ThrottledRow, now_ms: int) -> dict[str, Any]:
    return as_json(row) | {"since": utc(now_ms - row.since_ms)}


class Snapshot:
    """The broker at one time, by topic of the stream, as JSON. Each value is read and encoded when the first
    stream uses it. `overview` is the one that `sample` was made of; without one it is read again.
    """

    def __init__(
        self,
        views: Views,
        alerts: AlertViews,
        tables: Mapping[str, "LiveTable[Any]"],
        reports: Mapping[str, "LiveReport"],
        now_ms: int,
        sample: Sample | None,
        overview: Overview | None = None,
    ) -> None:
        self._views = views
        self._alerts = alerts
        self._tables = tables
        self._reports = reports
        self._row = overview
        self._overview = self._throttled = b""
        self.now_ms = now_ms
        self.sample = sample
        self.version = views.metadata.version

    async def overview(self) -> bytes:
        if not self._overview:
            row = self._views.overview() if self._row is None else self._row
            overview = overview_json(row, self.now_ms)
            firing = sum(firing for _, firing, *_ in self._alerts.rules().values())
            more = {"firing": firing, "sample": sample_json(self.sample), "version": self.version}
            self._overview = encode(overview | more)
            await yield_to_others()
        return self._overview

    async def throttled(self) -> bytes:
        if not self._throttled:
            rows = self._views.quotas.throttled()
            items = [throttled_json(row, self.now_ms) for row in rows[:MAX_THROTTLED]]
            total = len(rows) + self._views.shares.unlisted_throttled()
            self._throttled = encode({"items": items, "total": total})
            await yield_to_others()
        return self._throttled

    async def report(self, name: str) -> bytes:
        return await self._reports[name].data(self.now_ms)

    async def table(self, name: str, page: Page) -> bytes:
        return await self._tables[name].page(page, self)


class LiveReport:
    """A topic that examines the whole broker. Recomputed every `EXAMINED_EVERY_MS` while in use, or after a
    change. Concurrent callers wait for the same result.
    """

    def __init__(self, views: Views, make: Callable[[int], Awaitable[dict[str, Any]]]) -> None:
        """`make` gets the wall clock in ms."""
        self._views = views
        self._make = make
        self._made_ms = self._version = 0
        self._data = b""
        self._busy = trio.Lock()

    async def data(self, now_ms: int) -> bytes:
        """Return the report as JSON."""
        if self._is_old(now_ms):
            async with self._busy:
                if self._is_old(now_ms):
                    self._made_ms, self._version = now_ms, self._views.metadata.version
                    made = await self._make(now_ms)
                    self._data = await encode_in_slices(made)
        return self._data

    def _is_old(self, now_ms: int) -> bool:
        if not self._data or self._views.metadata.version != self._version:
            return True
        return now_ms - self._made_ms >= EXAMINED_EVERY_MS


async def _nothing() -> dict[str, Any]:
    return {}


async def _no_remote_rows(_page: Page) -> RemoteRows:
    return RemoteRows((), 0, 0, {})


class LiveTable(Generic[Row]):
    """A table for all open pages. Ten thousand rules take a while to collect and sort, so both run in slices,
    and rows are collected again only after twenty times that while, or after a change: at most a twentieth of
    the thread.
    """

    def __init__(
        self,
        table: Table[Row],
        gather: Callable[[], Iterable[Row | None]],
        views: Views,
        beside: Callable[[], Awaitable[dict[str, Any]]] = _nothing,
        clock: Callable[[], float] = time.perf_counter,
        remote: Callable[[Page], Awaitable[RemoteRows]] = _no_remote_rows,
    ) -> None:
        """The result of `beside` is added to every page of the table. `remote` returns the rows of a page
        that other servers have.
        """
        self.table = table
        self._gather = gather
        self._views = views
        self._beside = beside
        self._clock = clock
        self._remote = remote
        self._rows: list[Row] = []
        self._pages: dict[Page, bytes] = {}
        self._version = -1
        self._snapshot: object = None
        self._gathered_at = self._cost = 0.0
        self._busy = trio.Lock()

    async def page(self, page: Page, snapshot: object) -> bytes:
        """Return a page as JSON, computed once per snapshot. Concurrent callers wait for the same result."""
        if snapshot is self._snapshot and page in self._pages:
            return self._pages[page]
        async with self._busy:
            begun = self._clock()
            if snapshot is not self._snapshot and self._is_old(begun):
                version = self._views.metadata.version
                self._rows = await collect(self._gather())
                self._pages = {}
                self._version, self._gathered_at, self._cost = version, begun, 0.0
            self._snapshot = snapshot
            if page not in self._pages:
                waits = self._clock()
                others = await self._remote(page)
                begun += self._clock() - waits
                found = others.counted(await self.table.page(chain(self._rows, others.rows), page))
                self._pages[page] = await encode_in_slices(found | await self._beside())
                self._cost += self._clock() - begun
                await yield_to_others()
            return self._pages[page]

    def _is_old(self, now: float) -> bool:
        if self._views.metadata.version != self._version:
            return True
        return now - self._gathered_at >= max(GATHERED_EVERY_S, 20 * self._cost)

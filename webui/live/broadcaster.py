"""Live updates: one snapshot of the broker per interval, shared by all open pages.

Run by webui.serving; streams of webui.rest.events subscribe to it. Takes a snapshot once a second, and
another one soon after a change. It is sent to one stream after the other, with a scheduling point in
between. A stream that is still sending at the next snapshot skips to the one after: nothing queues, and a
stream holds only one snapshot. Without an open stream only the history is updated.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any, Final

import trio

from broker.controller.rows.alerts import AlertViews
from broker.controller.rows.broker import Overview
from broker.views.console import Views
from broker.views.readings import Part
from webui.doctor.checks import RecentTotals
from webui.doctor.symptoms import totals_of
from webui.live.history import NO_OTHERS, History
from webui.live.lag_history import LagHistory
from webui.live.snapshot import LiveReport, LiveTable, Snapshot
from webui.live.sse_client import StreamSubscriber
from webui.live.throttled import RecentThrottles
from webui.live.topic_rates import TopicRates
from webui.tables.slices import collect, sliced, yield_to_others

BROADCAST_EVERY_S: Final = 1.0
"""Snapshots take time of the broker's thread; charts have one point per second."""

POLL_EVERY_S: Final = 0.25
"""The interval at which changes through other interfaces are detected, and the shortest between updates."""


class Live:
    """The broadcaster of all streams. `now_ms` is the wall clock; `tables` and `reports` are the topics that
    streams may follow, by the name of their event. `recent_throttles`, `recent` and `lag_history` are filled
    with every snapshot.
    """

    def __init__(
        self,
        views: Views,
        alerts: AlertViews,
        now_ms: Callable[[], int],
        tables: Mapping[str, LiveTable[Any]],
        reports: Mapping[str, LiveReport],
        recent_throttles: RecentThrottles,
        recent: RecentTotals,
        lag_history: LagHistory,
        topic_rates: TopicRates,
    ) -> None:
        self._views = views
        self._alerts = alerts
        self.tables = tables
        self.reports = reports
        self.recent_throttles = recent_throttles
        self.recent = recent
        self._now_ms = now_ms
        self._waiting = trio.lowlevel.ParkingLot()
        self._directly: dict[StreamSubscriber, None] = {}
        self._refresh_requested = trio.Event()
        self.history = History()
        self.lag_history = lag_history
        self.topic_rates = topic_rates
        self._groups_read_ms: int | None = None
        self.streams = 0
        self.streams_of: Counter[str] = Counter()
        """Open streams by the name of their token."""
        self.ended = False
        self.snapshot = self._take_snapshot()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            begun = trio.current_time()
            self._refresh_requested = trio.Event()
            overview, now_ms = self._views.overview(), self._now_ms()
            self.history.add(overview.metrics, now_ms, self._views.shares.others() or NO_OTHERS)
            await yield_to_others()
            async with aclosing(sliced(self._views.quotas.each_throttled())) as slices:
                async for some in slices:
                    self.recent_throttles.add(some, now_ms)
            if self.recent.is_due(now_ms):
                self.recent.add(await totals_of(self._views), now_ms)
                await yield_to_others()
            if self.lag_history.is_due(now_ms) and self._groups_are_new():
                self.lag_history.add(await collect(self._views.topics.each_group()), now_ms)
                await yield_to_others()
            if self.streams:
                await self._update_all(overview)
            await self._update_after_changes(begun + BROADCAST_EVERY_S)

    def _groups_are_new(self) -> bool:
        """Return whether the groups were read since the last call: a gateway reads them while somebody looks,
        a broker has them at hand.
        """
        state = self._views.readings.state(Part.GROUPS)
        if state is None:
            return True
        before, self._groups_read_ms = self._groups_read_ms, state.read_at_ms
        return state.read_at_ms != before

    async def _update_after_changes(self, until: float) -> None:
        """Send updates after changes until the next regular one."""
        while (now := trio.current_time()) < until:
            with trio.move_on_at(min(until, now + POLL_EVERY_S)):
                await self._refresh_requested.wait()
            is_new = self._refresh_requested.is_set() or self._views.metadata.version != self.snapshot.version
            self._refresh_requested = trio.Event()
            now = trio.current_time()
            if is_new and self.streams and now < until:
                await self._update_all()
                await trio.sleep_until(min(until, now + POLL_EVERY_S))

    async def _update_all(self, overview: Overview | None = None) -> None:
        """Send a new snapshot to all streams, one after the other."""
        snapshot = self.snapshot = self._take_snapshot(overview)
        for _ in range(len(self._waiting)):
            self._waiting.unpark()
            await yield_to_others()
        for subscriber in list(self._directly):
            if subscriber in self._directly and await self._update(subscriber, snapshot):
                await yield_to_others()

    async def _update(self, subscriber: StreamSubscriber, snapshot: Snapshot) -> bool:
        """Send the events of one stream. Return whether there were any."""
        if not subscriber.is_logged_in():
            subscriber.wake()
            return True
        news = await subscriber.new_events(snapshot)
        if news and subscriber in self._directly:
            subscriber.send(news)
        return bool(news)

    def _take_snapshot(self, overview: Overview | None = None) -> Snapshot:
        now_ms, sample = self._now_ms(), self.history.last
        return Snapshot(self._views, self._alerts, self.tables, self.reports, now_ms, sample, overview)

    def refresh(self) -> None:
        """Request an update before the next regular one, after a change through this console."""
        self._refresh_requested.set()

    def end(self) -> None:
        """End every stream, since the broker is shutting down."""
        self.ended = True
        self._waiting.unpark_all()
        for subscriber in self._directly:
            subscriber.wake()

    def join(self, token: str = "") -> None:
        """Add a stream of `token`; `leave` removes it. The first stream gets a new snapshot, since none were
        taken without one.
        """
        if not self.streams:
            self.snapshot = self._take_snapshot()
        self.streams += 1
        self.streams_of[token] += 1

    def leave(self, token: str = "") -> None:
        self.streams -= 1
        self.streams_of[token] -= 1
        if not self.streams_of[token]:
            del self.streams_of[token]

    async def next(self, seen: Snapshot | None) -> Snapshot | None:
        """Return the newest snapshot once it differs from `seen`, or None after `end`."""
        while self.snapshot is seen and not self.ended:
            await self._waiting.park()
        return None if self.ended else self.snapshot

    async def write_directly(self, subscriber: StreamSubscriber) -> None:
        """Let the broadcaster write to this stream's connection until the stream's own task must act, or
        until cancelled; afterwards the broadcaster no longer writes. Raises BrokenResourceError as
        `Subscriber.send_rest` does.
        """
        if self.ended:
            return
        self._directly[subscriber] = None
        try:
            await subscriber.woken()
        finally:
            del self._directly[subscriber]
        await subscriber.send_rest()

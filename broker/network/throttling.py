"""Holds channels that broke a quota, and frees them on time. (Kafka: ThrottledChannelReaper-*)

Started by the handler pool before the reply is enqueued (KIP-219), ended by one reaper task per kind of quota. A reaper
sleeps until the earliest end and is woken when an earlier one comes; it never polls.
"""

from typing import Final

import trio

from broker.network.channel import Channel
from broker.network.clock import TrioClock
from broker.network.mute import MuteEvent
from broker.network.request import Request
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.kinds import QuotaKind
from broker.quotas.verdict import Throttle

REAPERS: Final = {
    QuotaKind.PRODUCE: "ThrottledChannelReaper-Produce",
    QuotaKind.FETCH: "ThrottledChannelReaper-Fetch",
    QuotaKind.REQUEST: "ThrottledChannelReaper-Request",
    QuotaKind.CONTROLLER_MUTATION: "ThrottledChannelReaper-ControllerMutation",
}


class Reaper:
    """Frees the held channels of one kind of quota."""

    __slots__ = ("_asleep_until_ms", "_clock", "_held", "_wake")

    def __init__(self, quotas: ClientQuotas, kind: QuotaKind, clock: TrioClock) -> None:
        self._held = quotas.manager(kind).throttled
        self._clock = clock
        self._wake = trio.Event()
        self._asleep_until_ms: int | None = None

    def added(self, end_ms: int) -> None:
        """A channel is held until `end_ms`."""
        if self._asleep_until_ms is None or end_ms < self._asleep_until_ms:
            self._wake.set()

    def forget(self, channel: Channel) -> None:
        self._held.forget(channel)

    async def run(self) -> None:
        """Until cancelled; then whatever is held stays held, since its connection goes too."""
        clock = self._clock
        while True:
            now_ms = clock.ms()
            while (channel := self._held.pop_expired(now_ms)) is not None:
                assert isinstance(channel, Channel)
                assert channel.processor is not None
                channel.processor.end_throttling(channel)
            self._wake = trio.Event()
            deadline = self._asleep_until_ms = self._held.next_deadline()
            with trio.move_on_after(float("inf") if deadline is None else (deadline - clock.ms()) / 1000):
                await self._wake.wait()


class Throttling:
    """The four reapers behind one door."""

    def __init__(self, quotas: ClientQuotas, clock: TrioClock) -> None:
        self._quotas = quotas
        self._clock = clock
        self._reapers = {kind: Reaper(quotas, kind, clock) for kind in REAPERS}

    def start(self, request: Request, throttle: Throttle) -> None:
        """Marks the request's channel as throttled from now on. Called while its response is still pending."""
        channel = request.channel
        if channel.fd < 0:
            return
        channel.on(MuteEvent.THROTTLE_STARTED)
        now_ms = self._clock.ms()
        self._quotas.manager(throttle.kind).throttle(channel, throttle, now_ms)
        self._reapers[throttle.kind].added(now_ms + throttle.throttle_ms)

    def forget(self, channel: Channel) -> None:
        """The connection is closed."""
        for reaper in self._reapers.values():
            reaper.forget(channel)

    def start_reapers(self, nursery: trio.Nursery) -> None:
        for kind, name in REAPERS.items():
            nursery.start_soon(self._reapers[kind].run, name=name)

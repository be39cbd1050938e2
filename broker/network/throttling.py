"""Holds channels that broke a quota, and frees them on time. (Kafka: ThrottledChannelReaper-*)

Started by the handler pool before the reply is enqueued (KIP-219), ended by one reaper task per kind of
quota. One more reaper looks whether held clients wait as they were told; see `quotas.obedience`.
"""

from collections.abc import Iterable
from typing import Final

from broker.network.clock import TrioClock
from broker.network.connection.channel import Channel, bytes_waiting
from broker.network.connection.mute import THROTTLED, MuteEvent
from broker.network.failures import Failures, Place
from broker.network.handling.request import Request
from broker.network.reaper import Reaper
from broker.network.supervisor import TaskStarter
from broker.network.watching import Watchers
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.kinds import QuotaKind
from broker.quotas.obedience import Watch
from broker.quotas.throttled import ThrottledChannels
from broker.quotas.verdict import Throttle

REAPERS: Final = {
    QuotaKind.PRODUCE: "ThrottledChannelReaper-Produce",
    QuotaKind.FETCH: "ThrottledChannelReaper-Fetch",
    QuotaKind.REQUEST: "ThrottledChannelReaper-Request",
    QuotaKind.CONTROLLER_MUTATION: "ThrottledChannelReaper-ControllerMutation",
}


OBEDIENCE: Final = "throttle-obedience-reaper"

RUNNING_MS: Final = 1_000
"""A connection younger than this says nothing about how much its client sends."""


class Throttling:
    """The throttled channels of every kind of quota, and the reapers that free them."""

    def __init__(
        self, quotas: ClientQuotas, clock: TrioClock, watchers: Watchers, failures: Failures
    ) -> None:
        self._quotas = quotas
        self._clock = clock
        self._watchers = watchers
        self._failures = failures
        self._reapers = {
            kind: _reaper(REAPERS[kind], manager.throttled, clock)
            for kind, manager in quotas.managers.items()
        }
        self._looks = Reaper(OBEDIENCE, quotas.obedience.next_deadline, self._look, clock)

    def start(self, request: Request, throttle: Throttle, *, is_told: bool = True) -> None:
        """Marks the request's channel as throttled from now on. Called while its response is still
        pending; `is_told`: whether that is one that says so.
        """
        request.route.metrics.count_throttle(request, throttle.throttle_ms)
        channel = request.channel
        if channel.fd < 0:
            return
        channel.on(MuteEvent.THROTTLE_STARTED)
        now_ms = self._clock.ms()
        self._quotas.throttle(channel, channel, throttle, now_ms)
        self._watchers.throttled(channel, throttle)
        self._reapers[throttle.kind].poke()
        if is_told:
            obedience = self._quotas.obedience
            obedience.throttled(channel, throttle.throttle_ms, now_ms, waiting=bytes_waiting(channel))
            self._looks.poke()

    def poke(self) -> None:
        """Limits have changed: what is held may be due earlier."""
        for reaper in self._reapers.values():
            reaper.poke()

    def adopt(self, channels: Iterable[Channel]) -> None:
        """Rules have come: clients that are over them already, on average over their connections' lives, are
        held from their next request on.
        """
        wall_ms = self._clock.wall_ms()
        running = [
            (channel, (wall_ms - channel.opened_wall_ms) / 1000)
            for channel in channels
            if wall_ms - channel.opened_wall_ms >= RUNNING_MS
        ]
        now_ms, quotas = self._clock.ms(), self._quotas
        quotas.produce.adopt(
            [(each.principal, each.client_id, each.bytes_in / age) for each, age in running], now_ms
        )
        quotas.fetch.adopt(
            [(each.principal, each.client_id, each.bytes_out / age) for each, age in running], now_ms
        )

    def forget(self, channel: Channel) -> None:
        """The connection is closed."""
        self._quotas.forget(channel)

    def start_reapers(self, nursery: TaskStarter) -> None:
        for reaper in (*self._reapers.values(), self._looks):
            nursery.start_soon(reaper.run, name=reaper.name)

    def _look(self, now_ms: int) -> None:
        obedience = self._quotas.obedience
        while (watch := obedience.pop_due(now_ms)) is not None:
            channel = watch.channel
            assert isinstance(channel, Channel)
            self._failures.attempt(Place.UNMUTE, channel.id, self._look_at, channel, watch, now_ms)

    def _look_at(self, channel: Channel, watch: Watch, now_ms: int) -> None:
        obedience = self._quotas.obedience
        if channel.mute_state not in THROTTLED:
            obedience.released(watch)
        elif extra_ms := obedience.looked(watch, now_ms, waiting=bytes_waiting(channel)):
            self._quotas.extend(channel, extra_ms)


def _reaper(name: str, held: ThrottledChannels, clock: TrioClock) -> Reaper:
    def free(now_ms: int) -> None:
        while (channel := held.pop_expired(now_ms)) is not None:
            assert isinstance(channel, Channel)
            channel.responder.end_throttling(channel)

    return Reaper(name, held.next_deadline, free, clock)

"""Mutes channels that exceed a quota and unmutes them on time. (Kafka: ThrottledChannelReaper-*)

The handler pool starts a throttle before it queues the response (KIP-219); one reaper task per kind of quota
ends it. Another reaper checks whether throttled clients wait as long as the response demanded; see
`quotas.throttle_compliance`.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

from broker.common.slices import Steps, run_through
from broker.network.clock import TrioClock
from broker.network.connection.channel import THROTTLED, Channel, MuteEvent, bytes_waiting
from broker.network.failures import FailedStep, Failures
from broker.network.observers import ConnectionObservers
from broker.network.reaper import Reaper
from broker.network.requests.request_metrics import MeasuredRequest, MeasuredRoute, RequestMetrics
from broker.network.supervisor import TaskStarter
from broker.quotas.bandwidth import RateQuotaManager
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.kinds import QuotaKind
from broker.quotas.throttle_compliance import WatchedChannel
from broker.quotas.throttled import Throttle, ThrottledChannels
from broker.quotas.usage import UserAndClientId

REAPERS: Final = {
    QuotaKind.PRODUCE: "ThrottledChannelReaper-Produce",
    QuotaKind.FETCH: "ThrottledChannelReaper-Fetch",
    QuotaKind.REQUEST: "ThrottledChannelReaper-Request",
    QuotaKind.CONTROLLER_MUTATION: "ThrottledChannelReaper-ControllerMutation",
}

BROKER_QUOTA: Final = "ThrottledChannelReaper-Broker"
"""One reaper for the four kinds of the broker's own quota, which share their throttled channels."""

THROTTLE_COMPLIANCE: Final = "throttle-compliance-reaper"

CHANNELS: Final = 128
"""Connections examined between two pauses, at about two microseconds each."""

RUNNING_MS: Final = 1_000
"""The minimum age of a connection whose average rate is meaningful."""


class ThrottledRoute(MeasuredRoute, Protocol):
    """The route of a throttled request."""

    metrics: RequestMetrics


class ThrottledRequest(MeasuredRequest, Protocol):
    """The request that a throttle is about."""

    @property
    def route(self) -> ThrottledRoute: ...


class Throttling:
    """The throttled channels of every kind of quota, and their reapers. `started` and `ended` count
    throttles; a throttle does not end if its connection closes.
    """

    def __init__(
        self, quotas: ClientQuotas, clock: TrioClock, observers: ConnectionObservers, failures: Failures
    ) -> None:
        self._quotas = quotas
        self._clock = clock
        self._observers = observers
        self._failures = failures
        compliance = quotas.throttle_compliance
        checks = Reaper(THROTTLE_COMPLIANCE, compliance.next_deadline, self._check_compliance, clock)
        compliance.on_deadline = checks.wake_by
        self._reapers = (
            *(self._reaper(REAPERS[kind], each.throttled) for kind, each in quotas.managers.items()),
            self._reaper(BROKER_QUOTA, quotas.broker.throttled),
            checks,
        )
        self.started = self.ended = 0

    def start(self, request: ThrottledRequest, throttle: Throttle, *, is_reported: bool = True) -> None:
        """Throttle the request's channel. Called while its response is pending; `is_reported` says whether
        that response reports the throttle to the client.
        """
        request.route.metrics.count_throttle(request, throttle.throttle_ms)
        channel = request.channel
        if channel.fd < 0:
            return
        channel.on(MuteEvent.THROTTLE_STARTED)
        self.started += 1
        now_ms = self._clock.ms()
        self._quotas.throttle(channel, channel, throttle, now_ms)
        for observer in self._observers:
            observer.throttled(channel, throttle)
        if is_reported:
            throttle_compliance = self._quotas.throttle_compliance
            throttle_compliance.throttled(
                channel, throttle.throttle_ms, now_ms, waiting=bytes_waiting(channel)
            )

    def apply_rules(self, channels: Callable[[], Iterable[Channel]]) -> Steps[None]:
        """Apply added and removed rules. Clients that now match another rule keep their debt; a client whose
        average rate over its connection's age already exceeds a new rule is throttled from its next request
        on. `channels` returns the open connections. Pauses after every CHANNELS connections.
        """
        now_ms, quotas = self._clock.ms(), self._quotas
        open_now: list[Channel] | None = None
        for manager in quotas.managers.values():
            if not manager.has_new_rules:
                continue
            if not isinstance(manager, RateQuotaManager) or manager is quotas.request:
                for each in (manager, *manager.parts.values()):
                    run_through(each.recheck_clients((), now_ms))
                    each.forget_new()
            else:
                if open_now is None:
                    open_now = list(channels())
                yield from self.apply_rate_rules(manager, open_now, now_ms)

    def apply_rate_rules(
        self, manager: RateQuotaManager, channels: Iterable[Channel], now_ms: int
    ) -> Steps[None]:
        """Apply added and removed rules of a byte rate to the clients of `channels`, which it counts."""
        concerned: list[Channel] = []
        clients: list[UserAndClientId] = []
        for channel in channels:
            clients.append((channel.principal, channel.client_id))
            if manager.concerns(channel.principal, channel.client_id):
                concerned.append(channel)
            if len(clients) % CHANNELS == 0:
                yield
        yield from manager.recheck_clients(clients, now_ms)
        yield from manager.adopt(self._running(manager.kind, concerned), now_ms)

    def _running(
        self, kind: QuotaKind, channels: Iterable[Channel]
    ) -> Iterator[tuple[str, str | None, float]]:
        wall_ms = self._clock.wall_ms()
        for channel in channels:
            age_ms = wall_ms - channel.opened_wall_ms
            if age_ms >= RUNNING_MS:
                moved = channel.bytes_in if kind is QuotaKind.PRODUCE else channel.bytes_out
                yield channel.principal, channel.client_id, moved / (age_ms / 1000)

    def forget(self, channel: Channel) -> None:
        """Forget a closed connection."""
        self._quotas.forget(channel)

    def start_reapers(self, nursery: TaskStarter) -> None:
        for reaper in self._reapers:
            nursery.start_soon(reaper.run, name=reaper.name)

    def _check_compliance(self, now_ms: int) -> None:
        throttle_compliance = self._quotas.throttle_compliance
        while (watch := throttle_compliance.pop_due(now_ms)) is not None:
            channel = watch.channel
            assert isinstance(channel, Channel)
            self._failures.attempt(FailedStep.UNMUTE, channel.id, self._check_channel, channel, watch, now_ms)

    def _check_channel(self, channel: Channel, watch: WatchedChannel, now_ms: int) -> None:
        throttle_compliance = self._quotas.throttle_compliance
        if channel.mute_state not in THROTTLED:
            throttle_compliance.released(watch)
        elif extra_ms := throttle_compliance.checked(watch, now_ms, waiting=bytes_waiting(channel)):
            self._quotas.extend(channel, extra_ms)

    def _reaper(self, name: str, throttled: ThrottledChannels) -> Reaper:
        def free(now_ms: int) -> None:
            while (channel := throttled.pop_expired(now_ms)) is not None:
                assert isinstance(channel, Channel)
                self.ended += 1
                channel.responder.end_throttling(channel)

        reaper = Reaper(name, throttled.next_deadline, free, self._clock)
        throttled.on_deadline = reaper.wake_by
        return reaper


class PipelinedThrottling(Throttling):
    """Throttles connections of which several requests may exceed a quota, as in AutoMQ's mode and at a
    gateway: once per kind of quota, until the latest end. Their pending responses are sent meanwhile.
    (AutoMQ: StartThrottlingResponse)
    """

    def start(self, request: ThrottledRequest, throttle: Throttle, *, is_reported: bool = True) -> None:
        channel = request.channel
        if channel.fd < 0:
            return
        if self._quotas.prolong(channel, throttle, self._clock.ms()):
            for observer in self._observers:
                observer.throttled(channel, throttle)
        else:
            super().start(request, throttle, is_reported=is_reported)

"""The task that evaluates alert rules and hands notifications to the outboxes of their destinations.

Started by broker.server.app. State and history are in memory: after a restart, alerts begin as pending again,
and an alert that was resolved meanwhile is not notified (an Alertmanager resolves it by itself).
"""

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import partial
from typing import Final, Protocol

import msgspec
import trio

from broker.common.clock import Clock
from broker.common.errors import ApiError, ErrorCode
from broker.common.slice_runner import run_slices
from broker.config.sections import AlertConfig
from broker.controller.rows.alerts import AlertEvent, AlertRow, Attempt, Delivery
from broker.metadata.alerts import (
    OF_SERVER,
    AlertCondition,
    AlertDestination,
    AlertRule,
    DestinationKind,
    SilenceEntry,
)
from broker.metadata.image import Image
from broker.monitoring.alerts.evaluation import Alert, AlertTransition, RuleState
from broker.monitoring.alerts.formats import (
    ALERTMANAGER_PATH,
    RESEND_MS,
    Notification,
    NotificationSource,
    alertmanager_body,
    pagerduty_body,
    sample_notification,
    slack_body,
    webhook_body,
)
from broker.monitoring.alerts.mail import Mail, mail_of, send_mail
from broker.monitoring.alerts.observations import Values, disk_use, matching, of_server, sources
from broker.monitoring.alerts.outbox import BATCH, Outbox, SendResult
from broker.monitoring.alerts.sender import post
from broker.monitoring.alerts.silences import Subject, silenced
from broker.security.egress import HTTP, SMTP, Egress, Endpoint
from broker.views.console import Views
from broker.views.load import LoadMeter

logger = logging.getLogger(__name__)

TASK: Final = "alert-rules"
MAX_EVENTS: Final = 500
"""Events that are kept; ours."""


class Poster(Protocol):
    async def __call__(
        self,
        endpoint: Endpoint,
        body: bytes,
        headers: Sequence[tuple[str, str]],
        egress: Egress,
        timeout_s: float,
        /,
    ) -> SendResult: ...


class Mailer(Protocol):
    async def __call__(
        self,
        endpoint: Endpoint,
        mail: Mail,
        login: tuple[str, str] | None,
        egress: Egress,
        timeout_s: float,
        /,
    ) -> SendResult: ...


class _Mailbox(msgspec.Struct):
    """The outbox of a destination, and the scope of its task."""

    outbox: Outbox
    scope: trio.CancelScope


class _Told(msgspec.Struct, frozen=True):
    """When the destinations were notified of a firing alert."""

    first_ms: int
    last_ms: int


class Alerting:
    """Implements `controller.rows.alerts.AlertViews`.

    `image` returns the current metadata image, `source` who notifies; `directories` are the log directories.
    """

    def __init__(
        self,
        image: Callable[[], Image],
        views: Views,
        source: Callable[[], NotificationSource],
        config: AlertConfig,
        directories: Sequence[str],
        clock: Clock,
        post: Poster = post,
        send_mail: Mailer = send_mail,
    ) -> None:
        self._image = image
        self._sources = sources(views)
        self._meter: LoadMeter | None = None
        self._new_meter = views.live.meter
        self._source = source
        self._egress = Egress(config.destination_hosts)
        self._interval_s = config.interval_ms / 1000
        self._timeout_s = config.timeout_ms / 1000
        self._directories = directories
        self._clock = clock
        self._post = post
        self._send_mail = send_mail
        self._states: dict[str, RuleState] = {}
        self._rules: dict[str, AlertRule] = {}
        self._silenced: Mapping[Subject, Sequence[SilenceEntry]] = {}
        self._told: dict[Subject, _Told] = {}
        self._mailboxes: dict[str, _Mailbox] = {}
        self._events: deque[AlertEvent] = deque(maxlen=MAX_EVENTS)
        self._number = 0
        self._resend_ms = 0
        self._testing = trio.Lock()

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                await self.evaluate(nursery)
                await trio.sleep(self._wait_s())

    def _wait_s(self) -> float:
        """Return the time to the next evaluation: the interval, or less if a silence ends before."""
        wall_ms = self._clock.wall_ms()
        ends = (each.silence.ends_at_ms - wall_ms for each in self._image().alert_silences.values())
        return min([self._interval_s, *(end_ms / 1000 for end_ms in ends if end_ms > 0)])

    async def evaluate(self, nursery: trio.Nursery) -> None:
        """Evaluate all rules once; `nursery` runs the outboxes."""
        image = self._image()
        enabled = {name: each.rule for name, each in image.alert_rules.items() if each.rule.enabled}
        if not enabled and not self._states:
            self._keep(image)
            return
        conditions = {rule.condition for rule in enabled.values()}
        observed = self._load(conditions)
        for condition in conditions - OF_SERVER:
            observed[condition] = await self._observe(condition)
        self._keep(self._image())
        now_ms, wall_ms = self._clock.ms(), self._clock.wall_ms()
        for name in [name for name in self._states if name not in enabled]:
            rule = self._rules.pop(name)
            for transition in self._states.pop(name).end(wall_ms):
                self._change(nursery, name, rule, transition)
        for name, rule in enabled.items():
            values = await run_slices(matching(rule, observed.get(rule.condition, Values())))
            state = self._states.setdefault(name, RuleState())
            self._rules[name] = rule
            for transition in state.step(rule, values, now_ms, wall_ms, values.others):
                self._change(nursery, name, rule, transition)
        subjects = [(name, alert.labels) for name, state in self._states.items() for alert in state.alerts]
        entries = self._image().alert_silences.values()
        self._silenced = await run_slices(silenced(subjects, entries, wall_ms)) if entries else {}
        for name, rule in self._rules.items():
            for alert in self._states[name].firing:
                if (name, alert.labels) not in self._silenced:
                    self._notify_when_due(nursery, name, rule, alert, now_ms)
        self._remind(nursery, now_ms)

    def _load(self, conditions: Set[AlertCondition]) -> dict[AlertCondition, Values]:
        """Return the values of the whole server since the last evaluation, if a rule watches one of them."""
        if not conditions & OF_SERVER:
            self._meter = None
            return {}
        self._meter = self._meter or self._new_meter()
        return of_server(self._meter.read(), str(self._source().node_id))

    async def _observe(self, condition: AlertCondition) -> Values:
        if condition is AlertCondition.DISK:
            return await trio.to_thread.run_sync(disk_use, self._directories, abandon_on_cancel=True)
        return await run_slices(self._sources[condition]())

    def _change(self, nursery: trio.Nursery, name: str, rule: AlertRule, transition: AlertTransition) -> None:
        """Record what began to fire or was resolved, and notify of the end of what was notified."""
        event = "firing" if transition.ended_at_ms is None else "resolved"
        self._record(
            transition.ended_at_ms or transition.fired_at_ms,
            event,
            rule=name,
            severity=rule.severity.value,
            labels=transition.labels,
            value=transition.value,
        )
        about = {"about": ", ".join(f"{key} {text}" for key, text in transition.labels)}
        logger.info(f"an alert is {event}", extra={"rule": name, "value": transition.value, **about})
        if event == "resolved" and self._told.pop((name, transition.labels), None) is not None:
            for destination in rule.destinations:
                self._put(nursery, destination, _notification(name, rule, transition))

    def _notify_when_due(
        self, nursery: trio.Nursery, name: str, rule: AlertRule, alert: Alert, now_ms: int
    ) -> None:
        """Notify of an alert that fires: the first time, and again after `repeat_ms`."""
        told = self._told.get((name, alert.labels))
        if told is not None and (not rule.repeat_ms or now_ms - told.last_ms < rule.repeat_ms):
            return
        self._told[name, alert.labels] = _Told(now_ms if told is None else told.first_ms, now_ms)
        transition = AlertTransition(alert.labels, alert.value, alert.fired_at_ms, None)
        for destination in rule.destinations:
            if told is None or not self._is_manager(destination):
                self._put(nursery, destination, _notification(name, rule, transition))

    def _is_manager(self, destination: str) -> bool:
        """Whether it is an Alertmanager, which repeats notifications itself."""
        entry = self._image().alert_destinations.get(destination)
        return (
            entry is not None
            and entry.destination is not None
            and entry.destination.kind is DestinationKind.ALERTMANAGER
        )

    def _remind(self, nursery: trio.Nursery, now_ms: int) -> None:
        """Send what fires to each Alertmanager again, unless it was notified just now or never. During a
        silence too: an alert that it does not hear of any more is resolved there.
        """
        if now_ms < self._resend_ms:
            return
        self._resend_ms = now_ms + RESEND_MS
        for name, rule in self._rules.items():
            told = {alert: self._told.get((name, alert.labels)) for alert in self._states[name].firing}
            firing = [alert for alert, each in told.items() if each is not None and each.first_ms != now_ms]
            for alert in firing:
                transition = AlertTransition(alert.labels, alert.value, alert.fired_at_ms, None)
                for destination in rule.destinations:
                    if self._is_manager(destination):
                        self._put(nursery, destination, _notification(name, rule, transition))

    def _put(self, nursery: trio.Nursery, name: str, notification: Notification) -> None:
        if name not in self._image().alert_destinations:
            return
        mailbox = self._mailboxes.get(name)
        if mailbox is None:
            outbox = Outbox(
                partial(self._send, name), partial(self._lost, name), self._clock, partial(self._most, name)
            )
            mailbox = self._mailboxes[name] = _Mailbox(outbox, trio.CancelScope())
            nursery.start_soon(self._run_outbox, mailbox, name=f"alert-destination-{name}")
        mailbox.outbox.put(notification)

    def _most(self, name: str) -> int:
        """Return how many notifications the destination takes in one request."""
        entry = self._image().alert_destinations.get(name)
        is_single = (
            entry is not None
            and entry.destination is not None
            and entry.destination.kind is DestinationKind.PAGERDUTY
        )
        return 1 if is_single else BATCH

    async def _run_outbox(self, mailbox: _Mailbox) -> None:
        with mailbox.scope:
            await mailbox.outbox.run()

    def _keep(self, image: Image) -> None:
        """End the outboxes of destinations that were removed."""
        for name in [name for name in self._mailboxes if name not in image.alert_destinations]:
            self._mailboxes.pop(name).scope.cancel()

    async def _send(self, name: str, batch: Sequence[Notification]) -> SendResult:
        """Send a batch as the destination is now."""
        entry = self._image().alert_destinations.get(name)
        if entry is None:
            return SendResult(0, "the destination was removed", is_final=True)
        if entry.destination is None:
            return SendResult(0, "the encryption key of the destination is not available", is_final=True)
        return await self._send_to(entry.destination, batch)

    async def _send_to(self, destination: AlertDestination, batch: Sequence[Notification]) -> SendResult:
        is_mail = destination.kind is DestinationKind.EMAIL
        try:
            endpoint = self._egress.check(destination.url, SMTP if is_mail else HTTP)
        except ValueError as error:
            return SendResult(0, str(error), is_final=True)
        source, wall_ms = self._source(), self._clock.wall_ms()
        if is_mail:
            mail = mail_of(batch, source, destination.sender, destination.recipients, wall_ms)
            login = (destination.username, destination.secret) if destination.username else None
            return await self._send_mail(endpoint, mail, login, self._egress, self._timeout_s)
        match destination.kind:
            case DestinationKind.ALERTMANAGER:
                body = alertmanager_body(batch, source, wall_ms)
                endpoint = _alertmanager(endpoint)
            case DestinationKind.SLACK:
                body = slack_body(batch, source)
            case DestinationKind.PAGERDUTY:
                # It takes one event in each request. The batch has more if the kind was changed meanwhile.
                for each in batch[:-1]:
                    event = pagerduty_body(each, source, destination.secret)
                    result = await self._post(endpoint, event, (), self._egress, self._timeout_s)
                    if not result.is_delivered:
                        return result
                body = pagerduty_body(batch[-1], source, destination.secret)
            case _:
                body = webhook_body(batch, source)
        headers = list(destination.headers.items())
        return await self._post(endpoint, body, headers, self._egress, self._timeout_s)

    def _lost(self, destination: str, event: str, count: int, reason: str) -> None:
        text = f"{count} notification{'' if count == 1 else 's'}: {reason}"
        self._record(self._clock.wall_ms(), event, destination=destination, text=text)
        logger.error(
            "notifications of alerts were %s",
            event,
            extra={"destination": destination, "count": count, "reason": reason},
        )

    def _record(self, at_ms: int, event: str, **more: object) -> None:
        self._number += 1
        self._events.append(AlertEvent(self._number, at_ms, event, **more))  # type: ignore[arg-type]

    # What the console shows.

    def rules(self) -> Mapping[str, tuple[int, int, int, float | None]]:
        found = {}
        for name, state in self._states.items():
            firing = len(state.firing)
            found[name] = (len(state.alerts) - firing, firing, state.unlisted, state.value)
        return found

    def active(self) -> list[AlertRow]:
        """Return pending and firing alerts, the firing ones first, then by their begin."""
        rules = self._image().alert_rules
        rows = [
            AlertRow(
                name,
                rules[name].rule.severity.value,
                rules[name].rule.condition.value,
                alert.labels,
                "pending" if alert.fired_ms is None else "firing",
                alert.value,
                rules[name].rule.threshold,
                alert.since_at_ms,
                None if alert.fired_ms is None else alert.fired_at_ms,
                alert.unknown_since_at_ms,
                max(
                    (each.silence.ends_at_ms for each in self._silenced.get((name, alert.labels), ())),
                    default=None,
                ),
            )
            for name, state in self._states.items()
            if name in rules
            for alert in state.alerts
        ]
        return sorted(rows, key=lambda row: (row.state, row.since_at_ms, row.rule, row.labels))

    def silenced(self) -> Mapping[str, int]:
        return Counter(each.name for entries in self._silenced.values() for each in entries)

    def history(self) -> Iterable[AlertEvent]:
        return reversed(self._events)

    def deliveries(self) -> Mapping[str, Delivery]:
        return {name: mailbox.outbox.delivery for name, mailbox in self._mailboxes.items()}

    async def test(self, destination: str) -> Attempt:
        entry = self._image().alert_destinations.get(destination)
        if entry is None or entry.destination is None:
            raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, f"There is no destination named {destination}")
        wall_ms = self._clock.wall_ms()
        samples = [sample_notification(wall_ms)]
        if entry.destination.kind is DestinationKind.PAGERDUTY:
            # The end of an incident alone shows nothing there.
            samples.insert(0, sample_notification(wall_ms, is_firing=True))
        async with self._testing:
            for sample in samples:
                result = await self._send_to(entry.destination, [sample])
                if not result.is_delivered:
                    break
        outcome = "delivered" if result.is_delivered else "not delivered"
        self._record(self._clock.wall_ms(), "test", destination=destination, text=f"{outcome}: {result.text}")
        return Attempt(result.is_delivered, result.status, result.text)


def _notification(name: str, rule: AlertRule, transition: AlertTransition) -> Notification:
    return Notification(
        name,
        rule.condition.value,
        rule.severity.value,
        transition.labels,
        transition.value,
        rule.threshold,
        transition.fired_at_ms,
        transition.ended_at_ms,
        rule.fires_below,
    )


def _alertmanager(endpoint: Endpoint) -> Endpoint:
    """Return the address of the API below the base URL."""
    path = endpoint.target.partition("?")[0].rstrip("/")
    if not path.endswith(ALERTMANAGER_PATH):
        path += ALERTMANAGER_PATH
    return Endpoint(endpoint.scheme, endpoint.host, endpoint.port, path)

"""The task that evaluates alert rules and hands notifications to the outboxes of their destinations.

Started by broker.server.app. State and history are in memory: after a restart, alerts begin as pending again,
and an alert that was resolved meanwhile is not notified (an Alertmanager resolves it by itself).
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

import msgspec
import trio

from broker.common.clock import Clock
from broker.common.errors import ApiError, ErrorCode
from broker.common.slice_runner import run_slices
from broker.config.sections import AlertConfig
from broker.controller.rows.alerts import AlertEvent, AlertRow, Attempt, Delivery
from broker.metadata.alerts import AlertCondition, AlertDestination, AlertRule, DestinationKind
from broker.metadata.image import Image
from broker.monitoring.alerts.evaluation import AlertTransition, RuleState
from broker.monitoring.alerts.formats import (
    ALERTMANAGER_PATH,
    RESEND_MS,
    Notification,
    NotificationSource,
    alertmanager_body,
    sample_notification,
    webhook_body,
)
from broker.monitoring.alerts.observations import Values, disk_use, matching, sources
from broker.monitoring.alerts.outbox import Outbox, SendResult
from broker.monitoring.alerts.sender import post
from broker.security.egress import Egress, HttpEndpoint
from broker.views.console import Views

logger = logging.getLogger(__name__)

TASK: Final = "alert-rules"
MAX_EVENTS: Final = 500
"""Events that are kept; ours."""


class Poster(Protocol):
    async def __call__(
        self,
        endpoint: HttpEndpoint,
        body: bytes,
        headers: Sequence[tuple[str, str]],
        egress: Egress,
        timeout_s: float,
        /,
    ) -> SendResult: ...


class _Mailbox(msgspec.Struct):
    """The outbox of a destination, and the scope of its task."""

    outbox: Outbox
    scope: trio.CancelScope


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
    ) -> None:
        self._image = image
        self._sources = sources(views)
        self._source = source
        self._egress = Egress(config.destination_hosts)
        self._interval_s = config.interval_ms / 1000
        self._timeout_s = config.timeout_ms / 1000
        self._directories = directories
        self._clock = clock
        self._post = post
        self._states: dict[str, RuleState] = {}
        self._rules: dict[str, AlertRule] = {}
        self._mailboxes: dict[str, _Mailbox] = {}
        self._events: deque[AlertEvent] = deque(maxlen=MAX_EVENTS)
        self._number = 0
        self._resend_ms = 0
        self._testing = trio.Lock()

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                await self.evaluate(nursery)
                await trio.sleep(self._interval_s)

    async def evaluate(self, nursery: trio.Nursery) -> None:
        """Evaluate all rules once; `nursery` runs the outboxes."""
        image = self._image()
        enabled = {name: each.rule for name, each in image.alert_rules.items() if each.rule.enabled}
        if not enabled and not self._states:
            self._keep(image)
            return
        observed = {
            condition: await self._observe(condition)
            for condition in {rule.condition for rule in enabled.values()}
        }
        self._keep(self._image())
        now_ms, wall_ms = self._clock.ms(), self._clock.wall_ms()
        for name in [name for name in self._states if name not in enabled]:
            rule = self._rules.pop(name)
            for transition in self._states.pop(name).end(wall_ms):
                self._notify(nursery, name, rule, transition)
        for name, rule in enabled.items():
            values = await run_slices(matching(rule, observed[rule.condition]))
            state = self._states.setdefault(name, RuleState())
            self._rules[name] = rule
            for transition in state.step(rule, values, now_ms, wall_ms, values.others):
                self._notify(nursery, name, rule, transition)
        self._remind(nursery, now_ms)

    async def _observe(self, condition: AlertCondition) -> Values:
        if condition is AlertCondition.DISK:
            return await trio.to_thread.run_sync(disk_use, self._directories, abandon_on_cancel=True)
        return await run_slices(self._sources[condition]())

    def _notify(self, nursery: trio.Nursery, name: str, rule: AlertRule, transition: AlertTransition) -> None:
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
        for destination in rule.destinations:
            self._put(nursery, destination, _notification(name, rule, transition))

    def _remind(self, nursery: trio.Nursery, now_ms: int) -> None:
        """Send what fires to each Alertmanager again, unless it has just begun to fire."""
        if now_ms < self._resend_ms:
            return
        self._resend_ms = now_ms + RESEND_MS
        managers = {
            name
            for name, entry in self._image().alert_destinations.items()
            if entry.destination is not None and entry.destination.kind is DestinationKind.ALERTMANAGER
        }
        for name, rule in self._rules.items():
            firing = [alert for alert in self._states[name].firing if alert.fired_ms != now_ms]
            for alert in firing:
                transition = AlertTransition(alert.labels, alert.value, alert.fired_at_ms, None)
                for destination in rule.destinations:
                    if destination in managers:
                        self._put(nursery, destination, _notification(name, rule, transition))

    def _put(self, nursery: trio.Nursery, name: str, notification: Notification) -> None:
        if name not in self._image().alert_destinations:
            return
        mailbox = self._mailboxes.get(name)
        if mailbox is None:
            outbox = Outbox(partial(self._send, name), partial(self._lost, name), self._clock)
            mailbox = self._mailboxes[name] = _Mailbox(outbox, trio.CancelScope())
            nursery.start_soon(self._run_outbox, mailbox, name=f"alert-destination-{name}")
        mailbox.outbox.put(notification)

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
        try:
            endpoint = self._egress.check(destination.url)
        except ValueError as error:
            return SendResult(0, str(error), is_final=True)
        source = self._source()
        if destination.kind is DestinationKind.ALERTMANAGER:
            body = alertmanager_body(batch, source, self._clock.wall_ms())
            endpoint = _alertmanager(endpoint)
        else:
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
            )
            for name, state in self._states.items()
            if name in rules
            for alert in state.alerts
        ]
        return sorted(rows, key=lambda row: (row.state, row.since_at_ms, row.rule, row.labels))

    def history(self) -> Iterable[AlertEvent]:
        return reversed(self._events)

    def deliveries(self) -> Mapping[str, Delivery]:
        return {name: mailbox.outbox.delivery for name, mailbox in self._mailboxes.items()}

    async def test(self, destination: str) -> Attempt:
        entry = self._image().alert_destinations.get(destination)
        if entry is None or entry.destination is None:
            raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, f"There is no destination named {destination}")
        async with self._testing:
            result = await self._send_to(entry.destination, [sample_notification(self._clock.wall_ms())])
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
    )


def _alertmanager(endpoint: HttpEndpoint) -> HttpEndpoint:
    """Return the address of the API below the base URL."""
    path = endpoint.target.partition("?")[0].rstrip("/")
    if not path.endswith(ALERTMANAGER_PATH):
        path += ALERTMANAGER_PATH
    return HttpEndpoint(endpoint.scheme, endpoint.host, endpoint.port, path)

"""Alert rules and destinations of the fake broker, by broker.controller's planners, and alerts that tests
invent. Part of tests.webui.fakes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from broker.controller.alerts import (
    AlertRule,
    DestinationKind,
    RemoveAlertDestination,
    RemoveAlertRule,
    RemoveAlertSilence,
    SetAlertDestination,
    SetAlertRule,
    SetAlertSilence,
    plan_remove_destination,
    plan_remove_rule,
    plan_remove_silence,
    plan_set_destination,
    plan_set_rule,
    plan_set_silence,
    shown_url,
)
from broker.controller.commands import Actor, EntryOutcome
from broker.controller.rows.alerts import (
    AlertEvent,
    AlertRow,
    AlertRuleRow,
    Attempt,
    Delivery,
    DestinationRow,
    SilenceRow,
)
from broker.views.metadata import destination_details
from tests.controller.world import World

ALERT_PLANNERS: Final[dict[type, Any]] = {
    SetAlertRule: plan_set_rule,
    RemoveAlertRule: plan_remove_rule,
    SetAlertDestination: plan_set_destination,
    RemoveAlertDestination: plan_remove_destination,
    SetAlertSilence: plan_set_silence,
    RemoveAlertSilence: plan_remove_silence,
}


@dataclass
class FakeAlertViews:
    counts: dict[str, tuple[int, int, int, float | None]] = field(default_factory=dict)
    rows: list[AlertRow] = field(default_factory=list)
    events: list[AlertEvent] = field(default_factory=list)
    sent: dict[str, Delivery] = field(default_factory=dict)
    answer: Attempt = Attempt(True, 200, "200 OK")  # noqa: RUF009 - frozen
    silences: dict[str, int] = field(default_factory=dict)
    tested: list[str] = field(default_factory=list)

    def rules(self) -> Mapping[str, tuple[int, int, int, float | None]]:
        return self.counts

    def active(self) -> list[AlertRow]:
        return self.rows

    def silenced(self) -> Mapping[str, int]:
        return self.silences

    def history(self) -> Iterable[AlertEvent]:
        return reversed(self.events)

    def deliveries(self) -> Mapping[str, Delivery]:
        return self.sent

    async def test(self, destination: str) -> Attempt:
        self.tested.append(destination)
        return self.answer


class FakeAlerts:
    """`metadata` has the image with the rules and destinations."""

    metadata: World
    version: int

    def _alter_alerts(self, command: Any, actor: Actor) -> EntryOutcome:
        self.version += 1
        outcome: EntryOutcome = self.metadata.do(ALERT_PLANNERS[type(command)], command, actor.role)
        return outcome

    def add_rule(self, name: str, rule: AlertRule) -> None:
        assert self.metadata.do(plan_set_rule, SetAlertRule(name, rule)).ok
        self.version += 1

    def add_destination(self, name: str, url: str = "https://hooks.example/secret", **headers: str) -> None:
        command = SetAlertDestination(name, DestinationKind.WEBHOOK, url, headers)
        assert self.metadata.do(plan_set_destination, command).ok
        self.version += 1

    def alert_rules(self) -> Iterator[AlertRuleRow]:
        for name, each in sorted(self.metadata.image.alert_rules.items()):
            yield AlertRuleRow(name, each.rule, each.version, each.changed_at_ms, each.changed_by)

    def alert_silences(self) -> Iterator[SilenceRow]:
        for name, each in sorted(self.metadata.image.alert_silences.items()):
            silence, stamp = each.silence, (each.version, each.changed_at_ms, each.changed_by)
            yield SilenceRow(name, silence.rule, silence.match, silence.ends_at_ms, *stamp)

    def alert_destinations(self) -> Iterator[DestinationRow]:
        rules = self.metadata.image.alert_rules
        for name, each in sorted(self.metadata.image.alert_destinations.items()):
            known = each.destination
            assert known is not None
            users = tuple(sorted(rule for rule in rules if name in rules[rule].rule.destinations))
            stamp = (each.version, each.changed_at_ms, each.changed_by)
            yield DestinationRow(
                name,
                known.kind.value,
                shown_url(known.url),
                tuple(known.headers),
                users,
                *stamp,
                *destination_details(known),
            )

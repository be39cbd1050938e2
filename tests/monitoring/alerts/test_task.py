"""The whole way from a value to a notification, on a mock clock with exact times."""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from msgspec.structs import replace
from trio.testing import MockClock

from broker.common.errors import ApiError
from broker.controller.alerts import (
    AlertCondition,
    AlertRule,
    DestinationKind,
    RemoveAlertDestination,
    RemoveAlertRule,
    SetAlertDestination,
    SetAlertRule,
    plan_remove_destination,
    plan_remove_rule,
    plan_set_destination,
    plan_set_rule,
)
from broker.controller.rows.connections import ThrottledRow
from broker.controller.rows.topics import GroupRow
from broker.controller.rows.upstream import RefusedRecords
from broker.monitoring.alerts.formats import NotificationSource
from broker.monitoring.alerts.outbox import SendResult
from broker.monitoring.alerts.task import MAX_EVENTS, Alerting
from broker.network.clock import TrioClock
from broker.security.egress import HttpEndpoint
from broker.views.readings import Readings
from tests.controller.world import World

LAG = AlertRule(AlertCondition.LAG, 100.0, destinations=("hook",))
WEBHOOK, ALERTMANAGER = DestinationKind.WEBHOOK, DestinationKind.ALERTMANAGER


class Scene:
    """A broker with groups whose lag the test sets, and destinations that record what they receive."""

    def __init__(self) -> None:
        self.world = World()
        self.lags: dict[str, int] = {}
        self.refused: list[RefusedRecords] = []
        self.received: list[tuple[float, str, Any]] = []
        self.answers: list[SendResult] = []
        self.observed = 0
        self.alerting = Alerting(
            lambda: self.world.image,
            self.views(),
            lambda: NotificationSource("c", 1, "http://weir/"),
            self.world.configuration.config.alerts,
            (),
            TrioClock(),
            self.post,
        )

    def views(self) -> Any:
        """Return the parts of `Views` that are observed."""
        upstream = SimpleNamespace(refused=lambda: self.refused)
        return SimpleNamespace(quotas=self, topics=self, upstream=upstream, readings=Readings())

    def each_throttled(self) -> Iterator[ThrottledRow | None]:
        return iter(())

    def each_group(self) -> Iterator[GroupRow | None]:
        self.observed += 1
        return iter([GroupRow(name, "Stable", "consumer", 1, lag) for name, lag in self.lags.items()])

    async def post(
        self, endpoint: HttpEndpoint, body: bytes, headers: Sequence[tuple[str, str]], *_rest: Any
    ) -> SendResult:
        self.received.append((trio.current_time(), endpoint.target, json.loads(body)))
        await trio.lowlevel.checkpoint()
        answers = self.answers if endpoint.target == "/hook" else []
        return answers.pop(0) if answers else SendResult(200, "OK")

    def rule(self, name: str = "lag", rule: AlertRule = LAG) -> None:
        assert self.world.do(plan_set_rule, SetAlertRule(name, rule)).ok

    def destination(self, name: str = "hook", kind: DestinationKind = WEBHOOK) -> None:
        command = SetAlertDestination(name, kind, f"https://{name}.example/{name}")
        assert self.world.do(plan_set_destination, command).ok

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.alerting.run)
            yield
            nursery.cancel_scope.cancel()

    @property
    def told(self) -> list[tuple[float, str, str]]:
        return [
            (at, each["status"], each["labels"]["group"])
            for at, _, body in self.received
            for each in body["alerts"]
        ]

    @property
    def history(self) -> list[tuple[str, str]]:
        return [(each.event, each.rule or each.destination) for each in self.alerting.history()]


@pytest.fixture
async def scene(autojump_clock: MockClock) -> Scene:
    made = Scene()
    made.destination()
    return made


async def test_lag_that_lasts_is_notified_and_so_is_its_end(autojump_clock: MockClock, scene: Scene) -> None:
    scene.rule(rule=replace(LAG, for_ms=30_000, clear=50.0, resolve_after_ms=20_000))
    async with scene.running():
        await trio.sleep(7)
        scene.lags["orders"] = 101
        # Seen at 10 s, fires at 40 s.
        await trio.sleep(39)
        scene.lags["orders"] = 60
        await trio.sleep(100)
        # Clear, seen at 150 s, resolved at 170 s.
        scene.lags["orders"] = 50
        await trio.sleep(60)
    assert scene.told == [(40.0, "firing", "orders"), (170.0, "resolved", "orders")]
    assert scene.history == [("resolved", "lag"), ("firing", "lag")]
    (_, _, body), *_ = scene.received
    assert body["alerts"][0]["value"] == 101 and body["cluster_id"] == "c"


async def test_alerts_of_one_evaluation_go_together(autojump_clock: MockClock, scene: Scene) -> None:
    scene.rule()
    scene.lags = {"a": 200, "b": 300, "c": 99}
    async with scene.running():
        await trio.sleep(1)
        rows = scene.alerting.active()
        assert [(row.labels, row.state, row.value) for row in rows] == [
            ((("group", "a"),), "firing", 200.0),
            ((("group", "b"),), "firing", 300.0),
        ]
        assert scene.alerting.rules() == {"lag": (0, 2, 0, 300.0)}
    assert len(scene.received) == 1


async def test_records_that_no_gateway_wrote_fire_an_alert(autojump_clock: MockClock, scene: Scene) -> None:
    rule = AlertRule(AlertCondition.REFUSED_RECORDS, 0, destinations=("hook",))
    scene.destination()
    scene.rule("forged", rule)
    async with scene.running():
        await trio.sleep(30)
        assert not scene.received
        scene.refused = [RefusedRecords("__weir_metadata", "unsigned", 7, 7)]
        await trio.sleep(30)
        ((_, _, body),) = scene.received
        (alert,) = body["alerts"]
        assert alert["labels"] == {"topic": "__weir_metadata", "reason": "unsigned"}
        assert "has 7 records a minute that no gateway wrote" in alert["summary"]
        scene.refused = [RefusedRecords("__weir_metadata", "unsigned", 7, 0)]
        await trio.sleep(30)
        assert [each["status"] for _, _, body in scene.received for each in body["alerts"]] == [
            "firing",
            "resolved",
        ]


async def test_without_rules_nothing_is_evaluated(autojump_clock: MockClock, scene: Scene) -> None:
    async with scene.running():
        await trio.sleep(102)
        assert scene.observed == 0
        scene.rule()
        scene.rule("other", replace(LAG, threshold=5.0))
        await trio.sleep(10)
        assert scene.observed == 2, "once for both rules, every five seconds"


@pytest.mark.parametrize("how", ["removed", "disabled"])
async def test_the_end_of_a_rule_resolves_its_alerts(
    autojump_clock: MockClock, scene: Scene, how: str
) -> None:
    scene.rule()
    scene.lags["orders"] = 200
    async with scene.running():
        await trio.sleep(1)
        if how == "removed":
            assert scene.world.do(plan_remove_rule, RemoveAlertRule("lag")).ok
        else:
            scene.rule(rule=replace(LAG, enabled=False))
        await trio.sleep(10)
        assert scene.alerting.active() == []
    assert scene.told == [(0.0, "firing", "orders"), (5.0, "resolved", "orders")]


async def test_an_alertmanager_hears_every_minute_of_what_still_fires(
    autojump_clock: MockClock, scene: Scene
) -> None:
    scene.destination("am", ALERTMANAGER)
    scene.rule(rule=replace(LAG, destinations=("am", "hook")))
    scene.lags["orders"] = 200
    async with scene.running():
        await trio.sleep(129)
        scene.lags.clear()
        await trio.sleep(200)
    sent = [(at, body[0]["endsAt"]) for at, target, body in scene.received if target == "/am/api/v2/alerts"]
    assert [at for at, _ in sent] == [0.0, 60.0, 120.0, 130.0]
    assert len({end for _, end in sent}) == 4
    assert [at for at, target, _ in scene.received if target == "/hook"] == [0.0, 130.0]


async def test_a_destination_that_fails_does_not_hold_up_another(
    autojump_clock: MockClock, scene: Scene
) -> None:
    scene.destination("other")
    scene.rule(rule=replace(LAG, destinations=("hook", "other")))
    scene.lags["orders"] = 200
    scene.answers = [SendResult(503, "busy")]
    async with scene.running():
        await trio.sleep(3)
        deliveries = scene.alerting.deliveries()
    assert sorted((at, target) for at, target, _ in scene.received) == [
        (0.0, "/hook"),
        (0.0, "/other"),
        (1.0, "/hook"),
    ]
    assert {name: each.sent for name, each in deliveries.items()} == {"hook": 1, "other": 1}


async def test_a_removed_destination_gets_nothing_more(autojump_clock: MockClock, scene: Scene) -> None:
    scene.rule()
    scene.lags["orders"] = 200
    scene.answers = [SendResult(503, "busy")] * 100
    async with scene.running():
        await trio.sleep(8)
        asked = len(scene.received)
        assert scene.world.do(plan_remove_rule, RemoveAlertRule("lag")).ok
        assert scene.world.do(plan_remove_destination, RemoveAlertDestination("hook")).ok
        await trio.sleep(600)
        assert scene.alerting.deliveries() == {}
    assert len(scene.received) <= asked + 1


async def test_what_cannot_be_delivered_is_in_the_history(autojump_clock: MockClock, scene: Scene) -> None:
    scene.rule()
    scene.lags["orders"] = 200
    scene.answers = [SendResult(404, "Not Found")]
    async with scene.running():
        await trio.sleep(1)
    assert scene.history == [("undelivered", "hook"), ("firing", "lag")]
    first, *_ = scene.alerting.history()
    assert first.text == "1 notification: 404 Not Found"


async def test_a_test_is_sent_at_once_and_not_again(autojump_clock: MockClock, scene: Scene) -> None:
    scene.answers = [SendResult(500, "Oops")]
    failed = await scene.alerting.test("hook")
    worked = await scene.alerting.test("hook")
    assert (failed.delivered, failed.status, failed.reason) == (False, 500, "500 Oops")
    assert worked.delivered and len(scene.received) == 2
    assert scene.received[0][2]["alerts"][0]["rule"] == "Test notification"
    assert scene.history == [("test", "hook"), ("test", "hook")]
    with pytest.raises(ApiError):
        await scene.alerting.test("nowhere")


async def test_the_history_is_bounded(autojump_clock: MockClock, scene: Scene) -> None:
    for _ in range(MAX_EVENTS + 1):
        await scene.alerting.test("hook")
    events = list(scene.alerting.history())
    assert (len(events), events[0].number, events[-1].number) == (MAX_EVENTS, MAX_EVENTS + 1, 2)

"""The whole way from a value to a notification, on a mock clock with exact times."""

import json
import math
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
    AlertSilence,
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
)
from broker.controller.rows.connections import ThrottledRow
from broker.controller.rows.topics import GroupRow
from broker.controller.rows.upstream import RefusedRecords
from broker.monitoring.alerts.formats import NotificationSource
from broker.monitoring.alerts.outbox import SendResult
from broker.monitoring.alerts.task import MAX_EVENTS, Alerting
from broker.network.clock import TrioClock
from broker.security.egress import Endpoint
from broker.views.load import Load
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
        self.clock = TrioClock()
        self.load = Load(0.0, 0.0, 0, 1.0, 1.0, 1.0, math.nan)
        self.load_read: list[float] = []
        self.alerting = Alerting(
            lambda: self.world.image,
            self.views(),
            lambda: NotificationSource("c", 1, "http://weir/"),
            self.world.configuration.config.alerts,
            (),
            self.clock,
            self.post,
        )

    def views(self) -> Any:
        """Return the parts of `Views` that are observed."""
        upstream = SimpleNamespace(refused=lambda: self.refused)
        live = SimpleNamespace(meter=lambda: SimpleNamespace(read=self.read_load))
        return SimpleNamespace(quotas=self, topics=self, upstream=upstream, readings=Readings(), live=live)

    def read_load(self) -> Load:
        self.load_read.append(trio.current_time())
        return self.load

    def each_throttled(self) -> Iterator[ThrottledRow | None]:
        return iter(())

    def each_group(self) -> Iterator[GroupRow | None]:
        self.observed += 1
        return iter([GroupRow(name, "Stable", "consumer", 1, lag) for name, lag in self.lags.items()])

    async def post(
        self, endpoint: Endpoint, body: bytes, headers: Sequence[tuple[str, str]], *_rest: Any
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


@pytest.mark.parametrize(
    ("condition", "threshold", "calm", "trouble", "summary"),
    [
        ("bytes-in", 1e6, {"bytes_in": 1e6}, {"bytes_in": 1e6 + 1}, "receives 1000001 bytes a second, more"),
        ("bytes-out", 1e6, {"bytes_out": 1e6}, {"bytes_out": 2e6}, "sends 2000000 bytes a second, more"),
        ("connections", 7, {"connections": 7}, {"connections": 8}, "has 8 connections, more than 7"),
        ("network-idle", 20, {"network_idle": 0.2}, {"network_idle": 0.19}, "threads that are idle for 19 %"),
        ("handler-idle", 20, {"handler_idle": 0.2}, {"handler_idle": 0.1}, "handlers that are idle for 10 %"),
        ("thread-idle", 20, {"thread_idle": 0.2}, {"thread_idle": 0.0}, "idle for 0 % of the time, less"),
        ("request-memory", 80, {"memory_used": 0.8}, {"memory_used": 0.9}, "request memory used to 90 %"),
    ],
)
async def test_the_load_of_the_server_fires_alerts(
    autojump_clock: MockClock,
    scene: Scene,
    condition: str,
    threshold: float,
    calm: dict[str, float],
    trouble: dict[str, float],
    summary: str,
) -> None:
    scene.rule("load", AlertRule(AlertCondition(condition), threshold, destinations=("hook",)))
    async with scene.running():
        scene.load = scene.load._replace(**calm)
        await trio.sleep(12)
        assert not scene.received and scene.load_read == [0, 5, 10]
        scene.load = scene.load._replace(**trouble)
        await trio.sleep(10)
        scene.load = scene.load._replace(**calm)
        await trio.sleep(10)
    assert [at for at, _, _ in scene.received] == [15, 25]
    (first, last) = [body["alerts"][0] for _, _, body in scene.received]
    assert (first["status"], last["status"]) == ("firing", "resolved")
    assert first["labels"] == {"node": "1"} and summary in first["summary"]


async def test_the_saturation_of_network_and_handlers_are_two_alerts(
    autojump_clock: MockClock, scene: Scene
) -> None:
    for condition in ("network-idle", "handler-idle"):
        scene.rule(condition, AlertRule(AlertCondition(condition), 20.0, destinations=("hook",)))
    async with scene.running():
        scene.load = scene.load._replace(network_idle=0.05, handler_idle=0.95)
        await trio.sleep(1)
        assert scene.alerting.rules() == {"network-idle": (0, 1, 0, 5.0), "handler-idle": (0, 0, 0, 95.0)}
        scene.load = scene.load._replace(network_idle=0.95, handler_idle=0.05)
        await trio.sleep(5)
        assert [row.rule for row in scene.alerting.active()] == ["handler-idle"]
    # Two readings served both rules.
    assert scene.load_read == [0, 5]


async def test_an_unknown_load_fires_nothing(autojump_clock: MockClock, scene: Scene) -> None:
    scene.load = Load(math.nan, math.nan, 0, math.nan, math.nan, math.nan, math.nan)
    for condition in ("bytes-in", "thread-idle", "request-memory"):
        scene.rule(condition, AlertRule(AlertCondition(condition), 1.0))
    async with scene.running():
        await trio.sleep(1)
        assert scene.alerting.rules() == dict.fromkeys(
            ("bytes-in", "thread-idle", "request-memory"), (0, 0, 0, None)
        )


@pytest.mark.parametrize(("repeat_s", "times"), [(0, [0]), (60, [0, 60, 120, 180]), (62, [0, 65, 130, 195])])
async def test_what_still_fires_is_notified_again(
    autojump_clock: MockClock, scene: Scene, repeat_s: int, times: list[int]
) -> None:
    """A repetition goes with the first evaluation, of one every five seconds, after its time."""
    scene.destination("am", ALERTMANAGER)
    scene.rule(rule=replace(LAG, repeat_ms=repeat_s * 1_000, destinations=("hook", "am")))
    scene.lags["orders"] = 200
    async with scene.running():
        await trio.sleep(199)
        scene.lags["orders"] = 300
        await trio.sleep(2)
        scene.lags.clear()
        await trio.sleep(200)
    assert [
        (at, each["status"])
        for at, target, body in scene.received
        if target == "/hook"
        for each in body["alerts"]
    ] == [*((at, "firing") for at in times), (205.0, "resolved")]
    # An Alertmanager repeats notifications itself: it hears once a minute that the alert still fires.
    assert [at for at, target, _ in scene.received if "am" in target] == [0, 60, 120, 180, 205]


def silence(scene: Scene, name: str, lasts_ms: int, rule: str = "", match: str = "") -> None:
    ends_at_ms = scene.clock.wall_ms() + lasts_ms
    command = SetAlertSilence(name, AlertSilence(ends_at_ms, rule, match))
    assert scene.world.do(plan_set_silence, command).ok


async def test_what_fires_during_a_silence_is_notified_at_its_end(
    autojump_clock: MockClock, scene: Scene
) -> None:
    scene.rule()
    silence(scene, "works", 61_234)
    scene.lags["orders"] = 200
    async with scene.running():
        await trio.sleep(61)
        (row,) = scene.alerting.active()
        assert (row.state, row.silenced_until_ms) == ("firing", scene.clock.wall_ms() + 234)
        assert scene.alerting.silenced() == {"works": 1}
        assert scene.received == [] and scene.history == [("firing", "lag")]
        scene.lags["orders"] = 250
        await trio.sleep(1)
        # At the end itself, not at the next evaluation of every five seconds.
        assert scene.told == [(61.234, "firing", "orders")]
        assert scene.alerting.active()[0].silenced_until_ms is None
        scene.lags.clear()
        await trio.sleep(30)
    ((_, _, body), _) = scene.received
    assert (body["alerts"][0]["value"], len(scene.told)) == (250, 2)


async def test_what_begins_and_ends_in_a_silence_is_not_notified(
    autojump_clock: MockClock, scene: Scene
) -> None:
    scene.rule()
    silence(scene, "works", 60_000)
    scene.lags["orders"] = 200
    async with scene.running():
        await trio.sleep(20)
        scene.lags.clear()
        await trio.sleep(100)
    assert scene.received == [] and scene.history == [("resolved", "lag"), ("firing", "lag")]


async def test_the_end_of_what_was_notified_is_notified_during_a_silence(
    autojump_clock: MockClock, scene: Scene
) -> None:
    scene.destination("am", ALERTMANAGER)
    scene.rule(rule=replace(LAG, destinations=("hook", "am"), repeat_ms=60_000))
    scene.lags["orders"] = 200
    async with scene.running():
        await trio.sleep(61)
        silence(scene, "works", 600_000)
        await trio.sleep(100)
        scene.lags.clear()
        await trio.sleep(100)
    hook = [
        (at, each["status"])
        for at, target, body in scene.received
        if target == "/hook"
        for each in body["alerts"]
    ]
    # The repetition of 120 s is silenced.
    assert hook == [(0, "firing"), (60, "firing"), (165, "resolved")]
    # An Alertmanager that hears nothing for four minutes would take the alert for resolved.
    assert [at for at, target, _ in scene.received if "am" in target] == [0, 60, 120, 165]


@pytest.mark.parametrize(
    ("rule", "match", "told"),
    [("", "", []), ("lag", "", []), ("other", "", ["orders", "pays"]), ("lag", "ord*", ["pays"])],
)
async def test_a_silence_is_for_a_rule_and_for_names(
    autojump_clock: MockClock, scene: Scene, rule: str, match: str, told: list[str]
) -> None:
    scene.rule()
    silence(scene, "works", 60_000, rule, match)
    scene.lags = {"orders": 200, "pays": 200}
    async with scene.running():
        await trio.sleep(1)
    assert sorted(name for _, _, name in scene.told) == told


@pytest.mark.parametrize("how", ["removed", "shortened"])
async def test_a_silence_can_end_earlier(autojump_clock: MockClock, scene: Scene, how: str) -> None:
    scene.rule()
    silence(scene, "works", 3_600_000)
    scene.lags["orders"] = 200
    async with scene.running():
        await trio.sleep(11)
        if how == "removed":
            assert scene.world.do(plan_remove_silence, RemoveAlertSilence("works")).ok
        else:
            silence(scene, "works", 1_000)
        await trio.sleep(10)
    assert [at for at, _, _ in scene.told] == [15.0]


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

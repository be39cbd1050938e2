"""Each kind of destination against a real server of this machine that fails first: what it receives at last.

The pauses between attempts are those of test_outbox, on a mock clock; here they are short.
"""

import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from broker.common import http_requests
from broker.config.sections import AlertConfig
from broker.controller.alerts import (
    AlertCondition,
    AlertRule,
    DestinationKind,
    SetAlertDestination,
    SetAlertRule,
    plan_set_destination,
    plan_set_rule,
)
from broker.controller.rows.alerts import Delivery
from broker.controller.rows.topics import GroupRow
from broker.monitoring.alerts.formats import NotificationSource
from broker.monitoring.alerts.task import Alerting
from broker.network.clock import TrioClock
from broker.views.load import Load
from broker.views.readings import Readings
from tests.controller.world import World
from tests.monitoring.alerts.test_mail import MailServer

KEY = "R0123456789abcdefghijklmnopqrstu"


class HttpServer:
    """Answers as told, then with 202. An answer of 0 is silence, of -1 the end of the connection."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.bodies: list[Any] = []
        self.arrived = trio.Event()
        self.port = 0

    async def serve(self, task_status: trio.TaskStatus[Any]) -> None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        await trio.serve_listeners(self.handle, listeners, task_status=task_status)

    async def handle(self, stream: trio.SocketStream) -> None:
        received = b""
        while b"\r\n\r\n" not in received or not received.endswith((b"}", b"]")):
            received += await stream.receive_some()
        self.bodies.append(json.loads(received.partition(b"\r\n\r\n")[2]))
        answer = self.answers.pop(0) if self.answers else 202
        if answer == 0:
            await trio.sleep_forever()
        if answer > 0:
            await stream.send_all(f"HTTP/1.1 {answer} X\r\nContent-Length: 0\r\n\r\n".encode())


class Scene:
    """Alerting over real sockets, with a group whose lag fires at once."""

    def __init__(self, timeout_ms: int = 300) -> None:
        self.world = World("alerts.destination.hosts=127.0.0.0/8")
        self.groups = [GroupRow("orders", "Stable", "consumer", 1, 200)]
        load = Load(0.0, 0.0, 0, 1.0, 1.0, 1.0, math.nan)
        views: Any = SimpleNamespace(
            quotas=SimpleNamespace(each_throttled=lambda: iter(())),
            topics=SimpleNamespace(each_group=lambda: iter(self.groups)),
            upstream=None,
            readings=Readings(),
            live=SimpleNamespace(meter=lambda: SimpleNamespace(read=lambda: load)),
        )
        hosts = self.world.configuration.config.alerts.destination_hosts
        config = AlertConfig(destination_hosts=hosts, timeout_ms=timeout_ms)
        source = NotificationSource("c", 1, "http://weir/")
        self.alerting = Alerting(lambda: self.world.image, views, lambda: source, config, (), TrioClock())

    def destination(self, kind: str, url: str, **more: Any) -> None:
        command = SetAlertDestination("there", DestinationKind(kind), url, **more)
        outcome = self.world.do(plan_set_destination, command)
        assert outcome.ok, outcome.message
        rule = AlertRule(AlertCondition.LAG, 100.0, destinations=("there",))
        assert self.world.do(plan_set_rule, SetAlertRule("lag", rule)).ok

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.alerting.run)
            yield
            nursery.cancel_scope.cancel()

    @property
    def delivery(self) -> Delivery:
        return self.alerting.deliveries().get("there", Delivery())


@pytest.fixture
async def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(http_requests, "FIRST_RETRY_MS", 5)
    return Scene()


async def until(condition: Any) -> None:
    with trio.fail_after(60):
        while not condition():  # noqa: ASYNC110 - an outbox has no event
            await trio.sleep(0.01)


@pytest.mark.parametrize(
    ("kind", "more"), [("webhook", {}), ("slack", {}), ("alertmanager", {}), ("pagerduty", {"secret": KEY})]
)
async def test_a_server_that_fails_gets_the_notification_in_the_end(
    scene: Scene, kind: str, more: dict[str, str]
) -> None:
    server = HttpServer()
    # It hangs, ends the connection, answers 500, and then accepts.
    server.answers = [0, -1, 500]
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve)
        scene.destination(kind, f"http://127.0.0.1:{server.port}/secretpath", **more)
        async with scene.running():
            await until(lambda: scene.delivery.sent)
            delivery = scene.delivery
        nursery.cancel_scope.cancel()
    assert (delivery.sent, delivery.undelivered, delivery.problem) == (1, 0, "")
    assert delivery.next_attempt_at_ms is None
    for body in server.bodies if kind == "alertmanager" else ():
        # The end of a firing alert moves with each attempt.
        del body[0]["endsAt"]
    assert len(server.bodies) >= 4 and all(body == server.bodies[0] for body in server.bodies)
    assert "orders" in json.dumps(server.bodies[0])


async def test_a_mail_server_that_fails_gets_the_mail_in_the_end(scene: Scene) -> None:
    server = MailServer()
    server.answers = {"CONNECT": ""}
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve)
        scene.destination(
            "email",
            f"smtp+plain://127.0.0.1:{server.port}",
            sender="a@b.example",
            recipients=("c@d.example",),
        )
        async with scene.running():
            await until(lambda: "no response" in scene.delivery.problem)
            server.answers = {"MESSAGE": "451 local error"}
            await until(lambda: scene.delivery.problem == "451 local error")
            server.answers = {}
            await until(lambda: scene.delivery.sent)
            delivery = scene.delivery
        nursery.cancel_scope.cancel()
    assert (delivery.undelivered, delivery.problem) == (0, "")
    assert b"group orders has a lag of 200 records" in server.messages[-1]


async def test_a_server_that_is_not_there_is_told_with_the_next_attempt(scene: Scene) -> None:
    scene.destination("slack", "http://127.0.0.1:1/services/slacksecret")
    async with scene.running():
        await until(lambda: scene.delivery.problem and scene.delivery.next_attempt_at_ms)
        delivery = scene.delivery
    assert delivery.waiting == 1 and "refused" in delivery.problem
    assert "slacksecret" not in repr(delivery)


async def test_a_test_of_pagerduty_begins_and_ends_an_incident(scene: Scene) -> None:
    server = HttpServer()
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve)
        scene.destination("pagerduty", f"http://127.0.0.1:{server.port}/", secret=KEY)
        first = await scene.alerting.test("there")
        server.answers = [400]
        second = await scene.alerting.test("there")
        nursery.cancel_scope.cancel()
    assert [body["event_action"] for body in server.bodies] == ["trigger", "resolve", "trigger"]
    assert len({body["dedup_key"] for body in server.bodies}) == 1
    assert (first.delivered, first.status, second.delivered, second.reason) == (True, 202, False, "400 X")
    assert KEY not in repr(list(scene.alerting.history()))


async def test_a_test_of_a_mail_server_says_what_it_answers(scene: Scene) -> None:
    server = MailServer()
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve)
        scene.destination(
            "email",
            f"smtp+plain://127.0.0.1:{server.port}",
            sender="a@b.example",
            recipients=("c@d.example",),
        )
        first = await scene.alerting.test("there")
        server.answers = {"RCPT": "550 no such user"}
        second = await scene.alerting.test("there")
        nursery.cancel_scope.cancel()
    assert (first.delivered, first.status) == (True, 250)
    assert (second.delivered, second.status, second.reason) == (False, 550, "550 no such user")
    assert b"Resolved: Test notification" in server.messages[0]


async def test_pagerduty_gets_each_alert_in_a_request_of_its_own(scene: Scene) -> None:
    server = HttpServer()
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve)
        scene.destination("pagerduty", f"http://127.0.0.1:{server.port}/", secret=KEY)
        scene.groups[:] = [GroupRow(f"g{number}", "Stable", "consumer", 1, 200) for number in range(3)]
        async with scene.running():
            await until(lambda: scene.delivery.sent == 3)
        nursery.cancel_scope.cancel()
    assert len(server.bodies) == len({body["dedup_key"] for body in server.bodies}) == 3


async def test_a_destination_becomes_pagerduty_while_notifications_wait(scene: Scene) -> None:
    server = HttpServer()
    # It hangs until the deadline; meanwhile the kind changes.
    server.answers = [0]
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve)
        url = f"http://127.0.0.1:{server.port}/"
        scene.destination("webhook", url)
        scene.groups[:] = [GroupRow(f"g{number}", "Stable", "consumer", 1, 200) for number in range(3)]
        async with scene.running():
            await until(lambda: server.bodies)
            assert len(server.bodies[0]["alerts"]) == 3
            changed = SetAlertDestination("there", DestinationKind.PAGERDUTY, url, secret=KEY)
            assert scene.world.do(plan_set_destination, changed).ok
            await until(lambda: scene.delivery.sent == 3)
        nursery.cancel_scope.cancel()
    events = [body for body in server.bodies if "dedup_key" in body]
    assert len({body["dedup_key"] for body in events}) == 3

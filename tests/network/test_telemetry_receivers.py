"""The path of a push: queued, decoded, refused, expired, or passed to receivers; on a mock clock."""

import threading
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from broker.common.errors import ErrorCode
from broker.monitoring.otlp import pushes
from broker.protocol.messages.telemetry import PushTelemetryRequest
from broker.records.compression import Codec, compress
from broker.telemetry import state
from broker.telemetry.instance import uuid_text
from broker.telemetry.receiver import PushedMetrics
from tests.monitoring.events.written import event_records
from tests.network.telemetry_talk import (
    INTERVAL_S,
    NONE,
    QUEUE,
    TOO_EARLY,
    ask,
    figures,
    push,
    subscribe,
    total,
)
from tests.support.running import RunningBroker, running_broker
from tests.telemetry.scene import gauge, metrics


@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, "telemetry.max.bytes=5000") as running:
        await subscribe(running, metrics="org.b.,org.a.", interval_ms=str(INTERVAL_S * 1_000))
        yield running


async def test_refused_pushes_are_reported_once_a_minute(
    broker: RunningBroker, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    for seconds, lines in ((0, 1), (59.999, 1), (0.001, 2)):
        mock_clock.jump(seconds)
        client = await broker.connect()
        subscription = await ask(client)
        assert await push(client, subscription, packed=b"\xff", codec=Codec.NONE) == ErrorCode.INVALID_RECORD
        assert len([each for each in caplog.records if "push of client metrics" in each.message]) == lines


async def test_more_pushes_than_there_is_space_for_are_put_off_and_counted(
    broker: RunningBroker, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "MAX_WAITING", 1)
    released, export = threading.Event(), pushes.export

    def wait_and_export(*given: Any) -> pushes.ExportResult:
        released.wait()
        return export(*given)

    monkeypatch.setattr(pushes, "export", wait_and_export)
    clients = [await broker.connect(f"c{number}") for number in (1, 2, 3)]
    payload = metrics(gauge(QUEUE, 1))
    try:
        subscription = [await ask(client) for client in clients]
        for client, each in zip(clients[:2], subscription, strict=False):
            await client.send(
                PushTelemetryRequest(each.client_instance_id, each.subscription_id, False, 0, payload), 0
            )
            await trio.testing.wait_all_tasks_blocked(0.02)
        assert await push(clients[2], subscription[2], payload) == TOO_EARLY
    finally:
        released.set()
    assert figures(broker)["weir_client_telemetry_dropped_total"] == {(): 1}
    for client in clients[:2]:
        _, answer = await client.receive(PushTelemetryRequest.API_KEY, 0)
        assert answer.error_code == NONE


async def test_after_a_push_that_took_long_the_next_one_waits_for_as_long(
    broker: RunningBroker, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    export, costs = pushes.export, [500.0, 10.0, 0.1]

    def costly(*given: Any) -> pushes.ExportResult:
        return export(*given)._replace(cpu_ms=costs.pop(0))

    monkeypatch.setattr(pushes, "export", costly)
    clients = [await broker.connect(f"c{number}") for number in range(3)]
    subscription = [await ask(client) for client in clients]
    payload = metrics(gauge(QUEUE, 1))
    assert await push(clients[0], subscription[0], payload) == NONE
    request = PushTelemetryRequest(
        subscription[1].client_instance_id, subscription[1].subscription_id, False, 0, payload
    )
    await clients[1].send(request, 0)
    mock_clock.jump(0.499)
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert len(broker.server.telemetry.state.push_queue.waiting) == 1
    mock_clock.jump(0.001)
    _, answer = await clients[1].receive(72, 0)
    assert answer.error_code == NONE
    # A usual one is followed at once.
    assert await push(clients[2], subscription[2], payload) == NONE


async def test_metrics_of_an_instance_forgotten_meanwhile_are_not_kept(
    broker: RunningBroker, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    released, export = threading.Event(), pushes.export

    def wait_and_export(*given: Any) -> pushes.ExportResult:
        released.wait()
        return export(*given)

    monkeypatch.setattr(pushes, "export", wait_and_export)
    client = await broker.connect()
    subscription = await ask(client)
    payload = metrics(gauge(QUEUE, 1))
    request = PushTelemetryRequest(
        subscription.client_instance_id, subscription.subscription_id, False, 0, payload
    )
    try:
        await client.send(request, 0)
        await trio.testing.wait_all_tasks_blocked(0.02)
        broker.server.telemetry.state.manager.expire(broker.server.clock.ms() + 10_000_000)
    finally:
        released.set()
    _, answer = await client.receive(72, 0)
    assert answer.error_code == NONE
    assert len(broker.server.telemetry.state.latest) == 0


async def test_a_client_that_goes_while_its_push_is_read_affects_no_other(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    subscription = await ask(client)
    payload = metrics(*(gauge(f"org.a.{number}", 1) for number in range(50)))
    request = PushTelemetryRequest(
        subscription.client_instance_id, subscription.subscription_id, False, 0, payload
    )
    await client.send(request, 0)
    await trio.aclose_forcefully(client.stream)
    other = await broker.connect()
    assert await push(other, await ask(other), payload) == NONE
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert total(broker, "instance_count") == 1


async def test_every_push_is_in_the_topic_as_it_came_also_one_that_is_unreadable(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect("orders")
    subscription = await ask(client)
    packed = bytes(compress(Codec.GZIP, metrics(gauge(QUEUE, 1))))
    assert await push(client, subscription, packed=packed, codec=Codec.GZIP) == NONE
    assert await push(client, subscription) == TOO_EARLY
    damaged = PushTelemetryRequest(
        subscription.client_instance_id, subscription.subscription_id, True, 0, b"\xff"
    )
    assert (await client.ask(damaged, 0)).error_code == ErrorCode.INVALID_RECORD
    await broker.server.events.write()
    written = event_records(broker, "__weir_client_telemetry")
    instance_id = uuid_text(subscription.client_instance_id).encode()
    assert [(each.key, each.value) for each in written] == [(instance_id, packed), (instance_id, b"\xff")]
    headers = dict(written[0].headers)
    assert headers == {
        "v": b"1",
        "cluster": broker.server.control.image.cluster_id.encode(),
        "node": b"1",
        "client_instance_id": instance_id,
        "client_id": b"orders",
        "principal": b"ANONYMOUS",
        "address": b"127.0.0.1",
        "software_name": b"unknown",
        "software_version": b"unknown",
        "compression": b"gzip",
        "subscription_id": str(subscription.subscription_id).encode(),
        "terminating": b"false",
    }
    assert dict(written[1].headers) == headers | {"compression": b"none", "terminating": b"true"}


async def test_a_client_without_an_id_has_none_in_the_topic(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect(None)
    assert await push(client, await ask(client), metrics(gauge(QUEUE, 1))) == NONE
    waiting = broker.server.events.log.topics["__weir_client_telemetry"]
    assert dict(waiting.records[0].headers)["client_id"] is None


class Choosy:
    """A receiver that takes every second push."""

    seen: list[PushedMetrics]

    def configure(self, configs: Mapping[str, str]) -> None:
        type(self).seen = []
        assert configs["some.key"] == "of mine"

    def export(self, pushed: PushedMetrics) -> None:
        self.seen.append(pushed)
        if len(self.seen) % 2:
            raise RuntimeError("not this one")


async def test_a_receiver_of_ones_own_has_every_push_and_may_refuse_it(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    own = ("some.key=of mine", f"telemetry.receivers={__name__}:Choosy")
    async with running_broker(tmp_path, *own) as running:
        client = await running.connect("orders")
        subscription = await ask(client)
        plain = metrics(gauge(QUEUE, 1))
        assert await push(client, subscription, plain) == ErrorCode.INVALID_RECORD
        assert (total(running, "plugin_error_count"), total(running, "plugin_export_count")) == (1, 0)
        assert len(running.server.telemetry.state.latest) == 0
        assert await push(client, subscription, plain, terminating=True) == NONE
        assert (total(running, "plugin_error_count"), total(running, "plugin_export_count")) == (1, 1)
    first, last = Choosy.seen
    assert (first.client_id, first.payload, first.terminating, last.terminating) == (
        "orders",
        plain,
        False,
        True,
    )
    assert first.client_instance_id == uuid_text(subscription.client_instance_id)
    assert first.metrics.resource_metrics[0].scope_metrics[0].metrics[0].name == QUEUE


async def test_with_a_collector_pushes_wait_for_it_with_their_client(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path, "telemetry.otlp.endpoint=http://127.0.0.1:1") as running:
        client = await running.connect("orders")
        assert await push(client, await ask(client), metrics(gauge(QUEUE, 1))) == NONE
        assert figures(running)["weir_client_telemetry_otlp_waiting_bytes"][()] > 0
        assert "client-telemetry-otlp" in {row.name for row in running.server.views.live.tasks()}
        (body,) = running.server.telemetry.state.export_queue.take()
        assert b"orders" in body and QUEUE.encode() in body

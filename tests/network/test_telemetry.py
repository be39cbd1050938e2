"""Clients ask what to push, and push, over real connections and a mock clock (CONFORMANCE V87 to V94)."""

import threading
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from broker.collecting import pushes
from broker.control.commands import (
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    IncrementalAlterConfigs,
    OpType,
    ResourceType,
)
from broker.errors import ErrorCode
from broker.metadata.actor import BROKER_ITSELF
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from broker.protocol.messages.push_telemetry import PushTelemetryRequest
from broker.records.compression import Codec, compress
from broker.records.walk import batches, records
from broker.telemetry import push as intake
from broker.telemetry.effective import uuid_text
from broker.telemetry.receiver import PushedMetrics
from tests.support.prometheus import parse
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient
from tests.telemetry.scene import counter, gauge, metrics

INTERVAL_S = 60
NONE, TOO_EARLY = ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED
QUEUE = "org.apache.kafka.producer.record.queue.count"


@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, "telemetry.max.bytes=5000") as running:
        await subscribe(running, metrics="org.b.,org.a.", interval_ms=str(INTERVAL_S * 1_000))
        yield running


async def subscribe(broker: RunningBroker, name: str = "s", **configs: str) -> None:
    ops = tuple(ConfigOp(key.replace("_", "."), OpType.SET, text) for key, text in configs.items())
    resource = ConfigResource(ResourceType.CLIENT_METRICS, name)
    command = IncrementalAlterConfigs((ConfigAlteration(resource, ops),))
    (outcome,) = await broker.house.control.apply(command, BROKER_ITSELF)
    assert outcome.ok, outcome


async def ask(client: WireClient, instance_id: bytes = bytes(16)) -> GetTelemetrySubscriptionsResponse:
    answer: GetTelemetrySubscriptionsResponse = await client.ask(
        GetTelemetrySubscriptionsRequest(instance_id), 0
    )
    assert answer.throttle_time_ms == 0
    return answer


async def push(
    client: WireClient,
    asked: GetTelemetrySubscriptionsResponse,
    plain: bytes = b"",
    codec: int = Codec.ZSTD,
    *,
    packed: bytes | None = None,
    terminating: bool = False,
) -> int:
    """The error code."""
    payload = packed if packed is not None else bytes(compress(codec, plain)) if plain else b""
    request = PushTelemetryRequest(
        asked.client_instance_id, asked.subscription_id, terminating, codec, payload
    )
    answer = await client.ask(request, 0)
    assert answer.throttle_time_ms == 0
    return int(answer.error_code)


def figures(broker: RunningBroker) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """What Prometheus reads, by family and labels."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in broker.house.exposition.families():
        for sample in family.samples:
            found.setdefault(family.name, {})[sample.labels] = sample.value
    return found


def total(broker: RunningBroker, name: str) -> float:
    return sum(figures(broker).get(f"kafka_server_client_metrics_{name}", {}).values())


async def test_a_client_is_told_what_to_push(broker: RunningBroker, mock_clock: MockClock) -> None:
    answer = await ask(await broker.connect())
    assert answer.error_code == 0 and any(answer.client_instance_id) and answer.subscription_id
    assert answer.accepted_compression_types == [4, 3, 1, 2]
    assert (answer.push_interval_ms, answer.telemetry_max_bytes, answer.delta_temporality) == (
        60_000,
        5_000,
        True,
    )
    assert answer.requested_metrics == ["org.a.", "org.b."]


async def test_without_a_subscription_nothing_is_wanted(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as running:
        answer = await ask(await running.connect())
    assert (answer.error_code, answer.push_interval_ms, answer.requested_metrics) == (0, 300_000, [])
    assert answer.telemetry_max_bytes == 1_048_576


@pytest.mark.parametrize("codec", list(Codec))
async def test_what_a_client_says_is_what_prometheus_reads(
    broker: RunningBroker, mock_clock: MockClock, codec: Codec
) -> None:
    client = await broker.connect("orders")
    asked = await ask(client)
    said = metrics(gauge(QUEUE, 12.5, node_id=1), counter("org.sent", 3))
    assert await push(client, asked, said, codec) == NONE
    mock_clock.jump(INTERVAL_S)
    assert await push(client, asked, said, codec) == NONE
    page = parse(broker.house.exposition.page())
    whose = {"client_instance_id": uuid_text(asked.client_instance_id), "client_id": "orders"}
    assert page["org_apache_kafka_producer_record_queue_count"].value(node_id="1", **whose) == 12.5
    assert page["org_sent_total"].value(**whose) == 6
    assert page["org_sent_total"].kind == "counter"
    assert total(broker, "plugin_export_count") == 2
    assert total(broker, "plugin_export_time_avg") >= 0


async def test_the_gates_hold_over_the_wire_to_the_millisecond(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    asked = await ask(client)
    assert (await ask(client, asked.client_instance_id)).error_code == TOO_EARLY
    assert await push(client, asked) == NONE
    assert await push(client, asked) == TOO_EARLY
    mock_clock.jump(INTERVAL_S - 0.001)
    assert await push(client, asked) == TOO_EARLY
    mock_clock.jump(0.001)
    assert await push(client, asked) == NONE
    assert total(broker, "throttle_count") == 3
    assert total(broker, "plugin_export_count") == 0
    assert await push(client, asked, terminating=True) == NONE
    assert await push(client, asked) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("packed", "codec", "error"),
    [
        (b"\x0a\xff", Codec.NONE, ErrorCode.INVALID_RECORD),
        (b"no zstd", Codec.ZSTD, ErrorCode.INVALID_RECORD),
        (bytes(compress(Codec.ZSTD, bytes(2_097_153))), Codec.ZSTD, ErrorCode.TELEMETRY_TOO_LARGE),
        (bytes(compress(Codec.GZIP, bytes(4_000_000))), Codec.GZIP, ErrorCode.TELEMETRY_TOO_LARGE),
        (bytes(5_001), Codec.NONE, ErrorCode.TELEMETRY_TOO_LARGE),
        (b"x", 100, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ],
)
async def test_a_bad_push_is_refused_and_the_connection_goes_on(
    broker: RunningBroker, mock_clock: MockClock, packed: bytes, codec: int, error: ErrorCode
) -> None:
    client = await broker.connect()
    asked = await ask(client)
    assert await push(client, asked, packed=packed, codec=codec) == error
    is_of_a_receiver = error is ErrorCode.INVALID_RECORD or (len(packed) < 5_000 and codec != 100)
    assert total(broker, "plugin_error_count") == (1 if is_of_a_receiver else 0)
    assert total(broker, "plugin_export_count") == 0
    mock_clock.jump(INTERVAL_S)
    assert await push(client, asked, metrics(gauge(QUEUE, 1))) == NONE


async def test_refused_pushes_are_told_once_a_minute(
    broker: RunningBroker, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    for seconds, lines in ((0, 1), (59.999, 1), (0.001, 2)):
        mock_clock.jump(seconds)
        client = await broker.connect()
        asked = await ask(client)
        assert await push(client, asked, packed=b"\xff", codec=Codec.NONE) == ErrorCode.INVALID_RECORD
        assert len([each for each in caplog.records if "push of client metrics" in each.message]) == lines


async def test_in_automqs_mode_a_push_is_answered_in_its_turn(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path, "socket.server.mode=automq") as running:
        client = await running.connect()
        asked = await ask(client)
        payload = metrics(gauge(QUEUE, 1))
        request = PushTelemetryRequest(asked.client_instance_id, asked.subscription_id, False, 0, payload)
        sent = [await client.send(request, 0), await client.send(ApiVersionsRequest("t", "1"), 3)]
        answers = [await client.receive(72, 0), await client.receive(18, 3)]
        assert [correlation_id for correlation_id, _ in answers] == sent
        assert answers[0][1].error_code == NONE


async def test_an_instance_leaves_the_figures_with_its_connection(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    """V94: 4 figures without a client, 8 for each; here one is Kafka's own count of metrics, and those of a
    client are there when they have something to say.
    """
    assert total(broker, "instance_count") == 0
    clients = [await broker.connect(f"c{number}") for number in (1, 2)]
    for client in clients:
        asked = await ask(client)
        assert await push(client, asked, metrics(gauge(QUEUE, 1))) == NONE
        assert await push(client, asked) == TOO_EARLY
    assert total(broker, "instance_count") == 2 and total(broker, "throttle_count") == 2
    assert len(figures(broker)["org_apache_kafka_producer_record_queue_count"]) == 2
    await trio.aclose_forcefully(clients[0].stream)
    await trio.testing.wait_all_tasks_blocked(0.02)
    assert total(broker, "instance_count") == 1 and total(broker, "throttle_count") == 1
    ((labels, _),) = figures(broker)["org_apache_kafka_producer_record_queue_count"].items()
    assert ("client_id", "c2") in labels


async def test_an_instance_that_is_silent_for_three_intervals_is_forgotten(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await ask(await broker.connect())
    mock_clock.jump(3 * INTERVAL_S - 0.001)
    await trio.testing.wait_all_tasks_blocked(0.02)
    assert total(broker, "instance_count") == 1
    mock_clock.jump(0.001)
    await trio.testing.wait_all_tasks_blocked(0.02)
    assert total(broker, "instance_count") == 0


async def test_a_changed_subscription_reaches_a_client_at_its_next_request(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect("late")
    asked = await ask(client)
    await subscribe(broker, "more", metrics="*", interval_ms="30000", match="client_id=late")
    assert await push(client, asked, metrics(gauge(QUEUE, 1))) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    again = await ask(client, asked.client_instance_id)
    assert (again.error_code, again.requested_metrics, again.push_interval_ms) == (0, ["*"], 30_000)
    assert total(broker, "unknown_subscription_request_count") == 1
    assert await push(client, again, metrics(gauge(QUEUE, 1))) == NONE


async def test_more_pushes_than_there_is_room_for_are_put_off_and_counted(
    broker: RunningBroker, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "MOST_WAITING", 1)
    released, export = threading.Event(), pushes.export

    def wait_and_export(*given: Any) -> pushes.Exported:
        released.wait()
        return export(*given)

    monkeypatch.setattr(pushes, "export", wait_and_export)
    clients = [await broker.connect(f"c{number}") for number in (1, 2, 3)]
    payload = metrics(gauge(QUEUE, 1))
    try:
        asked = [await ask(client) for client in clients]
        for client, each in zip(clients[:2], asked, strict=False):
            await client.send(
                PushTelemetryRequest(each.client_instance_id, each.subscription_id, False, 0, payload), 0
            )
            await trio.testing.wait_all_tasks_blocked(0.02)
        assert await push(clients[2], asked[2], payload) == TOO_EARLY
    finally:
        released.set()
    assert figures(broker)["weir_client_telemetry_dropped_total"] == {(): 1}
    for client in clients[:2]:
        _, answer = await client.receive(PushTelemetryRequest.API_KEY, 0)
        assert answer.error_code == NONE


async def test_a_client_that_goes_while_its_push_is_read_disturbs_nobody(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    asked = await ask(client)
    payload = metrics(*(gauge(f"org.a.{number}", 1) for number in range(50)))
    request = PushTelemetryRequest(asked.client_instance_id, asked.subscription_id, False, 0, payload)
    await client.send(request, 0)
    await trio.aclose_forcefully(client.stream)
    other = await broker.connect()
    assert (await ask(other)).error_code == NONE
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert total(broker, "instance_count") == 1
    assert len(broker.house.broker.telemetry.latest) == 0


async def test_every_push_is_in_the_topic_as_it_came_also_one_that_nobody_can_read(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect("orders")
    asked = await ask(client)
    packed = bytes(compress(Codec.GZIP, metrics(gauge(QUEUE, 1))))
    assert await push(client, asked, packed=packed, codec=Codec.GZIP) == NONE
    assert await push(client, asked) == TOO_EARLY
    damaged = PushTelemetryRequest(asked.client_instance_id, asked.subscription_id, True, 0, b"\xff")
    assert (await client.ask(damaged, 0)).error_code == ErrorCode.INVALID_RECORD
    await broker.house.events.write()
    log = broker.house.partitions.log("__weir_client_telemetry", 0)
    assert log is not None
    held = [
        record
        for batch in batches(log.read(0, 1_000_000, min_one_batch=True).read())
        for record in records(batch)
    ]
    instance_id = uuid_text(asked.client_instance_id).encode()
    assert [(each.key, each.value) for each in held] == [(instance_id, packed), (instance_id, b"\xff")]
    said = dict(held[0].headers)
    assert said == {
        "v": b"1",
        "node": b"1",
        "client_instance_id": instance_id,
        "client_id": b"orders",
        "principal": b"ANONYMOUS",
        "address": b"127.0.0.1",
        "software_name": b"unknown",
        "software_version": b"unknown",
        "compression": b"gzip",
        "subscription_id": str(asked.subscription_id).encode(),
        "terminating": b"false",
    }
    assert dict(held[1].headers) == said | {"compression": b"none", "terminating": b"true"}


async def test_a_client_without_an_id_has_none_in_the_topic(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect(None)
    assert await push(client, await ask(client), metrics(gauge(QUEUE, 1))) == NONE
    waiting = broker.house.events.log.topics["__weir_client_telemetry"]
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
        asked = await ask(client)
        plain = metrics(gauge(QUEUE, 1))
        assert await push(client, asked, plain) == ErrorCode.INVALID_RECORD
        assert (total(running, "plugin_error_count"), total(running, "plugin_export_count")) == (1, 0)
        assert len(running.house.broker.telemetry.latest) == 0
        assert await push(client, asked, plain, terminating=True) == NONE
        assert (total(running, "plugin_error_count"), total(running, "plugin_export_count")) == (1, 1)
    first, last = Choosy.seen
    assert (first.client_id, first.payload, first.terminating, last.terminating) == (
        "orders",
        plain,
        False,
        True,
    )
    assert first.client_instance_id == uuid_text(asked.client_instance_id)
    assert first.metrics.resource_metrics[0].scope_metrics[0].metrics[0].name == QUEUE


async def test_with_a_collector_pushes_wait_for_it_with_who_sent_them(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path, "telemetry.otlp.endpoint=http://127.0.0.1:1") as running:
        client = await running.connect("orders")
        assert await push(client, await ask(client), metrics(gauge(QUEUE, 1))) == NONE
        assert figures(running)["weir_client_telemetry_otlp_waiting_bytes"][()] > 0
        assert "client-telemetry-otlp" in {row.name for row in running.house.broker.views.tasks()}
        (body,) = running.house.broker.telemetry.forwarding.take()
        assert b"orders" in body and QUEUE.encode() in body


@pytest.mark.parametrize(("enabled", "announced"), [("true", {71, 72}), ("false", set())])
async def test_telemetry_is_announced_unless_it_is_switched_off(
    tmp_path: Path, mock_clock: MockClock, enabled: str, announced: set[int]
) -> None:
    async with running_broker(tmp_path, f"telemetry.enabled={enabled}") as running:
        client = await running.connect()
        answer: Any = await client.ask(ApiVersionsRequest("t", "1"), 3)
        assert {each.api_key for each in answer.api_keys} & {71, 72} == announced
        if not announced:
            await client.send(GetTelemetrySubscriptionsRequest(), 0)
            assert await client.is_closed()

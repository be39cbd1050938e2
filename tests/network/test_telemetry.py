"""Telemetry subscriptions and pushes of clients, over real connections and a mock clock. (KIP-714)"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from broker.common.errors import ErrorCode
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    PushTelemetryRequest,
)
from broker.records.compression import Codec, compress
from broker.telemetry.instance import uuid_text
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
from tests.support.prometheus import parse
from tests.support.running import RunningBroker, running_broker
from tests.telemetry.scene import counter, gauge, metrics


@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, "telemetry.max.bytes=5000") as running:
        await subscribe(running, metrics="org.b.,org.a.", interval_ms=str(INTERVAL_S * 1_000))
        yield running


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


async def test_a_subscription_outlives_the_broker(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as running:
        await subscribe(running, metrics="org.a.", interval_ms="1000")
    async with running_broker(tmp_path) as running:
        answer = await ask(await running.connect())
    assert (answer.push_interval_ms, answer.requested_metrics) == (1_000, ["org.a."])


async def test_without_a_subscription_nothing_is_wanted(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as running:
        answer = await ask(await running.connect())
    assert (answer.error_code, answer.push_interval_ms, answer.requested_metrics) == (0, 300_000, [])
    assert answer.telemetry_max_bytes == 1_048_576


@pytest.mark.parametrize("codec", list(Codec))
async def test_prometheus_reads_the_metrics_that_a_client_pushes(
    broker: RunningBroker, mock_clock: MockClock, codec: Codec
) -> None:
    client = await broker.connect("orders")
    subscription = await ask(client)
    pushed = metrics(gauge(QUEUE, 12.5, node_id=1), counter("org.sent", 3))
    assert await push(client, subscription, pushed, codec) == NONE
    mock_clock.jump(INTERVAL_S)
    assert await push(client, subscription, pushed, codec) == NONE
    page = parse(broker.server.prometheus.page())
    whose = {"client_instance_id": uuid_text(subscription.client_instance_id), "client_id": "orders"}
    assert page["org_apache_kafka_producer_record_queue_count"].value(node_id="1", **whose) == 12.5
    assert page["org_sent_total"].value(**whose) == 6
    assert page["org_sent_total"].kind == "counter"
    assert total(broker, "plugin_export_count") == 2
    assert total(broker, "plugin_export_time_avg") >= 0


async def test_the_gates_hold_over_the_wire_to_the_millisecond(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    subscription = await ask(client)
    assert (await ask(client, subscription.client_instance_id)).error_code == TOO_EARLY
    assert await push(client, subscription) == NONE
    assert await push(client, subscription) == TOO_EARLY
    mock_clock.jump(INTERVAL_S - 0.001)
    assert await push(client, subscription) == TOO_EARLY
    mock_clock.jump(0.001)
    assert await push(client, subscription) == NONE
    assert total(broker, "throttle_count") == 3
    assert total(broker, "plugin_export_count") == 0
    assert await push(client, subscription, terminating=True) == NONE
    assert await push(client, subscription) == ErrorCode.INVALID_REQUEST


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
    subscription = await ask(client)
    assert await push(client, subscription, packed=packed, codec=codec) == error
    is_of_a_receiver = error is ErrorCode.INVALID_RECORD or (len(packed) < 5_000 and codec != 100)
    assert total(broker, "plugin_error_count") == (1 if is_of_a_receiver else 0)
    assert total(broker, "plugin_export_count") == 0
    mock_clock.jump(INTERVAL_S)
    assert await push(client, subscription, metrics(gauge(QUEUE, 1))) == NONE


async def test_in_automqs_mode_a_push_is_answered_in_its_turn(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path, "socket.server.mode=automq") as running:
        client = await running.connect()
        subscription = await ask(client)
        payload = metrics(gauge(QUEUE, 1))
        request = PushTelemetryRequest(
            subscription.client_instance_id, subscription.subscription_id, False, 0, payload
        )
        sent = [await client.send(request, 0), await client.send(ApiVersionsRequest("t", "1"), 3)]
        answers = [await client.receive(72, 0), await client.receive(18, 3)]
        assert [correlation_id for correlation_id, _ in answers] == sent
        assert answers[0][1].error_code == NONE


async def test_an_instance_leaves_the_figures_with_its_connection(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    """ClientMetricsManagerTest has 4 metrics without a client and 8 for each. Here a client's metrics appear
    with their first value.
    """
    assert total(broker, "instance_count") == 0
    clients = [await broker.connect(f"c{number}") for number in (1, 2)]
    for client in clients:
        subscription = await ask(client)
        assert await push(client, subscription, metrics(gauge(QUEUE, 1))) == NONE
        assert await push(client, subscription) == TOO_EARLY
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
    subscription = await ask(client)
    await subscribe(broker, "more", metrics="*", interval_ms="30000", match="client_id=late")
    assert await push(client, subscription, metrics(gauge(QUEUE, 1))) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    again = await ask(client, subscription.client_instance_id)
    assert (again.error_code, again.requested_metrics, again.push_interval_ms) == (0, ["*"], 30_000)
    assert total(broker, "unknown_subscription_request_count") == 1
    assert await push(client, again, metrics(gauge(QUEUE, 1))) == NONE


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

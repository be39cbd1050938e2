"""The request log: matching requests up to the limit, without their content."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.common.errors import ConfigError, ErrorCode
from broker.common.logs import facts
from broker.config.sections import RequestLogConfig
from broker.controller.commands import (
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    IncrementalAlterConfigs,
    OpType,
    ResourceOutcome,
    ResourceType,
)
from broker.metadata.actor import Actor, ChangeOrigin, Role
from broker.network.requests.request_log import RequestLog
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from broker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from broker.quotas.entity import Entity
from tests.support.live import takes_effect
from tests.support.produce import batch_of, create_topic, produce_request, produce_request_of
from tests.support.running import RunningBroker, running_broker

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
LOGGER = "kafka.request.logger"


@pytest.fixture
async def broker(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> AsyncIterator[RunningBroker]:
    caplog.set_level(logging.INFO, LOGGER)
    async with running_broker(tmp_path) as running:
        yield running


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [facts(record) for record in caplog.records if record.name == LOGGER]


async def change(broker: RunningBroker, role: Role = Role.ADMIN, **values: str) -> ResourceOutcome:
    ops = tuple(
        ConfigOp("request.log." + key.replace("_", "."), OpType.SET, value) for key, value in values.items()
    )
    alteration = ConfigAlteration(ConfigResource(ResourceType.BROKER, "1"), ops)
    actor = Actor("ann", role, "", ChangeOrigin.REST)
    (outcome,) = await broker.server.control.apply(IncrementalAlterConfigs((alteration,)), actor)
    return outcome


async def test_nothing_is_logged_unless_it_is_asked_for(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    await client.ask(create_topic(), 5)
    assert lines(caplog) == []
    assert not any(part.wants_all for api in broker.server.socket_server.metrics for part in api.parts)


async def test_a_line_has_the_client_the_request_its_time_and_its_outcome(
    broker: RunningBroker, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    await change(broker, apis="Produce")
    client = await broker.connect("app")
    await client.ask(create_topic(), 5)
    await client.ask(produce_request(batch_of(b"hush")), 9)
    await client.ask(produce_request(batch_of(b"hush"), "nowhere"), 9)
    good, bad = lines(caplog)
    (channel,) = broker.server.socket_server.channels()
    assert good.pop("request_bytes") > 100 and good.pop("response_bytes") > 20
    assert good == {
        "api": "Produce",
        "version": 9,
        "correlation_id": 2,
        "connection": channel.id,
        "client_id": "app",
        "principal": "ANONYMOUS",
        "listener": "PLAINTEXT",
        "queue_ms": 0.0,
        "local_ms": 0.0,
        "remote_ms": 0.0,
        "throttle_ms": 0,
        "response_queue_ms": 0.0,
        "response_send_ms": 0.0,
        "total_ms": 0.0,
        "errors": "NONE",
    }
    assert bad["errors"] == "UNKNOWN_TOPIC_OR_PARTITION"


@takes_effect("request.log.apis")
async def test_it_is_switched_on_and_off_while_clients_are_there(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    for apis, logged in (("", 0), ("ApiVersions", 2), ("Produce", 2), ("*", 4), ("", 4)):
        await change(broker, apis=apis)
        for _ in range(2):
            await client.ask(ApiVersionsRequest("x", "1"), 3)
        assert len(lines(caplog)) == logged


async def test_no_answer_is_given_from_the_cache_while_it_is_logged(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    for _ in range(2):
        await client.ask(ApiVersionsRequest("x", "1"), 3)
    metrics = broker.server.socket_server.metrics.by_name["ApiVersions"]
    assert sum(part.cached for part in metrics.parts) == 1
    await change(broker, apis="ApiVersions")
    for _ in range(3):
        await client.ask(ApiVersionsRequest("x", "1"), 3)
    assert sum(part.cached for part in metrics.parts) == 1
    assert len(lines(caplog)) == 3
    assert metrics.by_version() == {3: 5}


@takes_effect("request.log.client.ids")
async def test_a_client_id_has_all_its_requests_logged_and_no_other_client_any(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture, mock_clock: MockClock
) -> None:
    await change(broker, client_ids="watched,other")
    for name in ("watched", "free"):
        client = await broker.connect(name)
        await client.ask(ApiVersionsRequest("x", "1"), 3)
        await client.ask(create_topic(), 5)
    assert [(line["client_id"], line["api"]) for line in lines(caplog)] == [
        ("watched", "ApiVersions"),
        ("watched", "CreateTopics"),
    ]


async def test_fetch_stands_for_consumers_and_followers(broker: RunningBroker, mock_clock: MockClock) -> None:
    log = broker.server.socket_server.request_log
    log.configure(RequestLogConfig(apis=("Fetch",)))
    assert log.wants("FetchConsumer", None) and log.wants("FetchFollower", None)
    log.configure(RequestLogConfig(apis=("FetchFollower",)))
    assert not log.wants("FetchConsumer", None)
    assert log.tap("FetchFollower") is not None and log.tap("FetchConsumer") is None


@takes_effect("request.log.max.per.second")
@pytest.mark.parametrize(("requests", "written"), [(2, 2), (3, 3), (4, 3)])
async def test_a_second_has_no_more_lines_than_it_may(
    broker: RunningBroker,
    mock_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
    requests: int,
    written: int,
) -> None:
    await change(broker, apis="ApiVersions", max_per_second="3")
    client = await broker.connect()
    for _ in range(requests):
        await client.ask(ApiVersionsRequest("x", "1"), 3)
    log = broker.server.socket_server.request_log
    assert (len(lines(caplog)), log.written, log.left_out) == (written, written, requests - written)
    mock_clock.jump(1)
    await client.ask(ApiVersionsRequest("x", "1"), 3)
    assert lines(caplog)[-1].get("left_out", 0) == requests - written
    mock_clock.jump(1)
    await client.ask(ApiVersionsRequest("x", "1"), 3)
    assert "left_out" not in lines(caplog)[-1]


async def test_a_throttle_is_in_the_line(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture, mock_clock: MockClock
) -> None:
    client = await broker.connect("greedy")
    await client.ask(create_topic(), 5)
    broker.server.quotas.apply(Entity(client_id="greedy"), "producer_byte_rate", 1_000)
    await change(broker, apis="Produce")
    await client.ask(produce_request_of(11_000, "greedy"), 9)
    assert [line["throttle_ms"] for line in lines(caplog)] == [1_000]


async def test_a_connection_that_is_ended_for_its_request_is_in_the_line(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture, mock_clock: MockClock
) -> None:
    await change(broker, apis="Produce")
    client = await broker.connect()
    await client.send(produce_request(batch_of(b"one"), "nowhere", acks=0), 9)
    assert await client.is_closed()
    (line,) = lines(caplog)
    assert line["closed"] == "acks=0 and UNKNOWN_TOPIC_OR_PARTITION"
    assert line["errors"] == "UNKNOWN_TOPIC_OR_PARTITION"


async def test_no_line_has_a_password_or_a_record(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    async with running_broker(
        tmp_path,
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        f'listener.name.sasl_plaintext.plain.sasl.jaas.config={MODULE} user_alice="opensesame";',
        "request.log.apis=*",
    ) as broker:
        client = await broker.connect()
        await client.ask(SaslHandshakeRequest("PLAIN"), 1)
        await client.ask(SaslAuthenticateRequest(b"\0alice\0opensesame"), 2)
        await client.ask(create_topic(), 5)
        await client.ask(produce_request(batch_of(b"the record")), 9)
        logged = lines(caplog)
        assert [line["api"] for line in logged] == [
            "SaslHandshake",
            "SaslAuthenticate",
            "CreateTopics",
            "Produce",
        ]
        assert logged[-1]["principal"] == "alice"
        assert "opensesame" not in str(logged) and "the record" not in str(logged)


async def test_an_api_that_there_is_not_is_refused(broker: RunningBroker, mock_clock: MockClock) -> None:
    outcome = await change(broker, apis="Produce,Konsume")
    assert outcome.error is ErrorCode.INVALID_REQUEST and "Konsume" in (outcome.message or "")
    assert broker.server.control.config.request_log.apis == ()
    with pytest.raises(ConfigError, match="Konsume"):
        RequestLog.check(RequestLogConfig(apis=("Konsume",)))


async def test_only_an_administrator_may_switch_it(broker: RunningBroker, mock_clock: MockClock) -> None:
    outcome = await change(broker, Role.EDITOR, apis="Produce")
    assert outcome.error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert broker.server.control.config.request_log.apis == ()


async def test_the_settings_outlive_a_restart(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    async with running_broker(tmp_path) as broker:
        await change(broker, client_ids="watched")
        await wait_all_tasks_blocked(0.01)
    async with running_broker(tmp_path) as broker:
        client = await broker.connect("watched")
        await client.ask(ApiVersionsRequest("x", "1"), 3)
        assert len(lines(caplog)) == 1

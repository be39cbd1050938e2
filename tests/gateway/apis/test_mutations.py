"""The controller mutation quota at the gateway.

A rate of 2 over ten windows accumulates 20 tokens. Time stands still unless a test moves it.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from broker.api.requests.change_limits import MAX_ELEMENTS, TOO_MANY
from broker.common.errors import ErrorCode
from broker.gateway.responses import encoded
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from broker.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from broker.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from broker.quotas.entity import Entity
from tests.support.gateway_upstream import Upstream, gateway_upstream
from tests.support.running_gateway import RunningGateway
from tests.support.wire import CLIENT_ID, WireClient, connect

NONE, EXCEEDED = ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED
EXISTS, UNKNOWN = ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
REFUSED = "The throttling quota has been exceeded."
RATE = 2
BURST = 20
FREE = "free"
"""A client id without a quota."""

Running = tuple[RunningGateway, Upstream, WireClient]


@asynccontextmanager
async def limited(tmp_path: Path, rate: float | None = RATE) -> AsyncIterator[Running]:
    async with gateway_upstream(tmp_path, "controller.quota.window.num=10") as (gateway, upstream):
        if rate is not None:
            set_rate(gateway, rate)
        yield gateway, upstream, await gateway.connect()


def set_rate(gateway: RunningGateway, rate: float | None) -> None:
    clock = gateway.server.clock
    gateway.server.quotas.apply(Entity(client_id=CLIENT_ID), "controller_mutation_rate", rate, clock.ms())


def create(*topics: tuple[str, int], validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        [CreatableTopic(name, count, 1) for name, count in topics], 5_000, validate_only
    )


def extend(*topics: tuple[str, int]) -> CreatePartitionsRequest:
    return CreatePartitionsRequest([CreatePartitionsTopic(name, count) for name, count in topics], 5_000)


def delete(*names: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topic_names=list(names), timeout_ms=5_000)


async def errors_of(client: WireClient, message: Any, version: int) -> tuple[dict[str, int], int]:
    """The error codes by topic and the throttle time, which also mutes the connection."""
    reply = await client.ask(message, version)
    (results,) = (getattr(reply, name) for name in ("topics", "responses", "results") if hasattr(reply, name))
    return {each.name: each.error_code for each in results}, reply.throttle_time_ms


@pytest.mark.parametrize(
    ("first", "error", "throttle_ms"), [(19, NONE, 0), (20, NONE, 0), (21, EXCEEDED, 500)]
)
async def test_a_strict_version_is_refused_once_the_tokens_are_below_zero(
    mock_clock: MockClock, tmp_path: Path, first: int, error: int, throttle_ms: int
) -> None:
    async with limited(tmp_path) as (_, upstream, client):
        answer = await errors_of(client, create(("a", first), ("b", 1)), 6)
        assert answer == ({"a": NONE, "b": error}, throttle_ms)
        assert upstream.topics == {"a": first} | ({} if error else {"b": 1})
        (request,) = upstream.requests_of(ApiKey.CREATE_TOPICS)
        assert [each.name for each in request.topics] == ["a"] + ([] if error else ["b"])
        assert request.timeout_ms == 5_000


async def test_a_refused_request_never_reaches_the_upstream_broker(
    mock_clock: MockClock, tmp_path: Path
) -> None:
    async with limited(tmp_path) as (_, upstream, client):
        assert await errors_of(client, create(("a", 30)), 6) == ({"a": NONE}, 0)
        assert await errors_of(client, create(("b", 1), ("c", 1)), 7) == (
            {"b": EXCEEDED, "c": EXCEEDED},
            5_000,
        )
        assert len(upstream.requests_of(ApiKey.CREATE_TOPICS)) == 1
        mock_clock.jump(4.5)
        other = await again(client)
        assert (await errors_of(other, create(("b", 1)), 6))[0] == {"b": EXCEEDED}
        mock_clock.jump(0.5)
        last = await again(client)
        assert await errors_of(last, create(("b", 1)), 6) == ({"b": NONE}, 0)


async def again(client: WireClient) -> WireClient:
    """Another connection of the same client: the first may be muted."""
    return await connect(client.stream.socket.getpeername()[1], client.client_id)


@pytest.mark.parametrize(
    ("before", "first", "second", "version"),
    [
        pytest.param({}, create(("a", 30)), create(("b", 30)), 5, id="CreateTopics"),
        pytest.param({"a": 1, "b": 1}, extend(("a", 31)), extend(("b", 31)), 2, id="CreatePartitions"),
        pytest.param({"a": 30, "b": 30}, delete("a"), delete("b"), 4, id="DeleteTopics"),
    ],
)
async def test_an_older_version_is_served_and_throttled(
    mock_clock: MockClock, tmp_path: Path, before: dict[str, int], first: Any, second: Any, version: int
) -> None:
    async with limited(tmp_path) as (gateway, upstream, client):
        upstream.topics = dict(before)
        assert await errors_of(client, first, version) == ({"a": NONE}, 5_000)
        other = await again(client)
        assert await errors_of(other, second, version) == ({"b": NONE}, 20_000)
        throttled = gateway.server.quotas.mutation.throttled
        assert len(list(throttled.all())) == 2
        assert len(upstream.requests_of(first.API_KEY)) == 2


@pytest.mark.parametrize(
    ("before", "request_", "strict_from"),
    [
        pytest.param({}, create(("a", 30), ("b", 30)), 6, id="CreateTopics"),
        pytest.param({"a": 1, "b": 1}, extend(("a", 31), ("b", 31)), 3, id="CreatePartitions"),
    ],
)
async def test_the_first_strict_version_refuses_and_the_one_before_does_not(
    mock_clock: MockClock, tmp_path: Path, before: dict[str, int], request_: Any, strict_from: int
) -> None:
    for version, second in ((strict_from - 1, NONE), (strict_from, EXCEEDED)):
        async with limited(tmp_path / str(version)) as (_, upstream, client):
            upstream.topics = dict(before)
            errors, throttle_ms = await errors_of(client, request_, version)
            assert errors == {"a": NONE, "b": second}
            assert throttle_ms == (5_000 if second else 20_000)


async def test_responses_are_merged_byte_for_byte(mock_clock: MockClock, tmp_path: Path) -> None:
    async with limited(tmp_path) as (_, upstream, client):
        upstream.throttle_ms = 7
        upstream.topics = {"old": 1}
        sent = await client.send(create(("old", 3), ("a", 21), ("b", 1)), 7)
        created = CreateTopicsResponse(
            500,
            [
                CreatableTopicResult("old", error_code=EXISTS, configs=[]),
                CreatableTopicResult("a", num_partitions=21, replication_factor=1, configs=[]),
                CreatableTopicResult("b", error_code=EXCEEDED, error_message=REFUSED, configs=[]),
            ],
        )
        # The tokens of the refused topic came back too late for "b", and in time for the throttle.
        created.throttle_time_ms = 2_000
        assert await client.receive_frame() == encoded(created, 7, sent)[4:]


async def test_a_topic_that_the_upstream_cluster_refuses_costs_nothing(
    mock_clock: MockClock, tmp_path: Path
) -> None:
    async with limited(tmp_path) as (_, upstream, client):
        upstream.topics = {"a": 1}
        for _ in range(3):
            assert await errors_of(client, create(("a", 30)), 6) == ({"a": EXISTS}, 0)
            assert await errors_of(client, create(("a", 30)), 5) == ({"a": EXISTS}, 0)
            assert await errors_of(client, extend(("a", 1), ("missing", 30)), 3) == (
                {"a": ErrorCode.INVALID_PARTITIONS, "missing": UNKNOWN},
                0,
            )
            assert await errors_of(client, delete("missing"), 5) == ({"missing": UNKNOWN}, 0)
        assert await errors_of(client, create(("b", BURST + 1)), 6) == ({"b": NONE}, 0)
        assert await errors_of(client, create(("c", 1)), 6) == ({"c": EXCEEDED}, 500)


async def test_the_upstream_clusters_default_counts_where_none_is_given(
    mock_clock: MockClock, tmp_path: Path
) -> None:
    async with limited(tmp_path) as (_, upstream, client):
        six = tuple((f"t{number}", -1) for number in range(6))  # of 4 partitions each: 24
        errors, throttle_ms = await errors_of(client, create(*six, ("u", -1)), 6)
        assert errors == dict.fromkeys(dict(six), NONE) | {"u": EXCEEDED}
        assert throttle_ms == 2_000
        (described,) = upstream.requests_of(ApiKey.DESCRIBE_CONFIGS)
        assert [(each.resource_type, each.resource_name) for each in described.resources] == [(4, "0")]


async def test_created_partitions_count_where_the_default_is_unknown(
    mock_clock: MockClock, tmp_path: Path
) -> None:
    async with limited(tmp_path) as (_, upstream, client):
        del upstream.node.versions[ApiKey.DESCRIBE_CONFIGS]
        six = tuple((f"t{number}", -1) for number in range(6))
        errors, throttle_ms = await errors_of(client, create(*six), 6)
        assert (errors, throttle_ms) == (dict.fromkeys(dict(six), NONE), 0)
        assert await errors_of(client, create(("u", 1)), 6) == ({"u": EXCEEDED}, 2_000)


async def test_assignments_count_before_num_partitions(mock_clock: MockClock, tmp_path: Path) -> None:
    async with limited(tmp_path) as (_, _upstream, client):
        assigned = [CreatableReplicaAssignment(index, [0]) for index in range(BURST + 1)]
        request = CreateTopicsRequest(
            [CreatableTopic("a", -1, -1, assigned), CreatableTopic("b", 1, 1)], 5_000
        )
        assert await errors_of(client, request, 6) == ({"a": NONE, "b": EXCEEDED}, 500)


async def test_topics_are_deleted_by_name_and_by_id(mock_clock: MockClock, tmp_path: Path) -> None:
    async with limited(tmp_path) as (_, upstream, client):
        upstream.topics = {"a": 12, "b": 10, "c": 1}
        named = [DeleteTopicState("a"), *(DeleteTopicState(None, upstream.id_of(each)) for each in "bc")]
        sent = await client.send(DeleteTopicsRequest(topics=named, timeout_ms=5_000), 6)
        expected = DeleteTopicsResponse(
            1_000,
            [
                DeletableTopicResult("a", upstream.id_of("a")),
                DeletableTopicResult("b", upstream.id_of("b")),
                DeletableTopicResult(None, upstream.id_of("c"), EXCEEDED, REFUSED),
            ],
        )
        assert await client.receive_frame() == encoded(expected, 6, sent)[4:]
        assert upstream.topics == {"c": 1}


async def test_a_topic_deleted_again_is_free_and_one_created_again_is_not(
    mock_clock: MockClock, tmp_path: Path
) -> None:
    async with limited(tmp_path) as (_, upstream, client):
        upstream.topics = {"a": 10}
        assert await errors_of(client, delete("a"), 5) == ({"a": NONE}, 0)
        assert await errors_of(client, delete("a"), 5) == ({"a": UNKNOWN}, 0)
        upstream.topics = {"a": 11, "b": 1}
        mock_clock.jump(1)  # 2 tokens, and nothing of the metadata is kept any longer
        assert await errors_of(client, delete("a"), 5) == ({"a": NONE}, 0)
        assert await errors_of(client, delete("b"), 5) == ({"b": NONE}, 0)
        assert await errors_of(client, extend(("b", 2)), 3) == ({"b": UNKNOWN}, 0)


async def test_metadata_is_kept_for_a_second(mock_clock: MockClock, tmp_path: Path) -> None:
    async with limited(tmp_path) as (_, upstream, client):
        upstream.topics = {"a": 1}
        await errors_of(client, create(("b", 30)), 6)
        for number, (seconds, count) in enumerate(((0, 1), (0.999, 1), (0.001, 2))):
            mock_clock.jump(seconds)
            other = await again(client)
            assert (await errors_of(other, extend(("a", 2)), 3))[0] == {"a": EXCEEDED}, number
            assert len(upstream.requests_of(ApiKey.METADATA)) == count


async def test_the_larger_throttle_time_is_reported(mock_clock: MockClock, tmp_path: Path) -> None:
    async with limited(tmp_path) as (_, upstream, client):
        for upstream_ms, expected in ((4_999, 5_000), (5_000, 5_000), (5_001, 5_001)):
            upstream.throttle_ms = upstream_ms
            other = await again(client)
            name = f"t{upstream_ms}"
            assert await errors_of(other, create((name, 30)), 5) == ({name: NONE}, expected)
            mock_clock.jump(15)


async def test_shadow_mode_refuses_nothing(mock_clock: MockClock, tmp_path: Path) -> None:
    async with limited(tmp_path) as (gateway, upstream, client):
        gateway.server.quotas.set_shadow(Entity(client_id=CLIENT_ID), is_shadow=True)
        upstream.topics = {"old": 30}
        assert await errors_of(client, create(("a", 30)), 6) == ({"a": NONE}, 0)
        # What strict mode would refuse is not charged, so that nothing is given back either.
        for number in (1, 2, 3):
            assert await errors_of(client, create(("old", 30)), 6) == ({"old": EXISTS}, 0)
            (total,) = gateway.server.quotas.mutation.shadows.values()
            assert (total.times, total.throttled.at(2**62)) == (number, 5_000)
        assert upstream.topics == {"old": 30, "a": 30}


async def test_without_a_quota_requests_are_forwarded_in_a_row(mock_clock: MockClock, tmp_path: Path) -> None:
    async with limited(tmp_path, None) as (gateway, upstream, client):
        upstream.node.answers_nothing = True
        for message, version in ((create(("a", 30)), 7), (extend(("a", 60)), 3), (delete("a"), 5)):
            await client.send(message, version)
        wanted = (ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_TOPICS)
        await upstream.node.wait_until(lambda: all(upstream.requests_of(key) for key in wanted))
        assert not upstream.requests_of(ApiKey.METADATA)
        (channel,) = gateway.server.socket_server.channels()
        assert channel.requests_in_flight == 3
        upstream.node.stop()


async def test_a_quota_holds_for_the_next_request_and_not_after_its_removal(
    mock_clock: MockClock, tmp_path: Path
) -> None:
    async with limited(tmp_path, None) as (gateway, _, client):
        assert await errors_of(client, create(("a", 1_000)), 6) == ({"a": NONE}, 0)
        set_rate(gateway, RATE)
        assert await errors_of(client, create(("b", 30)), 6) == ({"b": NONE}, 0)
        assert await errors_of(client, create(("c", 1)), 6) == ({"c": EXCEEDED}, 5_000)
        set_rate(gateway, None)
        other = await again(client)
        assert await errors_of(other, create(("c", 1)), 6) == ({"c": NONE}, 0)


async def test_other_clients_are_not_charged(mock_clock: MockClock, tmp_path: Path) -> None:
    async with limited(tmp_path) as (gateway, upstream, client):
        assert await errors_of(client, create(("a", 30)), 6) == ({"a": NONE}, 0)
        free = await gateway.connect(FREE)
        assert await errors_of(free, create(("b", 1_000), ("c", 1_000)), 6) == ({"b": NONE, "c": NONE}, 0)
        assert await errors_of(free, extend(("b", 2_000)), 3) == ({"b": NONE}, 0)
        assert await errors_of(free, delete("b"), 5) == ({"b": NONE}, 0)
        assert not upstream.requests_of(ApiKey.METADATA)
        assert (await errors_of(client, create(("d", 1)), 6))[0] == {"d": EXCEEDED}


@pytest.mark.parametrize(
    ("count", "error"), [(MAX_ELEMENTS, NONE), (MAX_ELEMENTS + 1, ErrorCode.POLICY_VIOLATION)]
)
async def test_the_largest_request_is_forwarded_and_a_larger_one_is_not(
    mock_clock: MockClock, tmp_path: Path, count: int, error: int
) -> None:
    async with limited(tmp_path, 1e9) as (_, upstream, client):
        request = create(*((f"t{number}", 1) for number in range(count)))
        reply = await client.ask(request, 7)
        assert [each.error_code for each in reply.topics] == [error] * count
        assert {each.error_message for each in reply.topics} == {TOO_MANY if error else None}
        assert len(upstream.topics) == (0 if error else count)


async def test_a_lost_upstream_connection_closes_the_clients(
    mock_clock: MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with limited(tmp_path) as (gateway, upstream, client):
        upstream.node.answers_nothing = True
        await client.send(create(("a", 30)), 6)
        await upstream.node.wait_until(lambda: bool(upstream.requests_of(ApiKey.CREATE_TOPICS)))
        upstream.node.drop_connections()
        assert await client.is_closed()
        upstream.node.answers_nothing = False
        # The topic may exist: the charge stays.
        other = await gateway.connect()
        assert await errors_of(other, create(("b", 1)), 6) == ({"b": EXCEEDED}, 5_000)
        assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


async def test_a_topic_of_unknown_size_counts_as_one_partition(
    mock_clock: MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with limited(tmp_path) as (_, upstream, client):
        upstream.topics = {f"t{number}": 50 for number in range(23)}
        del upstream.node.versions[ApiKey.METADATA]
        for number in range(21):
            assert await errors_of(client, delete(f"t{number}"), 5) == ({f"t{number}": NONE}, 0)
        assert await errors_of(client, delete("t21"), 5) == ({"t21": EXCEEDED}, 500)
        lines = [each for each in caplog.records if "number of partitions" in each.message]
        assert len(lines) == 1


async def test_client_and_upstream_partitions_are_merged_in_the_results_of_create_partitions(
    mock_clock: MockClock, tmp_path: Path
) -> None:
    async with limited(tmp_path) as (_, upstream, client):
        upstream.topics = {"a": 1, "b": 1}
        sent = await client.send(extend(("a", 22), ("b", 2)), 3)
        expected = CreatePartitionsResponse(
            500,
            [CreatePartitionsTopicResult("a"), CreatePartitionsTopicResult("b", EXCEEDED, REFUSED)],
        )
        assert await client.receive_frame() == encoded(expected, 3, sent)[4:]
        await trio.lowlevel.checkpoint()

"""Requests that handlers of the gateway send on their clients' upstream connections."""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from broker.api.registry import Api
from broker.api.requests.fast_path import FastPath
from broker.api.requests.outcome import Outcome, Response
from broker.common.errors import BrokerBug
from broker.gateway.apis.asking import ask, in_own_task
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.client_quotas import DescribeClientQuotasRequest
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from broker.quotas.entity import Entity
from tests.support.gateway_upstream import gateway_upstream
from tests.support.running_gateway import RunningGateway

VERSION = 6
HANDLERS = 8
"""num.io.threads"""


def create(name: str) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreatableTopic(name, 1, 1)], 5_000)


def limit(gateway: RunningGateway) -> None:
    """Let the gateway answer CreateTopics of all clients."""
    gateway.server.quotas.apply(Entity(client_id="nobody"), "controller_mutation_rate", 1e9)


class Handlers:
    """Calls `handle` in place of the handlers, with the message and the context."""

    def __init__(self, handle: Callable[[Any, Any], Any]) -> None:
        self.handle = handle

    def handler(self, _api: Api) -> Callable[..., Any]:
        return lambda message, context, _services: in_own_task(partial(self.handle, message, context))

    def fast_path(self, _api: Api, fast_path: FastPath) -> FastPath:
        return fast_path


async def test_a_cancelled_question_leaves_the_connection_in_order(tmp_path: Path) -> None:
    scope = trio.CancelScope()

    async def handle(message: Any, context: Any) -> Outcome:
        with scope:
            return Response(await ask(context, message))
        with pytest.raises(BrokerBug):
            await ask(context, message)
        return Response(CreateTopicsResponse(throttle_time_ms=1))

    async with gateway_upstream(tmp_path) as (gateway, upstream):
        limit(gateway)
        gateway.server.socket_server.wrap_handlers(Handlers(handle))
        client = await gateway.connect()
        upstream.node.delay_s = 0.2
        await client.send(create("a"), VERSION)
        await upstream.node.wait_until(lambda: bool(upstream.requests_of(ApiKey.CREATE_TOPICS)))
        scope.cancel()
        _, reply = await client.receive(ApiKey.CREATE_TOPICS, VERSION)
        assert (reply.throttle_time_ms, reply.topics) == (1, [])
        # The next request waits for the response that is no longer awaited.
        gateway.server.socket_server.wrap_handlers(None)
        reply = await client.ask(create("b"), VERSION)
        assert [each.name for each in reply.topics] == ["b"]
        assert set(upstream.topics) == {"a", "b"}
        (channel,) = gateway.server.socket_server.channels()
        assert channel.requests_in_flight == 0


async def test_a_handler_may_ask_several_times(tmp_path: Path) -> None:
    async def handle(_message: Any, context: Any) -> Outcome:
        replies = [await ask(context, create(name)) for name in "abc"]
        return Response(CreateTopicsResponse(0, [each for reply in replies for each in reply.topics]))

    async with gateway_upstream(tmp_path) as (gateway, upstream):
        limit(gateway)
        gateway.server.socket_server.wrap_handlers(Handlers(handle))
        client = await gateway.connect()
        connections = set()
        for _ in range(3):
            reply = await client.ask(create("x"), VERSION)
            assert [each.name for each in reply.topics] == ["a", "b", "c"]
            connections.add(upstream.node.connections)
        assert upstream.topics == dict.fromkeys("abc", 1)
        assert len(upstream.requests_of(ApiKey.CREATE_TOPICS)) == 9 and len(connections) == 1


@pytest.mark.parametrize("is_connected", [False, True])
async def test_an_upstream_broker_that_is_gone_closes_the_clients_connection(
    tmp_path: Path, is_connected: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with gateway_upstream(tmp_path) as (gateway, upstream):
        limit(gateway)
        client = await gateway.connect()
        if is_connected:
            await client.ask(create("a"), VERSION)
        upstream.node.answers_nothing = True
        if not is_connected:
            upstream.node.stop()
        await client.send(create("b"), VERSION)
        if is_connected:
            await upstream.node.wait_until(lambda: len(upstream.requests_of(ApiKey.CREATE_TOPICS)) == 2)
            upstream.node.stop()
        assert await client.is_closed()
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


async def test_a_client_that_leaves_ends_its_handler(tmp_path: Path) -> None:
    ended = trio.Event()
    errors: list[UpstreamError] = []

    async def handle(message: Any, context: Any) -> Outcome:
        try:
            return Response(await ask(context, message))
        except UpstreamError as error:
            errors.append(error)
            raise
        finally:
            ended.set()

    async with gateway_upstream(tmp_path) as (gateway, upstream):
        limit(gateway)
        gateway.server.socket_server.wrap_handlers(Handlers(handle))
        client = await gateway.connect()
        upstream.node.answers_nothing = True
        await client.send(create("a"), VERSION)
        await upstream.node.wait_until(lambda: bool(upstream.requests_of(ApiKey.CREATE_TOPICS)))
        before = upstream.node.open_connections
        # A reset, which the kernel reports although the gateway does not read this client now.
        client.stream.setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")
        await trio.aclose_forcefully(client.stream)
        await ended.wait()
        assert [each.reason for each in errors] == [Reason.CLOSED]
        await upstream.node.wait_until(lambda: upstream.node.open_connections == before - 1)


async def test_waiting_handlers_delay_no_other_client(tmp_path: Path) -> None:
    async with gateway_upstream(tmp_path) as (gateway, upstream):
        limit(gateway)
        assert gateway.server.config.network.num_io_threads == HANDLERS
        upstream.node.answers_nothing = True
        waiting = [await gateway.connect() for _ in range(HANDLERS + 1)]
        for number, client in enumerate(waiting):
            await client.send(create(f"t{number}"), VERSION)
        await upstream.node.wait_until(
            lambda: len(upstream.requests_of(ApiKey.CREATE_TOPICS)) == len(waiting)
        )
        other = await gateway.connect()
        assert (await other.ask(DescribeClientQuotasRequest(), 1)).error_code == 0
        upstream.node.stop()
        for client in waiting:
            assert await client.is_closed()


async def test_a_client_that_ends_its_stream_gets_the_answer_of_a_handler(tmp_path: Path) -> None:
    may_end = trio.Event()

    async def handle(message: Any, context: Any) -> Outcome:
        response = Response(await ask(context, message))
        await may_end.wait()
        return response

    async with gateway_upstream(tmp_path) as (gateway, upstream):
        limit(gateway)
        gateway.server.socket_server.wrap_handlers(Handlers(handle))
        await trio.testing.wait_all_tasks_blocked(0.02)
        own = upstream.node.open_connections
        client = await gateway.connect()
        await client.send(create("a"), VERSION)
        await upstream.node.wait_until(lambda: bool(upstream.requests_of(ApiKey.CREATE_TOPICS)))
        await client.stream.send_eof()
        await trio.testing.wait_all_tasks_blocked(0.02)
        (channel,) = gateway.server.socket_server.channels()
        assert channel.has_ended and not channel.closed
        may_end.set()
        _, reply = await client.receive(ApiKey.CREATE_TOPICS, VERSION)
        assert [each.name for each in reply.topics] == ["a"]
        assert await client.is_closed()
        assert channel.closed
        await upstream.node.wait_until(lambda: upstream.node.open_connections == own)


async def test_requests_before_the_end_of_a_stream_are_all_answered(tmp_path: Path) -> None:
    async with gateway_upstream(tmp_path) as (gateway, upstream):
        limit(gateway)
        upstream.node.delay_s = 0.05
        client = await gateway.connect()
        for name in "abc":
            await client.send(create(name), VERSION)
        await client.stream.send_eof()
        for name in "abc":
            _, reply = await client.receive(ApiKey.CREATE_TOPICS, VERSION)
            assert [each.name for each in reply.topics] == [name]
        assert await client.is_closed()


@pytest.mark.parametrize("is_local", [False, True])
async def test_a_client_that_has_ended_is_forgotten_if_its_answer_never_comes(
    tmp_path: Path, mock_clock: MockClock, is_local: bool
) -> None:
    async with gateway_upstream(tmp_path, "connections.max.idle.ms=600000") as (gateway, upstream):
        if is_local:
            limit(gateway)
        client = await gateway.connect()
        await trio.testing.wait_all_tasks_blocked(0.02)
        own = upstream.node.open_connections
        upstream.node.answers_nothing = True
        await client.send(create("a"), VERSION)
        await upstream.node.wait_until(lambda: bool(upstream.requests_of(ApiKey.CREATE_TOPICS)))
        await client.stream.aclose()
        await trio.testing.wait_all_tasks_blocked(0.02)
        (channel,) = gateway.server.socket_server.channels()
        assert channel.has_ended
        mock_clock.jump(599.999)
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert not channel.closed
        mock_clock.jump(0.001)
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert channel.closed
        assert upstream.node.open_connections <= own

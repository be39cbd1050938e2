"""What http_server and request take of hypercorn, quart-trio and trio beyond their public names.

A failure means that upstream has changed: read its new code, adapt webui.http.http_server, and
then this file.
"""

import inspect
from collections.abc import Callable
from typing import Any, Final

import hypercorn.trio
import pytest
import trio.testing
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol import ProtocolWrapper
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import TrioSingleTask, WorkerContext
from hypercorn.utils import wrap_app
from quart_trio.asgi import TrioASGIHTTPConnection
from quart_trio.wrappers import TrioRequest

from webui.tables import slices

PROTOCOL: Final = [
    "app",
    "config",
    "context",
    "task_group",
    "connection_state",
    "ssl",
    "client",
    "server",
    "send",
]
WRAPPER: Final = ["app", "config", "context", "task_group", "state", "ssl", "client", "server", "send"]
REQUEST: Final = ["method", "scheme", "path", "query_string", "headers", "root_path", "http_version", "scope"]


def parameters(function: Callable[..., Any]) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (TCPServer.__init__, ["app", "config", "context", "state", "stream"]),
        (TCPServer.run, []),
        (TCPServer._read_data, []),
        (TCPServer.protocol_send, ["event"]),
        (H11Protocol.__init__, PROTOCOL),
        (H11Protocol._check_protocol, ["event"]),
        (H11Protocol._create_stream, ["request"]),
        (ProtocolWrapper.__init__, [*WRAPPER, "alpn_protocol"]),
        (TrioSingleTask.stop, []),
        (WorkerContext.__init__, ["max_requests"]),
        (Updated, ["idle"]),
        (wrap_app, ["app", "wsgi_max_body_size", "mode"]),
        (TrioASGIHTTPConnection.__call__, ["receive", "send"]),
    ],
    ids=lambda value: getattr(value, "__qualname__", ""),
)
def test_the_signatures_are_those_that_we_call_and_override(
    function: Callable[..., Any], expected: list[str]
) -> None:
    assert parameters(function) == expected


def test_a_request_takes_the_parameters_that_we_pass_on() -> None:
    found = parameters(TrioRequest.__init__)
    assert found[: len(REQUEST)] == REQUEST
    assert "max_content_length" in found


def test_coroutines_of_hypercorn_are_still_coroutines() -> None:
    methods = (
        TCPServer.run,
        TCPServer._read_data,
        TCPServer._idle_timeout,
        TCPServer._initiate_server_close,
        TCPServer.protocol_send,
        H11Protocol._check_protocol,
        H11Protocol._create_stream,
        TrioSingleTask.stop,
    )
    assert all(map(inspect.iscoroutinefunction, methods))


async def test_the_attributes_are_those_that_we_read() -> None:
    async def send(_event: Event) -> None:
        pass

    config, context = Config(), WorkerContext(None)
    wrapper = ProtocolWrapper(None, config, context, None, {}, False, None, None, send)  # type: ignore[arg-type]
    assert set(vars(wrapper)) == {*WRAPPER, "protocol"}
    assert type(wrapper.protocol) is H11Protocol
    assert wrapper.protocol.connection_state == {}
    server = TCPServer(None, config, context, {}, None)  # type: ignore[arg-type]
    assert {"app", "config", "context", "stream", "state", "idle_task"} <= set(vars(server))
    assert type(server.idle_task) is TrioSingleTask
    assert {each for each in Event.__subclasses__() if each.__module__ == Event.__module__} == {
        RawData,
        Closed,
        Updated,
    }


async def test_the_end_of_the_worker_is_an_event_that_connections_read() -> None:
    context = WorkerContext(None)
    assert not context.terminated.is_set()
    await context.terminated.set()
    assert context.terminated.is_set()
    assert "context.terminated" in inspect.getsource(H11Protocol._maybe_recycle)
    assert "context.terminated" in inspect.getsource(TCPServer._idle_timeout)


def test_hypercorn_still_has_no_public_way_to_serve_an_accepted_stream() -> None:
    assert parameters(hypercorn.trio.serve) == ["app", "config", "shutdown_trigger", "task_status", "mode"]
    assert hypercorn.__all__ == ("Config",)


def test_slices_use_the_public_function_of_trio() -> None:
    assert slices.wait_all_tasks_blocked is trio.testing.wait_all_tasks_blocked

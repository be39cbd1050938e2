"""A response whose connection has closed is dropped with one warning, and a flood of them with few."""

import logging
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.api.requests.outcome import Hangup, NoResponse, Outcome, Response
from broker.network import unsendable
from broker.network.unsendable import QUIET_MS, UnsendableResponses
from broker.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.support.running import RunningBroker, running_broker

LIST_GROUPS = 16
WORDS = "Attempting to send response via channel for which there is no open connection, connection id "


def warnings(caplog: pytest.LogCaptureFixture) -> list[tuple[str, object]]:
    """(connection id, how many others there were) of each warning."""
    lines = [each for each in caplog.records if each.name == unsendable.__name__]
    assert all(each.levelno == logging.WARNING and each.getMessage().startswith(WORDS) for each in lines)
    return [(each.getMessage().removeprefix(WORDS), getattr(each, "others_before", 0)) for each in lines]


@pytest.mark.parametrize(("at_ms", "lines"), [(QUIET_MS - 1, 1), (QUIET_MS, 2), (QUIET_MS + 1, 2)])
def test_one_line_a_second_at_most_and_the_next_counts_the_others(
    caplog: pytest.LogCaptureFixture, at_ms: int, lines: int
) -> None:
    responses = UnsendableResponses()
    for number in range(5):
        responses.warn(f"c{number}", 7_000)
    responses.warn("late", 7_000 + at_ms)
    assert warnings(caplog) == [("c0", 0), ("late", 4)][:lines]
    responses.warn("last", 7_000 + 5 * QUIET_MS)
    assert warnings(caplog)[-1] == ("last", 0 if lines == 2 else 5)


async def leaves_before(broker: RunningBroker, outcome: Outcome) -> str:
    """A client asks, and leaves while its handler waits, which then ends so. The connection's id."""
    (listener,) = broker.server.socket_server.listeners
    route = listener.routes.build(LIST_GROUPS << 16)
    assert route is not None
    may_end = trio.Event()

    async def wait() -> Outcome:
        await may_end.wait()
        return outcome

    def handle(_message: Any, _context: Any, _broker: Any) -> Awaitable[Outcome]:
        return wait()

    route.handle = handle
    client = await broker.connect()
    await client.send(ListGroupsRequest(), 0)
    await wait_all_tasks_blocked(0.02)
    (channel,) = broker.server.socket_server.channels()
    # A peer that only closes its side may still read: a reset is the end.
    broker.server.socket_server.listeners[0].processors[0].selector.close_channel(channel, "test")
    may_end.set()
    await wait_all_tasks_blocked(0.02)
    return channel.id


@pytest.mark.parametrize("mode", ["kafka", "automq"])
async def test_an_answer_without_a_connection_is_warned_about_and_measured(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    async with running_broker(tmp_path, f"socket.server.mode={mode}") as broker:
        gone = await leaves_before(broker, Response(ListGroupsResponse()))
        assert warnings(caplog) == [(gone, 0)]
        measured = broker.server.socket_server.metrics.of("ListGroups", 0)
        assert (measured.requests, sum(measured.response_send)) == (1, 0)


@pytest.mark.parametrize("outcome", [NoResponse(), Hangup("enough")])
async def test_a_response_without_bytes_causes_no_warning(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture, outcome: Outcome
) -> None:
    """Kafka warns only in sendResponse: not for NoOpResponse and CloseConnectionResponse."""
    async with running_broker(tmp_path) as broker:
        await leaves_before(broker, outcome)
        assert warnings(caplog) == []

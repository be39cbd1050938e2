"""Usage by principal, client id and API, of which all requests are counted and the first of each second are
timed; and usage accounts of clients without quotas, from open and closed connections.
"""

import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from broker.common.slices import run_through
from broker.controller.commands import AlterClientQuotas, QuotaAlteration, QuotaOp
from broker.controller.rows.quotas import ClientUsage as ClientUsageRow
from broker.controller.rows.quotas import MeasuredBy
from broker.metadata.actor import BROKER_ITSELF
from broker.network.connection.channel import Channel, NewConnection
from broker.network.connection.frame_pool import FramePool
from broker.network.connection.receive import Receive
from broker.network.requests.client_usage import CHANNELS_PER_SECOND, TIMED, ApiClient, UsageTaps
from tests.support.produce import PRODUCE_VERSION, create_topic, produce_request_of
from tests.support.running import RunningBroker, running_broker
from tests.support.view_rows import usage_rows


def channel_of(client_id: str | None, principal: str = "alice") -> Channel:
    """Return a closed connection. A compiled module takes no other class for it."""
    with socket.socket() as sock:
        receive = Receive(0, memoryview(b""), FramePool())
        responder: Any = None
        connection = NewConnection("id", "PLAINTEXT", ("127.0.0.1", 1), True, 0, 0)
        channel = Channel(sock, responder, receive, connection)
    channel.client_id = client_id
    channel.principal = principal
    return channel


class Request:
    """Received at 0, taken up after 5 us, answered after 20."""

    size = 96
    received, dequeued, completed, local_complete = 0, 5_000, 20_000, 0

    def __init__(self, channel: Channel) -> None:
        self.channel = channel


def counted(usage: UsageTaps, api: str, channel: Channel, times: int = 1, **marks: int) -> None:
    tap = usage.tap(api)
    assert tap is not None
    for _ in range(times):
        request: Any = Request(channel)
        for name, value in marks.items():
            setattr(request, name, value)
        tap.response_sent(request, 21_000, 30_000, 50)


@pytest.fixture
def usage() -> UsageTaps:
    made = UsageTaps()
    made.enable(True)
    return made


def test_off_there_is_nothing_to_hear_with() -> None:
    assert UsageTaps().tap("Produce") is None


@pytest.mark.parametrize("requests", [TIMED - 1, TIMED, TIMED + 1])
def test_all_requests_are_counted_and_the_first_are_timed(usage: UsageTaps, requests: int) -> None:
    counted(usage, "Produce", channel_of("a"), requests)
    ((client, use),) = usage.drain(10)
    assert client == ApiClient("alice", "a", "Produce")
    assert (use.requests, use.bytes_in, use.bytes_out) == (requests, 100 * requests, 50 * requests)
    assert use.timed == min(requests, TIMED)
    assert [sum(phase.values()) for phase in use.phases] == [use.timed, use.timed, 0, *[use.timed] * 3]


def test_a_wait_is_remote_time(usage: UsageTaps) -> None:
    counted(usage, "Fetch", channel_of("a"), local_complete=6_000)
    ((_, use),) = usage.drain(10)
    _, local, remote, *_ = use.phases
    assert local == {0: 1} and remote == {13: 1}  # under 1,024 ns; 14 us are 13 ticks


@pytest.mark.parametrize("requests", [TIMED - 1, TIMED, TIMED + 1])
def test_the_time_of_a_forwarded_request_is_remote(usage: UsageTaps, requests: int) -> None:
    tap = usage.tap("Produce")
    assert tap is not None
    channel = channel_of("a")
    for _ in range(requests):
        tap.forwarded(channel, 100, 13, 50)
    ((client, use),) = usage.drain(10)
    assert client == ApiClient("alice", "a", "Produce")
    assert (use.requests, use.bytes_in, use.bytes_out) == (requests, 100 * requests, 50 * requests)
    timed = min(requests, TIMED)
    assert use.timed == timed
    assert use.phases == ({0: timed}, {0: timed}, {13: timed}, {0: timed}, {}, {13: timed})


def test_connections_of_one_client_are_added_up_and_apis_are_not(usage: UsageTaps) -> None:
    for api in ("Produce", "Fetch"):
        counted(usage, api, channel_of("a"))
        counted(usage, api, channel_of("a"), 2)
    counted(usage, "Produce", channel_of("a", principal="bob"))
    counted(usage, "Produce", channel_of(None))
    found = {client: use.requests for client, use in usage.drain(10)}
    assert found == {
        ApiClient("alice", "a", "Produce"): 3,
        ApiClient("alice", "a", "Fetch"): 3,
        ApiClient("bob", "a", "Produce"): 1,
        ApiClient("alice", "", "Produce"): 1,
    }


@pytest.mark.parametrize(("clients", "others"), [(2, 0), (3, 0), (4, 1), (5, 2)])
def test_more_askers_than_rows_are_one_row_without_a_name(
    usage: UsageTaps, clients: int, others: int
) -> None:
    for number in range(clients):
        counted(usage, "Produce", channel_of(f"client-{number}"))
    rows = dict(usage.drain(3))
    assert sum(use.requests for use in rows.values()) == clients
    assert (rows[None].requests if None in rows else 0) == others


def test_errors_and_throttles_are_added_up(usage: UsageTaps) -> None:
    channel = channel_of("a")
    tap = usage.tap("Produce")
    assert tap is not None
    request: Any = Request(channel)
    tap.errors_counted(request, {3: 2, 6: 1})
    tap.errors_counted(request, {6: 1})
    tap.throttled(request, 200)
    tap.throttled(request, 300)
    ((_, use),) = usage.drain(10)
    assert use.errors == {3: 2, 6: 2} and use.throttle_ms == 500
    assert list(usage.drain(10)) == []


BUSY = "busy"


# Every test asks for the mock clock itself: a fixture's clock does not become the run's.
@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path) as running:
        maker = await running.connect("maker")
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        yield running


def row(broker: RunningBroker, client_id: str = BUSY) -> ClientUsageRow:
    return next(each for each in usage_rows(broker.server.views) if each.client_id == client_id)


async def test_every_byte_and_request_of_a_client_is_there_while_it_is_connected_and_afterwards(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    first, second = await broker.connect(BUSY), await broker.connect(BUSY)
    for client in (first, second, first):
        await client.ask(produce_request_of(4_996, BUSY), PRODUCE_VERSION)
    now = row(broker)
    assert (now.user, now.connections, now.bytes_in, now.requests) == ("ANONYMOUS", 2, 15_000, 3)
    assert now.bytes_out > 0
    assert now.limited_by == ()
    assert now.request_percentage is None
    await first.ask(produce_request_of(996, BUSY), PRODUCE_VERSION)
    await first.stream.aclose()
    await trio.testing.wait_all_tasks_blocked(0.02)
    later = row(broker)
    assert (later.connections, later.bytes_in, later.requests) == (1, 16_000, 4)
    assert next(each.client_id for each in usage_rows(broker.server.views)) == BUSY


async def test_the_rate_is_over_the_last_seconds_and_the_history_over_minutes(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect(BUSY)
    for _ in range(20):
        await client.ask(produce_request_of(996, BUSY), PRODUCE_VERSION)
        mock_clock.jump(1)
        await trio.testing.wait_all_tasks_blocked(0.01)
    busy = row(broker)
    assert 900 <= busy.bytes_in_per_s <= 1_100
    assert sum(bytes_in for bytes_in, _, _ in busy.history()) == 20_000
    assert len([1 for bytes_in, _, _ in busy.history() if bytes_in]) in (4, 5)
    mock_clock.jump(600)
    assert row(broker).bytes_in_per_s == 0


async def test_which_limits_govern_a_client_is_reported_and_time_is_known_while_it_is_measured(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect(BUSY)
    rule = QuotaAlteration(
        (("client-id", BUSY),), (QuotaOp("request_percentage", 50.0), QuotaOp("producer_byte_rate", 1e9))
    )
    await broker.server.control.apply(AlterClientQuotas((rule,)), BROKER_ITSELF)
    await client.ask(produce_request_of(1_000, BUSY), PRODUCE_VERSION)
    assert row(broker).limited_by == ("producer_byte_rate", "request_percentage")
    assert row(broker, "maker").limited_by == ()
    assert row(broker).request_percentage is not None


async def test_accounts_are_updated_without_readers(broker: RunningBroker, mock_clock: MockClock) -> None:
    client = await broker.connect(BUSY)
    await client.ask(produce_request_of(996, BUSY), PRODUCE_VERSION)
    accounts = broker.server.socket_server.accounts._accounts
    assert accounts.find("ANONYMOUS", BUSY) is None
    mock_clock.jump(1)
    await trio.testing.wait_all_tasks_blocked(0.02)
    assert accounts.find("ANONYMOUS", BUSY) is not None
    assert CHANNELS_PER_SECOND == 1_000


async def test_the_page_for_prometheus_has_them(broker: RunningBroker, mock_clock: MockClock) -> None:
    client = await broker.connect(BUSY)
    await client.ask(produce_request_of(996, BUSY), PRODUCE_VERSION)
    labels = f'{{user="ANONYMOUS",client_id="{BUSY}"}}'
    page = broker.server.prometheus.page()
    assert f"kafka_server_client_incoming_bytes_total{labels} 1000" in page
    assert f"kafka_server_client_requests_total{labels} 1\n" in page
    assert f"kafka_server_client_connections{labels} 1\n" in page


async def test_a_rule_that_does_not_exist_is_judged_by_the_sum_of_its_clients(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    clients = [await broker.connect(BUSY), await broker.connect(BUSY)]
    for _ in range(15):
        for client in clients:
            await client.ask(produce_request_of(996, BUSY), PRODUCE_VERSION)
        mock_clock.jump(1)
        await trio.testing.wait_all_tasks_blocked(0.01)
    views = broker.server.views
    rule = QuotaAlteration((("client-id", BUSY),), (QuotaOp("producer_byte_rate", 1_000.0),))
    now, then = run_through(views.quotas.resolve(None, BUSY, changes=[rule]))[0]
    assert (now.bound, now.measured_by, then.bound, then.measured_by) == (
        None,
        MeasuredBy.CONNECTIONS,
        1_000,
        MeasuredBy.CONNECTIONS,
    )
    assert now.observed == then.observed and then.observed is not None
    assert 1_800 <= then.observed <= 2_200
    assert then.wait_ms == round((then.observed - 1_000) * 10)
    # Once it is there, the quota's own sensor is asked.
    await broker.server.control.apply(AlterClientQuotas((rule,)), BROKER_ITSELF)
    await clients[0].ask(produce_request_of(996, BUSY), PRODUCE_VERSION)
    (limit, _), *_ = run_through(views.quotas.resolve(None, BUSY))
    assert limit.measured_by is MeasuredBy.QUOTA and limit.wait_ms
    assert limit.matched == (("client-id", BUSY),)

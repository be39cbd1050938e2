"""A gateway that stops: what is in hand is answered, no connection waits for another, and none is reset."""

import contextlib
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.gateway.channel import BLOCKED
from broker.protocol.messages.client_quotas import DescribeClientQuotasRequest
from broker.protocol.messages.fetch import FetchRequest
from tests.gateway.test_forwarding import FETCH_VERSION, both, fetch, produce
from tests.support.certificates import certificates, tls_settings
from tests.support.hostile import until
from tests.support.machine_speed import WITHIN_S
from tests.support.produce import PRODUCE_VERSION, batch_of, produce_request
from tests.support.running import RunningBroker
from tests.support.running_gateway import RunningGateway
from tests.support.wire import WireClient, connect_tls

LARGE: Final = 900_000


def polling(max_wait_ms: int, offset: int = 0) -> FetchRequest:
    """Return a Fetch that waits upstream, since the topic has no record at `offset`."""
    request = fetch(offset)
    request.max_wait_ms = max_wait_ms
    return request


ONE_IN_FLIGHT: Final = "gateway.max.in.flight.requests.per.connection=1"


def end_of(broker: RunningBroker) -> int:
    log = broker.server.partitions.log("events", 0)
    assert log is not None
    return log.high_watermark


async def stops(gateway: RunningGateway) -> None:
    gateway.stop.set()
    with trio.fail_after(WITHIN_S):
        await gateway.started.stopped.wait()


async def ends(client: WireClient) -> None:
    """The connection ends, without a reset; the client closes it, too."""
    with trio.fail_after(WITHIN_S):
        assert await client.stream.receive_some(1) == b""
    await trio.aclose_forcefully(client.stream)


async def in_flight(gateway: RunningGateway, count: int) -> None:
    channels = gateway.server.socket_server.channels
    await until(lambda: sum(each.requests_in_flight for each in channels()) == count)


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    return lambda: [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


async def test_a_fetch_that_is_answered_in_time_ends_its_connection(
    tmp_path: Path, mock_clock: MockClock, warnings: Callable[[], list[str]]
) -> None:
    async with both(tmp_path) as (_, gateway):
        client = await gateway.connect()
        await client.send(polling(499), FETCH_VERSION)
        await in_flight(gateway, 1)
        gateway.stop.set()
        await wait_all_tasks_blocked(0.02)
        mock_clock.jump(0.499)
        _, answer = await client.receive(1, FETCH_VERSION)
        assert answer.responses[0].partitions[0].error_code == 0
        await ends(client)
        await gateway.started.stopped.wait()
        assert not warnings()


async def test_a_drain_waits_half_a_second_for_fetches_without_records(
    tmp_path: Path, mock_clock: MockClock, warnings: Callable[[], list[str]]
) -> None:
    async with both(tmp_path) as (_, gateway):
        client, other = await gateway.connect(), await gateway.connect()
        await client.send(polling(60_000), FETCH_VERSION)
        await other.send(polling(60_000), FETCH_VERSION)
        await in_flight(gateway, 2)
        gateway.stop.set()
        await wait_all_tasks_blocked(0.02)
        mock_clock.jump(0.499)
        await wait_all_tasks_blocked(0.02)
        assert len(gateway.channels()) == 2
        mock_clock.jump(0.001)
        await ends(client)
        await ends(other)
        await gateway.started.stopped.wait()
        assert trio.current_time() == pytest.approx(0.5)
        assert not warnings()


async def test_records_that_arrive_meanwhile_are_passed_on(tmp_path: Path, mock_clock: MockClock) -> None:
    async with both(tmp_path) as (broker, gateway):
        client, producer = await gateway.connect(), await broker.connect()
        await client.send(polling(60_000), FETCH_VERSION)
        await in_flight(gateway, 1)
        gateway.stop.set()
        await wait_all_tasks_blocked(0.02)
        await produce(producer, batch_of(b"news"))
        _, answer = await client.receive(1, FETCH_VERSION)
        assert b"news" in bytes(answer.responses[0].partitions[0].records)
        await ends(client)
        await gateway.started.stopped.wait()


async def test_a_connection_without_requests_ends_before_those_that_wait(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with both(tmp_path) as (_, gateway):
        idle, busy, waiting = [await gateway.connect() for _ in range(3)]
        await produce(busy, batch_of(b"x"))
        await waiting.send(polling(60_000, offset=1), FETCH_VERSION)
        await in_flight(gateway, 1)
        gateway.stop.set()
        await ends(idle)
        await ends(busy)
        assert trio.current_time() == 0
        assert len(gateway.channels()) == 1
        mock_clock.jump(0.5)


async def test_requests_behind_one_in_hand_are_answered(tmp_path: Path, mock_clock: MockClock) -> None:
    """A producer without retries would lose what it has sent before it can see that the connection ends."""
    async with both(tmp_path, ONE_IN_FLIGHT) as (broker, gateway):
        client = await gateway.connect()
        await client.send(polling(400), FETCH_VERSION)
        await in_flight(gateway, 1)
        for _ in range(3):
            await client.send(produce_request(batch_of(bytes(10_000))), PRODUCE_VERSION)
            await wait_all_tasks_blocked(0.01)
        gateway.stop.set()
        await wait_all_tasks_blocked(0.02)
        mock_clock.jump(0.4)
        await client.receive(1, FETCH_VERSION)
        for _ in range(3):
            await client.receive(0, PRODUCE_VERSION)
        await ends(client)
        await gateway.started.stopped.wait()
        assert end_of(broker) == 3


async def test_a_request_that_arrives_in_a_drain_is_answered(tmp_path: Path, mock_clock: MockClock) -> None:
    async with both(tmp_path) as (broker, gateway):
        client = await gateway.connect()
        await client.send(polling(499), FETCH_VERSION)
        await in_flight(gateway, 1)
        gateway.stop.set()
        await wait_all_tasks_blocked(0.02)
        await client.send(produce_request(batch_of(b"late"), acks=1), PRODUCE_VERSION)
        await in_flight(gateway, 2)
        mock_clock.jump(0.499)
        await client.receive(1, FETCH_VERSION)
        await client.receive(0, PRODUCE_VERSION)
        await ends(client)
        await gateway.started.stopped.wait()
        assert end_of(broker) == 1


async def test_requests_behind_one_in_hand_do_not_reset_the_connection(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """After half a second they are not forwarded: the client may send them again."""
    async with both(tmp_path, ONE_IN_FLIGHT) as (broker, gateway):
        client = await gateway.connect()
        await client.send(polling(60_000), FETCH_VERSION)
        await in_flight(gateway, 1)
        for _ in range(3):
            await client.send(produce_request(batch_of(bytes(10_000))), PRODUCE_VERSION)
            await wait_all_tasks_blocked(0.01)
        gateway.stop.set()
        await wait_all_tasks_blocked(0.02)
        mock_clock.jump(0.5)
        await ends(client)
        await gateway.started.stopped.wait()
        assert end_of(broker) == 0


async def test_pipelined_produces_that_were_forwarded_are_answered(tmp_path: Path) -> None:
    async with both(tmp_path) as (broker, gateway):
        client = await gateway.connect()
        for _ in range(50):
            await client.send(produce_request(batch_of(b"x")), PRODUCE_VERSION)
        gateway.stop.set()
        answered = 0
        try:
            while True:
                await client.receive(0, PRODUCE_VERSION)
                answered += 1
        except EOFError:
            pass
        await gateway.started.stopped.wait()
        log = broker.server.partitions.log("events", 0)
        assert log is not None and log.high_watermark == answered


async def test_a_response_that_the_client_has_not_taken_is_completed(
    tmp_path: Path, warnings: Callable[[], list[str]]
) -> None:
    async with both(tmp_path, "shutdown.drain.timeout.ms=60000") as (broker, gateway):
        producer, client = await broker.connect(), await gateway.connect()
        for _ in range(16):
            await produce(producer, batch_of(bytes(LARGE)))
        request = fetch(0, 16 * LARGE)
        await client.send(request, FETCH_VERSION)
        channels = gateway.server.socket_server.channels
        await until(lambda: any(each.send is not None for each in channels()))
        gateway.stop.set()
        await wait_all_tasks_blocked(0.02)
        _, answer = await client.receive(1, FETCH_VERSION)
        assert len(answer.responses[0].partitions[0].records) > 15 * LARGE
        await ends(client)
        await gateway.started.stopped.wait()
        assert not warnings()


async def test_a_client_that_takes_nothing_holds_up_the_stop_until_the_deadline(
    tmp_path: Path, mock_clock: MockClock, warnings: Callable[[], list[str]]
) -> None:
    async with both(tmp_path, "shutdown.drain.timeout.ms=3000") as (broker, gateway):
        producer, client = await broker.connect(), await gateway.connect()
        for _ in range(16):
            await produce(producer, batch_of(bytes(LARGE)))
        await client.send(fetch(0, 16 * LARGE), FETCH_VERSION)
        channels = gateway.server.socket_server.channels
        await until(lambda: any(each.send is not None for each in channels()))
        gateway.stop.set()
        await wait_all_tasks_blocked(0.02)
        mock_clock.jump(2.999)
        await wait_all_tasks_blocked(0.02)
        assert not gateway.started.stopped.is_set()
        mock_clock.jump(0.001)
        await gateway.started.stopped.wait()
        assert warnings() == ["the drain timed out with requests in progress"]


class _Sent:
    def __init__(self) -> None:
        self.data = bytearray()

    async def send_all(self, data: bytes) -> None:
        self.data += data


async def frame_of(client: WireClient, acks: int, size: int = LARGE) -> bytes:
    sent, stream = _Sent(), client.stream
    client.stream = sent
    await client.send(produce_request(batch_of(bytes(size)), acks=acks), PRODUCE_VERSION)
    client.stream = stream
    return bytes(sent.data)


async def log_end(broker: RunningBroker, wanted: int) -> None:
    log = broker.server.partitions.log("events", 0)
    assert log is not None
    await until(lambda: log.high_watermark == wanted)


async def half_sent(
    connect: Callable[[], Awaitable[WireClient]], broker: RunningBroker, gateway: RunningGateway, acks: int
) -> None:
    """A client that is within a large Produce sends its rest, and the records reach the broker."""
    client = await connect()
    await produce(client, batch_of(b"first"))
    frame = await frame_of(client, acks)
    await client.stream.send_all(frame[:500_000])
    channels = gateway.server.socket_server.channels
    await until(lambda: sum(each.requests for each in channels()) == 2)
    gateway.stop.set()
    await wait_all_tasks_blocked(0.02)
    await client.stream.send_all(frame[500_000:])
    if acks:
        _, answer = await client.receive(0, PRODUCE_VERSION)
        assert answer.responses[0].partition_responses[0].base_offset == 1
    await ends(client)
    await gateway.started.stopped.wait()
    await log_end(broker, 2)


@pytest.mark.parametrize("acks", [0, 1])
@pytest.mark.parametrize("splice_min_bytes", [0, 65_536])
async def test_a_request_of_which_a_part_is_upstream_is_forwarded_to_its_end(
    tmp_path: Path, acks: int, splice_min_bytes: int, warnings: Callable[[], list[str]]
) -> None:
    async with both(tmp_path, f"gateway.splice.min.bytes={splice_min_bytes}") as (broker, gateway):
        await half_sent(gateway.connect, broker, gateway, acks)
    assert not warnings()


@pytest.mark.parametrize("acks", [0, 1])
async def test_so_it_is_on_a_tls_listener(
    tmp_path: Path, acks: int, warnings: Callable[[], list[str]]
) -> None:
    async with both(tmp_path, *tls_settings()) as (broker, gateway):
        context = certificates().client_context()
        await half_sent(lambda: connect_tls(gateway.port, context), broker, gateway, acks)
    assert not warnings()


async def test_a_tls_connection_that_ends_with_a_request_is_not_read_on(
    tmp_path: Path, mock_clock: MockClock, warnings: Callable[[], list[str]]
) -> None:
    """What was decrypted behind the request belongs to the next one, which is not forwarded."""
    async with both(tmp_path, *tls_settings()) as (broker, gateway):
        client = await connect_tls(gateway.port, certificates().client_context())
        await produce(client, batch_of(b"first"))
        frame = await frame_of(client, 0)
        await client.stream.send_all(frame[:-1_000])
        (channel,) = gateway.server.socket_server.channels()
        await until(lambda: channel.client.is_within_request)
        await wait_all_tasks_blocked(0.05)
        gateway.stop.set()
        await wait_all_tasks_blocked(0.05)
        mock_clock.jump(0.5)
        await wait_all_tasks_blocked(0.05)
        await client.stream.send_all(frame[-1_000:] + await frame_of(client, 0, 100))
        await ends(client)
        await gateway.started.stopped.wait()
        await log_end(broker, 2)
    assert not warnings()


async def test_a_request_that_is_not_upstream_yet_ends_with_its_connection(
    tmp_path: Path, warnings: Callable[[], list[str]]
) -> None:
    async with both(tmp_path) as (broker, gateway):
        client = await gateway.connect()
        await produce(client, batch_of(b"first"))
        frame = await frame_of(client, 1, 1_000)
        await client.stream.send_all(frame[:500])
        await wait_all_tasks_blocked(0.02)
        await stops(gateway)
        await ends(client)
        await log_end(broker, 1)
    assert not warnings()


@pytest.mark.parametrize("acks", [0, 1])
async def test_what_upstream_has_not_taken_yet_reaches_it(
    tmp_path: Path, acks: int, warnings: Callable[[], list[str]]
) -> None:
    """The broker reads nothing behind a Fetch that waits there, so the kernel's buffers are full."""
    async with both(tmp_path) as (broker, gateway):
        client = await gateway.connect()
        frame = await frame_of(client, acks)
        await client.send(polling(400), FETCH_VERSION)
        await in_flight(gateway, 1)
        (channel,) = gateway.server.socket_server.channels()

        async def send() -> None:
            with contextlib.suppress(trio.BrokenResourceError):
                await client.stream.send_all(frame * 40)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await until(lambda: bool(channel.flags & BLOCKED))
            gateway.stop.set()
            await client.receive(1, FETCH_VERSION)
            with contextlib.suppress(EOFError, trio.BrokenResourceError):
                while True:
                    await client.receive(0, PRODUCE_VERSION)
        await gateway.started.stopped.wait()
        assert 2 < channel.requests <= 41
        await log_end(broker, channel.requests - 1)
    assert not warnings()


@pytest.mark.parametrize("is_encrypted", [False, True])
async def test_a_client_that_sends_more_after_the_end_reads_its_response(
    tmp_path: Path, mock_clock: MockClock, is_encrypted: bool
) -> None:
    """The kernel would reset the connection, and drop what of the response it has not sent."""
    async with both(tmp_path, *(tls_settings() if is_encrypted else ())) as (broker, gateway):
        await produce(await broker.connect(), batch_of(bytes(100_000)))
        client = (
            await connect_tls(gateway.port, certificates().client_context())
            if is_encrypted
            else await gateway.connect()
        )
        await client.send(fetch(0), FETCH_VERSION)
        (channel,) = gateway.server.socket_server.channels()
        await until(lambda: channel.bytes_out > 100_000 and channel.send is None)
        gateway.stop.set()
        await until(lambda: channel.closed)
        await client.stream.send_all(b"more")
        await wait_all_tasks_blocked(0.02)
        _, answer = await client.receive(1, FETCH_VERSION)
        assert len(answer.responses[0].partitions[0].records) > 100_000
        await ends(client)
        await gateway.started.stopped.wait()
        assert trio.current_time() == 0


async def test_a_request_that_the_gateway_answers_is_answered(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, gateway):
        client = await gateway.connect()
        going_on, begun = trio.Event(), trio.Event()
        await client.ask(DescribeClientQuotasRequest(), 1)
        (route,) = (
            each
            for each in gateway.server.socket_server.listeners[0].routes.all()
            if each.metrics.name == "DescribeClientQuotas"
        )
        handle = route.handle

        async def slow(*arguments: object) -> object:
            begun.set()
            await going_on.wait()
            outcome = handle(*arguments)
            return await outcome if isinstance(outcome, Awaitable) else outcome

        route.handle = slow
        await client.send(DescribeClientQuotasRequest(), 1)
        await begun.wait()
        gateway.stop.set()
        await wait_all_tasks_blocked(0.02)
        assert len(gateway.channels()) == 1
        going_on.set()
        _, answer = await client.receive(48, 1)
        assert answer.error_code == 0
        await ends(client)
        await gateway.started.stopped.wait()

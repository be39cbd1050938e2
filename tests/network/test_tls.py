"""A whole broker behind TLS: authentication and principals, the time limit of a handshake, and no client
bytes left in the buffers.
"""

import contextlib
import logging
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.common.slices import Steps
from broker.network.connection.channel import Channel
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.quotas.entity import Entity
from broker.security import principal_rules
from broker.security.principal_rules import PrincipalRules
from tests.network.test_login import MODULE, log_in
from tests.network.test_pipelining import encoded, stored
from tests.support.certificates import certificates, tls_settings
from tests.support.hostile import framed, is_served, log_texts, until
from tests.support.machine_speed import WITHIN_S
from tests.support.produce import batch_of, create_topic, produce_request, produce_request_of
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import OPENED, WireClient

ALICE = "CN=alice,OU=ops,O=Weir\\, Inc.,C=DE"


WAYS = {
    "kafka": "socket.server.mode=kafka",
    "leased": "queued.max.request.bytes=104857600",
    "automq": "socket.server.mode=automq",
}


@pytest.fixture(params=WAYS)
async def broker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RunningBroker]:
    """In each of the ways in which frames are received and answered."""
    settings = [
        *tls_settings(),
        "message.max.bytes=10000000",
        WAYS[request.param],
    ]
    async with running_broker(tmp_path, *settings) as running:
        yield running


@pytest.fixture
async def client(broker: RunningBroker) -> WireClient:
    client = await broker.connect_tls(certificates().client_context())
    assert (await client.ask(create_topic(), 5)).topics[0].error_code == 0
    return client


def channels(broker: RunningBroker) -> list[Channel]:
    return list(broker.server.socket_server.channels())


async def raw(broker: RunningBroker, sent: bytes = b"") -> trio.SocketStream:
    stream = await trio.open_tcp_stream("127.0.0.1", broker.port)
    OPENED.append(stream)
    await stream.send_all(sent)
    return stream


async def ends(stream: trio.SocketStream) -> bool:
    with trio.move_on_after(WITHIN_S), contextlib.suppress(trio.BrokenResourceError):
        while await stream.receive_some(4_096):
            pass
        return True
    return False


# Serving


async def test_requests_are_served_and_the_cipher_is_known(broker: RunningBroker, client: WireClient) -> None:
    assert await is_served(client)
    (channel,) = channels(broker)
    assert channel.principal == "ANONYMOUS"
    assert channel.tls == ("TLS_AES_256_GCM_SHA384", "TLSv1.3")


async def test_a_request_in_the_same_packet_as_the_end_of_the_handshake_is_answered(
    broker: RunningBroker,
) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = certificates().client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    stream = await raw(broker)
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    await stream.send_all(outgoing.read())
    with trio.fail_after(WITHIN_S):
        while True:
            incoming.write(await stream.receive_some(65_536))
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                continue
        tls.write(encoded(ApiVersionsRequest("test", "1"), 3, 77))
        await stream.send_all(outgoing.read())
        while True:
            incoming.write(await stream.receive_some(65_536))
            with contextlib.suppress(ssl.SSLWantReadError):
                assert tls.read(8)[4:] == struct.pack(">i", 77)
                break


async def test_a_thousand_requests_in_a_few_records_are_all_answered(
    broker: RunningBroker, client: WireClient
) -> None:
    stream = b"".join(encoded(ApiVersionsRequest("test", "1"), 3, number) for number in range(1_000))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.stream.send_all, stream)
        with trio.fail_after(WITHIN_S):
            for number in range(1_000):
                assert (await client.receive_frame())[:4] == struct.pack(">i", number)


@pytest.mark.parametrize("transfer", ["mmap", "sendfile"])
@pytest.mark.parametrize("size", [100, 100_000, 1_000_000, 5_000_000])
async def test_large_batches_come_back_as_they_went(tmp_path: Path, size: int, transfer: str) -> None:
    settings = [*tls_settings(), "message.max.bytes=10000000", f"log.transfer={transfer}"]
    async with running_broker(tmp_path, *settings) as broker:
        client = await broker.connect_tls(certificates().client_context())
        assert (await client.ask(create_topic(), 5)).topics[0].error_code == 0
        values = [bytes([number]) * (size // 4) for number in range(4)]
        for value in values:
            answer = await client.ask(produce_request(batch_of(value)), 9)
            assert answer.responses[0].partition_responses[0].error_code == 0
        partition = FetchPartition(0)
        partition.partition_max_bytes = 1 << 30
        wanted = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 30,
            topics=[FetchTopic("events", partitions=[partition])],
        )
        with trio.fail_after(WITHIN_S):
            answer = await client.ask(wanted, 11)
        records = bytes(answer.responses[0].partitions[0].records)
        assert all(value in records for value in values)


async def test_a_reader_that_stops_gets_the_rest_when_it_goes_on(
    broker: RunningBroker, client: WireClient
) -> None:
    answer = await client.ask(produce_request(batch_of(bytes(5_000_000))), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0
    partition = FetchPartition(0)
    partition.partition_max_bytes = 1 << 30
    wanted = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=1 << 30, topics=[FetchTopic("events", partitions=[partition])]
    )
    await client.send(wanted, 11)
    await wait_all_tasks_blocked(0.05)
    (channel,) = channels(broker)
    assert channel.send is not None
    other = await broker.connect_tls(certificates().client_context())
    assert await is_served(other)
    with trio.fail_after(WITHIN_S):
        _, answer = await client.receive(1, 11)
    assert len(answer.responses[0].partitions[0].records) > 5_000_000
    await until(lambda: channel.send is None)


async def test_silent_requests_and_then_the_end_are_all_stored(
    broker: RunningBroker, client: WireClient
) -> None:
    leaving = await broker.connect_tls(certificates().client_context())
    one = encoded(produce_request(batch_of(b"last words"), acks=0), 9, 1)
    large = encoded(produce_request(batch_of(bytes(100_000)), acks=0), 9, 1)
    await leaving.stream.send_all((one + large) * 5)
    await leaving.stream.aclose()
    await until(lambda: stored(broker) == 10)
    await until(lambda: len(channels(broker)) == 1)
    assert await is_served(client)


async def test_connections_that_are_reset_leave_nothing_behind(
    broker: RunningBroker, client: WireClient, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(60):
        if number % 3:
            other = await broker.connect_tls(certificates().client_context())
            if number % 3 == 2:
                await other.stream.send_all(encoded(ApiVersionsRequest("test", "1"), 3, 1)[:9])
            stream = other.stream.transport_stream
        else:
            stream = await raw(broker, b"\x16\3\1\2\0\1\0")
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        stream.socket.close()
    await until(lambda: len(channels(broker)) == 1)
    assert log_texts(caplog) == []
    assert broker.server.socket_server.frames.outstanding == 0
    assert await is_served(client)


# Who does not get in


@pytest.mark.parametrize(
    "sent", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", framed(b"\0\x12\0\3" + bytes(20)), bytes(range(256)) * 100]
)
async def test_plaintext_ends_with_one_line(
    broker: RunningBroker, client: WireClient, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    """Plaintext on the TLS port."""
    caplog.set_level(logging.INFO)
    assert await ends(await raw(broker, sent))
    (line,) = log_texts(caplog)
    assert line.startswith("the TLS handshake failed: ")
    assert await is_served(client)


async def test_tls_on_a_port_without_it_ends_with_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """TLS on the plaintext port."""
    caplog.set_level(logging.INFO)
    async with running_broker(tmp_path) as running:
        caplog.clear()
        with pytest.raises(trio.BrokenResourceError):
            await running.connect_tls(certificates().client_context())
        (line,) = log_texts(caplog)
        assert line.startswith("Invalid receive (size = 369")


async def test_an_abandoned_handshake_is_closed_in_time(
    tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Half a ClientHello, and no bytes at all."""
    caplog.set_level(logging.INFO)
    async with running_broker(
        tmp_path, *tls_settings(), "connection.authentication.timeout.ms=5000"
    ) as running:
        caplog.clear()
        streams = [await raw(running, first) for first in (b"", b"\x16\3\1\2\0\1\0") for _ in range(25)]
        await until(lambda: len(channels(running)) == 50)
        begun = trio.current_time()
        await trio.sleep(4.9 - (trio.current_time() - begun))
        assert len(channels(running)) == 50
        await trio.sleep(0.2)
        assert channels(running) == []
        assert log_texts(caplog) == ["not authenticated within 5000 ms"] * 50
        assert all([await ends(stream) for stream in streams])


async def test_a_client_hello_of_16_mb_is_refused_at_once(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    hello = b"\1\xff\xff\xff\3\3" + bytes(58)
    assert await ends(await raw(broker, b"\x16\3\1" + struct.pack(">H", len(hello)) + hello))
    assert log_texts(caplog) == ["the TLS handshake failed: excessive message size"]


# Names


async def test_the_subject_of_a_certificate_is_the_user_that_quotas_bind(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path, *tls_settings(client_auth="required")) as running:
        known = certificates()
        alice = await running.connect_tls(known.client_context(known.alice))
        assert (await alice.ask(create_topic(), 5)).topics[0].error_code == 0
        (channel,) = channels(running)
        assert channel.principal == ALICE
        running.server.quotas.apply(Entity(user=ALICE), "producer_byte_rate", 1_000)
        answer = await alice.ask(produce_request_of(11_000, "tester"), 9)
        assert answer.throttle_time_ms == 1_000


async def test_without_a_certificate_no_client_gets_in_where_one_is_required(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with running_broker(tmp_path, *tls_settings(client_auth="required")) as running:
        known = certificates()
        caplog.clear()
        for context in (known.client_context(), known.client_context(known.stranger)):
            # With TLS 1.3 the client is done before it is looked at.
            client = await running.connect_tls(context)
            assert await client.is_closed()
        await until(lambda: channels(running) == [])
        assert [line.partition(": ")[2] for line in log_texts(caplog)] == [
            "peer did not return a certificate",
            "certificate verify failed",
        ]


async def test_rules_make_short_names_of_subjects(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    rules = r"RULE:^CN=([a-z]+),OU=ops,.*$/$1/U"
    settings = tls_settings(client_auth="required", principal_mapping_rules=rules)
    async with running_broker(tmp_path, *settings) as running:
        known = certificates()
        await is_served(await running.connect_tls(known.client_context(known.alice)))
        assert [channel.principal for channel in channels(running)] == ["ALICE"]
        caplog.clear()
        unnamed = await running.connect_tls(known.client_context(known.server))
        assert await unnamed.is_closed()
        assert log_texts(caplog) == ["no rule of ssl.principal.mapping.rules matches CN=broker"]


async def test_many_rules_are_tried_in_pieces_between_which_other_tasks_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(principal_rules, "MAX_WORK", 2_000)
    turns = 0
    seen: list[int] = []
    untouched = PrincipalRules.apply

    def watched(self: PrincipalRules, name: str) -> Steps[str | None]:
        steps = untouched(self, name)
        while True:
            seen.append(turns)
            try:
                next(steps)
            except StopIteration as end:
                user: str | None = end.value
                return user
            yield

    monkeypatch.setattr(PrincipalRules, "apply", watched)
    rules = ",".join(["RULE:^CN=bob,.*$/x/"] * 40 + ["RULE:^CN=([a-z]+),.*$/$1/"])
    settings = tls_settings(client_auth="required", principal_mapping_rules=rules)

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with running_broker(tmp_path, *settings) as running, trio.open_nursery() as nursery:
        nursery.start_soon(others)
        known = certificates()
        await is_served(await running.connect_tls(known.client_context(known.alice)))
        assert [channel.principal for channel in channels(running)] == ["alice"]
        nursery.cancel_scope.cancel()
    assert len(seen) > 5
    # Trio runs the tasks that are ready in any order, so two pieces may follow each other once.
    assert seen[-1] - seen[0] >= len(seen) - 2


async def test_a_connection_that_ends_while_its_rules_are_tried_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = []

    def ended(_rules: PrincipalRules, _name: str) -> Steps[str | None]:
        for piece in range(3):
            pieces.append(piece)
            (channel,) = channels(running)
            (processor,) = (
                each for each in running.server.socket_server.processors if channel in each.selector
            )
            processor.selector.close_channel(channel, "too late")
            yield
        return "nobody"

    with monkeypatch.context() as patched:
        patched.setattr(PrincipalRules, "apply", ended)
        settings = tls_settings(client_auth="required")
        async with running_broker(tmp_path, *settings) as running:
            known = certificates()
            client = await running.connect_tls(known.client_context(known.alice))
            assert await client.is_closed()
            assert (pieces, channels(running)) == ([0], [])
            patched.undo()
            await is_served(await running.connect_tls(known.client_context(known.alice)))


# SASL_SSL


@pytest.fixture
async def sasl_broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    jaas = f'listener.name.sasl_ssl.plain.sasl.jaas.config={MODULE} user_alice="secret";'
    settings = tls_settings("SASL_SSL", client_auth="requested")
    async with running_broker(tmp_path, *settings, jaas) as running:
        yield running


async def test_the_login_names_the_user_and_not_the_certificate(
    sasl_broker: RunningBroker, mock_clock: MockClock
) -> None:
    known = certificates()
    client = await sasl_broker.connect_tls(known.client_context(known.server))
    (channel,) = channels(sasl_broker)
    assert (channel.principal, channel.authenticated) == ("ANONYMOUS", False)
    assert await log_in(client, b"secret") == 0
    assert (channel.principal, channel.authenticated) == ("alice", True)
    assert await is_served(client)


async def test_a_failed_login_over_tls_is_reported_at_once_and_closed_after_the_delay(
    sasl_broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await sasl_broker.connect_tls(certificates().client_context())
    assert await log_in(client, b"wrong") == 58
    mock_clock.jump(0.099)
    await wait_all_tasks_blocked(0.02)
    assert len(channels(sasl_broker)) == 1
    mock_clock.jump(0.001)
    await wait_all_tasks_blocked(0.02)
    assert channels(sasl_broker) == []
    assert await client.stream.receive_some(1) == b""  # close_notify


async def test_a_client_that_does_not_log_in_is_closed_in_time_and_who_has_is_not(
    sasl_broker: RunningBroker, mock_clock: MockClock
) -> None:
    silent, client = [await sasl_broker.connect_tls(certificates().client_context()) for _ in "ab"]
    assert await log_in(client, b"secret") == 0
    mock_clock.jump(9.999)
    await wait_all_tasks_blocked(0.02)
    assert len(channels(sasl_broker)) == 2
    mock_clock.jump(0.001)
    await wait_all_tasks_blocked(0.02)
    assert len(channels(sasl_broker)) == 1
    assert await silent.is_closed()
    assert await is_served(client)


async def test_a_world_readable_key_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = tmp_path / "store.pem"
    store.write_text(certificates().server.text())
    store.chmod(0o644)
    async with running_broker(tmp_path, *tls_settings(keystore_location=str(store))):
        assert log_texts(caplog) == ["the private key is readable by all users of this machine"]


async def test_a_renewed_certificate_is_shown_to_new_connections_and_a_broken_one_is_reported_once(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    known, store = certificates(), tmp_path / "store.pem"
    store.touch(0o600)
    store.write_text(known.server.text())

    async def shown(running: RunningBroker) -> object:
        client = await running.connect_tls(known.client_context())
        assert await is_served(client)
        return client.stream.getpeercert()["subject"][-1][0][1]

    async with running_broker(tmp_path, *tls_settings(keystore_location=str(store))) as running:
        assert await shown(running) == "broker"
        store.write_text("broken")
        mock_clock.jump(1)
        assert [await shown(running), await shown(running)] == ["broker", "broker"]
        (line,) = [
            str(record.__dict__["reason"]) for record in caplog.records if record.levelname == "WARNING"
        ]
        assert line.startswith(
            f"listener.name.ssl.ssl.keystore.location={str(store)!r} is not allowed: a PEM file"
        )
        store.write_text(known.alice.text())
        mock_clock.jump(1)
        assert await shown(running) == "alice"

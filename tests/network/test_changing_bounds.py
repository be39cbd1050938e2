"""A limit that changes each second while it throttles clients, over real sockets and a mock clock, by Kafka's
protocol, REST, the console's form and an import: the clients get the integral of the limit.
tests/quotas/test_changing_bounds.py tests the arithmetic.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from broker.controller.commands import IssueAdminToken
from broker.metadata.actor import BROKER_ITSELF, Role
from broker.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from tests.support.produce import PRODUCE_VERSION, create_topic, produce_request_of
from tests.support.running import RunningBroker, running_broker

GREEDY = "greedy"
KEY = "producer_byte_rate"
SECONDS = 61
SIZE = 5_000
CLIENTS = 4

Change = Callable[[str | None, float | None], Awaitable[None]]
"""Sets the producer limit of a client-id (None: the default), or removes it."""


async def by_wire(broker: RunningBroker) -> Change:
    admin = await broker.connect("admin")

    async def change(name: str | None, value: float | None) -> None:
        op = OpData(KEY, value or 0.0, value is None)
        entry = RequestEntryData([EntityData("client-id", name)], [op])
        (answer,) = (await admin.ask(AlterClientQuotasRequest([entry], False), 1)).entries
        assert answer.error_code == 0, answer

    return change


async def throttled_request(
    broker: RunningBroker, method: str, path: str, document: object, headers: dict[str, str]
) -> tuple[str, bytes]:
    """Head and body of the console's answer, which is 200."""
    assert broker.started.console is not None
    host, port = broker.started.console.address.removeprefix("http://").partition("/")[0].split(":")
    body = json.dumps(document).encode()
    fields = {
        "Host": f"{host}:{port}",
        "Connection": "close",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **headers,
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    async with await trio.open_tcp_stream(host, int(port)) as stream:
        await stream.send_all(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body)
        answer = b"".join([chunk async for chunk in stream])
    assert answer.startswith(b"HTTP/1.1 200 "), answer
    head, _, rest = answer.partition(b"\r\n\r\n")
    return head.decode(), rest


async def token_of(broker: RunningBroker) -> str:
    issued = await broker.server.control.apply(IssueAdminToken("automation", Role.EDITOR), BROKER_ITSELF)
    assert issued.secret is not None
    return issued.secret


def patching(broker: RunningBroker, headers: dict[str, str]) -> Change:
    async def change(name: str | None, value: float | None) -> None:
        entry = {"entity": {"client-id": name}, "ops": [{"key": KEY, "value": value}]}
        await throttled_request(broker, "PATCH", "/api/v1/client-quotas", {"entries": [entry]}, headers)

    return change


async def by_rest(broker: RunningBroker) -> Change:
    return patching(broker, {"Authorization": f"Bearer {await token_of(broker)}"})


async def by_form(broker: RunningBroker) -> Change:
    """The form of the console: signed in, with the session's cookie and its token against forgery."""
    head, body = await throttled_request(broker, "POST", "/login", {"token": await token_of(broker)}, {})
    (cookie,) = [line for line in head.splitlines() if line.lower().startswith("set-cookie:")]
    session = cookie.partition(":")[2].strip().partition(";")[0]
    return patching(broker, {"Cookie": session, "X-CSRF-Token": json.loads(body)["csrf"]})


async def by_import(broker: RunningBroker) -> Change:
    """Import as `weir quotas apply` does with a YAML file: each entity gets exactly the listed limits."""
    headers = {"Authorization": f"Bearer {await token_of(broker)}"}

    async def change(name: str | None, value: float | None) -> None:
        quota = {"entity": {"client-id": name}, "limits": {KEY: value}}
        await throttled_request(broker, "POST", "/api/v1/client-quotas:import", {"quotas": [quota]}, headers)

    return change


async def sent_while(
    broker: RunningBroker, clock: MockClock, changes: Sequence[Callable[[], Awaitable[None]]]
) -> int:
    """Bytes that clients which always want more send in the first minute; each second a change is made."""
    throttled = broker.server.quotas.produce.throttled
    sent = 0

    async def insist() -> None:
        nonlocal sent
        client = await broker.connect(GREEDY)
        request = produce_request_of(SIZE, GREEDY)
        while True:
            await client.send(request, PRODUCE_VERSION)
            # What is sent while it is throttled waits at the broker until the connection is read again.
            _, answer = await client.receive(0, PRODUCE_VERSION)
            if now_ms() < began + 60_000:
                sent += SIZE
            assert answer.responses[0].partition_responses[0].error_code == 0

    now_ms = broker.server.clock.ms
    began = now_ms()
    async with trio.open_nursery() as clients:
        for _ in range(CLIENTS):
            clients.start_soon(insist)
        for second, change in enumerate(changes, 1):
            while now_ms() < began + second * 1_000:
                while len(throttled) < CLIENTS:
                    await trio.testing.wait_all_tasks_blocked(0.001)
                next_ms = throttled.next_deadline()
                assert next_ms is not None
                left_ms = min(next_ms, began + second * 1_000) - now_ms()
                # A microsecond more: sums of floats may lie just before a deadline.
                clock.jump(max(left_ms, 0) / 1000 + 1e-6)
                await trio.testing.wait_all_tasks_blocked(0.001)
            await change()
        clients.cancel_scope.cancel()
    return sent


@pytest.mark.parametrize(
    ("make_change", "algorithm"),
    [
        (by_wire, "paced"),
        (by_wire, "token_bucket"),
        (by_rest, "token_bucket"),
        (by_form, "paced"),
        (by_import, "token_bucket"),
    ],
)
async def test_four_clients_under_a_limit_that_is_raised_each_second_get_the_limit(
    tmp_path: Path,
    mock_clock: MockClock,
    make_change: Callable[[RunningBroker], Awaitable[Change]],
    algorithm: str,
) -> None:
    """50,000 bytes a second, one more each second: 3,001,770 in the first minute."""
    settings = (f"quota.bandwidth.algorithm={algorithm}", "console.listener=127.0.0.1:0")
    async with running_broker(tmp_path, *settings) as broker:
        maker = await broker.connect("maker")
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        change = await make_change(broker)
        await change(GREEDY, 50_000)

        def raised(second: int) -> Callable[[], Awaitable[None]]:
            return lambda: change(GREEDY, 50_001 + second)

        sent = await sent_while(broker, mock_clock, [raised(second) for second in range(SECONDS)])
        assert broker.server.quotas.produce.bound("", GREEDY) == 50_000 + SECONDS
    allowed, burst = 3_001_770, 50_000 if algorithm == "token_bucket" else 0
    assert allowed * 0.97 <= sent <= allowed * 1.03 + burst


async def test_clients_that_go_to_a_rule_of_their_own_and_back_each_second_get_what_governs_them(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """Under the default of 50,000 in one second, and in the next under 30,000 of their own."""
    async with running_broker(tmp_path) as broker:
        maker = await broker.connect("maker")
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        change = await by_wire(broker)
        await change(None, 50_000)

        def moved(second: int) -> Callable[[], Awaitable[None]]:
            return lambda: change(GREEDY, None if second % 2 else 30_000)

        sent = await sent_while(broker, mock_clock, [moved(second) for second in range(SECONDS)])
    assert 2_400_000 * 0.97 <= sent <= 2_400_000 * 1.03


async def test_a_limit_that_is_set_to_itself_moves_no_end(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as broker:
        client = await broker.connect(GREEDY)
        assert (await client.ask(create_topic(), 5)).topics[0].error_code == 0
        change = await by_wire(broker)
        await change(GREEDY, 1_000)
        answer = await client.ask(produce_request_of(14_000, GREEDY), PRODUCE_VERSION)
        assert answer.throttle_time_ms == 4_000
        for _ in range(3):
            mock_clock.jump(1)
            await change(GREEDY, 1_000)
        (row,) = broker.server.views.quotas.throttled()
        assert (row.remaining_ms, row.throttle_ms) == (1_000, 4_000)


@pytest.mark.parametrize(("value", "left_ms"), [(500, 6_000), (2_000, 0), (1_200, 2_500), (None, 0)])
async def test_a_held_connection_is_read_again_when_its_debt_is_repaid_under_the_changed_limit(
    tmp_path: Path, mock_clock: MockClock, value: float | None, left_ms: int
) -> None:
    """14,000 against 1,000 a second are throttled for 4 s. One has passed; 2,000 allow what was sent."""
    async with running_broker(tmp_path) as broker:
        client = await broker.connect(GREEDY)
        assert (await client.ask(create_topic(), 5)).topics[0].error_code == 0
        change = await by_wire(broker)
        await change(GREEDY, 1_000)
        await client.ask(produce_request_of(14_000, GREEDY), PRODUCE_VERSION)
        await client.send(produce_request_of(500, GREEDY), PRODUCE_VERSION)
        mock_clock.jump(1)
        await trio.testing.wait_all_tasks_blocked(0.01)
        began = trio.current_time()
        await change(GREEDY, value)
        if left_ms:
            mock_clock.jump((left_ms - 1) / 1000)
            await trio.testing.wait_all_tasks_blocked(0.01)
            (row,) = broker.server.views.quotas.throttled()
            assert (row.since_ms, row.remaining_ms) == (1_000 + left_ms - 1, 1)
            mock_clock.jump(0.001)
        await client.receive(0, PRODUCE_VERSION)
        assert trio.current_time() - began == pytest.approx(left_ms / 1000)

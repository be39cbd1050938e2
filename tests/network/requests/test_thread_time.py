"""Charges of thread time to three clients, to the nanosecond, for every way in which a request can end.

The clock advances only in steps that the test gives a cost: reading and writing a socket, a handler, each
step of a slow one, the response of a delayed one, encoding. So every charge is an exact sum.
"""

import itertools
import random
import socket
import struct
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import DELAYED, EncodedResponse, Hangup, NoResponse, Outcome, Response
from broker.metrics.rate import Rate, Window
from broker.network.requests.request_channel import Request
from broker.network.requests.request_time import COMMIT_BYTES, MAX_UNRECORDED_NS, RequestTime
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from broker.quotas.entity import DEFAULT
from broker.quotas.request import PERCENT_OF_A_SECOND_PER_NS, RequestQuotaManager
from tests.support.clock import ManualClock
from tests.support.rig import Rig
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

READ, WRITE, HANDLE, FIRST, SECOND, ANSWER, ENCODE = 7_001, 11_003, 101_005, 211_007, 307_011, 401_013, 13_017
"""What each step costs, in nanoseconds; no sum of some of them is a sum of others."""

KINDS = ("answered", "delayed", "silent", "slow", "partial")
COSTS = {
    "answered": READ + HANDLE + ENCODE + WRITE,
    "delayed": READ + HANDLE + ANSWER + ENCODE + WRITE,
    "silent": READ + HANDLE,
    "slow": READ + FIRST + SECOND + ENCODE + WRITE,
    "partial": READ + HANDLE + ENCODE + 2 * WRITE,
}
CLIENTS = ("ann", "bob", "cid")
EXEMPT = "(exempt)"
METADATA_VERSION = 9


LATEST_MS = 2**50
"""After everything that is recorded; the only window of a ledger is not over then."""


class Ledger:
    """A request quota, and what was recorded for whom. Client ids count up to their first hyphen."""

    def __init__(self) -> None:
        self.quota = RequestQuotaManager(Window(2, 2 * LATEST_MS))
        self.quota.set_bound(None, DEFAULT, sys.float_info.max)
        self._taken: Counter[str] = Counter()

    @property
    def charged(self) -> Counter[str]:
        """The nanoseconds recorded so far."""
        charged = Counter({EXEMPT: nanoseconds(self.quota.exempt)})
        for sensor in self.quota.sensors():
            charged[str(sensor.client_id).partition("-")[0]] += nanoseconds(sensor.rate)
        return charged

    def take(self) -> dict[str, int]:
        """Return the time charged since the last call."""
        charged = self.charged
        taken, self._taken = charged - self._taken, charged
        return dict(taken)


def nanoseconds(rate: Rate) -> int:
    seconds = rate.window_size_ms(LATEST_MS) / 1000
    return round(rate.measure(LATEST_MS) * seconds / PERCENT_OF_A_SECOND_PER_NS)


class CostlySocket:
    """A socket whose reads and writes cost time; the first write of a partial answer takes half of it."""

    def __init__(self, sock: Any, scene: "Scene") -> None:
        self._sock = sock
        self._scene = scene
        self.halves = False

    def recv_into(self, buffer: Any) -> int:
        count: int = self._sock.recv_into(buffer)
        self._scene.take(READ)
        return count

    def send(self, data: Any) -> int:
        self._scene.take(WRITE)
        if self.halves:
            self.halves = False
            data = bytes(data)[: len(data) // 2]
        return self._sock.send(data)  # type: ignore[no-any-return]

    def sendmsg(self, buffers: Any, *_: Any) -> int:
        return self.send(b"".join(bytes(each) for each in buffers))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


class Scene:
    """A broker whose Metadata requests end as the client id says: `ann-delayed`."""

    def __init__(self, broker: RunningBroker, clock: MockClock) -> None:
        self.broker, self.clock = broker, clock
        self.ledger = Ledger()
        self.delayed: list[RequestContext] = []
        self.sockets: dict[str, CostlySocket] = {}
        self.clients: dict[str, WireClient] = {}
        server = broker.server.socket_server
        self.time = RequestTime(self.ledger.quota, broker.server.clock, set())
        server.measure(self.time)
        routes = server.listeners[0].routes
        route = routes.build(ApiKey.METADATA << 16 | METADATA_VERSION)
        assert route is not None
        route.handle = self._handle
        encode = route.encode

        def costly(reply: Any, correlation_id: int) -> Any:
            self.take(ENCODE)
            return encode(reply, correlation_id)

        route.encode = costly

    def take(self, ns: int) -> None:
        self.clock.jump(ns / 1e9)

    async def connect(self) -> None:
        for name in CLIENTS:
            before = set(self.broker.server.socket_server.channels())
            self.clients[name] = await self.broker.connect(name)
            await self.settle()
            (channel,) = set(self.broker.server.socket_server.channels()) - before
            self.sockets[name] = channel.sock = CostlySocket(channel.sock, self)  # type: ignore[assignment]

    async def settle(self) -> None:
        """Wait until the broker is idle, and charge what it would record with the next requests."""
        await trio.testing.wait_all_tasks_blocked(0.0001)
        for channel in self.broker.server.socket_server.channels():
            spent, channel.unrecorded_ns = channel.unrecorded_ns, 0
            assert spent < MAX_UNRECORDED_NS
            self.ledger.quota.record_sent("ANONYMOUS", channel.client_id, spent, 0)

    async def send(self, name: str, kind: str) -> None:
        client = self.clients[name]
        client.client_id = f"{name}-{kind}"
        self.sockets[name].halves = kind == "partial"
        await client.send(MetadataRequest([]), METADATA_VERSION)

    async def receive(self, name: str, kind: str) -> None:
        if kind != "silent":
            await self.clients[name].receive(ApiKey.METADATA, METADATA_VERSION)

    def wake(self) -> None:
        """Whatever is delayed is answered."""
        waiting, self.delayed = self.delayed, []
        for context in waiting:
            self.broker.server.callbacks.post(context, self._answer)

    def deliver(self) -> None:
        self.broker.server.socket_server.handlers.deliver()

    def _handle(self, message: Any, context: RequestContext, broker: Any) -> Any:
        kind = str(context.client_id).partition("-")[2]
        if kind == "slow":
            return self._slowly()
        self.take(HANDLE)
        match kind:
            case "silent":
                return NoResponse()
            case "delayed":
                self.delayed.append(context)
                return DELAYED
            case "left":
                channel: Any = context.connection
                channel.responder._selector.close_channel(channel, "it has left")
                return DELAYED
            case "waker":
                self.wake()
        return Response(MetadataResponse())

    async def _slowly(self) -> Outcome:
        self.take(FIRST)
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        self.take(SECOND)
        return Response(MetadataResponse())

    def _answer(self) -> Outcome:
        self.take(ANSWER)
        return Response(MetadataResponse())


@asynccontextmanager
async def scene_of(directory: Path, clock: MockClock, mode: str) -> AsyncIterator[Scene]:
    async with running_broker(directory, f"socket.server.mode={mode}", "num.network.threads=1") as running:
        scene = Scene(running, clock)
        await scene.connect()
        scene.ledger.take()
        yield scene


def reset(client: WireClient) -> None:
    """The broker notices the reset although it does not read the connection."""
    sock = client.stream.socket
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.stream.socket.close()


def expected(kinds: dict[str, str]) -> dict[str, int]:
    charges: Counter[str] = Counter()
    for name, kind in kinds.items():
        charges[name] += COSTS[kind]
    return dict(charges)


def elapsed(scene: Scene, since: float) -> int:
    return round((scene.clock.current_time() - since) * 1e9)


@pytest.mark.parametrize("mode", ["kafka", "automq"])
async def test_every_interleaving_of_three_clients_is_charged_to_the_nanosecond(
    tmp_path: Path, mock_clock: MockClock, mode: str
) -> None:
    """All 125 ways in which three requests can end, sent at once and in each order, and delayed ones woken by
    the broker while all clients are idle.
    """
    async with scene_of(tmp_path, mock_clock, mode) as scene:
        for number, kinds in enumerate(itertools.product(KINDS, repeat=len(CLIENTS))):
            orders = list(itertools.permutations(zip(CLIENTS, kinds, strict=True)))
            requests = dict(orders[number % len(orders)])
            for name, kind in requests.items():
                await scene.send(name, kind)
            await scene.settle()
            mock_clock.jump(5)  # waiting is not charged
            scene.wake()
            scene.deliver()
            for name, kind in requests.items():
                await scene.receive(name, kind)
            await scene.settle()
            assert scene.ledger.take() == expected(requests), requests


@pytest.mark.parametrize("mode", ["kafka", "automq"])
@pytest.mark.parametrize("waker", ["ann", "bob", "cid"])
async def test_a_client_that_wakes_a_delayed_request_is_not_charged_for_its_answer(
    tmp_path: Path, mock_clock: MockClock, waker: str, mode: str
) -> None:
    async with scene_of(tmp_path, mock_clock, mode) as scene:
        others = [name for name in CLIENTS if name != waker]
        for name in others:
            await scene.send(name, "delayed")
        await scene.settle()
        mock_clock.jump(30)
        await scene.send(waker, "waker")
        for name in CLIENTS:
            await scene.receive(name, "answered")
        await scene.settle()
        charges = dict.fromkeys(others, COSTS["delayed"]) | {waker: COSTS["answered"]}
        assert scene.ledger.take() == charges


@pytest.mark.parametrize("mode", ["kafka", "automq"])
async def test_an_idle_client_is_not_charged_when_others_work(
    tmp_path: Path, mock_clock: MockClock, mode: str
) -> None:
    """The last request is complete; later time belongs to other clients."""
    async with scene_of(tmp_path, mock_clock, mode) as scene:
        await scene.send("ann", "answered")
        await scene.receive("ann", "answered")
        await scene.settle()
        assert scene.ledger.take() == {"ann": COSTS["answered"]}
        for kind in KINDS:
            mock_clock.jump(1)
            await scene.send("bob", kind)
            await scene.settle()
            scene.wake()
            scene.deliver()
            await scene.receive("bob", kind)
            await scene.settle()
            assert scene.ledger.take() == expected({"bob": kind})


async def test_a_client_that_leaves_is_charged_for_what_was_begun(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with scene_of(tmp_path, mock_clock, "kafka") as scene:
        await scene.send("ann", "delayed")
        await scene.settle()
        assert scene.ledger.take() == {}
        reset(scene.clients["ann"])
        await scene.settle()
        assert scene.ledger.take() == {"ann": READ + HANDLE}


async def test_a_request_that_begins_to_wait_when_its_client_has_left_is_charged_and_forgotten(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with scene_of(tmp_path, mock_clock, "kafka") as scene:
        await scene.send("ann", "left")
        await scene.settle()
        assert scene.ledger.take() == {"ann": READ + HANDLE}
        assert scene.time._delayed == {}


async def test_a_client_that_never_asked_is_charged_to_the_exempt_sensor(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with scene_of(tmp_path, mock_clock, "kafka") as scene:
        await scene.clients["ann"].stream.send_all(b"\0\0")
        await scene.settle()
        await trio.aclose_forcefully(scene.clients["ann"].stream)
        await scene.settle()
        assert scene.ledger.take() == {EXEMPT: 2 * READ}


async def test_requests_of_a_dedicated_inter_broker_listener_are_exempt(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with scene_of(tmp_path, mock_clock, "kafka") as scene:
        scene.time._exempt = {"PLAINTEXT"}
        await scene.send("ann", "slow")
        await scene.receive("ann", "slow")
        await scene.settle()
        assert scene.ledger.take() == {EXEMPT: COSTS["slow"]}


async def test_a_delayed_replica_fetch_of_a_client_that_leaves_is_exempt(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with scene_of(tmp_path, mock_clock, "kafka") as scene:
        await scene.send("ann", "delayed")
        await scene.settle()
        (request,) = scene.delayed
        request.exempt = True
        reset(scene.clients["ann"])
        await scene.settle()
        assert scene.ledger.take() == {EXEMPT: HANDLE, "ann": READ}


async def test_measuring_may_begin_and_end_while_a_slow_request_is_on_its_way(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """Only time spent during the measurement is charged, and no idle time."""
    async with scene_of(tmp_path, mock_clock, "kafka") as scene:
        server = scene.broker.server.socket_server
        release = trio.Event()

        async def wait() -> Outcome:
            scene.take(FIRST)
            await release.wait()
            scene.take(SECOND)
            return Response(MetadataResponse())

        route = server.listeners[0].routes.get(ApiKey.METADATA << 16 | METADATA_VERSION)
        assert route is not None
        route.handle = lambda message, context, broker: wait()
        server.handlers.measure(None)
        await scene.send("ann", "answered")
        await scene.settle()
        server.handlers.measure(scene.time)
        mock_clock.jump(60)
        release.set()
        await scene.receive("ann", "answered")
        await scene.settle()
        charged = scene.ledger.take()
        assert charged["ann"] <= COSTS["slow"]
        assert charged["ann"] >= ENCODE + WRITE


@pytest.mark.rotates
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("mode", ["kafka", "automq"])
async def test_the_sum_of_all_charges_is_what_was_spent_and_never_more_than_elapsed(
    tmp_path: Path, mock_clock: MockClock, seed: int, mode: str
) -> None:
    """Random requests, answers and idle times; connections never have two requests in hand here."""
    rng = random.Random(seed)
    async with scene_of(tmp_path, mock_clock, mode) as scene:
        begun = mock_clock.current_time()
        spent = 0
        in_hand: dict[str, str] = {}
        for _ in range(150):
            free = [name for name in CLIENTS if name not in in_hand]
            if free and rng.random() < 0.7:
                name, kind = rng.choice(free), rng.choice(KINDS)
                await scene.send(name, kind)
                in_hand[name] = kind
                spent += COSTS[kind]
            else:
                if rng.random() < 0.5:
                    mock_clock.jump(rng.random())
                await scene.settle()
                scene.wake()
                scene.deliver()
                for name, kind in in_hand.items():
                    await scene.receive(name, kind)
                in_hand.clear()
                await scene.settle()
        await scene.settle()
        scene.wake()
        scene.deliver()
        await scene.settle()
        total = sum(scene.ledger.charged.values())
        assert total == spent
        assert total <= elapsed(scene, begun)


class Steps(ManualClock):
    """A clock of nanoseconds with what the run's clock has beside it."""

    base_ms = 0

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.ns = lambda: self.now  # type: ignore[method-assign]


@contextmanager
def requests_of(*names: str) -> Iterator[list[Request]]:
    """Yield a request of each client."""
    rig = Rig(1_000, 1_000)
    requests = [rig.request() for _ in names]
    for name, request in zip(names, requests, strict=True):
        request.client_id = request.channel.client_id = name
        request.channel.requests = 1
        request.size = 100
    yield requests
    rig.close()


STEPS = (
    "begin",
    "handler",
    "network",
    "share",
    "answer",
    "silent",
    "park",
    "hangup",
    "settle",
    "close",
    "cached",
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 10**6), st.sampled_from(STEPS), st.integers(0, 2), st.booleans()),
        max_size=60,
    )
)
def test_no_nanosecond_is_charged_twice_in_any_order_of_calls(
    calls: list[tuple[int, str, int, bool]],
) -> None:
    with requests_of(*CLIENTS) as requests:
        check_charges(requests, calls)


def check_charges(requests: list[Request], calls: list[tuple[int, str, int, bool]]) -> None:
    clock, ledger = Steps(), Ledger()
    time = RequestTime(ledger.quota, clock, set())  # type: ignore[arg-type]
    for ns, step, whose, is_exempt in calls:
        clock.now += ns
        request, channel = requests[whose], requests[whose].channel
        request.exempt = is_exempt
        match step:
            case "begin":
                time.begin()
            case "handler":
                time.add_handler(request)
            case "network":
                time.add_network(channel)
            case "share":
                time.share(requests)
            case "answer":
                time.charge(request, EncodedResponse(b"", None))
            case "silent":
                time.charge(request, NoResponse())
            case "park":
                time.charge(request, DELAYED)
            case "hangup":
                time.charge(request, Hangup(""))
            case "settle":
                time.settle(request)
            case "close":
                time.close(channel)
            case "cached":
                time.admits_cached(channel, channel.client_id)
    assert sum(ledger.charged.values()) <= clock.now
    for request in requests:
        time.settle(request)
        time.close(request.channel)
    assert sum(ledger.charged.values()) <= clock.now
    assert not any(each.handler_ns for each in requests)


@pytest.mark.parametrize(
    ("sizes", "lap", "shares"),
    [
        ([0], 1_000, [1_000]),
        ([100, 100], 1_001, [500, 500]),
        ([0, COMMIT_BYTES], 3_000, [1_000, 2_000]),
        ([0, 3 * COMMIT_BYTES, COMMIT_BYTES], 7_000, [1_000, 4_000, 2_000]),
    ],
)
def test_requests_share_a_commit_by_their_bytes(sizes: list[int], lap: int, shares: list[int]) -> None:
    clock = Steps()
    time = RequestTime(Ledger().quota, clock, set())  # type: ignore[arg-type]
    with requests_of(*["ann"] * len(sizes)) as requests:
        for request, size in zip(requests, sizes, strict=True):
            request.size = size
        time.begin()
        clock.now += lap
        time.share(requests)
        assert [each.handler_ns for each in requests] == shares
        time.share(requests)
        assert sum(each.handler_ns for each in requests) == sum(shares), "the lap has ended"


def test_a_request_starts_without_charges() -> None:
    rig = Rig(1_000, 1_000)
    request = rig.request()
    assert (request.handler_ns, request.exempt) == (0, False)
    rig.close()

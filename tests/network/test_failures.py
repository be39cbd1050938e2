"""An unexpected exception closes one connection, or fails one request; a hundred others are not affected.

Each row of the table breaks one step. The victim makes the broker take that step; then every bystander, whose
connection was open before, sends one more request on the same connection, and a new client is served too.
"""

import logging
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.common.errors import FatalExitError
from broker.controller.commands import AlterClientQuotas, QuotaAlteration, QuotaOp
from broker.metadata.actor import BROKER_ITSELF
from broker.network import selector
from broker.network.acceptor.acceptor import Acceptor
from broker.network.acceptor.connection_gate import ConnectionGate, ListenerGate
from broker.network.connection.channel import Channel
from broker.network.connection.frame_pool import FramePool
from broker.network.connection.receive import Receive
from broker.network.failures import FailedStep, Failures
from broker.network.handling.handler_pool import HandlerPool
from broker.network.leased_receive import LargeReceive
from broker.network.requests.routes import Route
from broker.network.responder import Responder
from broker.network.selector import Selector
from broker.network.socket_server import SocketServer
from broker.network.throttling import Throttling
from broker.partitions.fetching import DelayedFetch
from broker.protocol import codec
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.quotas.connections import ConnectionQuotas
from broker.quotas.throttle_compliance import ThrottleCompliance
from broker.server.compiled import COMPILED
from tests.support.machine_speed import WITHIN_S
from tests.support.produce import PRODUCE_VERSION, create_topic, produce_request_of
from tests.support.replacing import replace_method
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

BYSTANDERS = 100
VICTIM = "victim"
METADATA_VERSION = 9


class Unforeseen(Exception):
    """Raised by the broken step."""


@dataclass
class Scene:
    broker: RunningBroker
    clock: MockClock
    monkeypatch: pytest.MonkeyPatch
    raised: int = 0

    def break_once(
        self,
        owner: type,
        name: str,
        applies: Callable[..., bool] = lambda *_, **__: True,
        *,
        error: type[Exception] = Unforeseen,
        at_its_end: bool = False,
    ) -> None:
        """The next call of a method for which `applies` raises, at once or `at_its_end`; all others do their
        work.
        """
        original = getattr(owner, name)

        def broken(*args: Any, **named: Any) -> Any:
            if not self.raised and applies(*args, **named):
                self.raised += 1
                if at_its_end:
                    original(*args, **named)
                raise error(name)
            return original(*args, **named)

        replace_method(self.monkeypatch, owner, name, broken)

    async def connect(self) -> WireClient:
        return await self.broker.connect(VICTIM)

    async def passes(self, seconds: float) -> None:
        await wait_all_tasks_blocked(0.001)
        self.clock.jump(seconds)
        await wait_all_tasks_blocked(0.001)

    async def limit(self, key: str, value: float) -> None:
        rule = QuotaAlteration((("client-id", VICTIM),), (QuotaOp(key, value),))
        (outcome,) = await self.broker.server.control.apply(AlterClientQuotas((rule,)), BROKER_ITSELF)
        assert outcome.ok


def of_victim(thing: Any, *_: Any, **__: Any) -> bool:
    channel = getattr(thing, "channel", thing)
    return getattr(channel, "client_id", None) == VICTIM


def second_is_victims(_self: Any, thing: Any, *_: Any, **__: Any) -> bool:
    return of_victim(thing)


async def asked_before(scene: Scene) -> WireClient:
    client = await scene.connect()
    await client.ask(MetadataRequest([]), METADATA_VERSION)
    return client


Breaks = Callable[[Scene], Awaitable[WireClient]]


async def breaks_admits(scene: Scene) -> WireClient:
    scene.break_once(ListenerGate, "admits")
    return await scene.connect()


async def breaks_enter(scene: Scene) -> WireClient:
    scene.break_once(ConnectionQuotas, "enter")
    return await scene.connect()


async def breaks_configure(scene: Scene) -> WireClient:
    scene.break_once(Acceptor, "_configure")
    return await scene.connect()


async def breaks_hand_over(scene: Scene) -> WireClient:
    scene.break_once(Acceptor, "_hand_over")
    return await scene.connect()


async def breaks_channel(scene: Scene) -> WireClient:
    scene.break_once(Channel, "__init__")
    return await scene.connect()


async def breaks_register(scene: Scene) -> WireClient:
    scene.break_once(Selector, "register")
    return await scene.connect()


async def breaks_epoll_watches(scene: Scene) -> WireClient:
    """ENOSPC is foreseeable: the limit of epoll watches. It ends the connection without a report."""
    original = Selector.register

    def full(selector: Selector, channel: Channel) -> None:
        if not scene.raised:
            scene.raised += 1
            raise OSError(28, "No space left on device")
        original(selector, channel)

    replace_method(scene.monkeypatch, Selector, "register", full)
    return await scene.connect()


async def breaks_opened(scene: Scene) -> WireClient:
    class Watcher:
        def opened(self, channel: Channel) -> None:
            scene.broker.server.socket_server.observers.remove(self)  # type: ignore[arg-type]
            scene.raised += 1
            raise Unforeseen

    scene.broker.server.socket_server.observers.append(Watcher())  # type: ignore[arg-type]
    return await scene.connect()


async def breaks_read(scene: Scene) -> WireClient:
    client = await asked_before(scene)
    (channel,) = [each for each in scene.broker.server.socket_server.channels() if of_victim(each)]

    def broken(_sock: Any) -> None:
        scene.raised += 1
        raise Unforeseen

    channel.read = broken  # type: ignore[assignment]
    await client.send(MetadataRequest([]), METADATA_VERSION)
    return client


async def breaks_buffered_read(scene: Scene) -> WireClient:
    client = await asked_before(scene)
    scene.break_once(LargeReceive, "next_buffered")
    encode = codec.encode_request(ApiKey.PRODUCE, PRODUCE_VERSION)
    frame = b"".join(bytes(part) for part in encode(produce_request_of(300, VICTIM), 1, VICTIM))
    await client.stream.send_all(frame + frame)  # one read brings both
    return client


async def breaks_interest(scene: Scene) -> WireClient:
    client = await asked_before(scene)
    scene.break_once(Selector, "set_interest", second_is_victims)
    with suppress(trio.BrokenResourceError):  # muted, so that the second makes epoll look away
        for _ in range(3):
            await client.send(delayed_fetch(), 11)
            await wait_all_tasks_blocked(0.001)
    return client


async def breaks_admission(scene: Scene) -> WireClient:
    client = await asked_before(scene)
    (processor,) = scene.broker.server.socket_server.processors()
    put_nowait = processor._put_nowait

    def broken(request: Any) -> None:
        if of_victim(request):
            scene.raised += 1
            raise Unforeseen
        put_nowait(request)

    processor._put_nowait = broken
    await client.send(produce_request_of(300, VICTIM), PRODUCE_VERSION)
    return client


async def breaks_send_list(scene: Scene) -> WireClient:
    client = await asked_before(scene)
    scene.break_once(Responder, "_send_list")
    await client.send(fetch_now(), 11)
    return client


async def breaks_after_response(scene: Scene) -> WireClient:
    client = await asked_before(scene)
    scene.break_once(Responder, "_after_unmute", second_is_victims)
    await client.send(produce_request_of(300, VICTIM), PRODUCE_VERSION)
    await client.receive(ApiKey.PRODUCE, PRODUCE_VERSION)
    return client


async def breaks_throttle_end(scene: Scene) -> WireClient:
    await scene.limit("producer_byte_rate", 1_000)
    client = await scene.connect()
    answer = await client.ask(produce_request_of(11_000, VICTIM), PRODUCE_VERSION)
    assert answer.throttle_time_ms == 1_000
    scene.break_once(Responder, "_after_unmute", second_is_victims)
    await scene.passes(1)
    return client


async def breaks_memory_grant(scene: Scene) -> WireClient:
    client = await asked_before(scene)
    (channel,) = [each for each in scene.broker.server.socket_server.channels() if of_victim(each)]
    scene.break_once(Responder, "_after_unmute", second_is_victims)
    channel.responder.resume_reading(channel)
    return client


async def breaks_idle_look(scene: Scene) -> WireClient:
    client = await asked_before(scene)
    original = selector._is_used

    def broken(channel: Channel) -> bool:
        if of_victim(channel):
            scene.raised += 1
            raise Unforeseen
        return original(channel)

    if COMPILED:
        pytest.skip("a compiled function cannot be replaced")
    scene.monkeypatch.setattr(selector, "_is_used", broken)
    await scene.passes(300)
    for other in scene.broker.clients:
        if other is not client:
            await other.ask(MetadataRequest([]), METADATA_VERSION)
    await scene.passes(301)
    return client


CLOSES: dict[str, tuple[Breaks, FailedStep | None]] = {
    "admits": (breaks_admits, FailedStep.ACCEPT),
    "enter": (breaks_enter, FailedStep.ACCEPT),
    "configure": (breaks_configure, FailedStep.ACCEPT),
    "hand-over": (breaks_hand_over, FailedStep.ACCEPT),
    "channel": (breaks_channel, FailedStep.REGISTER),
    "register": (breaks_register, FailedStep.REGISTER),
    "epoll-watches": (breaks_epoll_watches, None),
    "opened": (breaks_opened, FailedStep.REGISTER),
    "read": (breaks_read, FailedStep.RECEIVE),
    "buffered-read": (breaks_buffered_read, FailedStep.RECEIVE),
    "interest": (breaks_interest, FailedStep.RECEIVE),
    "admission": (breaks_admission, FailedStep.ADMIT),
    "send-list": (breaks_send_list, FailedStep.SEND),
    "after-response": (breaks_after_response, FailedStep.SEND),
    "throttle-end": (breaks_throttle_end, FailedStep.UNMUTE),
    "memory-grant": (breaks_memory_grant, FailedStep.UNMUTE),
    "idle-look": (breaks_idle_look, FailedStep.EXPIRE),
}
"""Steps that end the connection."""


def delayed_fetch() -> FetchRequest:
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=1_000)
    topics = [FetchTopic("empty", partitions=[partition])]
    return FetchRequest(max_wait_ms=30_000, min_bytes=1, max_bytes=1_000, topics=topics, session_epoch=-1)


def fetch_now() -> FetchRequest:
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=1_000)
    topics = [FetchTopic("events", partitions=[partition])]
    return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1_000, topics=topics, session_epoch=-1)


@pytest.fixture
def scene_in(tmp_path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> Any:
    async def run(act: Callable[[Scene], Awaitable[None]], *overrides: str) -> None:
        async with running_broker(tmp_path, "num.network.threads=1", *overrides) as running:
            maker = await running.connect("maker")
            for topic in ("events", "empty"):
                assert (await maker.ask(create_topic(topic), 5)).topics[0].error_code == 0
            await maker.ask(produce_request_of(500, "maker"), PRODUCE_VERSION)
            bystanders = [await running.connect(f"bystander-{n}") for n in range(BYSTANDERS)]
            for bystander in bystanders:
                await bystander.ask(MetadataRequest([]), METADATA_VERSION)
            scene = Scene(running, mock_clock, monkeypatch)
            await act(scene)
            assert scene.raised == 1
            for bystander in bystanders:
                await bystander.ask(MetadataRequest([]), METADATA_VERSION)
                await bystander.ask(produce_request_of(200, "b"), PRODUCE_VERSION)
            late = await running.connect("late")
            await late.ask(MetadataRequest([]), METADATA_VERSION)
            await wait_all_tasks_blocked(0.001)
            server = running.server.socket_server
            assert server.gate.quotas.total == len(list(server.channels())), "no count stays behind"
            assert not running.started.stopped.is_set()

    return run


async def ended(client: WireClient) -> bool:
    """Return whether the broker closes the connection, after any responses."""
    with trio.fail_after(60), suppress(trio.BrokenResourceError):
        while await client.stream.receive_some(65_536):
            pass
    return True


def counted(scene: Scene) -> dict[FailedStep, int]:
    return {
        place: count for place, count in scene.broker.server.socket_server.failures.counts.items() if count
    }


@pytest.mark.parametrize("name", CLOSES)
async def test_the_connection_of_a_broken_step_ends_and_no_other(
    scene_in: Any, mock_clock: MockClock, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    breaks, place = CLOSES[name]

    async def act(scene: Scene) -> None:
        client = await breaks(scene)
        assert await ended(client)
        assert counted(scene) == ({} if place is None else {place: 1})

    with caplog.at_level(logging.ERROR):
        await scene_in(act)
    lines = [record for record in caplog.records if record.message == "unexpected exception"]
    assert len(lines) == (0 if place is None else 1)
    for line in lines:
        assert line.exc_info is not None and line.__dict__["place"] == place.value  # type: ignore[union-attr]


CLOSING = {
    "receive": (Receive, "close"),
    "count": (Selector, "_count_closed"),
    "gate": (ConnectionGate, "release"),
    "throttling": (Throttling, "forget"),
    "abandon": (Channel, "abandon"),
    "check_drained": (Responder, "check_drained"),
    "end-send": (SocketServer, "_end_send"),
}


@pytest.mark.parametrize("step", CLOSING)
async def test_of_closing_every_other_step_is_taken(scene_in: Any, mock_clock: MockClock, step: str) -> None:
    owner, name = CLOSING[step]

    async def act(scene: Scene) -> None:
        client = await asked_before(scene)
        (channel,) = [each for each in scene.broker.server.socket_server.channels() if of_victim(each)]
        # A gate that fails at once has not counted, by itself, that the connection is gone.
        scene.break_once(owner, name, at_its_end=step == "gate")
        before = scene.broker.server.socket_server.gate.quotas.total
        await trio.aclose_forcefully(client.stream)
        await wait_all_tasks_blocked(0.001)
        assert channel.closed and counted(scene) == {FailedStep.CLOSE: 1}
        assert scene.broker.server.socket_server.gate.quotas.total == before - 1

    await scene_in(act)


async def test_a_failed_close_of_the_socket_leaves_the_other_steps(
    scene_in: Any, mock_clock: MockClock
) -> None:
    async def act(scene: Scene) -> None:
        client = await asked_before(scene)
        (channel,) = [each for each in scene.broker.server.socket_server.channels() if of_victim(each)]
        sock = channel.sock

        class Unclosable:
            def close(self) -> None:
                sock.close()
                scene.raised += 1
                raise Unforeseen

            def __getattr__(self, name: str) -> Any:
                return getattr(sock, name)

        channel.sock = Unclosable()  # type: ignore[assignment]
        await trio.aclose_forcefully(client.stream)
        await wait_all_tasks_blocked(0.001)
        assert channel.closed and counted(scene) == {FailedStep.CLOSE: 1}

    await scene_in(act)


@pytest.mark.parametrize("mode", ["kip", "kafka"])
async def test_a_throttled_socket_whose_check_fails_is_closed(
    scene_in: Any, mock_clock: MockClock, mode: str
) -> None:
    async def act(scene: Scene) -> None:
        server = scene.broker.server
        server.connections.set_ip_rate("127.0.0.1", 1)
        clients = []
        while not any(
            listener.acceptor.gate.throttled_sockets for listener in server.socket_server.listeners
        ):
            clients.append(await scene.connect())
            await wait_all_tasks_blocked(0.001)
        scene.break_once(ListenerGate, "_admits_after_wait")
        await scene.passes(1)
        assert await ended(clients[-1])
        assert counted(scene) == {FailedStep.THROTTLED_SOCKET: 1}
        server.connections.set_ip_rate("127.0.0.1", None)
        for client in clients[:-1]:
            await trio.aclose_forcefully(client.stream)

    await scene_in(act, f"ip.throttle.mode={mode}")


async def test_a_look_at_whether_a_client_obeys_that_fails_ends_nothing(
    scene_in: Any, mock_clock: MockClock
) -> None:
    async def act(scene: Scene) -> None:
        await scene.limit("producer_byte_rate", 1_000)
        client = await scene.connect()
        await client.ask(produce_request_of(11_000, VICTIM), PRODUCE_VERSION)
        scene.break_once(ThrottleCompliance, "checked")
        await scene.passes(0.5)
        await scene.passes(1)
        await client.ask(MetadataRequest([]), METADATA_VERSION)
        assert counted(scene) == {FailedStep.UNMUTE: 1}

    await scene_in(act)


# Memory


async def no_memory_to_begin(scene: Scene) -> WireClient:
    client = await asked_before(scene)
    scene.break_once(FramePool, "take", error=MemoryError)
    with suppress(trio.BrokenResourceError):
        await client.send(produce_request_of(100_000, VICTIM), PRODUCE_VERSION)
    return client


async def no_memory_to_go_on(scene: Scene) -> WireClient:
    """The buffer of a frame beyond TRUSTED_FRAME grows as bytes arrive."""
    client = await asked_before(scene)
    scene.break_once(FramePool, "grow", error=MemoryError)
    with suppress(trio.BrokenResourceError):
        await client.stream.send_all(struct.pack(">i", 8_000_000) + bytes(1_000_000))
    return client


async def no_memory_for_a_small_one(scene: Scene) -> WireClient:
    client = await asked_before(scene)
    (channel,) = [each for each in scene.broker.server.socket_server.channels() if of_victim(each)]

    def broken(_sock: Any) -> None:
        scene.raised += 1
        raise MemoryError

    channel.read = broken  # type: ignore[assignment]
    await client.send(MetadataRequest([]), METADATA_VERSION)
    return client


async def no_memory_to_decode(scene: Scene) -> WireClient:
    client = await asked_before(scene)
    route = route_of(scene, ApiKey.CREATE_TOPICS, 5)
    decode = route.decode

    def broken(frame: Any, offset: int) -> Any:
        if scene.raised:
            return decode(frame, offset)
        scene.raised += 1
        raise MemoryError

    route.decode = broken
    await client.send(create_topic("another"), 5)
    return client


async def no_memory_to_answer(scene: Scene) -> WireClient:
    client = await asked_before(scene)
    scene.break_once(Responder, "_send_list", error=MemoryError)
    await client.send(fetch_now(), 11)
    return client


WITHOUT_MEMORY: dict[str, tuple[Breaks, FailedStep]] = {
    "begin": (no_memory_to_begin, FailedStep.RECEIVE),
    "go-on": (no_memory_to_go_on, FailedStep.RECEIVE),
    "small": (no_memory_for_a_small_one, FailedStep.RECEIVE),
    "decode": (no_memory_to_decode, FailedStep.HANDLE),
    "answer": (no_memory_to_answer, FailedStep.SEND),
}


@pytest.mark.parametrize("bound", [None, -1, 200_000_000])
@pytest.mark.parametrize("name", WITHOUT_MEMORY)
async def test_where_no_memory_is_left_one_connection_ends_with_one_line(
    scene_in: Any, mock_clock: MockClock, name: str, bound: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    act_without, place = WITHOUT_MEMORY[name]

    async def act(scene: Scene) -> None:
        caplog.clear()
        client = await act_without(scene)
        assert await ended(client)
        assert counted(scene) == {place: 1}
        frames = scene.broker.server.socket_server.frames
        assert frames.outstanding == 0
        memory = scene.broker.server.socket_server.memory
        assert memory is None or memory.memory.used == 0

    with caplog.at_level(logging.INFO):
        await scene_in(act, *(() if bound is None else (f"queued.max.request.bytes={bound}",)))
    lines = [
        record
        for record in caplog.records
        if record.levelno >= logging.WARNING or record.message == "connection closed"
    ]
    assert [(line.message, line.exc_info) for line in lines] == [("out of memory for a request", None)]
    assert lines[0].__dict__["place"] == place.value


def test_a_report_for_which_there_is_no_memory_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(logging.getLogger("broker.network.failures"), "error", refuse)
    failures = Failures()
    failures.report(FailedStep.RECEIVE, MemoryError())
    assert failures.counts[FailedStep.RECEIVE] == 1


@pytest.mark.parametrize(("kept", "is_enough"), [(True, True), (False, False)])
def test_buffers_that_are_kept_are_given_up_before_a_request_is(
    monkeypatch: pytest.MonkeyPatch, kept: bool, is_enough: bool
) -> None:
    frames = FramePool()
    if kept:
        frames.give_back(frames.take(100_000, 0))
    made = []

    def buffer(size: int) -> bytearray:
        made.append(size)
        if len(made) == 1 or not kept:
            raise MemoryError
        return bytearray(size)

    if COMPILED:
        pytest.skip("compiled code does not look bytearray up")
    monkeypatch.setattr("broker.network.connection.frame_pool.bytearray", buffer, raising=False)
    if is_enough:
        assert len(frames.take(200_000, 0)) == frames.outstanding == 262_144
    else:
        with pytest.raises(MemoryError):
            frames.take(200_000, 0)
        assert frames.outstanding == 0
    assert (frames.idle_bytes, made) == (0, [262_144, 262_144])


# Requests


def route_of(scene: Scene, key: ApiKey, version: int) -> Route:
    routes = scene.broker.server.socket_server.listeners[0].routes
    route = routes.get(key << 16 | version) or routes.build(key << 16 | version)
    assert route is not None
    return route


async def fails_in_handler(scene: Scene) -> Any:
    route = route_of(scene, ApiKey.METADATA, METADATA_VERSION)
    handle = route.handle

    def broken(message: Any, context: Any, broker: Any) -> Any:
        if context.client_id != VICTIM:
            return handle(message, context, broker)
        scene.raised += 1
        raise Unforeseen

    route.handle = broken
    client = await scene.connect()
    return await client.ask(MetadataRequest([MetadataRequestTopic(name="t")]), METADATA_VERSION)


async def fails_in_slow_handler(scene: Scene) -> Any:
    route = route_of(scene, ApiKey.METADATA, METADATA_VERSION)
    handle = route.handle

    async def broken() -> Any:
        await trio.lowlevel.checkpoint()
        scene.raised += 1
        raise Unforeseen

    route.handle = lambda m, context, b: broken() if context.client_id == VICTIM else handle(m, context, b)
    client = await scene.connect()
    return await client.ask(MetadataRequest([MetadataRequestTopic(name="t")]), METADATA_VERSION)


async def fails_in_encoding(scene: Scene) -> Any:
    route = route_of(scene, ApiKey.METADATA, METADATA_VERSION)
    encode = route.encode

    def broken(reply: Any, correlation_id: int) -> Any:
        if not scene.raised:
            scene.raised += 1
            raise Unforeseen
        return encode(reply, correlation_id)

    route.encode = broken
    client = await scene.connect()
    return await client.ask(MetadataRequest([MetadataRequestTopic(name="t")]), METADATA_VERSION)


ANSWERS: dict[str, tuple[Callable[[Scene], Awaitable[Any]], FailedStep]] = {
    "handler": (fails_in_handler, FailedStep.HANDLE),
    "slow-handler": (fails_in_slow_handler, FailedStep.HANDLE),
    "encoding": (fails_in_encoding, FailedStep.HANDLE),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_a_request_that_fails_is_answered_in_its_own_response(
    scene_in: Any, mock_clock: MockClock, name: str
) -> None:
    fails, place = ANSWERS[name]

    async def act(scene: Scene) -> None:
        answer = await fails(scene)
        assert [(topic.name, topic.error_code) for topic in answer.topics] == [("t", -1)]
        assert counted(scene) == {place: 1}

    await scene_in(act)


async def test_a_produce_whose_answer_fails_after_its_commit_is_answered_for_each_partition(
    scene_in: Any, mock_clock: MockClock
) -> None:
    async def act(scene: Scene) -> None:
        scene.break_once(
            HandlerPool, "_conclude", lambda _pool, request, outcome: of_commit(request, outcome)
        )
        client = await scene.connect()
        answer = await client.ask(produce_request_of(300, VICTIM), PRODUCE_VERSION)
        (partition,) = answer.responses[0].partition_responses
        assert (partition.index, partition.error_code) == (0, -1)
        assert counted(scene) == {FailedStep.CALLBACK: 1}

    def of_commit(request: Any, outcome: Any) -> bool:
        return request.client_id == VICTIM and type(outcome).__name__ in ("Response", "EncodedResponse")

    await scene_in(act)


async def test_without_acknowledgement_a_failed_produce_ends_its_connection(
    scene_in: Any, mock_clock: MockClock
) -> None:
    async def act(scene: Scene) -> None:
        route = route_of(scene, ApiKey.PRODUCE, PRODUCE_VERSION)
        handle = route.handle

        def broken(message: Any, context: Any, broker: Any) -> Any:
            if context.client_id != VICTIM:
                return handle(message, context, broker)
            scene.raised += 1
            raise Unforeseen

        route.handle, route.fast_path = broken, None
        client = await scene.connect()
        await client.send(produce_request_of(300, VICTIM, acks=0), PRODUCE_VERSION)
        assert await ended(client)
        assert counted(scene) == {FailedStep.HANDLE: 1}

    await scene_in(act)


async def test_a_delayed_fetch_that_fails_does_not_fail_the_append_that_woke_it(
    scene_in: Any, mock_clock: MockClock
) -> None:
    async def act(scene: Scene) -> None:
        client = await scene.connect()
        await client.send(delayed_fetch(), 11)
        await wait_all_tasks_blocked(0.001)
        (operation,) = [
            channel.waiting for channel in scene.broker.server.socket_server.channels() if channel.waiting
        ]
        assert isinstance(operation, DelayedFetch)
        scene.break_once(type(operation.pending), "response")
        producer = await scene.broker.connect("producer")
        message = produce_request_of(300, "producer")
        message.topic_data[0].name = "empty"
        answer = await producer.ask(message, PRODUCE_VERSION)
        assert answer.responses[0].partition_responses[0].error_code == 0
        _, fetched = await client.receive(ApiKey.FETCH, 11)
        assert fetched.error_code == -1
        assert counted(scene) == {FailedStep.CALLBACK: 1}

    await scene_in(act)


async def test_a_delayed_fetch_whose_check_fails_does_not_fail_the_append_either(
    scene_in: Any, mock_clock: MockClock
) -> None:
    async def act(scene: Scene) -> None:
        client = await scene.connect()
        await client.send(delayed_fetch(), 11)
        await wait_all_tasks_blocked(0.001)
        scene.break_once(DelayedFetch, "is_ready")
        producer = await scene.broker.connect("producer")
        message = produce_request_of(300, "producer")
        message.topic_data[0].name = "empty"
        answer = await producer.ask(message, PRODUCE_VERSION)
        assert answer.responses[0].partition_responses[0].error_code == 0
        await client.receive(ApiKey.FETCH, 11)

    await scene_in(act)


# What is not contained


def test_a_fatal_error_is_not_contained() -> None:
    failures = Failures()
    with pytest.raises(FatalExitError):
        failures.report(FailedStep.HANDLE, FatalExitError("stop"))
    assert not any(failures.counts.values())


def test_every_place_is_counted_from_the_start() -> None:
    assert Failures().counts == dict.fromkeys(FailedStep, 0)


async def test_a_broken_epoll_stops_the_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if COMPILED:
        pytest.skip("Selector.reset_wakeup is compiled")
    with pytest.RaisesGroup(pytest.RaisesExc(FatalExitError), flatten_subgroups=True, allow_unwrapped=True):
        async with running_broker(tmp_path) as running:
            client = await running.connect()
            await client.ask(MetadataRequest([]), METADATA_VERSION)

            def broken(selector: Selector, fd: int) -> None:
                raise Unforeseen

            monkeypatch.setattr(Selector, "reset_wakeup", broken)
            next(running.server.socket_server.processors()).selector.wakeup()
            with trio.fail_after(WITHIN_S):
                await trio.sleep_forever()

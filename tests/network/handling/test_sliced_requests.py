"""Requests handled in slices: other tasks run between two slices."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from broker.api.requests.outcome import DELAYED, NO_RESPONSE, Hangup, Outcome, Sliced, in_slices
from broker.common import slices as slices_module
from broker.common.errors import ApiError, ErrorCode, ProtocolViolation
from broker.common.principal import ANONYMOUS
from broker.common.slices import Slices
from broker.network.handling.sliced_requests import SlicedRequests
from broker.protocol.dismantle import AT_ONCE
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from broker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from broker.records.build import NewRecord, build_batch
from broker.records.compression import Codec, decompress
from broker.records.packing import CodecWork
from tests.network.requests.test_request_time import limit
from tests.support.produce import PRODUCE_VERSION, produce_request
from tests.support.running import running_broker

NOW = 1_700_000_000_000


@pytest.fixture(autouse=True)
def each_step_is_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices_module, "SLICE_S", 0.0)
    monkeypatch.setattr(slices_module, "FIRST_STEPS", 0)


class Rig:
    """Requests without a broker; `seen` is what happened, in order."""

    def __init__(self) -> None:
        self.queue = SlicedRequests()
        self.seen: list[Any] = []

    def put(
        self,
        name: str,
        slices: Slices[Any],
        step: CodecWork | None = None,
        fd: int = 3,
        tenant: tuple[str, str] = (ANONYMOUS, "192.0.2.1"),
    ) -> Any:
        return self.put_sliced(name, Sliced(slices, step), fd, tenant)

    def put_sliced(
        self, name: str, sliced: Sliced, fd: int = 3, tenant: tuple[str, str] = (ANONYMOUS, "192.0.2.1")
    ) -> Any:
        """Put a request whose principal and address are `tenant`."""
        principal, address = tenant
        channel = SimpleNamespace(fd=fd, principal=principal, address=address)
        request: Any = SimpleNamespace(channel=channel, frame=b"")

        def in_slice(advance: Callable[[], None], thread_ns: int) -> None:
            self.seen.append(name)
            advance()

        def conclude(outcome_of: Callable[[], Outcome]) -> None:
            try:
                self.seen.append(outcome_of())
            except (ApiError, ZeroDivisionError) as error:
                self.seen.append(error)

        self.queue.put(request, sliced, in_slice, conclude)
        return request


def pauses(count: int) -> Slices[Outcome]:
    for _ in range(count):
        yield None
    return NO_RESPONSE


class Looks(trio.abc.Instrument):
    """Counts the times that trio looks at the network."""

    def __init__(self) -> None:
        self.count = 0

    def before_io_wait(self, timeout: float) -> None:
        self.count += 1


async def test_one_slice_between_two_looks_at_the_network_however_many_requests_wait(
    nursery: trio.Nursery,
) -> None:
    rig, looks = Rig(), Looks()
    at: list[int] = []

    def work(count: int) -> Slices[Outcome]:
        for _ in range(count):
            at.append(looks.count)
            yield None
        at.append(looks.count)
        return NO_RESPONSE

    for name in "ab":
        rig.put(name, work(2))
    trio.lowlevel.add_instrument(looks)
    nursery.start_soon(rig.queue.run)
    await wait_all_tasks_blocked()
    trio.lowlevel.remove_instrument(looks)
    assert rig.seen == ["a", "a", "a", NO_RESPONSE, "b", "b", "b", NO_RESPONSE]
    assert len(at) == 6 and len(set(at)) == 6


async def test_it_goes_on_with_what_comes_later(nursery: trio.Nursery) -> None:
    rig = Rig()
    nursery.start_soon(rig.queue.run)
    for _ in range(2):
        rig.put("a", pauses(0))
        await wait_all_tasks_blocked()
        assert len(rig.queue) == 0
    assert rig.seen == ["a", NO_RESPONSE] * 2


async def test_an_unpacking_error_is_raised_in_the_handler(nursery: trio.Nursery) -> None:
    rig = Rig()
    caught: list[Any] = []
    done = trio.Event()

    def slices() -> Slices[Outcome]:
        try:
            yield CodecWork(partial(decompress, Codec.ZSTD, b"nonsense"))
        except ApiError as error:
            caught.append(error.code)
        good = CodecWork(partial(decompress, Codec.NONE, b"plain"))
        yield good
        caught.append(good.data)
        done.set()
        return NO_RESPONSE

    work = slices()
    rig.put("a", work, next(work))
    nursery.start_soon(rig.queue.run)
    await done.wait()
    assert caught == [ErrorCode.CORRUPT_MESSAGE, b"plain"]


async def test_a_failing_handler_fails_its_own_request_only(nursery: trio.Nursery) -> None:
    rig = Rig()

    def failing() -> Slices[Outcome]:
        yield None
        raise ZeroDivisionError

    rig.put("a", failing())
    rig.put("b", pauses(0))
    nursery.start_soon(rig.queue.run)
    await wait_all_tasks_blocked()
    assert isinstance(rig.seen[2], ZeroDivisionError) and rig.seen[3:] == ["b", NO_RESPONSE]


async def test_another_outcome_is_made_of_the_last_slice_s_and_may_fail(nursery: trio.Nursery) -> None:
    rig = Rig()
    delayed, failing = Sliced(pauses(1), None), Sliced(pauses(1), None)
    delayed.then = lambda outcome: DELAYED if outcome is NO_RESPONSE else outcome
    failing.then = lambda _: 1 // 0  # type: ignore[assignment,return-value]
    for name, sliced in (("a", delayed), ("b", failing)):
        rig.put_sliced(name, sliced)
    nursery.start_soon(rig.queue.run)
    await wait_all_tasks_blocked()
    assert rig.seen[:3] == ["a", "a", DELAYED] and isinstance(rig.seen[-1], ZeroDivisionError)


async def test_work_for_a_client_that_has_gone_is_dropped(nursery: trio.Nursery) -> None:
    rig = Rig()
    work = pauses(1_000)
    next(work)
    rig.put("a", work, fd=-1)
    nursery.start_soon(rig.queue.run)
    await wait_all_tasks_blocked()
    (end,) = rig.seen
    assert isinstance(end, Hangup)
    assert next(work, "closed") == "closed"


async def test_work_that_fails_when_it_is_dropped_fails_its_own_request_only(nursery: trio.Nursery) -> None:
    rig = Rig()

    def stubborn() -> Slices[Outcome]:
        try:
            yield None
        finally:
            raise ZeroDivisionError

    work = stubborn()
    next(work)
    rig.put("a", work, fd=-1)
    rig.put("b", pauses(0))
    nursery.start_soon(rig.queue.run)
    await wait_all_tasks_blocked()
    assert isinstance(rig.seen[0], ZeroDivisionError) and rig.seen[1:] == ["b", NO_RESPONSE]


async def test_results_for_a_departed_client_are_freed_in_slices(nursery: trio.Nursery) -> None:
    rig, looks = Rig(), Looks()
    alive = [0]

    class Made:
        """Says when it is freed."""

        def __init__(self) -> None:
            alive[0] += 1

        def __del__(self) -> None:
            alive[0] -= 1
            freed.add(looks.count)

    def work() -> Slices[Outcome]:
        made = [Made() for _ in range(3 * AT_ONCE)]
        yield None
        assert made
        return NO_RESPONSE

    freed: set[int] = set()
    objects = [Made() for _ in range(2 * AT_ONCE)]
    local = work()
    next(local)
    rig.put_sliced("a", Sliced(local, None, objects), fd=-1)
    del objects, local
    trio.lowlevel.add_instrument(looks)
    nursery.start_soon(rig.queue.run)
    await wait_all_tasks_blocked()
    trio.lowlevel.remove_instrument(looks)
    assert alive == [0] and len(freed) == 5


ALICE = ("alice", "192.0.2.1")
BOB = ("bob", "192.0.2.1")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (ALICE, BOB),
        ((ANONYMOUS, "192.0.2.1"), (ANONYMOUS, "192.0.2.2")),
        ((ANONYMOUS, "192.0.2.1"), ALICE),
    ],
    ids=["by principal", "by address", "with and without a login"],
)
async def test_tenants_take_turns_however_many_connections_one_has(
    nursery: trio.Nursery, first: tuple[str, str], second: tuple[str, str]
) -> None:
    rig = Rig()
    for at in range(4):
        rig.put(f"a{at}", pauses(0), tenant=first)
    for at in range(2):
        rig.put(f"b{at}", pauses(0), tenant=second)
    nursery.start_soon(rig.queue.run)
    await wait_all_tasks_blocked()
    assert [name for name in rig.seen if name is not NO_RESPONSE] == ["a0", "b0", "a1", "b1", "a2", "a3"]


@pytest.mark.parametrize(
    ("first", "second"),
    [(ALICE, ("alice", "192.0.2.2")), ((ANONYMOUS, "192.0.2.1"), (ANONYMOUS, "192.0.2.1"))],
    ids=["one principal at two addresses", "one address"],
)
async def test_a_tenant_has_one_turn_from_wherever_it_comes(
    nursery: trio.Nursery, first: tuple[str, str], second: tuple[str, str]
) -> None:
    rig = Rig()
    for at in range(2):
        rig.put(f"a{at}", pauses(0), tenant=first)
    for at in range(2):
        rig.put(f"b{at}", pauses(0), tenant=second)
    nursery.start_soon(rig.queue.run)
    await wait_all_tasks_blocked()
    assert [name for name in rig.seen if name is not NO_RESPONSE] == ["a0", "a1", "b0", "b1"]


async def test_a_tenant_whose_requests_never_pause_delays_another_by_one_request(
    nursery: trio.Nursery,
) -> None:
    """Its ten connections each send a request again after every response."""
    rig = Rig()

    def again(name: str) -> Slices[Outcome]:
        yield None
        if len(rig.seen) < 1_000:
            rig.put(name, again(name), tenant=ALICE)
        return NO_RESPONSE

    for at in range(10):
        rig.put(f"a{at}", again(f"a{at}"), tenant=ALICE)

    nursery.start_soon(rig.queue.run)
    while len(rig.seen) < 100:
        await trio.lowlevel.checkpoint()
    before = rig.seen.count(NO_RESPONSE)
    rig.put("b", pauses(1), tenant=BOB)
    await wait_all_tasks_blocked()
    answered = rig.seen[: rig.seen.index("b")].count(NO_RESPONSE)
    assert answered - before == 1, "the one in hand"
    assert len(rig.queue) == 0


async def test_a_message_is_freed_after_its_request_has_its_answer(nursery: trio.Nursery) -> None:
    """Its handler refers to the elements, and would free all of them at once."""
    rig = Rig()
    message = CreateTopicsRequest([], 5_000, False)
    request = rig.put("a", pauses(2))
    rig.queue.drop_after(request, message)
    nursery.start_soon(rig.queue.run)
    references = sys.getrefcount(message)
    await wait_all_tasks_blocked()
    assert rig.seen[-1] is NO_RESPONSE and sys.getrefcount(message) == references
    request.frame = None
    rig.queue.check_answered()
    await wait_all_tasks_blocked()
    assert sys.getrefcount(message) == references - 1


async def test_the_generator_of_a_client_that_has_gone_may_have_something_freed_in_slices(
    nursery: trio.Nursery,
) -> None:
    rig = Rig()
    reported: list[str] = []

    def large() -> Slices[Outcome]:
        try:
            yield None
        except ProtocolViolation as gone:
            reported.append(str(gone))
            raise
        return NO_RESPONSE

    work = large()
    next(work)
    rig.put("a", work, fd=-1)
    nursery.start_soon(rig.queue.run)
    await wait_all_tasks_blocked()
    assert reported == ["the client has gone"] and isinstance(rig.seen[0], Hangup)


def test_work_of_one_slice_is_no_sliced_outcome() -> None:
    assert in_slices(pauses(0)) is NO_RESPONSE
    assert isinstance(in_slices(pauses(1)), Sliced)


@pytest.mark.parametrize("mode", ["kafka", "automq"])
@pytest.mark.parametrize("quota", [False, True], ids=["", "request-quota"])
async def test_large_batches_are_inspected_and_searched(tmp_path: Path, mode: str, quota: bool) -> None:
    async with running_broker(tmp_path, f"socket.server.mode={mode}") as broker:
        client, other = await broker.connect(), await broker.connect()
        if quota:
            await limit(broker, "request_percentage", 1_000, client.client_id)
        configs = [CreatableTopicConfig("cleanup.policy", "compact")]
        topic = CreatableTopic("events", 1, 1, configs=configs)
        await client.ask(CreateTopicsRequest([topic], 5_000, False), 5)
        new = [NewRecord(b"k", b"v" * 100, NOW + at) for at in range(3_000)]
        refused = [*new[:2_999], NewRecord(None, b"v", NOW)]
        sizes = broker.server.socket_server.handlers.sliced
        for records, codec, error in (
            (new, Codec.NONE, 0),
            (new, Codec.ZSTD, 0),
            (refused, Codec.NONE, ErrorCode.INVALID_RECORD),
        ):
            batch = bytearray(build_batch(records, codec=codec))
            await client.send(produce_request(batch), PRODUCE_VERSION)
            assert (await other.ask(ApiVersionsRequest(), 0)).error_code == 0
            _, answer = await client.receive(0, PRODUCE_VERSION)
            assert answer.responses[0].partition_responses[0].error_code == error
        for at, offset in ((0, 0), (2_500, 2_500), (2_999, 2_999), (3_000, -1)):
            requested = ListOffsetsTopic("events", [ListOffsetsPartition(0, -1, NOW + at)])
            answer = await client.ask(ListOffsetsRequest(-1, 0, [requested]), 4)
            assert answer.topics[0].partitions[0].offset == offset
        assert len(sizes) == 0


async def test_a_pipelined_producer_keeps_its_order_in_slices(tmp_path: Path) -> None:
    """With many requests of a connection in hand a small batch does not overtake a large one."""
    async with running_broker(tmp_path, "socket.server.mode=automq") as broker:
        client = await broker.connect()
        configs = [CreatableTopicConfig("cleanup.policy", "compact")]
        topic = CreatableTopic("events", 1, 1, configs=configs)
        await client.ask(CreateTopicsRequest([topic], 5_000, False), 5)
        for count in (3_000, 1):
            batch = build_batch([NewRecord(b"k", b"v", NOW)] * count)
            await client.send(produce_request(bytearray(batch)), PRODUCE_VERSION)
        offsets = []
        for _ in range(2):
            _, answer = await client.receive(0, PRODUCE_VERSION)
            offsets.append(answer.responses[0].partition_responses[0].base_offset)
        assert offsets == [0, 3_000]

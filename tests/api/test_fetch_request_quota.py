"""A fetch over the request quota has no records, and no session or quota counts them."""

import pytest

from broker.api.fetch import pending
from broker.api.requests.outcome import EncodedResponse, Response
from broker.api.requests.services import FetchServices
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from broker.quotas.kinds import QuotaKind
from broker.quotas.request import RequestQuotaManager
from broker.quotas.throttled import Throttle
from tests.api.consumers import RATE, SESSIONS, SHARED, VERSION, Consumer, observed, prepare
from tests.api.harness import Asking, Harness
from tests.support.produce import PRODUCE_VERSION, batch_of, produce_request


@pytest.fixture(params=["the fast path", "at once", "in slices"])
async def shared(
    harness: Harness, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Harness:
    """Usual fetches take the fast path, and large ones are read and answered in slices."""
    harness.uses_fast_paths = request.param == "the fast path"
    if request.param == "in slices":
        monkeypatch.setattr(pending, "MANY", 0)
    await prepare(harness)
    return harness


def over(harness: Harness, ms: int = 300) -> Throttle:
    """Return the throttle of a client that used `ms` of its 2 %, which are 200 ms."""
    throttle = harness.quotas.request.record_handled("ANONYMOUS", None, ms * 1_000_000, harness.clock.ms())
    assert throttle is not None and throttle.kind is QuotaKind.REQUEST
    return throttle


def withheld(harness: Harness, asking: Asking, throttle: Throttle) -> Response | EncodedResponse:
    """Return the outcome after `RequestTime.charge`."""
    outcome = asking.outcome
    if isinstance(outcome, EncodedResponse):
        instead = None if outcome.withhold is None else outcome.withhold(throttle)
        if instead is None:
            outcome.lengthen(throttle)
            return outcome
        asking.outcome = instead
        return instead
    assert isinstance(outcome, Response)
    outcome.throttle = throttle
    if outcome.withhold is not None:
        asking.outcome = outcome = outcome.withhold(outcome, throttle)
    outcome.reply.throttle_time_ms = throttle.throttle_ms  # type: ignore[attr-defined]
    return outcome


def in_session(session_id: int, epoch: int, *topics: str) -> FetchRequest:
    partitions = [FetchPartition(0, fetch_offset=0, partition_max_bytes=1_000_000)]
    named = [FetchTopic(topic, partitions=partitions) for topic in topics]
    return FetchRequest(
        min_bytes=1, max_bytes=1_000_000, session_id=session_id, session_epoch=epoch, topics=named
    )


def texts(answer: FetchResponse) -> list[str]:
    return [topic.topic for topic in answer.responses]


def bytes_out(harness: Harness) -> int:
    log = harness.partitions.log("busy", 0)
    assert log is not None
    return log.metrics.bytes_out


@SESSIONS
@pytest.mark.parametrize("byte_rate", [None, 1_000_000])
async def test_over_the_request_quota_the_records_are_held_back(
    shared: Harness, in_session: bool, byte_rate: int | None
) -> None:
    shared.quotas.apply(SHARED, "request_percentage", 2)
    shared.quotas.apply(SHARED, "consumer_byte_rate", byte_rate)
    busy = Consumer(shared, "busy", in_session=in_session)
    asking = await busy.ask()
    sent = bytes_out(shared)
    assert sent > 30_000
    outcome = withheld(shared, asking, over(shared))
    assert outcome.throttle is not None and outcome.throttle.throttle_ms == 5_000
    assert busy.answer(asking) == (5_000, 0)
    assert bytes_out(shared) == 0, "what was not sent is not counted"
    sensor = shared.quotas.fetch.find("ANONYMOUS", None)
    assert (sensor.observed(shared.clock.ms()) if sensor else 0) == 0, "nor recorded"
    assert len(shared.services[FetchServices].sessions) == 0, "nor does a session begin"
    # All records are available afterwards.
    assert (await busy.fetch())[1] > 30_000
    assert bytes_out(shared) == sent


async def test_a_session_gets_later_what_was_held_back(shared: Harness) -> None:
    shared.quotas.apply(SHARED, "request_percentage", 2)
    idle = Consumer(shared, "idle", in_session=True)
    await idle.fetch()
    assert await idle.fetch() == (0, 0)
    await shared.put(produce_request(batch_of(b"new"), "idle"), PRODUCE_VERSION)
    asking = await idle.ask()
    withheld(shared, asking, over(shared))
    assert idle.answer(asking) == (5_000, 0)
    assert len(shared.services[FetchServices].sessions) == 1
    assert (await idle.fetch())[1] > 0


async def test_a_session_gets_later_a_partition_without_records_too(shared: Harness) -> None:
    shared.quotas.apply(SHARED, "request_percentage", 2)
    begun = await shared.ask(in_session(0, 0, "idle"), VERSION)
    assert texts(begun) == ["idle"]
    await shared.create_topic("later")
    asking = await shared.put(in_session(begun.session_id, 1, "later"), VERSION)
    withheld(shared, asking, over(shared))
    assert texts(shared.answer(asking)) == []
    assert texts(await shared.ask(in_session(begun.session_id, 2), VERSION)) == ["later"]
    assert texts(await shared.ask(in_session(begun.session_id, 3), VERSION)) == []


async def test_a_fetch_that_the_byte_rate_emptied_is_not_emptied_again(shared: Harness) -> None:
    shared.quotas.apply(SHARED, "request_percentage", 2)
    shared.quotas.apply(SHARED, "consumer_byte_rate", RATE)
    busy = Consumer(shared, "busy")
    before = [await busy.fetch() for _ in range(3)]
    assert all(got for _, got in before)
    used, sent = observed(shared), bytes_out(shared)
    asking = await busy.ask()
    assert isinstance(asking.outcome, Response) and asking.outcome.throttle is not None
    assert asking.outcome.throttle.kind is QuotaKind.FETCH
    reply = asking.outcome.reply
    unchanged = withheld(shared, asking, over(shared))
    assert isinstance(unchanged, Response) and unchanged.reply is reply
    assert (observed(shared), bytes_out(shared)) == (used, sent)


async def test_a_withheld_fetch_is_taken_back_at_the_time_it_was_recorded(
    shared: Harness,
) -> None:
    shared.quotas.apply(SHARED, "request_percentage", 2)
    shared.quotas.apply(SHARED, "consumer_byte_rate", RATE)
    busy, idle = Consumer(shared, "busy"), Consumer(shared, "idle")
    waiting = await idle.ask(max_wait_ms=60_000)
    shared.clock.advance(30_000)
    await busy.fetch()
    used = observed(shared)
    await shared.put(produce_request(batch_of(b"i" * 5_000), "idle"), PRODUCE_VERSION)
    assert observed(shared) > used + 500
    # Its response completes in a later turn, one window later.
    shared.clock.advance(1_000)
    withheld(shared, waiting, over(shared))
    assert idle.answer(waiting) == (5_000, 0)
    for _ in range(9):
        assert round(observed(shared) * 10_000) == round(used * 10_000)
        shared.clock.advance(1_000)
    shared.clock.advance(1_000)
    assert observed(shared) == 0, "the window in which it was taken back is not below zero"


async def test_other_answers_are_sent_whatever_the_request_quota_says(shared: Harness) -> None:
    shared.quotas.apply(SHARED, "request_percentage", 2)
    asking = await shared.put(produce_request(batch_of(b"i"), "idle"), PRODUCE_VERSION)
    outcome = asking.outcome
    assert withheld(shared, asking, over(shared)) is outcome


@SESSIONS
async def test_by_kafkas_rule_a_consumer_gets_records_once_in_the_time_that_the_request_quota_looks_back(
    shared: Harness, in_session: bool
) -> None:
    """Every fetch violates the quota, and a throttle is at most one second."""
    shared.quotas.request = RequestQuotaManager()
    shared.quotas.request.set_bound("ANONYMOUS", None, 2)
    busy = Consumer(shared, "busy", in_session=in_session)
    got = []
    for _ in range(25):
        asking = await busy.ask()
        withheld(shared, asking, over(shared))
        throttle_ms, size = busy.answer(asking)
        assert throttle_ms == 1_000
        got.append(size > 0)
        shared.clock.advance(1_000)
    assert [index for index, has in enumerate(got) if has] == [11, 23]


@SESSIONS
async def test_a_paced_consumer_gets_records_with_every_other_fetch_that_is_throttled(
    shared: Harness, in_session: bool
) -> None:
    """A fetch of 300 ms is repaid in 15 s, and a debt is at most what two throttles of 11 s repay."""
    shared.quotas.apply(SHARED, "request_percentage", 2)
    busy = Consumer(shared, "busy", in_session=in_session)
    got = []
    for _ in range(8):
        asking = await busy.ask()
        withheld(shared, asking, over(shared))
        throttle_ms, size = busy.answer(asking)
        got.append((throttle_ms, size > 0))
        shared.clock.advance(throttle_ms)
    assert got == [(5_000, False), (10_000, True), *[(11_000, False), (11_000, True)] * 3]


async def test_a_fetch_that_found_nothing_is_no_sign_of_starving(shared: Harness) -> None:
    shared.quotas.apply(SHARED, "request_percentage", 2)
    idle = Consumer(shared, "idle")
    for _ in range(13):
        withheld(shared, await idle.ask(), over(shared))
        shared.clock.advance(1_000)
    assert idle.connection.withheld_since_ms == 0
    await shared.put(produce_request(batch_of(b"i"), "idle"), PRODUCE_VERSION)
    asking = await idle.ask()
    withheld(shared, asking, over(shared))
    assert idle.answer(asking) == (11_000, 0)


async def test_records_that_went_out_end_what_counts_as_starving(shared: Harness) -> None:
    shared.quotas.apply(SHARED, "request_percentage", 2)
    busy = Consumer(shared, "busy")
    withheld(shared, await busy.ask(), over(shared))
    shared.clock.advance(10_000)
    assert (await busy.fetch())[1] > 0
    shared.clock.advance(2_000)
    asking = await busy.ask()
    withheld(shared, asking, over(shared))
    assert busy.answer(asking) == (3_000, 0)

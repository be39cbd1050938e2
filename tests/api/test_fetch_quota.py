"""The byte-rate quota of delayed fetches: the recorded sizes and times.

Two consumers share one rule: `busy` fetches as often as it may, `idle` waits for its next record. The
responses are compared with a quota manager that records the same sizes at the true times.
"""

from typing import Any

import pytest

from broker.api.requests.outcome import EncodedResponse
from broker.common.errors import ErrorCode
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from broker.quotas.bandwidth import RateQuotaManager
from broker.quotas.kinds import QuotaKind
from tests.api.consumers import RATE, SESSIONS, SHARED, VERSION, Consumer, observed, prepare, whole_size
from tests.api.harness import Harness
from tests.support.produce import PRODUCE_VERSION, batch_of, produce_request

WAITS_MS = [500, 9_000, 10_900, 11_000, 30_000]


class TrueTime:
    """A fetch quota that records every size at the time of its response."""

    def __init__(self, harness: Harness, rate: int = RATE) -> None:
        self.clock = harness.clock
        self.quota = RateQuotaManager(QuotaKind.FETCH, paced=True)
        self.quota.set_bound("ANONYMOUS", None, rate)

    def throttle_ms(self, size: int) -> int:
        now_ms = self.clock.ms()
        throttle = self.quota.record("ANONYMOUS", None, size, now_ms)
        if throttle is None:
            return 0
        self.quota.unrecord("ANONYMOUS", None, size, now_ms)
        return throttle.throttle_ms

    def observed(self) -> float:
        sensor = self.quota.find("ANONYMOUS", None)
        assert sensor is not None
        return sensor.observed(self.clock.ms())


@pytest.fixture
async def shared(harness: Harness) -> Harness:
    await prepare(harness)
    return harness


@SESSIONS
@pytest.mark.parametrize("wait_ms", WAITS_MS)
async def test_a_fetch_is_recorded_when_it_is_answered_however_long_it_waited(
    shared: Harness, wait_ms: int, in_session: bool
) -> None:
    busy, idle = Consumer(shared, "busy"), Consumer(shared, "idle", in_session=in_session)
    if in_session:
        await idle.fetch()
    whole = whole_size(await busy.ask())
    shared.quotas.apply(SHARED, "consumer_byte_rate", RATE)
    true = TrueTime(shared)
    waiting = await idle.ask(max_wait_ms=60_000)
    assert waiting.outcome is None
    start_ms, next_ms, throttled = shared.clock.ms(), 0, 0
    # A fetch every 10 ms, except during throttles: three times the rule, then at its rate.
    while next_ms < wait_ms:
        shared.clock.now_ms = start_ms + next_ms
        throttle_ms, got = await busy.fetch()
        assert throttle_ms == true.throttle_ms(whole)
        assert (got == 0) is (throttle_ms > 0)
        throttled += throttle_ms > 0
        next_ms += throttle_ms or 10
    assert throttled
    shared.clock.now_ms = start_ms + wait_ms
    records = batch_of(b"i" * 100)
    await shared.put(produce_request(records, "idle"), PRODUCE_VERSION)
    throttle_ms, got = idle.answer(waiting)
    small = len(records) + 58 + len("idle") + 4
    assert throttle_ms == true.throttle_ms(small)
    assert got == (0 if throttle_ms else len(records))
    # The other consumer sees only what was used.
    assert observed(shared) == true.observed() > 0
    assert (await busy.fetch())[0] == true.throttle_ms(whole)


@SESSIONS
async def test_whoever_waited_is_not_held_for_the_time_of_its_wait(shared: Harness, in_session: bool) -> None:
    busy, idle = Consumer(shared, "busy"), Consumer(shared, "idle", in_session=in_session)
    if in_session:
        await idle.fetch()
    shared.quotas.apply(SHARED, "consumer_byte_rate", RATE)
    waiting = await idle.ask(max_wait_ms=60_000)
    got = [await busy.fetch() for _ in range(4)]
    # Four times 30 kB in ten windows are 12 kB/s: a throttle of two seconds, and the fourth is not sent.
    assert [throttle_ms // 100 for throttle_ms, _ in got] == [0, 0, 0, 20]
    # The sent bytes are repaid in a little over nine seconds.
    shared.clock.advance(9_100)
    await shared.put(produce_request(batch_of(b"i"), "idle"), PRODUCE_VERSION)
    throttle_ms, size = idle.answer(waiting)
    assert (throttle_ms, size > 0) == (0, True)


async def test_a_wait_of_eleven_seconds_erases_nothing(shared: Harness) -> None:
    busy, idle = Consumer(shared, "busy"), Consumer(shared, "idle")
    shared.quotas.apply(SHARED, "consumer_byte_rate", RATE)
    waiting = await idle.ask(max_wait_ms=60_000)
    shared.clock.advance(11_000)
    await busy.fetch()
    before = observed(shared)
    await shared.put(produce_request(batch_of(b"i"), "idle"), PRODUCE_VERSION)
    assert idle.answer(waiting)[1] > 0
    assert observed(shared) > before > 3_000


@pytest.mark.parametrize("wait_ms", WAITS_MS)
async def test_an_expired_fetch_is_recorded_when_it_expires(shared: Harness, wait_ms: int) -> None:
    idle = Consumer(shared, "idle")
    shared.quotas.apply(SHARED, "consumer_byte_rate", RATE)
    waiting = await idle.ask(max_wait_ms=wait_ms)
    shared.clock.advance(wait_ms)
    shared.fetches.complete_expired(shared.clock.ms())
    shared.deliver()
    assert idle.answer(waiting) == (0, 0)
    sensor = shared.quotas.fetch.find("ANONYMOUS", None)
    assert sensor is not None and sensor.last_record_ms == shared.clock.ms()


def replica_fetch(**changes: Any) -> FetchRequest:
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=1_000_000)
    message = FetchRequest(
        replica_id=2,
        max_wait_ms=60_000,
        min_bytes=1,
        max_bytes=1_000_000,
        session_epoch=-1,
        topics=[FetchTopic("idle", partitions=[partition])],
    )
    for name, value in changes.items():
        setattr(message, name, value)
    return message


async def test_a_replicas_fetch_that_waited_is_recorded_when_it_is_answered(shared: Harness) -> None:
    quota = shared.replication.leader
    quota.mark("idle")
    waiting = await shared.put(replica_fetch(), VERSION)
    assert waiting.outcome is None
    shared.clock.advance(30_000)
    quota.record(1_000, shared.clock.ms())
    before = quota.observed(shared.clock.ms())
    await shared.put(produce_request(batch_of(b"i" * 5_000), "idle"), PRODUCE_VERSION)
    assert waiting.outcome is not None and waiting.context.exempt
    assert quota.observed(shared.clock.ms()) > before + 5_000


@pytest.mark.parametrize("limited", [False, True])
async def test_answers_to_replicas_and_their_refusals_are_exempt(shared: Harness, limited: bool) -> None:
    if limited:
        shared.quotas.apply(SHARED, "request_percentage", 1)
    refused = await shared.put(replica_fetch(session_id=99, session_epoch=5), VERSION)
    assert refused.context.exempt
    assert shared.answer(refused).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    by_state = replica_fetch(replica_id=-1, replica_state=ReplicaState(2, -1), max_wait_ms=0)
    by_state.topics[0].topic = ""
    by_state.topics[0].topic_id = shared.control.image.topics["idle"].topic_id
    assert (await shared.put(by_state, 15)).context.exempt
    consumer = await Consumer(shared, "busy").ask()
    assert not consumer.context.exempt
    outcome = consumer.outcome
    assert isinstance(outcome, EncodedResponse)
    assert (outcome.withhold is not None) is limited

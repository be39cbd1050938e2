"""A fetch that waited, under the byte rate and the request quota: what it records, when, and what it gets.

Two consumers share one rule: `busy` fetches as often as it may, `idle` waits for its next record. What the
broker answers is compared with a quota manager that is told the same sizes at the true times.
"""

from typing import Any

import pytest

from broker.api.fetch_answer import size_of
from broker.api.fetch_pending import FetchAnswer
from broker.api.outcome import Answered, ExemptAnswered
from broker.api.waking import expire_fetches
from broker.errors import ErrorCode
from broker.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from broker.quotas.bandwidth import RateQuotaManager
from broker.quotas.entity import Entity
from broker.quotas.kinds import QuotaKind
from broker.quotas.verdict import Throttle
from tests.api.house import Asking, Connection, House
from tests.support.produce import PRODUCE_VERSION, batch_of, produce_request

VERSION = 11
SHARED = Entity(user="ANONYMOUS")
RATE = 10_000
WAITS_MS = [500, 9_000, 10_900, 11_000, 30_000]
SESSIONS = pytest.mark.parametrize("in_session", [False, True], ids=["alone", "in a session"])


class Consumer:
    """One partition of one topic, from offset 0 on; in a session after its first fetch, if it wants one."""

    def __init__(self, house: House, topic: str, *, in_session: bool = False) -> None:
        self.house = house
        self.topic = topic
        self.connection = Connection()
        self.in_session = in_session
        self._id, self._epoch = 0, 0 if in_session else -1
        self.offset = 0

    async def ask(self, *, max_wait_ms: int = 0) -> Asking:
        asked = FetchPartition(0, fetch_offset=self.offset, partition_max_bytes=1_000_000)
        named = [FetchTopic(self.topic, partitions=[asked])]
        message = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1_000_000,
            session_id=self._id,
            session_epoch=self._epoch,
            topics=named if self._epoch <= 0 else [],
        )
        return await self.house.put(message, VERSION, connection=self.connection, client_id=self.topic)

    def answer(self, asking: Asking) -> tuple[int, int]:
        """(throttle, bytes of records) of its answer."""
        answer = self.house.answer(asking)
        assert answer.error_code == 0
        if self.in_session:
            self._id, self._epoch = answer.session_id, self._epoch + 1 if answer.session_id else 0
        records = sum(len(each.records) for topic in answer.responses for each in topic.partitions)
        return answer.throttle_time_ms, records

    async def fetch(self) -> tuple[int, int]:
        return self.answer(await self.ask())


class TrueTime:
    """A fetch quota that is told every size at the time of its answer."""

    def __init__(self, house: House, rate: int = RATE) -> None:
        self.clock = house.clock
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


def observed(house: House) -> float:
    sensor = house.quotas.fetch.find("ANONYMOUS", None)
    assert sensor is not None
    return sensor.observed(house.clock.ms())


def whole_size(asking: Asking) -> int:
    assert isinstance(asking.outcome, Answered) and isinstance(asking.outcome.reply, FetchResponse)
    return size_of(asking.outcome.reply, VERSION)


@pytest.fixture
async def shared(house: House) -> House:
    await house.create_topic("busy")
    await house.create_topic("idle")
    await house.put(produce_request(batch_of(b"b" * 30_000), "busy"), PRODUCE_VERSION)
    return house


@SESSIONS
@pytest.mark.parametrize("wait_ms", WAITS_MS)
async def test_a_fetch_is_recorded_when_it_is_answered_however_long_it_waited(
    shared: House, wait_ms: int, in_session: bool
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
    # A fetch every 10 ms, but for the throttles: three times what the rule allows and then at its pace.
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
    # Nor does the neighbour see anything else than what was used.
    assert observed(shared) == true.observed() > 0
    assert (await busy.fetch())[0] == true.throttle_ms(whole)


@SESSIONS
async def test_whoever_waited_is_not_held_for_the_time_of_its_wait(shared: House, in_session: bool) -> None:
    busy, idle = Consumer(shared, "busy"), Consumer(shared, "idle", in_session=in_session)
    if in_session:
        await idle.fetch()
    shared.quotas.apply(SHARED, "consumer_byte_rate", RATE)
    waiting = await idle.ask(max_wait_ms=60_000)
    got = [await busy.fetch() for _ in range(4)]
    # Four times 30 kB in ten windows are 12 kB/s: two seconds, and nothing of the fourth is sent.
    assert [throttle_ms // 100 for throttle_ms, _ in got] == [0, 0, 0, 20]
    # What was sent is paid for in nine seconds and a little.
    shared.clock.advance(9_100)
    await shared.put(produce_request(batch_of(b"i"), "idle"), PRODUCE_VERSION)
    throttle_ms, size = idle.answer(waiting)
    assert (throttle_ms, size > 0) == (0, True)


async def test_a_wait_of_eleven_seconds_erases_nothing(shared: House) -> None:
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
async def test_an_expired_fetch_is_recorded_when_it_expires(shared: House, wait_ms: int) -> None:
    idle = Consumer(shared, "idle")
    shared.quotas.apply(SHARED, "consumer_byte_rate", RATE)
    waiting = await idle.ask(max_wait_ms=wait_ms)
    shared.clock.advance(wait_ms)
    expire_fetches(shared.broker, shared.clock.ms())
    shared.deliver()
    assert idle.answer(waiting) == (0, 0)
    sensor = shared.quotas.fetch.find("ANONYMOUS", None)
    assert sensor is not None and sensor.last_record_ms == shared.clock.ms()


def replica_fetch(**changes: Any) -> FetchRequest:
    asked = FetchPartition(0, fetch_offset=0, partition_max_bytes=1_000_000)
    message = FetchRequest(
        replica_id=2,
        max_wait_ms=60_000,
        min_bytes=1,
        max_bytes=1_000_000,
        session_epoch=-1,
        topics=[FetchTopic("idle", partitions=[asked])],
    )
    for name, value in changes.items():
        setattr(message, name, value)
    return message


async def test_a_replicas_fetch_that_waited_is_recorded_when_it_is_answered(shared: House) -> None:
    quota = shared.broker.replication.leader
    quota.mark("idle")
    waiting = await shared.put(replica_fetch(), VERSION)
    assert waiting.outcome is None
    shared.clock.advance(30_000)
    quota.record(1_000, shared.clock.ms())
    before = quota.observed(shared.clock.ms())
    await shared.put(produce_request(batch_of(b"i" * 5_000), "idle"), PRODUCE_VERSION)
    assert isinstance(waiting.outcome, ExemptAnswered)
    assert quota.observed(shared.clock.ms()) > before + 5_000


@pytest.mark.parametrize("limited", [False, True])
async def test_answers_to_replicas_and_their_refusals_are_exempt(shared: House, limited: bool) -> None:
    if limited:
        shared.quotas.apply(SHARED, "request_percentage", 1)
    refused = await shared.put(replica_fetch(session_id=99, session_epoch=5), VERSION)
    assert isinstance(refused.outcome, ExemptAnswered)
    assert shared.answer(refused).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    by_state = replica_fetch(replica_id=-1, replica_state=ReplicaState(2, -1), max_wait_ms=0)
    by_state.topics[0].topic = ""
    by_state.topics[0].topic_id = shared.control.image.topics["idle"].topic_id
    assert isinstance((await shared.put(by_state, 15)).outcome, ExemptAnswered)
    consumer = await Consumer(shared, "busy").ask()
    assert not isinstance(consumer.outcome, ExemptAnswered)
    assert isinstance(consumer.outcome, FetchAnswer) is limited


# The request quota


def over(house: House, ms: int = 300) -> Throttle:
    """The request quota's verdict on somebody who used that much of 2 %, which are 200 ms."""
    throttle = house.quotas.request.record_handled("ANONYMOUS", None, ms * 1_000_000, house.clock.ms())
    assert throttle is not None and throttle.kind is QuotaKind.REQUEST
    return throttle


def withheld(house: House, asking: Asking, throttle: Throttle) -> Answered:
    """What `RequestTime.charge` makes of the outcome."""
    assert isinstance(asking.outcome, Answered)
    asking.outcome.throttle = throttle
    asking.outcome = outcome = asking.outcome.withheld(throttle)
    outcome.reply.throttle_time_ms = throttle.throttle_ms  # type: ignore[attr-defined]
    return outcome


def in_session(session_id: int, epoch: int, *topics: str) -> FetchRequest:
    asked = [FetchPartition(0, fetch_offset=0, partition_max_bytes=1_000_000)]
    named = [FetchTopic(topic, partitions=asked) for topic in topics]
    return FetchRequest(
        min_bytes=1, max_bytes=1_000_000, session_id=session_id, session_epoch=epoch, topics=named
    )


def told(answer: FetchResponse) -> list[str]:
    return [topic.topic for topic in answer.responses]


def bytes_out(house: House) -> int:
    log = house.partitions.log("busy", 0)
    assert log is not None
    return log.traffic.bytes_out


@SESSIONS
@pytest.mark.parametrize("byte_rate", [None, 1_000_000])
async def test_over_the_request_quota_the_records_are_held_back(
    shared: House, in_session: bool, byte_rate: int | None
) -> None:
    shared.quotas.apply(SHARED, "request_percentage", 2)
    shared.quotas.apply(SHARED, "consumer_byte_rate", byte_rate)
    busy = Consumer(shared, "busy", in_session=in_session)
    asking = await busy.ask()
    sent = bytes_out(shared)
    assert sent > 30_000
    outcome = withheld(shared, asking, over(shared))
    assert outcome.throttle is not None and outcome.throttle.throttle_ms == 1_000
    assert busy.answer(asking) == (1_000, 0)
    assert bytes_out(shared) == 0, "what was not sent is not counted"
    sensor = shared.quotas.fetch.find("ANONYMOUS", None)
    assert (sensor.observed(shared.clock.ms()) if sensor else 0) == 0, "nor recorded"
    assert len(shared.broker.sessions) == 0, "nor does a session begin"
    # Afterwards everything is there.
    assert (await busy.fetch())[1] > 30_000
    assert bytes_out(shared) == sent


async def test_a_session_hears_later_of_what_was_held_back(shared: House) -> None:
    shared.quotas.apply(SHARED, "request_percentage", 2)
    idle = Consumer(shared, "idle", in_session=True)
    await idle.fetch()
    assert await idle.fetch() == (0, 0)
    await shared.put(produce_request(batch_of(b"new"), "idle"), PRODUCE_VERSION)
    asking = await idle.ask()
    withheld(shared, asking, over(shared))
    assert idle.answer(asking) == (1_000, 0)
    assert len(shared.broker.sessions) == 1
    assert (await idle.fetch())[1] > 0


async def test_a_session_hears_later_of_a_partition_without_records_too(shared: House) -> None:
    shared.quotas.apply(SHARED, "request_percentage", 2)
    begun = await shared.ask(in_session(0, 0, "idle"), VERSION)
    assert told(begun) == ["idle"]
    await shared.create_topic("later")
    asking = await shared.put(in_session(begun.session_id, 1, "later"), VERSION)
    withheld(shared, asking, over(shared))
    assert told(shared.answer(asking)) == []
    assert told(await shared.ask(in_session(begun.session_id, 2), VERSION)) == ["later"]
    assert told(await shared.ask(in_session(begun.session_id, 3), VERSION)) == []


async def test_a_fetch_that_the_byte_rate_emptied_is_not_emptied_again(shared: House) -> None:
    shared.quotas.apply(SHARED, "request_percentage", 2)
    shared.quotas.apply(SHARED, "consumer_byte_rate", RATE)
    busy = Consumer(shared, "busy")
    before = [await busy.fetch() for _ in range(3)]
    assert all(got for _, got in before)
    used, sent = observed(shared), bytes_out(shared)
    asking = await busy.ask()
    assert isinstance(asking.outcome, Answered) and asking.outcome.throttle is not None
    assert asking.outcome.throttle.kind is QuotaKind.FETCH
    reply = asking.outcome.reply
    assert withheld(shared, asking, over(shared)).reply is reply
    assert (observed(shared), bytes_out(shared)) == (used, sent)


async def test_what_waited_and_is_held_back_is_taken_back_at_the_time_it_was_recorded(shared: House) -> None:
    shared.quotas.apply(SHARED, "request_percentage", 2)
    shared.quotas.apply(SHARED, "consumer_byte_rate", RATE)
    busy, idle = Consumer(shared, "busy"), Consumer(shared, "idle")
    waiting = await idle.ask(max_wait_ms=60_000)
    shared.clock.advance(30_000)
    await busy.fetch()
    used = observed(shared)
    await shared.put(produce_request(batch_of(b"i" * 5_000), "idle"), PRODUCE_VERSION)
    assert observed(shared) > used + 500
    # Its answer is concluded in a later turn, and a window later.
    shared.clock.advance(1_000)
    withheld(shared, waiting, over(shared))
    assert idle.answer(waiting) == (1_000, 0)
    for _ in range(9):
        assert round(observed(shared) * 10_000) == round(used * 10_000)
        shared.clock.advance(1_000)
    shared.clock.advance(1_000)
    assert observed(shared) == 0, "the window in which it was taken back is not below zero"


async def test_other_answers_are_sent_whatever_the_request_quota_says(shared: House) -> None:
    shared.quotas.apply(SHARED, "request_percentage", 2)
    asking = await shared.put(produce_request(batch_of(b"i"), "idle"), PRODUCE_VERSION)
    outcome = asking.outcome
    assert withheld(shared, asking, over(shared)) is outcome


@SESSIONS
async def test_v85_a_consumer_gets_records_once_in_the_time_that_the_request_quota_looks_back(
    shared: House, in_session: bool
) -> None:
    """Every fetch breaks the quota, and a throttle is one second at most."""
    shared.quotas.apply(SHARED, "request_percentage", 2)
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


async def test_a_fetch_that_found_nothing_is_no_sign_of_starving(shared: House) -> None:
    shared.quotas.apply(SHARED, "request_percentage", 2)
    idle = Consumer(shared, "idle")
    for _ in range(13):
        withheld(shared, await idle.ask(), over(shared))
        shared.clock.advance(1_000)
    assert idle.connection.withheld_since_ms == 0
    await shared.put(produce_request(batch_of(b"i"), "idle"), PRODUCE_VERSION)
    asking = await idle.ask()
    withheld(shared, asking, over(shared))
    assert idle.answer(asking) == (1_000, 0)


async def test_records_that_went_out_end_what_counts_as_starving(shared: House) -> None:
    shared.quotas.apply(SHARED, "request_percentage", 2)
    busy = Consumer(shared, "busy")
    withheld(shared, await busy.ask(), over(shared))
    shared.clock.advance(10_000)
    assert (await busy.fetch())[1] > 0
    shared.clock.advance(2_000)
    asking = await busy.ask()
    withheld(shared, asking, over(shared))
    assert busy.answer(asking) == (1_000, 0)

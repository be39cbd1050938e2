"""Two consumers under one rule, message by message: `busy` has records, `idle` waits for its next one."""

import pytest

from broker.api.fetch.pending import size_of
from broker.api.requests.outcome import EncodedResponse, Response
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from broker.quotas.entity import Entity
from tests.api.harness import Asking, Connection, Harness
from tests.support.produce import PRODUCE_VERSION, batch_of, produce_request

VERSION = 11
SHARED = Entity(user="ANONYMOUS")
RATE = 10_000
SESSIONS = pytest.mark.parametrize("in_session", [False, True], ids=["alone", "in a session"])


class Consumer:
    """Fetches one partition of one topic from offset 0; `in_session` starts with its first response."""

    def __init__(self, harness: Harness, topic: str, *, in_session: bool = False) -> None:
        self.harness = harness
        self.topic = topic
        self.connection = Connection()
        self.in_session = in_session
        self._id, self._epoch = 0, 0 if in_session else -1
        self.offset = 0

    async def ask(self, *, max_wait_ms: int = 0) -> Asking:
        partition = FetchPartition(0, fetch_offset=self.offset, partition_max_bytes=1_000_000)
        named = [FetchTopic(self.topic, partitions=[partition])]
        message = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1_000_000,
            session_id=self._id,
            session_epoch=self._epoch,
            topics=named if self._epoch <= 0 else [],
        )
        return await self.harness.put(message, VERSION, connection=self.connection, client_id=self.topic)

    def answer(self, asking: Asking) -> tuple[int, int]:
        """Return (throttle, bytes of records) of the response."""
        answer = self.harness.answer(asking)
        assert answer.error_code == 0
        if self.in_session:
            self._id, self._epoch = answer.session_id, self._epoch + 1 if answer.session_id else 0
        records = sum(len(each.records) for topic in answer.responses for each in topic.partitions)
        return answer.throttle_time_ms, records

    async def fetch(self) -> tuple[int, int]:
        return self.answer(await self.ask())


def observed(harness: Harness) -> float:
    sensor = harness.quotas.fetch.find("ANONYMOUS", None)
    assert sensor is not None
    return sensor.observed(harness.clock.ms())


def whole_size(asking: Asking) -> int:
    if isinstance(asking.outcome, EncodedResponse):
        return sum(map(len, asking.outcome.frame))
    assert isinstance(asking.outcome, Response) and isinstance(asking.outcome.reply, FetchResponse)
    return size_of(asking.outcome.reply, VERSION)


async def prepare(harness: Harness) -> None:
    """Create both topics; `busy` has one batch of 30 kB."""
    await harness.create_topic("busy")
    await harness.create_topic("idle")
    await harness.put(produce_request(batch_of(b"b" * 30_000), "busy"), PRODUCE_VERSION)

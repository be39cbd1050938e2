"""Random histories of members that wait: none waits on while there is a record that it can acquire.

Members wait for longer than the history lasts, so that only an append, an acknowledgement, a release, the end
of a lock, a dead letter or a disconnection can wake them.
"""

import random
from pathlib import Path
from typing import Any

import pytest

from broker.protocol.messages.share_fetch import FetchPartition, FetchTopic
from tests.api.harness import Asking, Harness
from tests.coordinator.share.conftest import start
from tests.coordinator.share.consumers import Member
from tests.coordinator.share.letters import add_queue, configure
from tests.coordinator.share.members import ACCEPT, GAP, REJECT, RELEASE

LOCK_MS = 15_000
FOREVER_MS = 2**31 - 1

OVERRIDES = (
    "group.share.delivery.count.limit=3",
    "group.share.partition.max.record.locks=100",
    f"group.share.record.lock.duration.ms={LOCK_MS}",
)

Held = list[tuple[int, int, int]]
"""The partition and offsets of ranges."""


class Waiter:
    """A member of both partitions, which has at most one fetch at a time."""

    def __init__(self, harness: Harness, number: int) -> None:
        self.member = Member(harness, f"member-{number}")
        self.waiting: Asking | None = None
        self.held: Held = []

    @property
    def waits(self) -> bool:
        return self.waiting is not None and self.waiting.outcome is None


class History:
    def __init__(self, harness: Harness, chance: random.Random) -> None:
        self.harness, self.chance = harness, chance
        self.made = 0
        self.waiters = [self.new() for _ in range(4)]

    def new(self) -> Waiter:
        self.made += 1
        return Waiter(self.harness, self.made)

    async def step(self) -> None:
        waiter = self.chance.choice(self.waiters)
        kind = self.chance.randrange(12)
        if kind == 0:
            self.append()
        elif kind <= 5 and not waiter.waits:
            await self.fetch(waiter)
        elif kind <= 9:
            await self.acknowledge(waiter)
        elif kind == 10:
            self.harness.advance(self.chance.choice([1, LOCK_MS // 2, LOCK_MS]))
        elif self.chance.random() < 0.3:
            self.leave(waiter)
        await self.harness.share.dead_letters.write_due()
        self.harness.advance(0)

    def append(self) -> None:
        partition = self.chance.randrange(2)
        self.harness.append("orders", *range(self.chance.choice([1, 5, 60])), partition=partition)
        self.harness.fetches.complete(self.harness.partitions.log("orders", partition))
        self.harness.deliver()

    async def fetch(self, waiter: Waiter) -> None:
        partition = self.chance.randrange(2)
        acks: list[Any] = []
        here = [each for each in waiter.held if each[0] == partition]
        if here and waiter.member.epoch and self.chance.random() < 0.5:
            acks = [(first, last, [self.kind()]) for _, first, last in sorted(here)]
            waiter.held = [each for each in waiter.held if each[0] != partition]
        member = waiter.member
        request = member.fetch_request(
            *acks,
            partition=partition,
            wait_ms=FOREVER_MS,
            records=self.chance.choice([1, 10, 500]),
            acquire_mode=self.chance.randrange(2),
        )
        if member.epoch == 0:
            request.topics = [FetchTopic(member.topic_id, [FetchPartition(0), FetchPartition(1)])]
        waiter.waiting = await self.harness.put(request, connection=member.connection)
        member.epoch += 1

    def kind(self) -> int:
        return self.chance.choice([RELEASE, RELEASE, RELEASE, ACCEPT, REJECT, GAP])

    async def acknowledge(self, waiter: Waiter) -> None:
        if not waiter.held or waiter.waits:
            return
        partition, first, last = waiter.held.pop(self.chance.randrange(len(waiter.held)))
        middle = self.chance.randint(first, last)
        if middle < last:
            waiter.held.append((partition, middle + 1, last))
        await waiter.member.acknowledge((first, middle, [self.kind()]), partition=partition)

    def leave(self, waiter: Waiter) -> None:
        connection: Any = waiter.member.connection
        connection.closed = True
        if waiter.waits:
            connection.waiting.settle(type(connection.waiting.outcome).CANCELLED)
        self.harness.share.disconnected(connection.id)
        self.harness.advance(0)
        self.waiters[self.waiters.index(waiter)] = self.new()

    def collect(self) -> None:
        """Note what answered members have acquired."""
        for waiter in self.waiters:
            if waiter.waiting is None or waiter.waits:
                continue
            reply = self.harness.answer(waiter.waiting)
            assert reply.error_code == 0
            waiter.waiting = None
            for topic in reply.responses:
                for each in topic.partitions:
                    waiter.held += [
                        (each.partition_index, some.first_offset, some.last_offset)
                        for some in each.acquired_records
                    ]

    def check(self) -> None:
        """No member waits for what is available."""
        for waiter in self.waiters:
            if waiter.waits:
                pending: Any = waiter.member.connection.waiting
                for wanted in pending.pending.wanted:
                    share, log = wanted.share, wanted.log
                    offset = share.next_fetch_offset()
                    assert not share.is_fenced
                    assert not share.can_acquire() or offset >= log.high_watermark, (
                        f"{waiter.member.name} waits, but {offset} of {wanted.key.partition} is available"
                    )


@pytest.mark.rotates
@pytest.mark.parametrize("seed", range(8))
async def test_no_member_waits_for_what_is_available(tmp_path: Path, seed: int) -> None:
    harness = await start(tmp_path, *OVERRIDES)
    if seed % 2:
        await add_queue(harness)
        await configure(harness)
    history = History(harness, random.Random(seed))
    for _ in range(120):
        await history.step()
        history.collect()
        history.check()
    harness.close()

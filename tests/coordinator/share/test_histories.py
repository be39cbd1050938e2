"""Random histories of a share group, compared with a model; with kills before and after every record.

The model knows what each member was told: what it holds, which delivery that is, and what was stored. It
checks that no acknowledged record is delivered again, that no record has two holders, that each delivery
count is the one that the history allows, and that every record is delivered in the end.
"""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.common.errors import ErrorCode
from tests.coordinator.share.conftest import start
from tests.coordinator.share.consumers import Ack, Member, acquired_in, offsets_in
from tests.coordinator.share.letters import QUEUE, add_queue, configure, header_of, letters
from tests.coordinator.share.members import ACCEPT, GAP, REJECT, RELEASE

LIMIT = 3
"""Deliveries of a record."""

LOCK_MS = 15_000

OVERRIDES = (
    f"group.share.delivery.count.limit={LIMIT}",
    "group.share.partition.max.record.locks=100",
    f"group.share.record.lock.duration.ms={LOCK_MS}",
    "share.coordinator.snapshot.update.records.per.snapshot=3",
)


class Model:
    """What the members know. `counts` are the stored deliveries of each record that is not done."""

    def __init__(self) -> None:
        self.end = 0
        self.done: set[int] = set()
        self.counts: dict[int, int] = {}
        self.holders: dict[int, str] = {}
        self.until: dict[int, int] = {}
        self.current: dict[int, int] = {}
        """Deliveries of a record, as this start of the broker counts them."""
        self.dead: dict[int, int] = {}
        """Records that were rejected, or delivered too often, and how often they were delivered."""

    def acquired(self, member: str, ranges: list[tuple[int, int, int]], now_ms: int) -> None:
        for first, last, count in ranges:
            for offset in range(first, last + 1):
                assert offset < self.end and offset not in self.done, f"{offset} is delivered again"
                assert offset not in self.holders, f"{offset} has two holders"
                assert count == self.current.get(offset, 0) + 1, f"delivery {count} of {offset}"
                self.current[offset] = count
                self.holders[offset] = member
                self.until[offset] = now_ms + LOCK_MS

    def acknowledged(self, member: str, offset: int, kind: int) -> None:
        assert self.holders.pop(offset) == member
        self.until.pop(offset)
        if kind == RELEASE and self.current[offset] < LIMIT:
            self.counts[offset] = self.current[offset]
        else:
            self.done.add(offset)
            if kind in (RELEASE, REJECT):
                self.dead[offset] = self.current[offset]

    def gave_back(self, member: str) -> None:
        for offset in [each for each, holder in self.holders.items() if holder == member]:
            self.acknowledged(member, offset, RELEASE)

    def passed(self, now_ms: int) -> None:
        for offset in [each for each, until in self.until.items() if until <= now_ms]:
            self.acknowledged(self.holders[offset], offset, RELEASE)

    def killed(self) -> None:
        """Only what was stored counts."""
        self.holders.clear()
        self.until.clear()
        self.current = dict(self.counts)

    def held_by(self, member: str) -> list[int]:
        return sorted(offset for offset, holder in self.holders.items() if holder == member)


class History:
    """A broker and its members, driven at random."""

    def __init__(self, directory: Path, seed: int, *, dead_letters: bool = False) -> None:
        self.directory = directory
        self.dead_letters = dead_letters
        self.random = random.Random(seed)
        self.model = Model()
        self.members: dict[str, Member] = {}

    async def begin(self) -> None:
        self.harness = await start(self.directory, *OVERRIDES)
        self.members = {}
        if self.dead_letters and QUEUE not in self.harness.partitions.by_name:
            await add_queue(self.harness)
            await configure(self.harness)

    def member(self) -> Member:
        name = self.random.choice("abc")
        if name not in self.members:
            self.members[name] = Member(self.harness, name)
        return self.members[name]

    async def step(self) -> None:
        steps = [self.append, self.fetch, self.fetch, self.acknowledge, self.acknowledge, self.wait]
        await self.random.choice([*steps, self.leave, self.lie])()
        if self.dead_letters and self.random.random() < 0.5:
            await self.harness.share.dead_letters.write_due()

    async def append(self) -> None:
        count = self.random.randint(1, 12)
        self.harness.append("orders", *range(count))
        self.model.end += count

    async def fetch(self) -> None:
        member = self.member()
        acks = self.some_acks(member) if member.epoch and self.random.random() < 0.5 else []
        reply = await member.fetch(
            *acks, records=self.random.randint(1, 20), batch_size=self.random.randint(1, 9)
        )
        self.apply(member, acks)
        self.took(member, reply)

    def took(self, member: Member, reply: Any) -> None:
        ranges = acquired_in(reply)
        self.model.acquired(member.name, ranges, self.harness.clock.ms())
        offsets = set(offsets_in(reply))
        assert all(each in offsets for first, last, _ in ranges for each in range(first, last + 1))

    async def acknowledge(self) -> None:
        member = self.member()
        if member.epoch == 0:
            return
        acks = self.some_acks(member)
        if acks:
            assert await member.acknowledged(*acks) == 0
            self.apply(member, acks)

    def some_acks(self, member: Member) -> list[Ack]:
        """Acknowledge some of what the member holds, in ranges of one type or of several."""
        held = [each for each in self.model.held_by(member.name) if self.random.random() < 0.7]
        acks: list[Ack] = []
        for first, last in _ranges(held):
            kinds = [
                self.random.choice((ACCEPT, ACCEPT, RELEASE, REJECT, GAP)) for _ in range(first, last + 1)
            ]
            acks.append((first, last, kinds if self.random.random() < 0.5 else kinds[:1]))
        return acks

    def apply(self, member: Member, acks: list[Ack]) -> None:
        for first, last, kinds in acks:
            for offset in range(first, last + 1):
                kind = kinds[offset - first] if len(kinds) > 1 else kinds[0]
                self.model.acknowledged(member.name, offset, kind)

    async def wait(self) -> None:
        ms = self.random.choice((1, 1_000, LOCK_MS // 2, LOCK_MS))
        self.harness.advance(ms)
        self.model.passed(self.harness.clock.ms())

    async def leave(self) -> None:
        member = self.member()
        if member.epoch:
            how = self.random.random()
            if how < 0.5:
                await member.close()
            else:
                self.harness.share.disconnected(member.connection.id)
                self.harness.advance(0)
            self.model.gave_back(member.name)
            del self.members[member.name]

    async def lie(self) -> None:
        """Acknowledge what the member does not hold: nothing changes."""
        member = self.member()
        others = [each for each in range(self.model.end + 3) if self.model.holders.get(each) != member.name]
        if member.epoch and others:
            offset = self.random.choice(others)
            code = await member.acknowledged((offset, offset, [ACCEPT]))
            assert code in (
                ErrorCode.NONE if offset in self.model.done else ErrorCode.INVALID_RECORD_STATE,
                ErrorCode.INVALID_RECORD_STATE,
                ErrorCode.INVALID_REQUEST,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )

    async def kill(self) -> None:
        """Start again from a copy of the files as they are now."""
        copy = self.directory.with_name(f"{self.directory.name}k")
        shutil.copytree(self.directory, copy)
        self.harness.close()
        self.directory = copy
        await self.begin()
        self.model.killed()

    async def drain(self) -> None:
        """Accept everything; each record is done in the end."""
        member = self.members[next(iter(self.members))] if self.members else self.member()
        self.harness.advance(LOCK_MS)
        self.model.passed(self.harness.clock.ms())
        for _ in range(1_000):
            reply = await member.fetch()
            self.took(member, reply)
            held = self.model.held_by(member.name)
            if not held and not acquired_in(reply):
                break
            acks: list[Ack] = [(first, last, [ACCEPT]) for first, last in _ranges(held)]
            assert await member.acknowledged(*acks) == 0
            self.apply(member, acks)
        assert self.model.done == set(range(self.model.end))
        if self.dead_letters:
            await self.harness.share.dead_letters.write_due()
            assert self.harness.share.dead_letters.next_deadline() is None
            self.check_letters()
        self.harness.close()

    def check_letters(self) -> None:
        """Each record that is dead has its dead letter; a kill may have repeated some."""
        found = {
            int(header_of(each, "offset")): int(header_of(each, "delivery.count"))
            for each in letters(self.harness)
        }
        assert found == self.model.dead


def _ranges(offsets: list[int]) -> Iterator[tuple[int, int]]:
    first = last = -2
    for each in offsets:
        if each != last + 1:
            if last >= 0:
                yield first, last
            first = each
        last = each
    if last >= 0:
        yield first, last


@pytest.mark.rotates
@pytest.mark.parametrize("seed", range(20))
async def test_random_histories(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path / "log", seed)
    await history.begin()
    for _ in range(150):
        await history.step()
    await history.drain()


@pytest.mark.rotates
@pytest.mark.parametrize("seed", range(10))
async def test_random_histories_with_kills(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path / "log", seed)
    await history.begin()
    for number in range(120):
        await history.step()
        if number % 20 == 19:
            await history.kill()
    await history.drain()


@pytest.mark.rotates
@pytest.mark.parametrize("seed", range(10))
async def test_random_histories_with_dead_letters(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path / "log", seed, dead_letters=True)
    await history.begin()
    for _ in range(150):
        await history.step()
    await history.drain()
    assert history.model.dead


@pytest.mark.rotates
@pytest.mark.parametrize("seed", range(10))
async def test_random_histories_with_dead_letters_and_kills(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path / "log", seed, dead_letters=True)
    await history.begin()
    for number in range(120):
        await history.step()
        if number % 20 == 19:
            await history.kill()
    await history.drain()
    assert history.model.dead

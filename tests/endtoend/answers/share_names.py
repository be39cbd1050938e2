"""The partitions that ShareFetch responses name, with the records of each, its error or neither."""

import uuid
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any, Final

import trio

from tests.endtoend.answers.configs import GROUP, SET, incremental
from tests.endtoend.answers.records import batch, produce
from tests.endtoend.answers.sessions import ACCEPT, EARLIEST, MEMBER, OTHER, rows, share, share_heartbeat
from tests.endtoend.answers.topics import create, grow
from tests.support.kafka_answers import LOOK_EVERY_S, Side, topic_id

READY_WITHIN_S: Final = 120

ALL: Final = 200
"""Records, more than LOCKS."""

LOCKS: Final = ("share.partition.max.record.locks", SET, "100")
"""The fewest that Kafka allows."""

Named = list[tuple[int, int, int]]
"""Partitions with the number of acquired records and the error."""

Walk = Callable[[Side], "AsyncGenerator[Named]"]
"""Requests of share sessions, with what each response names."""


class Sharing:
    """A group of its own at a topic of its own, with two members."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.other = Side(side.port)
        self.topic = f"names-{uuid.uuid4().hex}"
        self.group = f"names-{uuid.uuid4().hex}"
        self.member_epoch = 0
        self.assigned = 0

    async def start(self) -> None:
        await self.side.ask("CreateTopics", create(self.topic, 2), 6)
        await self.side.ask("IncrementalAlterConfigs", incremental(GROUP, self.group, EARLIEST, LOCKS), 1)
        await self.wait_for_partitions(2)

    async def wait_for_partitions(self, count: int) -> None:
        """Wait until the group has the partitions, and until their states are loaded."""
        named: Named = []
        with trio.fail_after(READY_WITHIN_S):
            while self.topic not in self.side.topic_ids:
                await self.side.learn_topic_ids()
            self.other.topic_ids = self.side.topic_ids
            while await self._assigned() < count:  # noqa: ASYNC110 - nothing announces it
                await trio.sleep(LOOK_EVERY_S)
            while len(named) < count or any(error for _, _, error in named):
                await trio.sleep(LOOK_EVERY_S)
                named = await self.fetch(0, range(count), side=self.other)

    async def _assigned(self) -> int:
        joins = {"subscribed_topic_names": [self.topic], "member_epoch": self.member_epoch}
        asked = share_heartbeat(MEMBER, 0, **joins) | {"group_id": self.group}
        answer = await self.side.ask("ShareGroupHeartbeat", asked, 1)
        if answer["error_code"]:
            return 0
        self.member_epoch = answer["member_epoch"]
        if answer["assignment"]:
            topics = answer["assignment"]["topic_partitions"]
            self.assigned = sum(len(each["partitions"]) for each in topics)
        return self.assigned

    async def fetch(
        self,
        epoch: int,
        partitions: Iterable[int] = (),
        *,
        side: Side | None = None,
        wait_ms: int = 0,
        accepted: dict[int, int] | None = None,
        forgotten: Iterable[int] = (),
    ) -> Named:
        """Fetch, and accept as many records of partitions. Return what the response names, in order."""
        acks = {index: [(0, count - 1, [ACCEPT])] for index, count in (accepted or {}).items()}
        asked = share(
            epoch,
            *(rows(index, *acks.get(index, ())) for index in {*partitions, *acks}),
            member=OTHER if side is self.other else MEMBER,
            topic=topic_id(self.topic),
            group_id=self.group,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_records=ALL,
            batch_size=ALL,
            forgotten_topics_data=[{"topic_id": topic_id(self.topic), "partitions": list(forgotten)}],
        )
        answer = await (side or self.side).ask("ShareFetch", asked, 2)
        return sorted(
            (
                each["partition_index"],
                sum(found["last_offset"] - found["first_offset"] + 1 for found in each["acquired_records"]),
                each["error_code"],
            )
            for topic in answer["responses"]
            for each in topic["partitions"]
        )

    async def produce(self, index: int, count: int = 1) -> None:
        answer: Any = await Side(self.side.port).ask("Produce", produce(batch(count), self.topic, index), 9)
        assert not answer["responses"][0]["partition_responses"][0]["error_code"], answer

    async def fetch_while_produced(self, epoch: int, index: int) -> Named:
        """Fetch with a wait that a record ends."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.produce, index)
            return await self.fetch(epoch, wait_ms=10_000)


async def first_and_later(side: Side) -> AsyncGenerator[Named]:
    """The first response names partitions without records, later ones do not."""
    sharing = Sharing(side)
    await sharing.start()
    yield await sharing.fetch(0, (0, 1))
    yield await sharing.fetch(1)
    yield await sharing.fetch_while_produced(2, 1)
    yield await sharing.fetch(3, accepted={1: 1})
    yield await sharing.fetch(4)
    yield await sharing.fetch(0, (0, 1))


async def new_partitions(side: Side) -> AsyncGenerator[Named]:
    """A partition that is new in the session is named once."""
    sharing = Sharing(side)
    await sharing.start()
    yield await sharing.fetch(0, (0,))
    yield await sharing.fetch(1, (0, 1))
    yield await sharing.fetch(2)
    yield await sharing.fetch(3, forgotten=(0,))
    await sharing.produce(1)
    yield await sharing.fetch(4, (0,))
    yield await sharing.fetch(5)


async def errors(side: Side) -> AsyncGenerator[Named]:
    """A partition with an error is named until a response without it."""
    sharing = Sharing(side)
    await sharing.start()
    yield await sharing.fetch(0, (0, 2))
    yield await sharing.fetch(1)
    await side.ask("CreatePartitions", grow(sharing.topic, 3), 3)
    await sharing.wait_for_partitions(3)
    yield await sharing.fetch(2)
    yield await sharing.fetch(3)


async def no_lock_is_left(side: Side) -> AsyncGenerator[Named]:
    """No response names a partition whose records in flight are as many as they may be."""
    sharing = Sharing(side)
    await sharing.start()
    await sharing.produce(0, ALL)
    yield await sharing.fetch(0, (0, 1), side=sharing.other)
    yield await sharing.fetch(0, (0, 1))
    yield await sharing.fetch(1, (0,))
    yield await sharing.fetch(1, side=sharing.other, accepted={0: ALL})
    yield await sharing.fetch(0, (0, 1))


WALKS: Final = (first_and_later, new_partitions, errors, no_lock_is_left)


async def walked(walk: Walk, port: int) -> list[Named]:
    return [named async for named in walk(Side(port))]

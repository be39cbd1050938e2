"""Streams groups whose members do at random what members do, rightly and wrongly."""

import random
from collections.abc import Callable, Iterator
from typing import Any, Final

from tests.endtoend.answers.streams_groups import (
    BOTH,
    LINES,
    configure,
    count,
    deleted,
    described,
    epoch_of,
    exists,
    joins,
    leaves,
    made,
)
from tests.support.kafka_answers import Body, Case, Side

MEMBERS: Final = "abcdef"
PROCESSES: Final = ("one", "two", "three")
STEPS: Final = 60
WALKS: Final = range(9)
KINDS: Final = ("active_tasks", "standby_tasks", "warmup_tasks")


class Walk:
    """One group, whose topics are there, with two subtopologies of three tasks each, and a store."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.group = f"walk-{seed}"
        self.standbys = seed % 3
        self._static = {name for name in MEMBERS if self._random.random() < 0.25}
        self._in: set[str] = set()
        # A client keeps its process. To a member in another process than before Kafka gives a task at once
        # that it still has to give up in the old one, and Weir when that is done.
        self._process = {name: self._random.choice(PROCESSES) for name in (*MEMBERS, "z")}

    @property
    def topics(self) -> tuple[str, ...]:
        return (f"{self.group}-by-word-repartition", f"{self.group}-words-changelog")

    def cases(self) -> Iterator[Case]:
        yield configure(self.group, num_standby_replicas=str(self.standbys))
        yield self._join("a")
        # Kafka forgets what it computed beside the records when this heartbeat made the group, and describes
        # what it computes anew after the next record.
        yield self._join("z")
        yield self._beat(leaves(self.group, "z"))
        self._in.remove("z")
        for _ in range(STEPS):
            yield self._step()
        for member in sorted(self._in):
            yield self._beat(leaves(self.group, member))
        yield described(self.group)
        yield deleted(self.group)

    def _step(self) -> Case:
        member = self._random.choice(MEMBERS)
        chance = self._random.random()
        if chance < 0.15:
            return described(self.group)
        if member not in self._in:
            if chance < 0.3:
                return self._beat(self._plain(member))
            return self._join(member)
        if chance < 0.25:
            return self._join(member)
        if chance < 0.32:
            self._in.remove(member)
            away = -2 if member in self._static and self._random.random() < 0.5 else -1
            return self._beat(leaves(self.group, member, **self._instance(member)) | {"member_epoch": away})
        if chance < 0.4:
            return self._beat(self._plain(member, self._random.choice((-2, -1, 1))))
        if chance < 0.55:
            return self._beat(self._plain(member))
        return self._beat(self._plain(member) | {kind: self._told(member, kind) for kind in KINDS})

    def _join(self, member: str) -> Case:
        self._in.add(member)
        more = {"process_id": self._process[member], **self._instance(member)}
        return self._beat(joins(self.group, member, count(self.group), **more))

    def _plain(self, member: str, plus: int = 0) -> Body:
        epoch = epoch_of(self.group, member, plus)
        return {"group_id": self.group, "member_id": member, "member_epoch": epoch}

    def _instance(self, member: str) -> dict[str, Any]:
        return {"instance_id": f"instance-{member}"} if member in self._static else {}

    def _told(self, member: str, kind: str) -> Callable[[Side], Any]:
        """The tasks that the member was last told to have."""
        return lambda side: side.kept.get(f"{self.group} {member} {kind}", [])

    def _beat(self, body: Body) -> Case:
        """Keep the epoch and the tasks of the answer, unless the member leaves."""
        member = f"{body['group_id']} {body['member_id']}"
        names = {"member_epoch": member} | {kind: f"{member} {kind}" for kind in KINDS}
        version = self._random.choice(BOTH)
        away = body["member_epoch"] in (-1, -2)
        return Case("StreamsGroupHeartbeat", body, (version,), names={} if away else names)


_WALKS: Final = tuple(map(Walk, WALKS))

CASES: Final = (
    *(made(topic, 3) for walk in _WALKS for topic in walk.topics),
    exists(LINES, *(topic for walk in _WALKS for topic in walk.topics)),
    *(case for walk in _WALKS for case in walk.cases()),
)
"""The same steps at both brokers, whose answers are compared; needs the topics of streams_groups."""

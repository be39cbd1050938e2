"""The task that creates internal topics of Streams applications goes on after an unexpected exception."""

from typing import Any

import trio
from trio.testing import wait_all_tasks_blocked

from broker.common.slices import run_through
from broker.controller.commands import BROKER_ITSELF, free
from broker.coordinator.group.streams.topology import TopicInfo
from broker.network.failures import FailedStep, Failures
from broker.server.parts.streams_topics import StreamsTopicCreation
from tests.support.clock import ManualClock


class FakeControl:
    def __init__(self) -> None:
        self.asked: list[str] = []

    async def apply(self, command: Any, _actor: Any) -> list[Any]:
        self.asked += [topic.name for topic in command.topics]
        await trio.lowlevel.checkpoint()
        if len(self.asked) == 1:
            raise RuntimeError("unexpected")
        return []


async def test_the_task_reports_an_exception_and_creates_what_is_asked_for_next():
    control, failures = FakeControl(), Failures()
    creation = StreamsTopicCreation(control, failures, ManualClock())  # type: ignore[arg-type]

    async def ask_for(name: str) -> None:
        run_through(creation.topics.create({name: TopicInfo(name, 1)}, BROKER_ITSELF, free, 1))
        await wait_all_tasks_blocked()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(creation.run)
        await ask_for("a")
        assert failures.counts[FailedStep.STREAMS_TOPICS] == 1
        await ask_for("b")
        assert control.asked == ["a", "b"]
        nursery.cancel_scope.cancel()
    assert sum(failures.counts.values()) == 1

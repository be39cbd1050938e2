"""The task that creates the internal topics of Streams applications."""

from typing import Final

import trio

from broker.api.requests.streams_topics import StreamsTopics
from broker.common.clock import Clock
from broker.controller.control import Control
from broker.network.failures import FailedStep, Failures

STREAMS_TOPICS: Final = "streams-topics"
"""The name of the task."""


class StreamsTopicCreation:
    """`topics` are those that heartbeats ask for."""

    def __init__(self, control: Control, failures: Failures, clock: Clock) -> None:
        self.topics = StreamsTopics(
            control, clock, lambda error: failures.report(FailedStep.STREAMS_TOPICS, error)
        )
        self._wake = trio.Event()
        self.topics.on_pending = lambda: self._wake.set()

    async def run(self) -> None:
        """Create topics until cancelled. A cancellation leaves the rest to the next heartbeat."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            await self.topics.create_pending()

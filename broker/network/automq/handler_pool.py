"""Handlers with a queue each. (AutoMQ: KafkaRequestHandler with its id)

Nobody leads: each waits for its own queue, and while it waits for a slow request so does its queue.
"""

from typing import ClassVar

from broker.network.handling.crew import Crew
from broker.network.handling.handler_pool import HandlerPool


class Soloists(Crew):
    """Every handler leads, of its own queue, from the start to the end."""

    async def take_the_lead(self, number: int) -> bool:
        return number in self._wanted

    def hand_on_the_lead(self) -> None:
        """To whom? The queue is this handler's own."""

    def dismiss(self, numbers: set[int] | None = None) -> None:
        """The end of one's queue is not the end of another's: each goes by itself."""


class QueuePerHandler(HandlerPool):
    crew_type: ClassVar[type[Crew]] = Soloists

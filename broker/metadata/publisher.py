"""The current image, and who wants to hear of the next one.

Held by broker.control, which publishes each commit before it answers; broker.server subscribes the quotas,
the partitions and whatever keeps answers that depend on the image.
"""

from collections.abc import Callable, Iterator, Sequence

from broker.metadata.actor import BROKER_ITSELF, Actor
from broker.metadata.changes import Change, Delta
from broker.metadata.image import Image
from broker.steps import Steps, finished

Subscriber = Callable[[Image, Image, Delta], Iterator[None] | None]
"""Called with (old, new, what changed), on the event loop, in the order of subscription; must neither block
nor raise. One that has much to do for a large change answers an iterator that does it, and stops after each
piece.
"""


class Publisher:
    __slots__ = ("_preparing", "_subscribers", "image")

    def __init__(self, image: Image) -> None:
        self.image = image
        self._preparing: list[Subscriber] = []
        self._subscribers: list[Subscriber] = []

    def prepare(self, subscriber: Subscriber) -> None:
        """`subscriber` is called before anybody else, and before `image` is the new one."""
        self._preparing.append(subscriber)

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.append(subscriber)

    def publish(self, image: Image, changes: Sequence[Change], actor: Actor = BROKER_ITSELF) -> None:
        """`image` is the current one from here on; every subscriber sees it as such."""
        finished(self.in_steps(image, Delta.of(changes, actor)))

    def in_steps(self, image: Image, delta: Delta) -> Steps[None]:
        """`publish`, of which others may see a part: each stop is one after a change to one entity. The image
        itself is replaced between two stops.
        """
        old = self.image
        for subscriber in self._preparing:
            yield from subscriber(old, image, delta) or ()
        self.image = image
        for subscriber in self._subscribers:
            yield from subscriber(old, image, delta) or ()

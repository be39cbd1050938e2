"""The current image and its subscribers.

Owned by broker.control, which publishes each commit before its response. broker.server subscribes the quotas,
the partitions and the caches of responses that depend on the image.
"""

from collections.abc import Callable, Iterator, Sequence

from broker.metadata.actor import BROKER_ITSELF, Actor
from broker.metadata.changes import Change, Delta
from broker.metadata.image import Image
from broker.steps import Steps, finished

Subscriber = Callable[[Image, Image, Delta], Iterator[None] | None]
"""Called as (old, new, changes) on the event loop, in order of subscription; must neither block nor raise.
For long work, it returns an iterator that does it in steps.
"""


class Publisher:
    __slots__ = ("_preparing", "_subscribers", "image")

    def __init__(self, image: Image) -> None:
        self.image = image
        self._preparing: list[Subscriber] = []
        self._subscribers: list[Subscriber] = []

    def prepare(self, subscriber: Subscriber) -> None:
        """Call `subscriber` before all others, and before `image` is replaced."""
        self._preparing.append(subscriber)

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.append(subscriber)

    def publish(self, image: Image, changes: Sequence[Change], actor: Actor = BROKER_ITSELF) -> None:
        """Replace the current image and call all subscribers with it."""
        finished(self.in_steps(image, Delta.of(changes, actor)))

    def in_steps(self, image: Image, delta: Delta) -> Steps[None]:
        """As `publish`, in steps: other tasks can see a partial result. Each step ends after a change to one
        entity; the image is replaced within one step.
        """
        old = self.image
        for subscriber in self._preparing:
            yield from subscriber(old, image, delta) or ()
        self.image = image
        for subscriber in self._subscribers:
            yield from subscriber(old, image, delta) or ()

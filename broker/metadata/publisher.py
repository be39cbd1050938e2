"""The publication of a commit: its changes by entity, the current image, and the subscribers.

broker.controller owns the Publisher and publishes each commit before its response. broker.server.broker
subscribes the quotas, the partitions and the caches of responses that depend on the image.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from broker.common.slices import Steps, freed, run_through
from broker.metadata.actor import BROKER_ITSELF, Actor
from broker.metadata.changes import SHADOW, Change, ChangeKind, EntityPairs, read_pairs
from broker.metadata.image import Image
from broker.security.acl.acl import Acl, read_acl


class QuotaChange(msgspec.Struct, frozen=True):
    """A change of one limit of one entity, for subscribers; `value` None: removed."""

    entity: EntityPairs
    key: str
    value: float | None


class ShadowChange(msgspec.Struct, frozen=True):
    """A change of one entity's shadow mode: its limits are measured only, or enforced again."""

    entity: EntityPairs
    is_shadow: bool


class AclChange(msgspec.Struct, frozen=True):
    """A created ACL, or a deleted one."""

    acl: Acl
    is_created: bool


class Delta(msgspec.Struct, frozen=True):
    """The entities of one commit by name, so that subscribers need not compare images; and its actor."""

    topics: frozenset[str]
    quotas: tuple[QuotaChange, ...]
    shadows: tuple[ShadowChange, ...]
    broker_configs: bool
    client_metrics: frozenset[str]
    actor: Actor = BROKER_ITSELF
    scram: frozenset[str] = frozenset()
    """Users with changed SCRAM credentials."""
    acls: tuple[AclChange, ...] = ()
    delegation_tokens: frozenset[str] = frozenset()
    """Ids of created, changed and removed tokens."""

    @classmethod
    def of(cls, changes: Iterable[Change], actor: Actor = BROKER_ITSELF) -> "Delta":
        return run_through(cls.in_steps(changes, actor))

    @classmethod
    def in_steps(cls, changes: Iterable[Change], actor: Actor = BROKER_ITSELF) -> "Steps[Delta]":
        """As `of`, one change per step."""
        topics: list[str] = []
        quotas: list[QuotaChange] = []
        shadows: list[ShadowChange] = []
        subscriptions: list[str] = []
        users: list[str] = []
        acls: list[AclChange] = []
        delegation_tokens: list[str] = []
        broker_configs = False
        for each in changes:
            match each.kind:
                case ChangeKind.TOPIC | ChangeKind.TOPIC_CONFIG:
                    topics.append(each.entity)
                case ChangeKind.CLIENT_QUOTA if each.key == SHADOW:
                    shadows.append(ShadowChange(read_pairs(each.entity), each.new is not None))
                case ChangeKind.CLIENT_QUOTA:
                    value = None if each.new is None else float(each.new)
                    quotas.append(QuotaChange(read_pairs(each.entity), each.key, value))
                case ChangeKind.BROKER_CONFIG:
                    broker_configs = True
                case ChangeKind.CLIENT_METRICS:
                    subscriptions.append(each.entity)
                case ChangeKind.USER_SCRAM:
                    users.append(each.entity)
                case ChangeKind.DELEGATION_TOKEN:
                    delegation_tokens.append(each.entity)
                case ChangeKind.ACL:
                    acls.append(AclChange(read_acl(each.entity, each.key), each.new is not None))
            yield
        return cls(
            frozenset(topics),
            tuple(quotas),
            tuple(shadows),
            broker_configs,
            frozenset(subscriptions),
            actor,
            frozenset(users),
            tuple(acls),
            frozenset(delegation_tokens),
        )


Subscriber = Callable[[Image, Image, Delta], Iterator[None] | None]
"""Called as (old, new, changes) on the event loop, in order of subscription; must neither block nor raise.
For long work, it returns an iterator that does it in steps.
"""


class Publisher:
    def __init__(self, image: Image) -> None:
        self.image = image
        self._preparing: list[Subscriber] = []
        self._subscribers: list[Subscriber] = []

    def prepare(self, subscriber: Subscriber) -> None:
        """Call `subscriber` before all others, and before `image` is replaced."""
        self._preparing.append(subscriber)

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.append(subscriber)

    def in_steps(self, image: Image, delta: Delta) -> Steps[None]:
        """Replace the current image and call all subscribers with it, in steps: other tasks can see a partial
        result. Each step ends after a change to one entity; the image is replaced within one step. The last
        steps free what only the old image has.
        """
        old = self.image
        for subscriber in self._preparing:
            yield from subscriber(old, image, delta) or ()
        self.image = image
        for subscriber in self._subscribers:
            yield from subscriber(old, image, delta) or ()
        yield
        replaced = _changed_entries(old, delta)
        yield
        del old
        yield from freed(replaced)


def _changed_entries(image: Image, delta: Delta) -> list[Any]:
    """Return the entries of `image` that a delta names; None in place of new ones."""
    return [
        *map(image.topics.get, delta.topics),
        *map(image.quotas.get, {each.entity for each in delta.quotas}),
        *map(image.client_metrics.get, delta.client_metrics),
        *map(image.scram.get, delta.scram),
        *map(image.delegation_tokens.get, delta.delegation_tokens),
        *(image.acls.get(each.acl) for each in delta.acls),
    ]

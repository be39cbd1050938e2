"""The configuration that holds now, and who follows it. (Kafka: DynamicBrokerConfig, BrokerReconfigurable)

Held by `Control`; broker.server lets each room follow its own part. A change is checked against everything
that runs before it is written, and carried out after it has been, before its answer. Knows no keys: a part
is whatever a follower picks out of the rooms.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from broker.config.table import BrokerConfig
from broker.steps import Steps

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class _Listener:
    part: Callable[[BrokerConfig], Any]
    apply: Callable[[Any, Any], Steps[None] | None]
    check: Callable[[Any, Any], None] | None


class DynamicConfig:
    """`config` is replaced, never edited."""

    __slots__ = ("_followers", "config")

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self._followers: list[_Listener] = []

    def on_change(
        self,
        part: Callable[[BrokerConfig], Part],
        apply: Callable[[Part, Part], Steps[None] | None],
        check: Callable[[Part, Part], None] | None = None,
    ) -> None:
        """`apply(old, new)` is called, on the event loop, each time that this part of the rooms has become
        another; it must neither block nor raise. Where it has much to do it answers the steps that do it.
        `check(old, new)` is called before, while the change can
        still be refused, which it does with ConfigError; it changes nothing, for the change may only be
        validated.
        """
        self._followers.append(_Listener(part, apply, check))

    def check(self, new: BrokerConfig) -> None:
        """Whether the running broker can go over to `new`. Raises ConfigError."""
        for each in self._followers:
            before, after = each.part(self.config), each.part(new)
            if each.check is not None and before != after:
                each.check(before, after)

    def adopt(self, new: BrokerConfig) -> Steps[None]:
        """`new` holds from the first step on; each room has followed at the last."""
        old, self.config = self.config, new
        for each in self._followers:
            before, after = each.part(old), each.part(new)
            if before != after:
                yield from each.apply(before, after) or ()
            yield

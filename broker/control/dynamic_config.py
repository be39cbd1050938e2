"""The effective configuration and its listeners. (Kafka: DynamicBrokerConfig, BrokerReconfigurable)

Owned by `Control`; broker.server registers a listener for each part. All listeners check a change before it
is written, and apply it before its response. A part is any selection from the sections.
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
    """`config` is replaced, never modified."""

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
        """Register a listener for a part of the configuration.

        `apply(old, new)` runs on the event loop each time the part changes; it must neither block nor raise.
        If it has much to do, it returns the steps. `check(old, new)` runs before, and can refuse the change
        with ConfigError; it must not change anything, because the change may only be validated.
        """
        self._followers.append(_Listener(part, apply, check))

    def check(self, new: BrokerConfig) -> None:
        """Check that the running broker can switch to `new`. Raises ConfigError."""
        for each in self._followers:
            before, after = each.part(self.config), each.part(new)
            if each.check is not None and before != after:
                each.check(before, after)

    def adopt(self, new: BrokerConfig) -> Steps[None]:
        """Switch to `new` at the first step; all listeners have applied it after the last."""
        old, self.config = self.config, new
        for each in self._followers:
            before, after = each.part(old), each.part(new)
            if before != after:
                yield from each.apply(before, after) or ()
            yield

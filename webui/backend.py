"""The console's interface to the broker.

The composition root creates a `Backend` for `webui.serving.serve_console`. The console reads and changes
the broker only through it.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

import msgspec

from broker.controller.commands import Actor, Command
from broker.controller.rows.alerts import AlertViews, NoAlerts
from broker.controller.rows.broker import TokenRow
from broker.controller.tokens import StoredPassword
from broker.views.console import Views

Answer = TypeVar("Answer")


class ControlService(Protocol):
    """`broker.controller`'s interface for changes. Raises ApiError if a whole command is refused; refusals of
    single entries are in their outcomes.
    """

    async def apply(self, command: Command[Answer], actor: Actor) -> Answer: ...


class Backend(msgspec.Struct, frozen=True):
    """The broker's functions for the console.

    `redeem` returns the token of a link's one-time code and invalidates the code; its second argument is a
    monotonic clock in ms.
    `hash_password` is slow, and raises ApiError for an invalid password. `metrics` yields the Prometheus page
    in parts. `alerts` returns what alert rules evaluate to, and tests destinations. `ready` says whether
    Kafka clients are served and all tokens are known. `refused_headers` counts the console's connections that
    are closed for their PROXY header, by the reason.
    """

    control: ControlService
    views: Views
    hash_password: Callable[[str, str], StoredPassword]
    metrics: Callable[[], Iterable[bytes]]
    ready: Callable[[], bool]
    redeem: Callable[[str, int], TokenRow | None] = lambda _code, _now_ms: None
    alerts: AlertViews = msgspec.field(default_factory=NoAlerts)
    refused_headers: Counter[str] = msgspec.field(default_factory=Counter)

"""What the console needs of the broker, and what of its settings it reads.

The composition root fills a `Backend` and hands it to `webui.serving.serve_console`. Everything that the
console knows or changes goes through it; there is no second way in.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from broker.control.commands import Actor, Command
from broker.control.views import TokenRow, Views

Answer = TypeVar("Answer")


class ControlDoor(Protocol):
    """`broker.control`'s door for changes. Raises ApiError for what is refused as a whole; entries that are
    refused by themselves say so in their outcomes.
    """

    async def apply(self, command: Command[Answer], actor: Actor) -> Answer: ...


class ListenAddress(Protocol):
    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


class ConsoleSettings(Protocol):
    """`broker.config.ConsoleConfig`, as far as it is read here."""

    @property
    def listener(self) -> ListenAddress | None: ...

    @property
    def allowed_hosts(self) -> tuple[str, ...]: ...

    @property
    def session_idle_ms(self) -> int: ...

    @property
    def session_max_ms(self) -> int: ...

    @property
    def request_max_bytes(self) -> int: ...

    @property
    def insights_warehouse(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Backend:
    """`identify` answers the token that a secret belongs to, as `views.tokens()` shows it, or None. `metrics`
    is the Prometheus page. `ready` says whether Kafka clients are being answered.
    """

    control: ControlDoor
    views: Views
    identify: Callable[[str], TokenRow | None]
    metrics: Callable[[], str]
    ready: Callable[[], bool]

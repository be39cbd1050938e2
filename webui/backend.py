"""What the console needs of the broker, and what of its settings it reads.

The composition root fills a `Backend` and hands it to `webui.serving.serve_console`. Everything that the
console knows or changes goes through it; there is no second way in.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from broker.control.commands import Actor, Command
from broker.control.passwords import HashedPassword
from broker.control.views import TokenRow, Views

Answer = TypeVar("Answer")


class ControlService(Protocol):
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
    def public_url(self) -> str: ...

    @property
    def is_encrypted(self) -> bool: ...

    @property
    def session_idle_ms(self) -> int: ...

    @property
    def session_max_ms(self) -> int: ...

    @property
    def request_max_bytes(self) -> int: ...

    @property
    def max_connections(self) -> int: ...

    @property
    def max_connections_per_ip(self) -> int: ...

    @property
    def max_streams(self) -> int: ...

    @property
    def max_streams_per_token(self) -> int: ...

    @property
    def max_sessions_per_token(self) -> int: ...

    @property
    def insights_warehouse(self) -> str: ...


class Lock(Protocol):
    """What stands before a name, whether somebody is called so or not: `broker.control.passwords.Lock`."""

    @property
    def row(self) -> TokenRow | None: ...

    def opens(self, secret: str) -> bool:
        """Slow: for a worker thread."""


@dataclass(frozen=True, slots=True)
class Backend:
    """`identify` answers the token that a secret belongs to, as `views.tokens()` shows it, or None; `redeem`
    that of a link's one-time code, which is used up by it, with the time in ms of a monotonic clock.
    `hash_password` is slow, and raises ApiError for what is no password of that name. `metrics` is the
    Prometheus page in pieces, made as they are taken. `ready` says whether Kafka clients are being answered.
    """

    control: ControlService
    views: Views
    identify: Callable[[str], TokenRow | None]
    lock_of: Callable[[str], Lock]
    hash_password: Callable[[str, str], HashedPassword]
    metrics: Callable[[], Iterable[bytes]]
    ready: Callable[[], bool]
    redeem: Callable[[str, int], TokenRow | None] = lambda _code, _now_ms: None

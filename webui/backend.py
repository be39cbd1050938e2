"""The console's interface to the broker, and the settings that it reads.

The composition root creates a `Backend` for `webui.serving.serve_console`. The console reads and changes
the broker only through it.
"""

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

import msgspec

from broker.controller.commands import Actor, Command
from broker.controller.rows.alerts import AlertViews, NoAlerts
from broker.controller.tokens import Credentials, HashedPassword
from broker.views.views import TokenRow, Views

Answer = TypeVar("Answer")


class ControlService(Protocol):
    """`broker.controller`'s interface for changes. Raises ApiError if a whole command is refused; refusals of
    single entries are in their outcomes.
    """

    async def apply(self, command: Command[Answer], actor: Actor) -> Answer: ...


class ListenAddress(Protocol):
    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


class ConsoleSettings(Protocol):
    """The part of `broker.config.sections.console.ConsoleConfig` that the console reads."""

    @property
    def browse_role(self) -> str: ...

    @property
    def listener(self) -> ListenAddress | None: ...

    @property
    def allowed_hosts(self) -> tuple[str, ...]: ...

    @property
    def public_url(self) -> str: ...

    @property
    def is_encrypted(self) -> bool: ...

    @property
    def oidc_issuer(self) -> str: ...

    @property
    def oidc_client_id(self) -> str: ...

    @property
    def oidc_client_secret(self) -> str: ...

    @property
    def oidc_scopes(self) -> tuple[str, ...]: ...

    @property
    def oidc_name_claim(self) -> str: ...

    @property
    def oidc_groups_claim(self) -> str: ...

    @property
    def oidc_admin_groups(self) -> tuple[str, ...]: ...

    @property
    def oidc_editor_groups(self) -> tuple[str, ...]: ...

    @property
    def oidc_viewer_groups(self) -> tuple[str, ...]: ...

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
    def browse_max_shown_bytes(self) -> int: ...

    @property
    def insights_warehouse(self) -> str: ...

    @property
    def price_per_gb_produced(self) -> float: ...

    @property
    def price_per_gb_fetched(self) -> float: ...

    @property
    def price_currency(self) -> str: ...


class Backend(msgspec.Struct, frozen=True):
    """The broker's functions for the console.

    `identify` returns the token of a secret as `views.tokens()` shows it, or None. `redeem` returns the token
    of a link's one-time code and invalidates the code; its second argument is a monotonic clock in ms.
    `hash_password` is slow, and raises ApiError for an invalid password. `metrics` yields the Prometheus page
    in parts. `alerts` tells what alert rules evaluate to, and tests destinations. `ready` tells whether Kafka
    clients are served and all tokens are known.
    """

    control: ControlService
    views: Views
    identify: Callable[[str], TokenRow | None]
    credentials_of: Callable[[str], Credentials]
    hash_password: Callable[[str, str], HashedPassword]
    metrics: Callable[[], Iterable[bytes]]
    ready: Callable[[], bool]
    redeem: Callable[[str, int], TokenRow | None] = lambda _code, _now_ms: None
    alerts: AlertViews = msgspec.field(default_factory=NoAlerts)

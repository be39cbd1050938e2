"""The admin page and its REST API. For webui, by way of broker.web."""

from dataclasses import dataclass

from broker.config.kinds import TEXT, integer, list_of, long
from broker.config.listeners import OPTIONAL_ADDRESS, Address, read_host
from broker.config.setting import setting


@dataclass(frozen=True, slots=True)
class ConsoleConfig:
    listener: Address | None = setting(  # noqa: RUF009 - an Address is frozen
        "console.listener",
        Address("127.0.0.1", 8080),
        OPTIONAL_ADDRESS,
        "Where the console and the REST API listen; empty: nowhere. Port 0 lets the system choose.",
        ours=True,
    )
    allowed_hosts: tuple[str, ...] = setting(
        "console.allowed.hosts",
        (),
        list_of(read_host, "a list of host names or addresses, without ports"),
        "Host names by which browsers may reach the console, besides localhost, loopback addresses and the "
        "host of console.listener. Any other Host header is refused, which is what stops DNS rebinding.",
        ours=True,
    )
    session_idle_ms: int = setting(
        "console.session.idle.ms",
        3_600_000,
        long(60_000),
        "A browser session ends after this long without a request.",
        unit="ms",
        ours=True,
    )
    session_max_ms: int = setting(
        "console.session.max.ms",
        43_200_000,
        long(60_000),
        "A browser session ends after this long in any case.",
        unit="ms",
        ours=True,
    )
    request_max_bytes: int = setting(
        "console.request.max.bytes",
        1_048_576,
        integer(1_024),
        "The largest body that the REST API reads.",
        unit="bytes",
        ours=True,
    )
    insights_warehouse: str = setting(
        "insights.warehouse",
        "",
        TEXT,
        "The folder into which `weir pipeline` writes its tables, for the page Insights; empty: there is "
        "none. It is read with weir[insights], by a process of its own that runs while somebody asks.",
        ours=True,
    )

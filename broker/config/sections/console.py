"""The admin page and its REST API. For webui, by way of broker.web."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from broker.config.kinds import SECRET, TEXT, ConfigType, Kind, integer, list_of, long
from broker.config.listeners import OPTIONAL_ADDRESS, Address, read_host
from broker.config.sections.tls import TlsConfig
from broker.config.setting import setting
from broker.errors import ConfigError


def _read_url(text: str) -> str:
    if not text:
        return ""
    parts = urlsplit(text)
    # An empty port, or one that is none, raises ValueError.
    has_port = parts.port is not None or not parts.netloc.endswith(":")
    bare = parts.path in ("", "/") and not (parts.query or parts.fragment or "@" in parts.netloc)
    if parts.scheme not in ("http", "https") or not parts.hostname or not bare or not has_port:
        raise ValueError("not a scheme and a host")
    read_host(parts.hostname)
    return f"{parts.scheme}://{parts.netloc.lower()}"


PUBLIC_URL: Final = Kind(
    ConfigType.STRING, "http://host, https://host, either with a port, or nothing at all", _read_url
)


class ConsoleTls(TlsConfig):
    """TLS of the console, whose keys are spelled with `console.` before them."""

    __slots__ = ()

    def key(self, key: str) -> str:
        return f"console.{key}"


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
    public_url: str = setting(
        "console.public.url",
        "",
        PUBLIC_URL,
        "Where browsers reach the console, such as https://weir.example: its host is answered, the printed "
        "link has it, and pages that are asked for by an IP address or as localhost redirect there. Without "
        "it, the pages of a console without TLS that listens on 127.0.0.1, or on every address, are at "
        "http://weir-<port>.localhost:<port>, since cookies ignore ports.",
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
        "The largest body that the REST API reads where it holds a list; any other has 4096 bytes at most.",
        unit="bytes",
        ours=True,
    )
    max_connections: int = setting(
        "console.max.connections",
        512,
        integer(1),
        "Connections of the console at once. For one more, the one is closed that has been idle longest of "
        "the address with the most idle ones. Where none is idle, 16 more are taken that answer health "
        "checks only.",
        unit="connections",
        ours=True,
    )
    max_connections_per_ip: int = setting(
        "console.max.connections.per.ip",
        256,
        integer(1),
        "The same for one address; of IPv6, for one /64. For one more, that connection of the address is "
        "closed that has been idle longest. All browsers behind a proxy have the proxy's address.",
        unit="connections",
        ours=True,
    )
    max_streams: int = setting(
        "console.max.streams",
        200,
        integer(1),
        "Live streams at once: every page that is open and seen has one. One more is refused with 503.",
        unit="streams",
        ours=True,
    )
    max_streams_per_token: int = setting(
        "console.max.streams.per.token",
        100,
        integer(1),
        "The same for one token, its sessions included. One more is refused with 429, and no older one ends: "
        "its page would connect again at once and end another.",
        unit="streams",
        ours=True,
    )
    max_sessions_per_token: int = setting(
        "console.max.sessions.per.token",
        100,
        integer(1),
        "Browser sessions of one token at once. For one more, the session ends that has been idle longest: a "
        "browser that was left open must not keep its owner out.",
        unit="sessions",
        ours=True,
    )
    insights_warehouse: str = setting(
        "insights.warehouse",
        "",
        TEXT,
        "The folder into which `weir pipeline` writes its tables, for the page Insights; empty: there is "
        "none. It is read with the package deltalake, by a process of its own that runs while somebody asks.",
        ours=True,
    )
    ssl_keystore_location: str = setting(
        "console.ssl.keystore.location",
        "",
        TEXT,
        "A PEM file with the console's private key and certificate chain, its own certificate first. With it "
        "the console speaks TLS, 1.2 at least, and nothing else. It is read again when it changes.",
        ours=True,
    )
    ssl_keystore_certificate_chain: str = setting(
        "console.ssl.keystore.certificate.chain",
        "",
        SECRET,
        "The certificate chain itself, as PEM, in place of a file.",
        ours=True,
    )
    ssl_keystore_key: str = setting(
        "console.ssl.keystore.key",
        "",
        SECRET,
        "The private key itself, as PEM, in place of a file.",
        ours=True,
    )
    ssl_key_password: str = setting(
        "console.ssl.key.password",
        "",
        SECRET,
        "What the private key is encrypted with.",
        ours=True,
    )

    @property
    def is_encrypted(self) -> bool:
        inline = self.ssl_keystore_certificate_chain or self.ssl_keystore_key
        return bool(self.ssl_keystore_location or inline)

    def tls(self) -> ConsoleTls | None:
        """None: it speaks HTTP. Raises ConfigError for a password of nothing."""
        if self.is_encrypted:
            return ConsoleTls(
                keystore_location=self.ssl_keystore_location,
                keystore_certificate_chain=self.ssl_keystore_certificate_chain,
                keystore_key=self.ssl_keystore_key,
                key_password=self.ssl_key_password,
            )
        if self.ssl_key_password:
            allowed = "nothing without console.ssl.keystore.location, or a key and its chain"
            raise ConfigError("console.ssl.key.password", "(hidden)", allowed)
        return None

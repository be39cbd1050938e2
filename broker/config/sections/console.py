"""The console and its REST API. For webui, through broker.server.web."""

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from typing import Final
from urllib.parse import urlsplit

from broker.common.errors import ConfigError
from broker.config.kinds import (
    NETWORKS,
    SECRET,
    TEXT,
    ConfigKind,
    ConfigType,
    decimal,
    integer,
    list_of,
    long,
    one_of,
)
from broker.config.listeners import OPTIONAL_ADDRESS, Address, read_host
from broker.config.sections.network import NO_PROXY, PROXY_PROTOCOL, REQUIRED_PROXY
from broker.config.sections.tls import TlsConfig
from broker.config.setting import Setting


def _read_url(text: str) -> str:
    if not text:
        return ""
    parts = urlsplit(text)
    # An empty or invalid port raises ValueError.
    has_port = parts.port is not None or not parts.netloc.endswith(":")
    bare = parts.path in ("", "/") and not (parts.query or parts.fragment or "@" in parts.netloc)
    if parts.scheme not in ("http", "https") or not parts.hostname or not bare or not has_port:
        raise ValueError("not a scheme and a host")
    read_host(parts.hostname)
    return f"{parts.scheme}://{parts.netloc.lower()}"


def _read_issuer(text: str) -> str:
    if not text:
        return ""
    parts = urlsplit(text)
    if parts.query or parts.fragment or "@" in parts.netloc or parts.port == 0:
        raise ValueError("not an issuer")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("not a URL")
    read_host(parts.hostname)
    return text


ISSUER: Final = ConfigKind(ConfigType.STRING, "https://host/path or http://host/path, or empty", _read_issuer)


def _read_word(text: str) -> str:
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("not a word")
    return text


PUBLIC_URL: Final = ConfigKind(
    ConfigType.STRING, "http://host or https://host, optionally with a port, or empty", _read_url
)


MAX_CURRENCY: Final = 12


def _read_currency(text: str) -> str:
    if not text.isprintable() or len(text) > MAX_CURRENCY:
        raise ValueError("not a short printable text")
    return text


CURRENCY: Final = ConfigKind(
    ConfigType.STRING, f"at most {MAX_CURRENCY} printable characters, such as EUR, or empty", _read_currency
)
PRICE: Final = decimal(0, 100_000)


class ConsoleTls(TlsConfig):
    """TLS of the console; its keys have the prefix `console.`."""

    def key(self, key: str) -> str:
        return f"console.{key}"


@dataclass(frozen=True, slots=True)
class ConsoleConfig:
    listener: Address | None = Setting(  # noqa: RUF009 - an Address is frozen
        "console.listener", Address("127.0.0.1", 8080), OPTIONAL_ADDRESS, ours=True
    ).described("Address of the console and the REST API; empty: disabled. Port 0 lets the system choose.")
    allowed_hosts: tuple[str, ...] = Setting(
        "console.allowed.hosts",
        (),
        list_of(read_host, "a list of host names or addresses, without ports"),
        ours=True,
    ).described(
        "Host names by which browsers can reach the console, besides localhost, loopback addresses and the "
        "host of console.listener. Other Host headers are refused, which prevents DNS rebinding."
    )
    public_url: str = Setting("console.public.url", "", PUBLIC_URL, ours=True).described(
        "The console's public URL, such as https://weir.example: the console accepts its host, the printed "
        "link contains it, and pages requested by IP address or as localhost redirect to it. If it is "
        "empty and the console listens without TLS on 127.0.0.1 or on all addresses, the pages are at "
        "http://weir-<port>.localhost:<port>, because cookies ignore ports."
    )
    session_idle_ms: int = Setting(
        "console.session.idle.ms", 3_600_000, long(60_000), "ms", ours=True
    ).described("A browser session ends after this time without a request.")
    session_max_ms: int = Setting(
        "console.session.max.ms", 43_200_000, long(60_000), "ms", ours=True
    ).described("A browser session ends after this time in any case.")
    request_max_bytes: int = Setting(
        "console.request.max.bytes", 1_048_576, integer(1_024), "bytes", ours=True
    ).described(
        "Maximum size of a REST request body that contains a list; other bodies are limited to 4096 bytes."
    )
    max_connections: int = Setting(
        "console.max.connections", 512, integer(1), "connections", ours=True
    ).described(
        "Maximum number of the console's connections. For a further one, the console closes the longest "
        "idle connection of the address with the most idle connections. If none is idle, it accepts 16 "
        "more for health checks only."
    )
    max_connections_per_ip: int = Setting(
        "console.max.connections.per.ip", 256, integer(1), "connections", ours=True
    ).described(
        "The same per address, or per /64 for IPv6. For a further one, the console closes the longest idle "
        "connection of the address. All browsers behind a proxy share the proxy's address, unless "
        "console.proxy.protocol or console.forwarded.for.trusted.addresses names it."
    )
    proxy_mode: str = Setting("console.proxy.protocol", NO_PROXY, PROXY_PROTOCOL, ours=True).described(
        "As proxy.protocol, for the console's connections."
    )
    proxy_protocol_trusted_addresses: tuple[IPv4Network | IPv6Network, ...] = Setting(
        "console.proxy.protocol.trusted.addresses", (), NETWORKS, ours=True
    ).described(
        "As proxy.protocol.trusted.addresses, for the console. Required unless console.proxy.protocol is "
        "`none`."
    )
    forwarded_for_trusted_addresses: tuple[IPv4Network | IPv6Network, ...] = Setting(
        "console.forwarded.for.trusted.addresses", (), NETWORKS, ours=True
    ).described(
        "Addresses and networks of the HTTP proxies whose X-Forwarded-For is believed: the client of a "
        "request is the last address there that is none of these. From elsewhere the header is ignored. A "
        "proxy must append the address that it sees to the header, or replace the header by it. "
        "console.max.connections.per.ip does not apply to these proxies."
    )
    max_streams: int = Setting("console.max.streams", 200, integer(1), "streams", ours=True).described(
        "Maximum number of live streams; each visible page uses one. Further ones are refused with 503."
    )
    max_streams_per_token: int = Setting(
        "console.max.streams.per.token", 100, integer(1), "streams", ours=True
    ).described(
        "The same per token, including its sessions. Further ones are refused with 429; no older stream is "
        "closed, because its page would reconnect at once and close another."
    )
    max_sessions_per_token: int = Setting(
        "console.max.sessions.per.token", 100, integer(1), "sessions", ours=True
    ).described(
        "Maximum number of browser sessions per token. For a further one, the longest idle session ends, "
        "so that a browser left open does not lock its owner out."
    )
    browse_role: str = Setting(
        "console.browse.role", "editor", one_of("viewer", "editor", "admin"), ours=True
    ).described(
        "The least role that may read records in the console and through the REST API. What the records "
        "contain can be more confidential than everything else that a viewer sees."
    )
    browse_max_records: int = Setting(
        "console.browse.max.records", 500, integer(1, 10_000), "records", ours=True
    ).described("Maximum number of records that one request for records returns.")
    browse_max_read_bytes: int = Setting(
        "console.browse.max.read.bytes", 67_108_864, integer(1_024), "bytes", ours=True
    ).described(
        "A request for records stops after reading this many bytes of records, decompressed, whether they "
        "match its filter or not, and says where it stopped. A batch that was begun is read to its end."
    )
    browse_max_ms: int = Setting("console.browse.max.ms", 3_000, long(1, 60_000), "ms", ours=True).described(
        "A request for records stops after this time and says where it stopped."
    )
    browse_max_shown_bytes: int = Setting(
        "console.browse.max.shown.bytes", 16_384, integer(16, 1_048_576), "bytes", ours=True
    ).described(
        "Maximum number of bytes of a key, a value or a header that are shown; the whole ones can be "
        "downloaded."
    )
    insights_warehouse: str = Setting("insights.warehouse", "", TEXT, ours=True).described(
        "The folder of the tables that `weir pipeline` writes, or their URL (s3a://bucket/path), for the "
        "Insights page; empty: none. A separate process, which runs while requests arrive, reads it with the "
        "package deltalake. For a URL, credentials, region and endpoint come from the standard variables of "
        "the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL."
    )
    price_per_gb_produced: float = Setting("insights.price.per.gb.produced", 0.0, PRICE, ours=True).described(
        "The price of a gigabyte (10^9 bytes) that clients produce, from which the Insights page computes "
        "the "
        "cost of each tenant. Without this price and the next one, the page shows no cost."
    )
    price_per_gb_fetched: float = Setting("insights.price.per.gb.fetched", 0.0, PRICE, ours=True).described(
        "The price of a gigabyte (10^9 bytes) that clients fetch."
    )
    price_currency: str = Setting("insights.price.currency", "", CURRENCY, ours=True).described(
        "The unit of the prices, shown beside each cost."
    )
    oidc_issuer: str = Setting("console.oidc.issuer", "", ISSUER, ours=True).described(
        "Issuer of the OpenID Connect provider for single sign-on to the console, such as "
        "https://id.example/realms/main; empty: none. Register the redirect URI <console>/oidc/callback "
        "there, where <console> is console.public.url. Tokens and passwords keep working."
    )
    oidc_client_id: str = Setting("console.oidc.client.id", "", TEXT, ours=True).described(
        "The console's client id at the provider."
    )
    oidc_client_secret: str = Setting("console.oidc.client.secret", "", SECRET, ours=True).described(
        "The console's client secret; empty for a public client, which PKCE protects alone."
    )
    oidc_scopes: tuple[str, ...] = Setting(
        "console.oidc.scopes",
        ("openid", "profile", "email", "groups"),
        list_of(_read_word, "a list of scopes, among them openid", least=1),
        ours=True,
    ).described("Scopes to request. Providers that do not know `groups` may need it left out.")
    oidc_name_claim: str = Setting(
        "console.oidc.name.claim", "preferred_username", TEXT, ours=True
    ).described(
        "The claim with the user's name, which the audit trail shows as oidc:<name>. A missing one falls "
        "back to email, then to sub."
    )
    oidc_groups_claim: str = Setting("console.oidc.groups.claim", "groups", TEXT, ours=True).described(
        "The claim with the list of the user's groups."
    )
    oidc_admin_groups: tuple[str, ...] = Setting(
        "console.oidc.admin.groups", (), list_of(str, "a list of groups"), ours=True
    ).described("Groups whose members have the role admin.")
    oidc_editor_groups: tuple[str, ...] = Setting(
        "console.oidc.editor.groups", (), list_of(str, "a list of groups"), ours=True
    ).described("Groups whose members have the role editor.")
    oidc_viewer_groups: tuple[str, ...] = Setting(
        "console.oidc.viewer.groups", (), list_of(str, "a list of groups"), ours=True
    ).described(
        "Groups whose members have the role viewer; `*` stands for every user of the provider. A user "
        "without any of these groups cannot log in."
    )
    ssl_keystore_location: str = Setting("console.ssl.keystore.location", "", TEXT, ours=True).described(
        "A PEM file with the console's private key and certificate chain, its own certificate first. If it "
        "is set, the console serves only HTTPS with TLS 1.2 or later. The console reloads the file when it "
        "changes. For `tls.key`, as for ssl.keystore.location."
    )
    ssl_keystore_certificate_chain: str = Setting(
        "console.ssl.keystore.certificate.chain", "", SECRET, ours=True
    ).described("The certificate chain as PEM text, instead of a file.")
    ssl_keystore_key: str = Setting("console.ssl.keystore.key", "", SECRET, ours=True).described(
        "The private key as PEM text, instead of a file."
    )
    ssl_key_password: str = Setting("console.ssl.key.password", "", SECRET, ours=True).described(
        "The password that decrypts the private key."
    )

    @property
    def has_proxy_headers(self) -> bool:
        """Whether connections may begin with a PROXY header."""
        return self.proxy_mode != NO_PROXY

    @property
    def requires_proxy_headers(self) -> bool:
        """Whether they must."""
        return self.proxy_mode == REQUIRED_PROXY

    @property
    def is_encrypted(self) -> bool:
        inline = self.ssl_keystore_certificate_chain or self.ssl_keystore_key
        return bool(self.ssl_keystore_location or inline)

    def check(self) -> None:
        """Check the rule between keys. Raises ConfigError."""
        if self.has_proxy_headers and not self.proxy_protocol_trusted_addresses:
            raise ConfigError(
                "console.proxy.protocol.trusted.addresses",
                "",
                f"an address or a network at least, required by console.proxy.protocol={self.proxy_mode}",
            )

    def tls(self) -> ConsoleTls | None:
        """Return the TLS settings; None means HTTP. Raises ConfigError for a password without a key."""
        if self.is_encrypted:
            return ConsoleTls(
                keystore_location=self.ssl_keystore_location,
                keystore_certificate_chain=self.ssl_keystore_certificate_chain,
                keystore_key=self.ssl_keystore_key,
                key_password=self.ssl_key_password,
            )
        if self.ssl_key_password:
            allowed = "set it only with console.ssl.keystore.location, or with a key and its chain"
            raise ConfigError("console.ssl.key.password", "(hidden)", allowed)
        return None

"""The console and its REST API. For webui, through broker.server.web."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from broker.common.errors import ConfigError
from broker.config.kinds import SECRET, TEXT, ConfigKind, ConfigType, decimal, integer, list_of, long, one_of
from broker.config.listeners import OPTIONAL_ADDRESS, Address, read_host
from broker.config.sections.tls import TlsConfig
from broker.config.setting import setting


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
    listener: Address | None = setting(  # noqa: RUF009 - an Address is frozen
        "console.listener",
        Address("127.0.0.1", 8080),
        OPTIONAL_ADDRESS,
        "Address of the console and the REST API; empty: disabled. Port 0 lets the system choose.",
        ours=True,
    )
    allowed_hosts: tuple[str, ...] = setting(
        "console.allowed.hosts",
        (),
        list_of(read_host, "a list of host names or addresses, without ports"),
        "Host names by which browsers can reach the console, besides localhost, loopback addresses and the "
        "host of console.listener. Other Host headers are refused, which prevents DNS rebinding.",
        ours=True,
    )
    public_url: str = setting(
        "console.public.url",
        "",
        PUBLIC_URL,
        "The console's public URL, such as https://weir.example: the console accepts its host, the printed "
        "link contains it, and pages requested by IP address or as localhost redirect to it. If it is "
        "empty and the console listens without TLS on 127.0.0.1 or on all addresses, the pages are at "
        "http://weir-<port>.localhost:<port>, because cookies ignore ports.",
        ours=True,
    )
    session_idle_ms: int = setting(
        "console.session.idle.ms",
        3_600_000,
        long(60_000),
        "A browser session ends after this time without a request.",
        unit="ms",
        ours=True,
    )
    session_max_ms: int = setting(
        "console.session.max.ms",
        43_200_000,
        long(60_000),
        "A browser session ends after this time in any case.",
        unit="ms",
        ours=True,
    )
    request_max_bytes: int = setting(
        "console.request.max.bytes",
        1_048_576,
        integer(1_024),
        "Maximum size of a REST request body that contains a list; other bodies are limited to 4096 bytes.",
        unit="bytes",
        ours=True,
    )
    max_connections: int = setting(
        "console.max.connections",
        512,
        integer(1),
        "Maximum number of the console's connections. For a further one, the console closes the longest "
        "idle connection of the address with the most idle connections. If none is idle, it accepts 16 "
        "more for health checks only.",
        unit="connections",
        ours=True,
    )
    max_connections_per_ip: int = setting(
        "console.max.connections.per.ip",
        256,
        integer(1),
        "The same per address, or per /64 for IPv6. For a further one, the console closes the longest idle "
        "connection of the address. All browsers behind a proxy share the proxy's address.",
        unit="connections",
        ours=True,
    )
    max_streams: int = setting(
        "console.max.streams",
        200,
        integer(1),
        "Maximum number of live streams; each visible page uses one. Further ones are refused with 503.",
        unit="streams",
        ours=True,
    )
    max_streams_per_token: int = setting(
        "console.max.streams.per.token",
        100,
        integer(1),
        "The same per token, including its sessions. Further ones are refused with 429; no older stream is "
        "closed, because its page would reconnect at once and close another.",
        unit="streams",
        ours=True,
    )
    max_sessions_per_token: int = setting(
        "console.max.sessions.per.token",
        100,
        integer(1),
        "Maximum number of browser sessions per token. For a further one, the longest idle session ends, "
        "so that a browser left open does not lock its owner out.",
        unit="sessions",
        ours=True,
    )
    browse_role: str = setting(
        "console.browse.role",
        "editor",
        one_of("viewer", "editor", "admin"),
        "The least role that may read records in the console and through the REST API. What the records "
        "contain can be more confidential than everything else that a viewer sees.",
        ours=True,
    )
    browse_max_records: int = setting(
        "console.browse.max.records",
        500,
        integer(1, 10_000),
        "Maximum number of records that one request for records returns.",
        unit="records",
        ours=True,
    )
    browse_max_read_bytes: int = setting(
        "console.browse.max.read.bytes",
        67_108_864,
        integer(1_024),
        "A request for records stops after reading this many bytes of records, decompressed, whether they "
        "match its filter or not, and says where it stopped. A batch that was begun is read to its end.",
        unit="bytes",
        ours=True,
    )
    browse_max_ms: int = setting(
        "console.browse.max.ms",
        3_000,
        long(1, 60_000),
        "A request for records stops after this time and says where it stopped.",
        unit="ms",
        ours=True,
    )
    browse_max_shown_bytes: int = setting(
        "console.browse.max.shown.bytes",
        16_384,
        integer(16, 1_048_576),
        "Maximum number of bytes of a key, a value or a header that are shown; the whole ones can be "
        "downloaded.",
        unit="bytes",
        ours=True,
    )
    insights_warehouse: str = setting(
        "insights.warehouse",
        "",
        TEXT,
        "The folder of the tables that `weir pipeline` writes, or their URL (s3a://bucket/path), for the "
        "Insights page; empty: none. A separate process, which runs while requests arrive, reads it with the "
        "package deltalake. For a URL, credentials, region and endpoint come from the standard variables of "
        "the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL.",
        ours=True,
    )
    price_per_gb_produced: float = setting(
        "insights.price.per.gb.produced",
        0.0,
        PRICE,
        "The price of a gigabyte (10^9 bytes) that clients produce, from which the Insights page computes "
        "the "
        "cost of each tenant. Without this price and the next one, the page shows no cost.",
        ours=True,
    )
    price_per_gb_fetched: float = setting(
        "insights.price.per.gb.fetched",
        0.0,
        PRICE,
        "The price of a gigabyte (10^9 bytes) that clients fetch.",
        ours=True,
    )
    price_currency: str = setting(
        "insights.price.currency",
        "",
        CURRENCY,
        "The unit of the prices, shown beside each cost.",
        ours=True,
    )
    oidc_issuer: str = setting(
        "console.oidc.issuer",
        "",
        ISSUER,
        "Issuer of the OpenID Connect provider for single sign-on to the console, such as "
        "https://id.example/realms/main; empty: none. Register the redirect URI <console>/oidc/callback "
        "there, where <console> is console.public.url. Tokens and passwords keep working.",
        ours=True,
    )
    oidc_client_id: str = setting(
        "console.oidc.client.id", "", TEXT, "The console's client id at the provider.", ours=True
    )
    oidc_client_secret: str = setting(
        "console.oidc.client.secret",
        "",
        SECRET,
        "The console's client secret; empty for a public client, which PKCE protects alone.",
        ours=True,
    )
    oidc_scopes: tuple[str, ...] = setting(
        "console.oidc.scopes",
        ("openid", "profile", "email", "groups"),
        list_of(_read_word, "a list of scopes, among them openid", least=1),
        "Scopes to request. Providers that do not know `groups` may need it left out.",
        ours=True,
    )
    oidc_name_claim: str = setting(
        "console.oidc.name.claim",
        "preferred_username",
        TEXT,
        "The claim with the user's name, which the audit trail shows as oidc:<name>. A missing one falls "
        "back to email, then to sub.",
        ours=True,
    )
    oidc_groups_claim: str = setting(
        "console.oidc.groups.claim",
        "groups",
        TEXT,
        "The claim with the list of the user's groups.",
        ours=True,
    )
    oidc_admin_groups: tuple[str, ...] = setting(
        "console.oidc.admin.groups",
        (),
        list_of(str, "a list of groups"),
        "Groups whose members have the role admin.",
        ours=True,
    )
    oidc_editor_groups: tuple[str, ...] = setting(
        "console.oidc.editor.groups",
        (),
        list_of(str, "a list of groups"),
        "Groups whose members have the role editor.",
        ours=True,
    )
    oidc_viewer_groups: tuple[str, ...] = setting(
        "console.oidc.viewer.groups",
        (),
        list_of(str, "a list of groups"),
        "Groups whose members have the role viewer; `*` stands for every user of the provider. A user "
        "without any of these groups cannot log in.",
        ours=True,
    )
    ssl_keystore_location: str = setting(
        "console.ssl.keystore.location",
        "",
        TEXT,
        "A PEM file with the console's private key and certificate chain, its own certificate first. If it "
        "is set, the console serves only HTTPS with TLS 1.2 or later. The console reloads the file when it "
        "changes.",
        ours=True,
    )
    ssl_keystore_certificate_chain: str = setting(
        "console.ssl.keystore.certificate.chain",
        "",
        SECRET,
        "The certificate chain as PEM text, instead of a file.",
        ours=True,
    )
    ssl_keystore_key: str = setting(
        "console.ssl.keystore.key",
        "",
        SECRET,
        "The private key as PEM text, instead of a file.",
        ours=True,
    )
    ssl_key_password: str = setting(
        "console.ssl.key.password",
        "",
        SECRET,
        "The password that decrypts the private key.",
        ours=True,
    )

    @property
    def is_encrypted(self) -> bool:
        inline = self.ssl_keystore_certificate_chain or self.ssl_keystore_key
        return bool(self.ssl_keystore_location or inline)

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

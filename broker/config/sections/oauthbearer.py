"""SASL/OAUTHBEARER: whose tokens clients log in with. The OAuth part of `SecurityConfig`.

The settings are read at the start, as in Kafka. (KIP-768; Kafka: SaslConfigs, BrokerSecurityConfigs)
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from broker.config.kinds import SECRET, TEXT, ConfigKind, ConfigType, integer, list_of, long
from broker.config.listeners import Address
from broker.config.setting import ListenerSection, setting

JWKS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"


def key_file(url: str) -> str | None:
    """Return the path of a file:// URL; None for another one."""
    parts = urlsplit(url)
    return unquote(parts.path) if parts.scheme == "file" else None


def _read_url(text: str) -> str:
    if not text:
        return text
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("not a URL")
    parts = urlsplit(text)
    if parts.scheme == "file":
        is_valid = parts.netloc in ("", "localhost") and len(parts.path) > 1
    else:
        host = parts.hostname or ""
        is_plain = parts.scheme == "http" and Address(host, parts.port or 80).is_loopback
        is_valid = bool(host) and (parts.scheme == "https" or is_plain) and parts.port != 0
    if not is_valid or "@" in parts.netloc or "#" in text:
        raise ValueError("not a URL")
    return text


def _read_name(text: str) -> str:
    if not text:
        raise ValueError("empty")
    return text


URL: Final = ConfigKind(
    ConfigType.STRING,
    "file:///path, https://host/path, or http:// on a loopback address, without a user and a fragment; or "
    "empty",
    _read_url,
)
CLAIM: Final = ConfigKind(ConfigType.STRING, "the name of a claim", _read_name)
_NO_CALLBACKS: Final = "tokens are always checked with the keys of sasl.oauthbearer.jwks.endpoint.url"


@dataclass(frozen=True, slots=True)
class OAuthBearerKeys(ListenerSection):
    """The OAuth part of `SecurityConfig`."""

    jwks_endpoint_url: str = setting(
        JWKS_URL,
        "",
        URL,
        "The public keys of the issuer of access tokens, a JSON Web Key Set. OAUTHBEARER needs it. A file is "
        "read again when it changes; a URL every sasl.oauthbearer.jwks.endpoint.refresh.ms, and for a token "
        "of an unknown key.",
        listener_too=True,
        null_default=True,
    )
    jwks_refresh_ms: int = setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        3_600_000,
        long(1),
        "How long the keys of a URL are used before they are read again.",
        unit="ms",
        listener_too=True,
    )
    jwks_backoff_ms: int = setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        100,
        long(1),
        "How long to wait after the first failure to read the keys of a URL. It doubles with each failure, "
        "up to sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms.",
        unit="ms",
        listener_too=True,
    )
    jwks_backoff_max_ms: int = setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        10_000,
        long(1),
        "How long to wait at most after a failure to read the keys of a URL.",
        unit="ms",
        listener_too=True,
    )
    expected_audiences: tuple[str, ...] = setting(
        "sasl.oauthbearer.expected.audience",
        (),
        list_of(str, "a list of audiences"),
        "Audiences of which a token must name one. Empty: a token must name none, as in Kafka.",
        listener_too=True,
        null_default=True,
    )
    expected_issuer: str = setting(
        "sasl.oauthbearer.expected.issuer",
        "",
        TEXT,
        "The issuer that a token must name. Empty: any issuer whose key signed it.",
        listener_too=True,
        null_default=True,
    )
    clock_skew_seconds: int = setting(
        "sasl.oauthbearer.clock.skew.seconds",
        30,
        integer(0),
        "How much the clocks of issuer and broker may differ, when a token's times are checked.",
        unit="s",
        listener_too=True,
    )
    scope_claim_name: str = setting(
        "sasl.oauthbearer.scope.claim.name",
        "scope",
        CLAIM,
        "The claim with a token's scopes, which must be well-formed and mean nothing here.",
        listener_too=True,
    )
    sub_claim_name: str = setting(
        "sasl.oauthbearer.sub.claim.name",
        "sub",
        CLAIM,
        "The claim with the user name.",
        listener_too=True,
    )
    oauthbearer_jaas: tuple[tuple[str, str], ...] = setting(
        "oauthbearer.sasl.jaas.config",
        (),
        SECRET,
        "The login module of a listener's tokens.",
        per_listener=True,
        inert=_NO_CALLBACKS,
    )
    oauthbearer_callback: tuple[tuple[str, str], ...] = setting(
        "oauthbearer.sasl.server.callback.handler.class",
        (),
        TEXT,
        "The class that checks a listener's tokens.",
        per_listener=True,
        inert=_NO_CALLBACKS,
    )

"""SASL/OAUTHBEARER: whose tokens clients log in with. The OAuth part of `SecurityConfig`.

The settings are read at the start, as in Kafka. (KIP-768; Kafka: SaslConfigs, BrokerSecurityConfigs)
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from broker.config.kinds import SECRET, TEXT, ConfigKind, ConfigType, integer, list_of, long
from broker.config.listeners import Address
from broker.config.setting import ListenerSection, Setting

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

    jwks_endpoint_url: str = Setting(JWKS_URL, "", URL, listener_too=True, null_default=True).described(
        "The public keys of the issuer of access tokens, a JSON Web Key Set. OAUTHBEARER needs it. A file is "
        "read again when it changes; a URL every sasl.oauthbearer.jwks.endpoint.refresh.ms, and for a token "
        "of an unknown key."
    )
    jwks_refresh_ms: int = Setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms", 3_600_000, long(1), "ms", listener_too=True
    ).described("How long the keys of a URL are used before they are read again.")
    jwks_backoff_ms: int = Setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", 100, long(1), "ms", listener_too=True
    ).described(
        "How long to wait after the first failure to read the keys of a URL. It doubles with each failure, "
        "up to sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms."
    )
    jwks_backoff_max_ms: int = Setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", 10_000, long(1), "ms", listener_too=True
    ).described("How long to wait at most after a failure to read the keys of a URL.")
    expected_audiences: tuple[str, ...] = Setting(
        "sasl.oauthbearer.expected.audience",
        (),
        list_of(str, "a list of audiences"),
        listener_too=True,
        null_default=True,
    ).described("Audiences of which a token must name one. Empty: a token must name none, as in Kafka.")
    expected_issuer: str = Setting(
        "sasl.oauthbearer.expected.issuer", "", TEXT, listener_too=True, null_default=True
    ).described("The issuer that a token must name. Empty: any issuer whose key signed it.")
    clock_skew_seconds: int = Setting(
        "sasl.oauthbearer.clock.skew.seconds", 30, integer(0), "s", listener_too=True
    ).described("How much the clocks of issuer and broker may differ, when a token's times are checked.")
    scope_claim_name: str = Setting(
        "sasl.oauthbearer.scope.claim.name", "scope", CLAIM, listener_too=True
    ).described("The claim with a token's scopes, which must be well-formed and mean nothing here.")
    sub_claim_name: str = Setting(
        "sasl.oauthbearer.sub.claim.name", "sub", CLAIM, listener_too=True
    ).described("The claim with the user name.")
    oauthbearer_jaas: tuple[tuple[str, str], ...] = Setting(
        "oauthbearer.sasl.jaas.config", (), SECRET, per_listener=True, inert=_NO_CALLBACKS
    ).described("The login module of a listener's tokens.")
    oauthbearer_callback: tuple[tuple[str, str], ...] = Setting(
        "oauthbearer.sasl.server.callback.handler.class", (), TEXT, per_listener=True, inert=_NO_CALLBACKS
    ).described("The class that checks a listener's tokens.")

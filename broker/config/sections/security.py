"""Authentication by SASL, tokens and roles. For broker.security and broker.server.broker."""

from dataclasses import dataclass, field
from sys import float_info
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from broker.common.principal import is_plain
from broker.config.kinds import (
    BOOLEAN,
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
    """SASL/OAUTHBEARER: whose tokens clients log in with. The OAuth part of `SecurityConfig`.

    The settings are read at the start, as in Kafka. (KIP-768; Kafka: SaslConfigs, BrokerSecurityConfigs)
    """

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
    ).described(
        "Audiences of which a token must name one. OAUTHBEARER needs one, unless "
        "sasl.oauthbearer.allow.unverified.audience is true."
    )
    allow_unverified_audience: bool = Setting(
        "sasl.oauthbearer.allow.unverified.audience", False, BOOLEAN, listener_too=True
    ).described("Whether tokens are taken for any audience if no audience is expected.")
    expected_issuer: str = Setting(
        "sasl.oauthbearer.expected.issuer", "", TEXT, listener_too=True, null_default=True
    ).described(
        "The issuer that a token must name. OAUTHBEARER needs one, unless "
        "sasl.oauthbearer.allow.unverified.issuer is true."
    )
    allow_unverified_issuer: bool = Setting(
        "sasl.oauthbearer.allow.unverified.issuer", False, BOOLEAN, listener_too=True
    ).described("Whether tokens of any issuer whose key signed them are taken if no issuer is expected.")
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


OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)

_ROLE: Final = one_of("viewer", "editor", "admin")
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
AUTHORIZER: Final = ConfigKind(
    _ROLE.type,
    f"{STANDARD_AUTHORIZER}, or empty",
    lambda text: one_of(STANDARD_AUTHORIZER).read(text) if text else "",
)
WIRE_ROLE: Final = ConfigKind(
    _ROLE.type, f"{_ROLE.allowed}, or empty", lambda text: _ROLE.read(text) if text else ""
)


def _principal(text: str) -> str:
    kind, colon, name = text.partition(":")
    if not (colon and is_plain(kind) and is_plain(name)):
        raise ValueError("not a principal")
    return text


def _max_reauth_ms(mechanism: str) -> Any:
    return Setting(
        f"{mechanism.lower()}.connections.max.reauth.ms", (), long(0), "ms", per_listener=True
    ).described(
        f"connections.max.reauth.ms for logins with {mechanism} on one listener. <name> in the key is the "
        "listener, in lower case."
    )


@dataclass(frozen=True, slots=True)
class SecurityConfig(OAuthBearerKeys):
    """`plain_jaas` contains (listener name in upper case, value) pairs.

    `admin_token` comes from the environment (WEIR_ADMIN_TOKEN or WEIR_ADMIN_TOKEN_FILE), never from the file.
    `local_listeners` are the PLAINTEXT listeners on a loopback address without a balancer;
    `broker.config.load` derives them from `listeners` and `proxy.protocol`.
    """

    sasl_enabled_mechanisms: tuple[str, ...] = Setting(
        "sasl.enabled.mechanisms",
        ("PLAIN",),
        list_of(
            one_of(*MECHANISMS).read,
            f"a list of {', '.join(MECHANISMS)}",
            least=1,
        ),
        dynamic=True,
        per_broker=True,
        listener_too=True,
    ).described(
        "SASL mechanisms of the SASL listeners.",
        kafka_default="GSSAPI",
        why="PLAIN is for the listener's own users; SCRAM requires users created beforehand, OAUTHBEARER "
        "an issuer of tokens.",
    )
    plain_jaas: tuple[tuple[str, str], ...] = Setting(
        "plain.sasl.jaas.config", (), SECRET, per_listener=True, dynamic=True, per_broker=True
    ).described(
        "The users of a listener: `org.apache.kafka.common.security.plain.PlainLoginModule required "
        'user_<name>="<password>" ...;`. <name> in the key is the listener, in small letters.'
    )
    sasl_server_max_receive_size: int = Setting(
        "sasl.server.max.receive.size", 524_288, integer(1), "bytes"
    ).described("Maximum size of a request before the login succeeds.")
    connections_max_reauth_ms: int = Setting(
        "connections.max.reauth.ms", 0, long(0), "ms", listener_too=True
    ).described(
        "Lifetime of a SASL login. A client logs in again on the same connection before it expires "
        "(KIP-368); otherwise its next request closes the connection. 0: no expiry. A login with an access "
        "token ends with the token, if that is earlier."
    )
    plain_max_reauth_ms: tuple[tuple[str, int], ...] = _max_reauth_ms("PLAIN")
    scram_256_max_reauth_ms: tuple[tuple[str, int], ...] = _max_reauth_ms("SCRAM-SHA-256")
    scram_512_max_reauth_ms: tuple[tuple[str, int], ...] = _max_reauth_ms("SCRAM-SHA-512")
    oauthbearer_max_reauth_ms: tuple[tuple[str, int], ...] = _max_reauth_ms(OAUTHBEARER)
    authorizer_class_name: str = Setting("authorizer.class.name", "", AUTHORIZER).described(
        f"`{STANDARD_AUTHORIZER}` allows Kafka clients what ACLs allow them; wire.role has no effect then. "
        "Empty: there are no ACLs; every client may produce, consume and describe, and wire.role says what "
        "it may change."
    )
    allow_everyone_if_no_acl_found: bool = Setting(
        "allow.everyone.if.no.acl.found", False, BOOLEAN
    ).described(
        "With an authorizer: whether every client may do everything with a resource that no ACL is about."
    )
    super_users: tuple[str, ...] = Setting(
        "super.users",
        (),
        list_of(_principal, "a list of User:<name>, printable, separated by semicolons", separator=";"),
    ).described(
        "Principals that can do everything through the Kafka protocol, regardless of ACLs and wire.role."
    )
    wire_role: str = Setting("wire.role", "", WIRE_ROLE, ours=True, listener_too=True).described(
        "What other Kafka clients can change: `viewer` nothing, `editor` quotas, topics (also by automatic "
        "creation) and their settings, `admin` everything. With gateway.authentication=gateway it is what "
        "they can change upstream. The default is `admin` on PLAINTEXT listeners on a loopback address and "
        "`viewer` on all others. Kafka without an authorizer equals `admin`; with one, this key is without "
        "effect."
    )
    delegation_token_secret_key: str = Setting(
        "delegation.token.secret.key", "", SECRET, null_default=True
    ).described(
        "The key of the HMACs of delegation tokens, which are their passwords. Another key makes all tokens "
        "invalid. Empty: there are no delegation tokens."
    )
    delegation_token_max_lifetime_ms: int = Setting(
        "delegation.token.max.lifetime.ms", 604_800_000, long(1), "ms"
    ).described("Maximum lifetime of a delegation token, beyond which it cannot be renewed.")
    delegation_token_expiry_time_ms: int = Setting(
        "delegation.token.expiry.time.ms", 86_400_000, long(1), "ms"
    ).described("A delegation token expires after this time unless it is renewed.")
    delegation_token_expiry_check_interval_ms: int = Setting(
        "delegation.token.expiry.check.interval.ms", 3_600_000, long(1), "ms"
    ).described("How often the broker removes expired delegation tokens.")
    secret_key_file: str = Setting("config.secret.key.file", "", TEXT, ours=True).described(
        "A file with the key that encrypts passwords among the dynamic settings (plain.sasl.jaas.config, "
        "ssl.key.password, ssl.keystore.key and similar keys) in the metadata: 32 random bytes in base64, "
        "mode 0600, as `openssl rand -base64 32` prints them. The file must exist. Empty: weir-secret.key "
        "beside the metadata, which the first start creates; it protects only copies of the metadata "
        "without it."
    )
    secret_old_key_file: str = Setting("config.secret.old.key.file", "", TEXT, ours=True).described(
        "The file with the previous key of config.secret.key.file. The start encrypts all values with the "
        "new key; afterwards the old key is no longer needed."
    )
    admin_token: str | None = field(default=None, repr=False)
    local_listeners: frozenset[str] = frozenset()

    def role_on(self, listener: str) -> str:
        """Return the role of the listener's clients other than super users."""
        role = self.for_listener(listener).wire_role
        return role or ("admin" if listener in self.local_listeners else "viewer")

    def session_ms(self, listener: str, mechanism: str | None) -> int:
        """Return the largest lifetime of a login with this mechanism; 0: no limit."""
        of_mechanism = dict(self._reauth_by_mechanism().get(mechanism or "", ()))
        return of_mechanism.get(listener, self.for_listener(listener).connections_max_reauth_ms)

    def logins_end(self, listener: str) -> bool:
        """Whether any login on this listener expires. Tokens do, wherever OAUTHBEARER can be enabled, and
        delegation tokens.
        """
        if self.for_listener(listener).jwks_endpoint_url or self.delegation_token_secret_key:
            return True
        return any(self.session_ms(listener, mechanism) for mechanism in self._reauth_by_mechanism())

    def _reauth_by_mechanism(self) -> dict[str, tuple[tuple[str, int], ...]]:
        return {
            "PLAIN": self.plain_max_reauth_ms,
            "SCRAM-SHA-256": self.scram_256_max_reauth_ms,
            "SCRAM-SHA-512": self.scram_512_max_reauth_ms,
            OAUTHBEARER: self.oauthbearer_max_reauth_ms,
        }


_NO_KERBEROS: Final = "GSSAPI is not among the mechanisms that the broker has"


def _inert(
    key: str, default: Any, kind: ConfigKind, unit: str = "", default_words: str = "nothing"
) -> Setting:
    return Setting(
        f"sasl.kerberos.{key}",
        default,
        kind,
        unit,
        dynamic=True,
        per_broker=True,
        listener_too=True,
        inert=_NO_KERBEROS,
        default_words=default_words,
    )


@dataclass(frozen=True, slots=True)
class KerberosConfig(ListenerSection):
    """The keys of Kafka that clients and files set, all without effect, because no login here uses Kerberos.

    Kafka changes them while it runs, for one broker. (Kafka: BrokerSecurityConfigs, DynamicListenerConfig)
    """

    service_name: str | None = _inert("service.name", None, TEXT, default_words="no name").described(
        "The name that Kafka's brokers run as."
    )
    kinit_cmd: str = _inert("kinit.cmd", "/usr/bin/kinit", TEXT).described("The path of Kerberos' kinit.")
    ticket_renew_window_factor: float = _inert(
        "ticket.renew.window.factor", 0.8, decimal(0, float_info.max)
    ).described("The share of a ticket's life after which it is renewed.")
    ticket_renew_jitter: float = _inert("ticket.renew.jitter", 0.05, decimal(0, float_info.max)).described(
        "The share of random time that is added to the time of the renewal."
    )
    min_time_before_relogin_ms: int = _inert("min.time.before.relogin", 60_000, long(0), "ms").described(
        "The least time between two attempts to renew a ticket."
    )
    principal_to_local_rules: tuple[str, ...] = _inert(
        "principal.to.local.rules", ("DEFAULT",), list_of(str, "a list of rules")
    ).described("The rules that make user names from Kerberos' principals; the first that matches is used.")

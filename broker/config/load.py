"""Builds the configuration sections from the file, the command line and the environment.

broker.__main__ calls `load` once; broker.server.broker rebuilds the sections when a dynamic key changes. The
command line wins over the environment, and that over the file. An unknown key is a warning, because Kafka's
files contain many. An invalid value stops the start with ConfigError, which names the key, the value and what
is allowed.

`parse` reads `server.properties` by the rules of java.util.Properties.load, with line numbers, from text that
is decoded as UTF-8 where Java's loader expects Latin-1.
"""

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from broker.common.errors import ConfigError
from broker.common.principal import ANONYMOUS, Principal
from broker.common.slices import Steps, run_through
from broker.config import environment
from broker.config.listeners import SecurityProtocol
from broker.config.sections.network import NO_PROXY
from broker.config.sections.security import JWKS_URL, OAUTHBEARER
from broker.config.setting import LISTENER_PREFIX, ListenerSection, settings_of, split_listener
from broker.config.table import SECTION_TYPES, BrokerConfig, setting_of
from broker.config.unknown_keys import hint, why_without_effect

OVERRIDE: Final = "--override"
_LINE_END: Final = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Property:
    """One assignment; `line` is its first line, counted from 1."""

    key: str
    value: str
    line: int


def parse(text: str) -> list[Property]:
    """Return all assignments in order; for repeated keys, the last one counts. Raises ConfigError for a bad
    `\\u` escape, and for half of a pair of them: no text on the wire can have that.
    """
    return [each for each in properties_in_steps(text) if each is not None]


def properties_in_steps(text: str) -> Iterator[Property | None]:
    """As `parse`, one after the other; None for a line without an assignment."""
    import javaproperties  # a start without a file does not need it

    line = 1
    try:
        for element in javaproperties.parse(io.StringIO(text, newline="")):
            if isinstance(element, javaproperties.KeyValue):
                _check_characters(element.key + element.value, line)
                yield Property(element.key, element.value, line)
            else:
                yield None
            line += len(_LINE_END.findall(element.source))
    except javaproperties.InvalidUEscapeError as error:
        allowed = "four hexadecimal digits after \\u"
        raise ConfigError("\\u", error.escape, allowed, f"line {line}") from error


def _check_characters(text: str, line: int) -> None:
    """Raises ConfigError for a surrogate without its other half."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        escape = f"\\u{ord(text[error.start]):04x}"
        allowed = "a character, or both surrogates of one"
        raise ConfigError("\\u", escape, allowed, f"line {line}") from error


def _check_bytes(place: str, text: str) -> None:
    """Raise ConfigError for an argument or a variable that is not UTF-8, of which Python makes surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        bad = text[error.start].encode(errors="surrogateescape")
        raise ConfigError("byte", bad, "UTF-8 text", place) from error


@dataclass(frozen=True, slots=True)
class Configuration:
    """The configuration of one start.

    `static` holds the text of every key set in the file, the environment or on the command line, `unknown`
    that of unknown keys. `warnings` are sentences for the log. `forget` lists keys whose dynamic settings the
    start deletes. `rebuild_metadata` creates topics for partitions that the metadata does not list. `places`
    maps each key of `static` to its line in the file, or its variable; empty for the command line.
    """

    static: Mapping[str, str]
    config: BrokerConfig
    warnings: tuple[str, ...]
    forget: tuple[str, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)
    rebuild_metadata: bool = False
    places: Mapping[str, str] = field(default_factory=dict)

    def with_dynamic(self, dynamic: Mapping[str, str]) -> BrokerConfig:
        """Return the sections with the broker's dynamic settings laid over the static ones. Raises
        ConfigError.
        """
        return run_through(self.with_dynamic_in_steps(dynamic))

    def with_dynamic_in_steps(self, dynamic: Mapping[str, str]) -> Steps[BrokerConfig]:
        """As `with_dynamic`, in steps of one text each."""
        config = yield from build_in_steps({**self.static, **dynamic})
        return replace(
            config, security=replace(config.security, admin_token=self.config.security.admin_token)
        )

    def originals(self) -> dict[str, str]:
        """Return the settings as text, for classes that an operator provides. (Kafka: originals)"""
        node = str(self.config.broker.node_id)
        return {"broker.id": node, "node.id": node, **self.static, **self.unknown}


def load(path: Path | None, overrides: Sequence[str], environ: Mapping[str, str]) -> Configuration:
    """Load the configuration; `overrides` are `key=value`. Raises ConfigError, and OSError for the file."""
    entries = [(_place(path, each.line), each.key, each.value) for each in _read_file(path)] if path else []
    entries += [(f"the variable {name}", key, value) for name, key, value in environment.settings(environ)]
    entries += [(OVERRIDE, *_read_override(text)) for text in overrides]
    for place, key, value in entries:
        _check_bytes(place, key + value)
    static: dict[str, str] = {}
    unknown: dict[str, str] = {}
    places: list[tuple[str, str]] = []
    set_at: dict[str, str] = {}
    inert: list[str] = []
    for place, key, value in entries:
        known = setting_of(key)
        if known is not None:
            static[key] = value
            set_at[key] = "" if place == OVERRIDE else place
            if known.inert:
                inert.append(f"{place}: {key} has no effect: {known.inert}")
        else:
            unknown[key] = value
            reason = why_without_effect(key)
            if reason is None:
                places.append((place, key))
            else:
                inert.append(f"{place}: {key} has no effect: {reason}")
    callback = static.get("client.quota.callback.class", "").strip()
    fate = "only the quota callback receives it" if callback else "it is ignored"
    warnings = [f"{place}: unknown key {key}; {fate}{hint(key)}" for place, key in places]
    try:
        config = build_config(static)
    except ConfigError as error:
        raise error.located(place_of(error.key, set_at), (*warnings, *inert)) from error
    token = environment.admin_token(environ)
    weak = environment.weak_token(token, environ)
    if weak:
        warnings.append(weak)
    config = replace(
        config,
        security=replace(config.security, admin_token=token),
        gateway=environment.with_cluster_keys(config.gateway, environ),
    )
    return Configuration(
        static, config, (*warnings, *inert, *_listener_warnings(config)), unknown=unknown, places=set_at
    )


def place_of(key: str, places: Mapping[str, str]) -> str:
    """Return where a key was set, in any spelling; empty if it was not."""
    known = setting_of(key)
    spellings = () if known is None else (spelling for spelling, _ in known.spellings)
    return next((places[each] for each in (key, *spellings) if each in places), "")


def build_config(values: Mapping[str, str]) -> BrokerConfig:
    """Build all sections from texts by key; missing keys have their defaults. Raises ConfigError."""
    return run_through(build_in_steps(values))


def build_in_steps(values: Mapping[str, str]) -> Steps[BrokerConfig]:
    """As `build_config`, in steps of one text each: a client can set long lists for each of many keys."""
    sections = {}
    of_listeners = _of_listeners(values)
    for name, section in SECTION_TYPES.items():
        sections[name] = yield from _fill(section, values, of_listeners)
    config = BrokerConfig(**sections)
    config.network.check()
    config.log.check()
    config.automq.check()
    config.connections.check()
    config.groups.check()
    config.consumer_groups.check()
    config.share_groups.check()
    config.streams_groups.check()
    config.share_partitions.check(config.share_groups.max_size)
    config.upstream.check()
    config.console.check()
    _check_tokens(config)
    local = frozenset(
        each.name
        for each in config.network.resolved_listeners()
        # Behind a balancer of this machine are clients of others.
        if each.is_local and not _has_balancer(config, each.name)
    )
    return replace(config, security=replace(config.security, local_listeners=local))


def _check_tokens(config: BrokerConfig) -> None:
    """Raise ConfigError for a listener where clients could log in with tokens of no issuer."""
    for listener in config.network.resolved_listeners():
        security = config.security.for_listener(listener.name)
        if not listener.protocol.has_login or OAUTHBEARER not in security.sasl_enabled_mechanisms:
            continue
        if not security.jwks_endpoint_url:
            allowed = f"a URL, required by {OAUTHBEARER} on the listener {listener.name}"
            raise ConfigError(JWKS_URL, "", allowed)
        for name, is_expected, is_any_allowed in (
            ("audience", security.expected_audiences, security.allow_unverified_audience),
            ("issuer", security.expected_issuer, security.allow_unverified_issuer),
        ):
            if not (is_expected or is_any_allowed):
                allowed = (
                    f"the {name} of the tokens that {OAUTHBEARER} takes on the listener {listener.name}; "
                    f"sasl.oauthbearer.allow.unverified.{name}=true allows any"
                )
                raise ConfigError(f"sasl.oauthbearer.expected.{name}", "", allowed)


_OfListeners = Mapping[str, Sequence[tuple[str, str]]]
"""The listeners that have a value of their own, in upper case, with their keys; by the key of the setting."""


def _of_listeners(values: Mapping[str, str]) -> _OfListeners:
    found: dict[str, list[tuple[str, str]]] = {}
    for key in values:
        listener, bare = split_listener(key)
        if listener is not None:
            found.setdefault(bare, []).append((listener, key))
    return found


def _fill(section: type, values: Mapping[str, str], of_listeners: _OfListeners) -> Steps[Any]:
    """Yields after each text that was parsed."""
    filled: dict[str, Any] = {}
    overrides: list[tuple[str, str, Any]] = []
    for each, setting in settings_of(section):
        own: list[tuple[str, Any]] = []
        for listener, key in of_listeners.get(setting.key, ()):
            if setting.per_listener or setting.listener_too:
                own.append((listener, setting.read(values[key], key=key)))
                yield
        if setting.per_listener:
            filled[each.name] = tuple(own)
            continue
        overrides += ((listener, each.name, value) for listener, value in own)
        filled[each.name] = setting.default
        spelling = next((key for key, _ in setting.spellings if key in values), None)
        if spelling is not None:
            filled[each.name] = setting.read_spelling(spelling, values[spelling])
            yield
    if issubclass(section, ListenerSection):
        filled["overrides"] = tuple(overrides)
    return section(**filled)


def _read_file(path: Path) -> list[Property]:
    try:
        return parse(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        bad = error.object[error.start : error.end]
        raise ConfigError("byte", bad, "UTF-8 text", _place(path, line)) from error
    except ConfigError as error:
        raise error.located(f"{path} {error.place}") from error


def _place(path: Path, line: int) -> str:
    return f"{path} line {line}"


def _read_override(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise ConfigError("--override", text, "key=value")
    return key.strip(), value


def _has_balancer(config: BrokerConfig, listener: str) -> bool:
    return config.network.for_listener(listener).proxy_protocol != NO_PROXY


def _administration_warnings(config: BrokerConfig) -> Iterable[str]:
    """Yield a warning for each listener that gives remote clients more rights than a viewer's."""
    security = config.security
    anonymous = str(Principal(ANONYMOUS))
    for listener in config.network.resolved_listeners():
        if listener.is_loopback and not _has_balancer(config, listener.name):
            continue
        key, role = "wire.role", security.role_on(listener.name)
        if any(name == listener.name and field == "wire_role" for name, field, _ in security.overrides):
            key = f"{LISTENER_PREFIX}{listener.name.lower()}.wire.role"
        if security.authorizer_class_name:
            role = "viewer"  # ACLs decide instead
        setting = f"{key}={role}"
        by_certificate = listener.protocol.is_encrypted and config.tls.of(listener).client_auth == "required"
        authenticates = listener.protocol.has_login or by_certificate
        if not authenticates and anonymous in security.super_users:
            setting, role = f"super.users={anonymous}", "admin"
        if role == "viewer":
            continue
        unauthenticated = "" if authenticates else " without authentication"
        affected = "every user who logs in" if authenticates else "every client"
        noun = "an administrator" if role == "admin" else "an editor of quotas and topics"
        yield (
            f"other machines can reach the listener {listener.name}{unauthenticated}, and {setting} makes "
            f"{affected} {noun}"
        )


def _listener_warnings(config: BrokerConfig) -> Iterable[str]:
    listeners = config.network.resolved_listeners()
    with_users = {name for name, _ in config.security.plain_jaas}
    for listener in listeners:
        only_plain = config.security.for_listener(listener.name).sasl_enabled_mechanisms == ("PLAIN",)
        if listener.protocol.has_login and only_plain and listener.name not in with_users:
            key = f"{LISTENER_PREFIX}{listener.name.lower()}.plain.sasl.jaas.config"
            yield f"clients cannot log in on the listener {listener.name}: {key} is not set"
        if listener.protocol is SecurityProtocol.SASL_SSL and config.tls.client_auth != "none":
            yield (
                f"ssl.client.auth does not apply to SASL listeners; for {listener.name} set "
                f"{LISTENER_PREFIX}{listener.name.lower()}.ssl.client.auth"
            )
    encrypted = {listener.name for listener in listeners if listener.protocol.is_encrypted}
    for endpoint in config.network.listeners:
        if not endpoint.address.is_loopback and endpoint.name not in encrypted:
            yield f"the listener {endpoint} is not encrypted, and other machines can reach it"
    yield from _administration_warnings(config)
    console = config.console.listener
    if console is not None and not console.is_loopback and not config.console.is_encrypted:
        yield f"the console at {console} is not encrypted, and other machines can reach it"
    for name in sorted(with_users - {listener.name for listener in listeners}):
        yield f"{LISTENER_PREFIX}{name.lower()}.plain.sasl.jaas.config is set, but there is no such listener"

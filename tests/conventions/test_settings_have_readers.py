"""The code reads every configuration key, or the key is declared inert, and the start warns about it."""

import ast
from collections import defaultdict
from typing import Final

import pytest

from broker.common.errors import ConfigError
from broker.config.sections.topics import TOPIC_SETTINGS
from broker.config.setting import Setting, settings_of
from broker.config.table import SECTION_TYPES
from tests.conventions.sources import Module, modules

INERT: Final = {
    "delete.records.purgatory.purge.interval.requests",
    "follower.replication.throttled.rate",
    "follower.replication.throttled.replicas",
    "group.consumer.assignor.offload.enable",
    "group.share.assignor.offload.enable",
    "group.streams.assignor.offload.enable",
    "group.streams.num.warmup.replicas",
    "log.local.retention.bytes",
    "log.local.retention.ms",
    "log.preallocate",
    "log.remote.copy.lag.bytes",
    "log.remote.copy.lag.ms",
    "min.insync.replicas",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "oauthbearer.sasl.jaas.config",
    "oauthbearer.sasl.server.callback.handler.class",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.principal.to.local.rules",
    "sasl.kerberos.service.name",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor",
    "share.coordinator.append.linger.ms",
    "share.coordinator.load.buffer.size",
    "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.threads",
    "share.coordinator.write.timeout.ms",
    "unclean.leader.election.enable",
}

Keys = list[tuple[str, type, str, Setting]]
"""Name of the section, its class, name of the field, and the setting."""


def keys() -> Keys:
    return [
        (name, section, field.name, setting)
        for name, section in SECTION_TYPES.items()
        for field, setting in settings_of(section)
    ]


class Sources:
    """The attributes that each file reads, and the classes that define an attribute."""

    def __init__(self) -> None:
        self.reads: dict[str, list[tuple[str, ast.expr]]] = defaultdict(list)
        self.owners: dict[str, set[str]] = defaultdict(set)
        self.names: dict[str, set[str]] = {}
        for module in modules():
            if module.name.startswith(("broker/", "webui/")):
                self._add(module)

    def _add(self, module: Module) -> None:
        self.names[module.name] = {each.id for each in module.nodes if isinstance(each, ast.Name)}
        for node in module.nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                self.reads[node.attr].append((module.name, node.value))
            elif isinstance(node, ast.ClassDef):
                for name in _attributes(node):
                    self.owners[name].add(node.name)

    def read(self, section_name: str, section: type, field: str) -> bool:
        """Return whether an expression reads this field.

        If another class has an attribute of that name, only expressions that name the section and files that
        name its class count.
        """
        own = {each.__name__ for each in section.__mro__}
        if not self.owners[field] - own:
            return bool(self.reads[field])
        named = (f"config.{section_name}", f"{section_name}_config")
        return any(
            owner.endswith(named) or not own.isdisjoint(self.names[path] - {"object"})
            for path, value in self.reads[field]
            for owner in [ast.unparse(value)]
            if not owner.startswith("message")
        )


def _attributes(node: ast.ClassDef) -> set[str]:
    found = set()
    for each in ast.walk(node):
        match each:
            case ast.FunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                found.add(name)
    return found


@pytest.fixture(scope="module")
def sources() -> Sources:
    return Sources()


def has_a_choice(setting: Setting) -> bool:
    """Return whether the key has more than one allowed value."""
    allowed = setting.kind.allowed
    return "," in allowed if allowed.startswith("one of ") else not allowed.startswith("PEM;")


def test_every_key_is_read_or_declared_inert(sources: Sources) -> None:
    unread = {
        setting.key
        for section_name, section, field, setting in keys()
        if has_a_choice(setting) and not setting.inert and not sources.read(section_name, section, field)
    }
    assert unread == set()


def test_a_key_with_one_allowed_value_refuses_all_others() -> None:
    fixed = {setting.key: setting for *_, setting in keys() if not has_a_choice(setting)}
    assert set(fixed) == {"ssl.keystore.type", "ssl.truststore.type"}
    for setting in fixed.values():
        assert setting.read(setting.write(setting.default) or "") == setting.default
        for other in ("gzip", "JKS", "PKCS12"):
            with pytest.raises(ConfigError):
                setting.read(other)


def test_a_key_without_a_reader_is_found(sources: Sources) -> None:
    section = SECTION_TYPES["fetch"]
    assert not sources.read("fetch", section, "delete_records_purge_interval")
    assert sources.read("fetch", section, "share_fetch_purge_interval")
    assert sources.read("fetch", section, "max_bytes") and sources.read(
        "fetch", section, "fetch_purge_interval"
    )


def test_the_inert_keys() -> None:
    everything = [setting for *_, setting in keys()] + list(TOPIC_SETTINGS.values())
    assert {setting.key for setting in everything if setting.inert} == INERT

"""Generates docs/configuration.md: `python -m broker.config.reference`. A test compares the two."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from broker.config.group_settings import GROUP_SETTINGS
from broker.config.sections import ReplicationConfig, SharePartitionConfig, TopicSettings, TopicThrottles
from broker.config.sections.topics import DeadLetters, TieredStorage
from broker.config.setting import LISTENER_PREFIX, Setting, settings_of
from broker.config.table import SECTION_TYPES, SETTINGS

PATH: Final = Path(__file__).parents[2] / "docs" / "configuration.md"

_TITLES: Final = {
    "broker": "The broker",
    "network": "Listeners, queues and buffers",
    "automq": "AutoMQ's server mode",
    "connections": "Connections",
    "log": "Storage",
    "cleaner": "Log compaction",
    "topics": "Topic creation",
    "topic_settings": "Topic defaults",
    "fetch": "Produce and Fetch",
    "groups": "Consumer groups",
    "consumer_groups": "Consumer groups of the consumer protocol",
    "share_groups": "Share groups",
    "streams_groups": "Streams groups",
    "transactions": "Transactions",
    "share_partitions": "Share groups: the records in flight",
    "share_coordinator": "Share groups: the topic with their states",
    "quotas": "Client quotas",
    "broker_quotas": "Broker and cluster quotas, retry storms",
    "replication": "Replication throttles",
    "telemetry": "Client telemetry",
    "request_log": "Request log",
    "events": "Events",
    "console": "The console and the REST API",
    "alerts": "Alerts",
    "security": "Security",
    "kerberos": "Kerberos",
    "tls": "TLS",
    "upstream": "The gateway: the upstream cluster",
    "gateway": "The gateway: its clients",
}

_HEAD: Final = """\
# Configuration

Generated from `broker/config/sections` by `python -m broker.config.reference`; do not edit it by hand.

`weir serve server.properties --override key=value` reads the file by Java's rules (comments with `#` or `!`,
a backslash continues a line, `=` or `:` between key and value, `\\uXXXX`), as UTF-8. The command line wins
over the environment, and that over the file. The keys are Kafka's where Kafka has them; *ours* marks the
others.

| a key or value | effect |
| --- | --- |
| a key of Kafka's that has no counterpart | ignored, with a warning that says why |
| an unknown key | ignored, with a warning |
| a key *without effect* | accepted, with a warning |
| a value that is not allowed | the start fails |

A *dynamic* key can change while the broker runs, with `kafka-configs.sh --alter --entity-type brokers` or any
other client's IncrementalAlterConfigs: for one broker (`--entity-name 1`), or for all (`--entity-default`)
unless it is *dynamic for one broker*. A value for one broker wins over a value for all, which wins over the
file, the environment and the command line; it survives restarts until it is deleted.
[operations.md](operations.md#while-it-runs) says more.

To set a key for one listener, prefix it with `listener.name.<name>.`, with the listener's name in lower case;
it wins over the common key. If a key has two spellings, the first one wins.

In the environment, a key is written as Kafka's container image has it, behind `WEIR_`: in upper case, `_` for
a period, `__` for an underscore, `___` for a hyphen. `WEIR_NUM_PARTITIONS=3` is `num.partitions=3`.
A variable without a text is not set; one that is no key is ignored, with a warning if it resembles one.

`WEIR_ADMIN_TOKEN` is the first administrator's token, `WEIR_ADMIN_TOKEN_FILE` a file
that contains it. Without either, the first start makes a token and prints it at a terminal.
`WEIR_CLUSTER_KEYS` and `WEIR_CLUSTER_KEYS_FILE` stand for `gateway.cluster.keys` and
`gateway.cluster.keys.location` where neither is set.
"""


def render() -> str:
    parts = [_HEAD]
    for name, section in SECTION_TYPES.items():
        parts.append(f"\n## {_TITLES[name]}\n")
        if section is TopicSettings:
            parts.append(
                "\nThe broker's key is the default of all topics; the topic's key applies to one topic.\n"
            )
        parts += _entries(section)
        if section is ReplicationConfig:
            parts.append("\nOnly topics select the throttled replicas:\n")
            parts += _entries(TopicThrottles)
        if section is TopicSettings:
            parts.append("\nOnly topics have these keys:\n")
            parts += _entries(TieredStorage)
            parts += _entries(DeadLetters)
        if section is SharePartitionConfig:
            parts.append("\nOnly groups have these keys:\n")
            for setting in GROUP_SETTINGS.values():
                if setting.key not in SETTINGS:
                    parts += _entry(setting)
    return "".join(parts)


def _entries(section: type) -> Iterator[str]:
    for _, setting in settings_of(section):
        yield from _entry(setting)


def _entry(setting: Setting) -> Iterator[str]:
    yield f"\n### `{_heading(setting)}`\n\n{setting.doc}\n\n"
    yield from (f"- {line}\n" for line in _facts(setting))


def _heading(setting: Setting) -> str:
    return f"{LISTENER_PREFIX}<name>.{setting.key}" if setting.per_listener else setting.key


def _facts(setting: Setting) -> Iterator[str]:
    default = setting.write(setting.default) if not setting.per_listener else None
    unit = f" {setting.unit}" if setting.unit and default not in (None, "-1") else ""
    yield f"default: `{default}`{unit}" if default else f"default: {setting.default_words}"
    if setting.kafka_default is not None:
        yield f"Kafka's default: `{setting.kafka_default}`. {setting.why}"
    yield f"allowed: {setting.kind.allowed}"
    if setting.inert:
        yield f"without effect: {setting.inert}"
    if setting.topic_key is not None:
        yield f"on a topic: `{setting.topic_key}`"
    for key, _ in setting.also:
        yield f"also: `{key}`"
    if setting.listener_too:
        yield f"for one listener: `{LISTENER_PREFIX}<name>.{setting.key}`"
    dynamic = "dynamic for one broker" if setting.per_broker else "dynamic"
    traits = [word for word, holds in ((dynamic, setting.dynamic), ("ours", setting.ours)) if holds]
    if traits:
        yield f"*{', '.join(traits)}*"


if __name__ == "__main__":
    PATH.parent.mkdir(exist_ok=True)
    PATH.write_text(render(), encoding="utf-8")

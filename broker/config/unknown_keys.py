"""Keys that are no settings: why a key of Kafka's has no effect here, and which key a wrong one stands for.

Called by `load` and broker.controller: a Kafka operator's file contains many, and "unknown" would make a
reader look for a spelling mistake. The names are Kafka's, or what several of them begin with.
"""

import difflib
from typing import Final

from broker.config.setting import LISTENER_PREFIX, split_listener
from broker.config.table import SPELLINGS

_BY_REASON: Final = {
    "the broker stores its metadata itself": (
        "controller.quorum.",
        "controller.performance.",
        "controller.socket.timeout.ms",
        "metadata.log.",
        "metadata.max.",
        "internal.metadata.",
        "broker.heartbeat.interval.ms",
        "broker.session.timeout.ms",
        "initial.broker.registration.timeout.ms",
        "server.max.startup.time.ms",
        "early.start.listeners",
        "controlled.shutdown.",
        "sasl.mechanism.controller.protocol",
        "log.dir.failure.timeout.ms",
    ),
    "every partition has one replica, on this broker": (
        "offsets.topic.replication.factor",
        "transaction.state.log.replication.factor",
        "transaction.state.log.min.isr",
        "replica.",
        "num.replica.fetchers",
        "broker.rack",
        "auto.leader.rebalance.enable",
        "leader.imbalance.",
        "unclean.leader.election.interval.ms",
        "add.partitions.to.txn.retry.backoff.",
        "group.share.initialize.retry.interval.ms",
        "offsets.commit.timeout.ms",
    ),
    "there is no tiered storage": ("remote.", "follower.fetch.last.tiered.offset.enable"),
    "one thread does this": (
        "num.recovery.threads.per.data.dir",
        "num.replica.alter.log.dirs.threads",
        "group.coordinator.threads",
        "group.coordinator.background.threads",
    ),
    "a coordinator keeps no buffers, and reads its log in pieces": (
        "group.coordinator.cached.buffer.max.bytes",
        "offsets.load.buffer.size",
        "share.coordinator.cached.buffer.max.bytes",
        "transaction.state.log.load.buffer.size",
    ),
    "the records of coordinators are not compressed": (
        "offsets.topic.compression.codec",
        "share.coordinator.state.topic.compression.codec",
    ),
    "the start offsets of logs are stored when they change": (
        "log.flush.start.offset.checkpoint.interval.ms",
    ),
    "every protocol of groups is served": ("group.coordinator.rebalance.protocols",),
    "transactions are always verified": ("transaction.partition.verification.enable",),
    "there are no transactions with two-phase commits": ("transaction.two.phase.commit.enable",),
    "nothing unstable is served": ("unstable.api.versions.enable", "unstable.feature.versions.enable"),
    "a page of DescribeTopicPartitions has 2,000 partitions": ("max.request.partition.size.limit",),
    "a new certificate may have another name": ("ssl.allow.dn.changes", "ssl.allow.san.changes"),
    "the broker loads no Java classes": (
        "alter.config.policy.class.name",
        "create.topic.policy.class.name",
        "group.streams.topology.description.plugin.class",
        "group.share.persister.class.name",
        "group.share.dlq.manager.class.name",
        "config.providers",
        "sasl.oauthbearer.jwt.validator.class",
        "principal.builder.class",
        "sasl.server.callback.handler.class",
        "security.providers",
        "ssl.engine.factory.class",
        "ssl.keymanager.algorithm",
        "ssl.trustmanager.algorithm",
        "ssl.provider",
        "ssl.secure.random.implementation",
    ),
    "the broker logs in at no other broker": (
        "sasl.client.callback.handler.class",
        "sasl.jaas.config",
        "sasl.login.",
        "sasl.mechanism.inter.broker.protocol",
        "sasl.oauthbearer.assertion.",
        "sasl.oauthbearer.client.credentials.",
        "sasl.oauthbearer.jwt.retriever.class",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
        "request.timeout.ms",
        "socket.connection.setup.timeout.",
        "ssl.endpoint.identification.algorithm",
    ),
    "metrics are on the page /metrics, with windows of their own": (
        "kafka.metrics.",
        "metric.reporters",
        "metrics.",
    ),
}


_WRONG_NAMES: Final = {
    "connection.creation.rate.limit": "max.connection.creation.rate",
    "connection.creation.rate.window.ms": "quota.window.size.seconds",
    "queued.max.request.size": "queued.max.requests.size.bytes",
    "queued.max.bytes": "queued.max.request.bytes",
}
"""Wrong names of keys in documents about Kafka and AutoMQ."""
_PER_IP: Final = (
    "KIP-612 rejected this key: set the quota connection_creation_rate of the ip entity{}, such as by "
    "kafka-configs.sh --alter {} --add-config connection_creation_rate=20"
)
_NO_KEYS: Final = {
    "max.connection.creation.rate.per.ip": _PER_IP.format("'s default", "--ip-defaults"),
    "max.connection.creation.rate.per.ip.overrides": _PER_IP.format(" of each address", "--ip ADDRESS"),
    "queued.max.connections": "a constant in Kafka, not a key: 20 accepted connections can wait for each "
    "processor; max.connections limits the open connections",
}
"""Other words that the same documents present as keys, and what to do instead."""


def why_without_effect(key: str) -> str | None:
    """Return why a key of Kafka's has no effect here; None if it is not known as one."""
    _, name = split_listener(key)
    return next((reason for reason, begins in _BY_REASON.items() if name.startswith(begins)), None)


def hint(key: str) -> str:
    """Return the likely intended key for an unknown one, in brackets; empty if none is similar."""
    if key in _WRONG_NAMES:
        return f" (Kafka calls it {_WRONG_NAMES[key]})"
    if key in _NO_KEYS:
        return f" ({_NO_KEYS[key]})"
    near = difflib.get_close_matches(key, SPELLINGS, n=1, cutoff=0.85)
    if not near:
        return ""
    prefix = f"{LISTENER_PREFIX}<name>." if SPELLINGS[near[0]].per_listener else ""
    return f" (did you mean {prefix}{near[0]}?)"

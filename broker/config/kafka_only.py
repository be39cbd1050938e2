"""Keys of Kafka's brokers that have no counterpart here, with the reason.

Called by `load` for a key that is no setting: a Kafka operator's file contains many, and "unknown" would make
a reader look for a spelling mistake. The names are Kafka's, or what several of them begin with.
"""

from typing import Final

from broker.config.setting import split_listener

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
    ),
    "there is no tiered storage": ("remote.",),
    "there are no streams groups": ("group.streams.",),
    "one thread does this": (
        "num.recovery.threads.per.data.dir",
        "num.replica.alter.log.dirs.threads",
        "group.coordinator.threads",
    ),
    "the broker loads no Java classes": (
        "alter.config.policy.class.name",
        "create.topic.policy.class.name",
        "group.share.persister.class.name",
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


def why_without_effect(key: str) -> str | None:
    """Return why a key of Kafka's has no effect here; None if it is not known as one."""
    _, name = split_listener(key)
    return next((reason for reason, begins in _BY_REASON.items() if name.startswith(begins)), None)

"""Where Weir's tables differ from Kafka's on purpose, and why. A pattern without a match fails its test."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final

_OF_LISTENER: Final = "Kafka knows it as the same key with a listener's and a mechanism's prefix"
_DYNAMIC_ONLY: Final = "in Kafka it is only a dynamic setting (DynamicConfig)"
_BOUNDED: Final = "more would exhaust the process"

MESSAGES: Final = {
    "TxnOffsetCommitRequest*": "kio has not renamed generation_id yet, which is the same on the wire",
    "Share* flexible from": "kio does not have their version 0, which no broker serves",
}

SETTINGS: Final = {
    "broker node.id: default": "a broker alone can have any id, so none has to be set",
    "broker broker.id: *": "it is another spelling of node.id",
    "broker listener.security.protocol.map: default": "Kafka's order is that of a hash map",
    "broker process.roles: default": "Weir is a broker, whose keys say so",
    "broker log.dirs: default": "Kafka has the default at log.dir, as Weir has: /tmp is no place for records",
    "broker control.plane.listener.name: not Kafka's": "of Kafka up to 3.9",
    "broker leader.replication.throttled.rate: not Kafka's": _DYNAMIC_ONLY,
    "broker follower.replication.throttled.rate: not Kafka's": _DYNAMIC_ONLY,
    "broker replica.alter.log.dirs.io.max.bytes.per.second: not Kafka's": _DYNAMIC_ONLY,
    "broker *.jaas.config: not Kafka's": _OF_LISTENER,
    "broker *.callback.handler.class: not Kafka's": _OF_LISTENER,
    "broker *.connections.max.reauth.ms: not Kafka's": _OF_LISTENER,
    "broker allow.everyone.if.no.acl.found: not Kafka's": "of Kafka's StandardAuthorizer",
    "broker super.users: not Kafka's": "of Kafka's StandardAuthorizer",
    "broker num.network.threads: bounds": _BOUNDED,
    "broker num.io.threads: bounds": _BOUNDED,
    "broker num.partitions: bounds": _BOUNDED,
    "broker max.connections: bounds": "0 would let nobody in, not even to change it",
    "broker max.connection.creation.rate: bounds": "0 would let nobody in, not even to change it",
    "broker share.coordinator.state.topic.*: bounds": "a short",
}


def unexplained(found: Iterable[str], reasons: Mapping[str, str]) -> list[str]:
    """Return the differences without a reason, and the reasons without a difference."""
    different = list(found)
    missing = [each for each in different if not any(fnmatchcase(each, pattern) for pattern in reasons)]
    stale = [pattern for pattern in reasons if not any(fnmatchcase(each, pattern) for each in different)]
    return [*missing, *(f"nothing is different any more: {each}" for each in stale)]

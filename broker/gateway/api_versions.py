"""The APIs and versions that a client may use through the gateway.

Called by the gateway for ApiVersions responses of upstream brokers, and with the key and version of each
request, for clients that send what the gateway did not offer. A client may use

* in the versions that the upstream broker supports and the codec knows, an API with requests or responses
  that the gateway reads or changes;
* Produce and Fetch in the versions before those of the codec, too, of which the gateway reads what it needs;
* in all versions that the upstream broker supports, any other API, known or not: its messages are forwarded
  as they are;
* in the gateway's own versions, an API that the gateway answers itself;
* no API that brokers and controllers use among themselves.

Where the gateway logs clients in, its own credentials do upstream what a client asks for. There it forwards
only what it can judge; see `judged`.

Pure. A damaged response raises ProtocolViolation.
"""

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from broker.api.security.client_security import ACCESS
from broker.common.errors import ErrorCode
from broker.gateway.responses import decoded, encoded
from broker.metadata.actor import Role
from broker.protocol.api_key import ApiKey
from broker.protocol.codec import known_versions
from broker.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from broker.protocol.schema import Buffer

Versions = tuple[int, int]
"""First and last version, both included."""

Forwardable = Callable[[int], Versions | None]
"""Takes an API key and returns the versions that the gateway can forward, None if there are none."""

ANY: Final = (0, 0x7FFF)

MAX_FETCH: Final = 15
"""From 16, a response has addresses of brokers (KIP-951) after its records, which the gateway never reads."""

MAX_JUDGED_FETCH: Final = 14
"""From 15, the replica id is a tagged field behind the topics; 15 has nothing else that is new. (KIP-903)"""

READ: Final = frozenset(
    (
        ApiKey.PRODUCE,
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.API_VERSIONS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.PUSH_TELEMETRY,
        ApiKey.LIST_CONFIG_RESOURCES,
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        ApiKey.DELETE_RECORDS,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.ELECT_LEADERS,
    )
)
"""The APIs whose messages the gateway reads beyond their header and throttle time."""

INTERNAL: Final = frozenset(
    (
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.ALTER_PARTITION,
        ApiKey.ENVELOPE,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.UPDATE_RAFT_VOTER,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    )
)
"""APIs that no client uses: those of controllers' listeners, and those of brokers among themselves.

Not WriteTxnMarkers, which Kafka's admin client sends to abort a transaction.
"""

STATES_NODE: Final = 5
"""The first version of ApiVersions in which a client states its node, which the gateway checks. (KIP-1242)"""


@cache
def forwardable(api_key: int) -> Versions | None:
    """Return the first and the last version that the gateway can forward; None if it forwards none.

    The upstream broker may support fewer.
    """
    if api_key in INTERNAL:
        return None
    if api_key == ApiKey.FETCH:
        return 0, MAX_FETCH
    if api_key == ApiKey.SASL_HANDSHAKE:
        return 1, 1  # the tokens after version 0 have no request around them
    if api_key == ApiKey.PRODUCE:
        return 0, known_versions(api_key)[1]
    return known_versions(api_key) if api_key in READ else ANY


@cache
def judged(api_key: int) -> Versions | None:
    """As `forwardable`, for a client that the gateway logs in: none of an API without an entry in
    `api.security.client_security`, no version after those that the codec knows, and none before them if the
    API needs a role: the codec writes its refusals.
    """
    versions = forwardable(api_key)
    if versions is None or api_key not in ACCESS:
        return None
    first, last = known_versions(api_key)
    if api_key == ApiKey.FETCH:
        last = MAX_JUDGED_FETCH
    if ACCESS[api_key].role == Role.VIEWER:
        first = 0
    return max(first, versions[0]), min(last, versions[1])


def is_allowed(api_key: int, version: int, versions_of: Forwardable = forwardable) -> bool:
    """Return whether the gateway can forward a request. The connection of any other is closed, as in Kafka.
    The gateway's own handler answers newer versions of ApiVersions. (KIP-511)
    """
    versions = versions_of(api_key)
    return versions is not None and versions[0] <= version <= versions[1]


def intersect(
    response: Buffer,
    request_version: int,
    local: Mapping[int, Versions],
    throttle_time_ms: int = 0,
    missing: Mapping[int, Versions] = MappingProxyType({}),
    versions_of: Forwardable = forwardable,
) -> bytes:
    """Return the response for the client: the versions that the upstream broker supports and the gateway can
    forward, and the APIs in `local`, which the gateway answers. Those in `missing` are added if the upstream
    broker does not know them. The rest of the response stays.

    `response` is that of the upstream broker, without its size; the result is whole, with its size, and has
    at least this throttle time. Raises ProtocolViolation if the response is damaged.
    """
    version = 0 if is_refused(response) else request_version
    message, correlation_id = decoded(response, ApiKey.API_VERSIONS, version)
    limit(message, local, missing, versions_of)
    message.throttle_time_ms = max(message.throttle_time_ms, throttle_time_ms)
    return encoded(message, version, correlation_id)


def limit(
    message: ApiVersionsResponse,
    local: Mapping[int, Versions],
    missing: Mapping[int, Versions],
    versions_of: Forwardable,
) -> None:
    """Change the APIs of a decoded response to those of `intersect`."""
    offered = {
        each.api_key: each
        for upstream in message.api_keys
        if (each := _limited(upstream, versions_of)).min_version <= each.max_version
    }
    if message.error_code == ErrorCode.NONE:
        offered = (
            {key: ApiVersion(key, *versions) for key, versions in missing.items()}
            | offered
            | {key: ApiVersion(key, *versions) for key, versions in local.items()}
        )
    message.api_keys = [offered[key] for key in sorted(offered)]


def is_refused(response: Buffer) -> bool:
    """Return whether the upstream broker does not know the version of the request: then it answers in version
    0. (KIP-511)
    """
    return bytes(response[4:6]) == _UNSUPPORTED


_UNSUPPORTED: Final = int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big")


def _limited(upstream: ApiVersion, versions_of: Forwardable) -> ApiVersion:
    """Return the versions of an API that both sides know; the last is below the first if there are none."""
    key = upstream.api_key
    first, last = versions_of(key) or (0, -1)
    return ApiVersion(key, max(first, upstream.min_version), min(last, upstream.max_version))

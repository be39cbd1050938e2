"""Writes docs/gateway-protocol.md: `python -m broker.gateway.support`. A test compares the two.

The page says what clients of a Kafka cluster can use through the gateway, and what the gateway does to
it. Versions and addresses are those of api_versions and responses.
"""

import textwrap
from pathlib import Path
from typing import Final

from broker.api.security.client_security import ACCESS
from broker.api.support import KAFKA
from broker.common.version import KAFKA_VERSION
from broker.gateway.api_versions import INTERNAL, READ, forwardable, judged
from broker.gateway.responses import rewriter
from broker.metadata.actor import Role
from broker.protocol.api_key import NAMES, ApiKey

PATH: Final = Path(__file__).parents[2] / "docs" / "gateway-protocol.md"

_LOGIN: Final = "answered by the gateway with `gateway.authentication=gateway`"

_DELEGATION: Final = "forwarded; DELEGATION_TOKEN_AUTH_DISABLED with `gateway.authentication=gateway`"

_MUTATIONS: Final = "while a client has a controller mutation quota: charges it, and forwards what it allows"
_CLIENT_METRICS: Final = "answers for client metrics with `gateway.quotas=local`, and forwards the rest"
_OWN: Final = "refuses the topics `__weir_*`"
_RACK: Final = (
    "adds the rack of the client's address, with `gateway.client.racks`, when a member joins that names none"
)

NOTES: Final = {
    ApiKey.PRODUCE: f"reads `acks`, charges the produce quota; {_OWN}, before version 3 by closing the "
    "connection",
    ApiKey.FETCH: "charges the fetch quota; refuses `__weir_metadata` and `__weir_shares`, before version 4 "
    "by closing the connection; from version 11, with `gateway.client.racks`, adds the rack of the client's "
    "address if the consumer names none; versions from 16 have addresses behind the records",
    ApiKey.METADATA: (
        "creates no topics of Weir, and marks those that exist as internal; leaves out brokers without an "
        "address; their partitions have no leader"
    ),
    ApiKey.FIND_COORDINATOR: "COORDINATOR_NOT_AVAILABLE if the coordinator has no address",
    ApiKey.SASL_HANDSHAKE: f"reads the mechanism; not version 0, whose tokens are no requests; {_LOGIN}",
    ApiKey.SASL_AUTHENTICATE: f"reads the principal, which counts once the broker has accepted it; {_LOGIN}",
    ApiKey.API_VERSIONS: (
        "offers the versions of this page, and the APIs that the gateway answers; checks the cluster and the "
        "node that a client states, and serves version 5 whatever the upstream broker knows"
    ),
    ApiKey.CREATE_TOPICS: f"refuses topics of Weir; {_MUTATIONS}",
    ApiKey.DELETE_TOPICS: f"{_MUTATIONS}; {_OWN}",
    ApiKey.CREATE_PARTITIONS: f"{_MUTATIONS}; {_OWN}",
    ApiKey.DELETE_RECORDS: _OWN,
    ApiKey.WRITE_TXN_MARKERS: _OWN,
    ApiKey.CREATE_ACLS: _OWN,
    ApiKey.DELETE_ACLS: _OWN,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _OWN,
    ApiKey.ELECT_LEADERS: _OWN,
    ApiKey.SHARE_FETCH: "charges the fetch quota; refuses `__weir_metadata` and `__weir_shares`",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _RACK,
    ApiKey.SHARE_GROUP_HEARTBEAT: _RACK,
    ApiKey.STREAMS_GROUP_HEARTBEAT: (
        "TOPIC_AUTHORIZATION_FAILED if the topology has internal topics that the client may not create; "
        f"{_RACK}"
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "marks the topics `__weir_*` as internal",
    ApiKey.DESCRIBE_CONFIGS: _CLIENT_METRICS,
    ApiKey.ALTER_CONFIGS: f"{_CLIENT_METRICS}; {_OWN}",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: f"{_CLIENT_METRICS}; {_OWN}",
    ApiKey.LIST_CONFIG_RESOURCES: f"{_CLIENT_METRICS}; version 0 whatever the upstream broker knows",
    ApiKey.CREATE_DELEGATION_TOKEN: _DELEGATION,
    ApiKey.RENEW_DELEGATION_TOKEN: _DELEGATION,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _DELEGATION,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _DELEGATION,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "answered by the gateway with `gateway.quotas=local`",
    ApiKey.ALTER_CLIENT_QUOTAS: "answered by the gateway with `gateway.quotas=local`",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: f"forwarded; {_LOGIN}",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: f"forwarded; {_LOGIN}",
    ApiKey.DESCRIBE_QUORUM: "leaves out the listeners of controllers from version 2",
    ApiKey.DESCRIBE_CLUSTER: "leaves out brokers without an address, and all controllers",
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: "answered by the gateway",
    ApiKey.PUSH_TELEMETRY: "answered by the gateway",
}

_HEAD: Final = f"""\
# What passes through the gateway

Generated from `broker/gateway` by `python -m broker.gateway.support`; do not edit it by hand.

A client may use an API in the versions that the upstream broker supports, within the versions of this table.
Some of them only Kafka before 4.0 has, such as Produce 0 to 2 and Fetch 0 to 3. ApiVersions says what the
broker behind the connection supports, so brokers of different releases can stand behind one gateway.

Requests and responses are forwarded as they are, but for what the table says. In every response with
`throttle_time_ms`, the client sees the longer one of the upstream broker's throttle time and the gateway's.
Where a version has no such field, the gateway does not read the connection until the time is over.

| key | API | Kafka {KAFKA_VERSION} | through the gateway | what the gateway does |
|---|---|---|---|---|
"""

_OTHERS: Final = """
## Forwarded as they are

In all versions of the upstream broker:

{names}

So is every API that only a later Kafka has. If its responses, or those of a later version of one of these,
contain addresses of brokers, clients see the upstream addresses.

## Not offered

APIs of controllers, and of brokers among themselves:

{internal}

A request of one of these, or in a version that is not offered, closes its connection.

## Where the gateway logs clients in

With `gateway.authentication=gateway`, the upstream cluster takes all clients for the gateway. So the gateway
asks [`wire.role`](configuration.md#wirerole) itself, as a broker does, before it forwards what changes
something:

| role | API |
|---|---|
{roles}
AlterConfigs and IncrementalAlterConfigs need `admin` for brokers and their loggers. A client without the role
is answered CLUSTER_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED or GROUP_AUTHORIZATION_FAILED, and
nothing goes upstream. Metadata creates topics for editors only: for others, it is answered as if the
cluster's `auto.create.topics.enable` were off. Share coordinators (FindCoordinator) are for administrators,
and a Fetch with a replica id is refused to everybody.

What the gateway cannot judge it does not forward there: APIs that are not on this page, versions that only a
later Kafka has, those that Kafka {version} does not have any more of APIs that need a role, and Fetch from
version 15, in which only the replica id is new.

## Differences that clients can see from a cluster without a gateway

* The upstream broker sees the gateway's address: `client_host` in the descriptions of groups is the
  gateway's, and an ACL with a host must name the gateway.
* DescribeConfigs of a broker shows the configuration of the upstream broker, with its listeners.
* Unknown tagged fields are left out of responses whose addresses are replaced.
* A client that logs in with a delegation token, with Kerberos, or with a bearer token that is no JSON Web
  Token has the principal ANONYMOUS at the gateway, and its quotas, but its own at the upstream broker.
"""


def render() -> str:
    treated = READ | NOTES.keys()
    rows = [_row(ApiKey(key)) for key in sorted(KAFKA) if key in treated]
    names = [NAMES[key] for key in sorted(KAFKA) if key not in treated | INTERNAL]
    internal = [NAMES[key] for key in sorted(INTERNAL & KAFKA.keys())]
    return (
        _HEAD
        + "".join(rows)
        + _OTHERS.format(
            names=_list(names),
            internal=_list(internal),
            roles="".join(map(_role_row, (Role.EDITOR, Role.ADMIN))),
            version=KAFKA_VERSION,
        )
    )


def _role_row(role: Role) -> str:
    """Return the APIs of which the last version needs a role, with the version from which it does."""
    names = []
    for key, access in sorted(ACCESS.items()):
        offered = judged(key)
        if offered is not None and access.role_in(offered[1]) == role:
            since = "" if access.role == role else f" from version {access.brokers_since}"
            names.append(NAMES[key] + since)
    return f"| `{role.name.lower()}` | {', '.join(names)} |\n"


def _list(names: list[str]) -> str:
    return textwrap.fill(", ".join(names), 110) + "."


def _row(key: ApiKey) -> str:
    offered = forwardable(key)
    assert offered is not None
    last = offered[1] if key in READ else min(offered[1], _last(KAFKA[key]))
    passing = list(range(offered[0], last + 1))
    rewritten = [version for version in passing if rewriter(key, version)]
    notes = [NOTES[key]] if key in NOTES else []
    if rewritten and key != ApiKey.DESCRIBE_QUORUM:
        since = "" if rewritten == passing else f" from version {rewritten[0]}"
        notes.insert(0, f"replaces addresses{since}")
    text = "; ".join(notes) or "reads requests"
    return f"| {key.value} | {NAMES[key]} | {KAFKA[key]} | {_text(passing)} | {text} |\n"


def _last(versions: str) -> int:
    return int(versions.rpartition("-")[2])


def _text(versions: list[int]) -> str:
    first, last = versions[0], versions[-1]
    return str(first) if first == last else f"{first}-{last}"


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")

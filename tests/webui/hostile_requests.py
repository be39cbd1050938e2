"""The worst that can be asked of every route and page, by the name of its operation.

Each is (what it is, path with its query, body). `test_longest_piece` sends all of them to a broker that has
as much of everything as one may have, and holds that this table leaves no route out.
"""

from functools import cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from tests.webui.crowded import ASSIGNED, GROUP, STRINGS, VALUES, WIDE, dumped
from webui.rest.routes import ROUTES
from webui.tables.cursor import query_digest, write_cursor

LONGEST: Final = 1_048_576


class Asked(NamedTuple):
    what: str
    path: str
    body: bytes | None = None
    media: str = "application/json"


YAML: Final = "application/yaml"


def bad_yaml(path: str, field: str) -> tuple[Asked, ...]:
    """For a route that imports files with the list `field`."""
    head = b"%s:\n" % field.encode()
    return (
        Asked("1 MB of YAML brackets", path, b"[" * LONGEST, YAML),
        Asked("1 MB of YAML ones", path, (head + b"- 1\n" * (LONGEST // 4))[:LONGEST], YAML),
        Asked("1 MB of empty YAML objects", path, (head + b"- {}\n" * (LONGEST // 5))[: LONGEST - 3], YAML),
        Asked("a YAML element of 1 MB", path, ones(head + b"- [", b"]"), YAML),
        Asked("a YAML text of 1 MB", path, head + b"- '" + b"x" * (LONGEST - len(head) - 4) + b"'", YAML),
        Asked("1 MB of YAML lines", path, head + b"- |\n" + b"  x\n" * (LONGEST // 4 - 10), YAML),
        Asked("1 MB of YAML keys", path, yaml_keys()[:LONGEST], YAML),
        Asked("1 MB of YAML spaces", path, b" " * LONGEST, YAML),
    )


def ones(before: bytes, after: bytes) -> bytes:
    """As many elements as a body can hold."""
    return before + b"1," * ((LONGEST - len(before) - len(after)) // 2 - 1) + b"1" + after


def filled(element: bytes, before: bytes, after: bytes) -> bytes:
    length = LONGEST - len(before) - len(after)
    count = length // (len(element) + 1)
    return before + (element + b",") * (count - 1) + element + after


@cache
def json_keys() -> bytes:
    return b",".join(b'"k%d":1' % n for n in range(100_000))


@cache
def yaml_keys() -> bytes:
    return b"".join(b"k%d: 1\n" % n for n in range(110_000))


def bad_bodies(path: str, field: str) -> tuple[Asked, ...]:
    """For a route whose body has the list `field`."""
    head = b'{"%s":[' % field.encode()
    return (
        Asked("1 MB array", path, ones(b"[", b"]")),
        Asked("1 MB of ones in the list", path, ones(head, b"]}")),
        Asked("1 MB of empty objects in the list", path, filled(b"{}", head, b"]}")),
        Asked("1 MB of brackets", path, b"[" * LONGEST),
        Asked("1 MB of brackets in the list", path, head + b"[" * (LONGEST - len(head))),
        Asked("1 MB of spaces", path, b" " * LONGEST),
        Asked("1 MB of text", path, b'"' + b"\\u0000" * (LONGEST // 6 - 1) + b'"'),
        Asked("an element of 1 MB", path, head + ones(b"[", b"]]}")[: LONGEST - len(head)]),
        Asked("an element of 34,000 characters", path, head + b"[" + b"[]," * 11_300 + b"[]]]}"),
        Asked(
            "an object of 5,000 keys",
            path,
            head + b"{" + b",".join(b'"%d":1' % n for n in range(4_500)) + b"}]}",
        ),
        Asked(
            "1 MB of keys",
            path,
            b"{" + json_keys()[: LONGEST - 2] + b"}",
        ),
    )


def short_bodies(path: str) -> tuple[Asked, ...]:
    """For a route whose body has no list."""
    return (
        Asked("1 MB array", path, ones(b"[", b"]")),
        Asked("4 kB array", path, b"[" + b"1," * 2_040 + b"1]"),
        Asked("4 kB of brackets", path, b"[" * 4_096),
        Asked("4 kB of keys", path, b"{" + b",".join(b'"%d":1' % n for n in range(500)) + b"}"),
    )


def rules(count: int, name: str = "new-{}") -> list[dict[str, Any]]:
    return [
        {
            "entity": {"user": name.format(at)},
            "limits": {"producer_byte_rate": 1_000 + at, "consumer_byte_rate": 9},
        }
        for at in range(count)
    ]


def edits(count: int, name: str = "edit-{}") -> list[dict[str, Any]]:
    return [
        {
            "entity": {"client-id": name.format(at)},
            "ops": [{"key": "producer_byte_rate", "value": 1_000 + at}],
        }
        for at in range(count)
    ]


def listeners(count: int) -> str:
    return ",".join(f"PLAINTEXT{at}://h:{at + 1}" for at in range(count))


def pages(path: str, *sorts: str) -> tuple[Asked, ...]:
    """A list that is searched, sorted and cut."""
    most = "limit=1000"
    return (
        Asked("a page of 1,000 rows", f"{path}?{most}"),
        Asked("the last page", f"{path}?{most}&order=desc"),
        Asked("a long cursor", f"{path}?{most}&cursor={'A' * 8_192}"),
        Asked("a search that finds nothing", f"{path}?{most}&search={'z' * 1_024}"),
        Asked("a search of one letter", f"{path}?{most}&search=1"),
        Asked("an unknown parameter", f"{path}?{'x' * 10_000}=1"),
        Asked("2,000 parameters", f"{path}?{'&'.join(f'{at}=' for at in range(2_000))}"),
        *(Asked(f"sorted by {sort}", f"{path}?{most}&sort={sort}&order=desc") for sort in sorts),
    )


def after(operation: str, key: list[Any]) -> tuple[Asked, ...]:
    """The pages after a row with this sort key; a forged mark says that a billion rows have the same."""
    route = next(route for route in ROUTES if route.operation == operation)
    given = {each.name: each.default for each in route.query if each.name not in ("limit", "cursor")}
    digest = query_digest(operation, given)
    return tuple(
        Asked(what, f"{route.path}?limit=1000&cursor={write_cursor(digest, [key, same, 0])}")
        for what, same in (("after a mark", 1), ("after a forged mark", 10**9))
    )


QUOTAS: Final = "/api/v1/client-quotas"
IMPORT: Final = f"{QUOTAS}:import"
RESOLVE: Final = f"{QUOTAS}:resolve"
CONFIGS: Final = "/api/v1/broker-configs"
METRICS: Final = "/api/v1/client-metrics"
WHAT_IF: Final = "/api/v1/insights/what-if"
LOG: Final = "/api/v1/request-log"
ADDRESS: Final = "/api/v1/ip-quotas/10.0.0.1"
SCRAM: Final = "/api/v1/scram-users/SCRAM-SHA-512"
ALERT_RULE: Final = "/api/v1/alert-rules"
DESTINATION: Final = "/api/v1/alert-destinations"
SUBSCRIPTIONS: Final = {
    "subscriptions": [
        {"name": f"s{at}", "metrics": ["org.a."], "match": ["client_id=" + "(a|b)*" * 20]}
        for at in range(1_000)
    ]
}
LONG: Final = "x" * 1_000
ACLS: Final = "/api/v1/acls"
LONG_ACL: Final = {
    "resource_type": "TOPIC",
    "name": "x" * 1_024,
    "pattern_type": "PREFIXED",
    "principal": "User:" + "x" * 1_019,
    "host": "x" * 1_024,
    "operation": "ALL",
    "permission": "DENY",
}
TOPICS: Final = "/api/v1/topics"
BROWSE: Final = f"{TOPICS}/{WIDE}/records:browse"
BROWSE_VALUES: Final = f"{TOPICS}/{VALUES}/records:browse"
BROWSE_STRINGS: Final = f"{TOPICS}/{STRINGS}/records:browse"
SOME: Final = list(range(20))
FIRST: Final = {"from": {"earliest": True}}
TEN_THOUSAND: Final = "x" * 10_000
TABS: Final = "\t" * 32_000
OVERRIDES: Final = "max.connection.creation.rate.per.user.overrides"
DAYS: Final = "from=2026-01-01&to=2026-03-30"


def insight(name: str, *more: str) -> tuple[Asked, ...]:
    path = f"/api/v1/insights/{name}"
    return (
        Asked("92 days", f"{path}?{DAYS}" + "".join(f"&{each}" for each in more)),
        Asked("no day", f"{path}?from={TEN_THOUSAND[:1_000]}"),
    )


HOSTILE: Final[dict[str, tuple[Asked, ...]]] = {
    "listClientQuotas": (
        *pages(QUOTAS, "used", "producer_byte_rate", "changed"),
        *after("listClientQuotas", [[[0, False, "a"]]]),
        Asked("a filter", f"{QUOTAS}?user_match=any&client_id_match=any&limit=1000"),
        Asked("a strict filter", f"{QUOTAS}?user=user-1&client_id=client-1&strict=true"),
    ),
    "alterClientQuotas": (
        *bad_bodies(QUOTAS, "entries"),
        Asked(
            "1,000 entries are validated", f"{QUOTAS}?validate_only=true", dumped({"entries": edits(1_000)})
        ),
        Asked("1,000 entries", QUOTAS, dumped({"entries": edits(1_000)})),
        Asked("1,000 entries that are refused", QUOTAS, dumped({"entries": edits(1_000, "\t{}")})),
        Asked("1,000 times the same entry", QUOTAS, dumped({"entries": edits(1_000, "same")})),
        Asked("one entry is validated", f"{QUOTAS}?validate_only=true", dumped({"entries": edits(1)})),
        Asked("eight entries are validated", f"{QUOTAS}?validate_only=true", dumped({"entries": edits(8)})),
    ),
    "getClientQuota": (
        Asked("one", f"{QUOTAS}/user=user-1,client-id=client-1"),
        Asked("a long id", f"{QUOTAS}/user={'~c3~a4' * 1_000}"),
        Asked("many components", f"{QUOTAS}/{'user,' * 2_000}"),
    ),
    "setClientQuota": (
        *short_bodies(f"{QUOTAS}/client-id=edit-1"),
        Asked("one", f"{QUOTAS}/client-id=edit-1", dumped({"limits": {"producer_byte_rate": 1_000}})),
        Asked(
            "a default is validated",
            f"{QUOTAS}/client-id?validate_only=true",
            dumped({"limits": {"producer_byte_rate": 1_000}}),
        ),
    ),
    "removeClientQuota": (
        Asked("is validated", f"{QUOTAS}/user=user-1,client-id=client-1?validate_only=true"),
        Asked("none", f"{QUOTAS}/user={LONG}"),
    ),
    "resolveClientQuotas": (
        Asked("a client with a sensor", f"{RESOLVE}?user=user-1&client_id=client-1"),
        Asked("a client without a sensor", f"{RESOLVE}?user=ANONYMOUS&client_id=client-4"),
        Asked("nobody", f"{RESOLVE}?user={LONG}&client_id={LONG}&ip=10.0.0.1"),
    ),
    "resolveClientQuotasIf": (
        *bad_bodies(RESOLVE, "if"),
        Asked(
            "eight edits",
            RESOLVE,
            dumped({"user": "ANONYMOUS", "client_id": "client-4", "if": edits(8, "client-{}")}),
        ),
        Asked(
            "a default for all",
            RESOLVE,
            dumped(
                {
                    "client_id": "client-4",
                    "if": [{"entity": {"user": None}, "ops": [{"key": "producer_byte_rate", "value": 1}]}],
                }
            ),
        ),
    ),
    "exportClientQuotas": (
        Asked("10,000 rules", f"{QUOTAS}:export"),
        Asked("10,000 rules as YAML", f"{QUOTAS}:export?format=yaml"),
    ),
    "importClientQuotas": (
        *bad_bodies(IMPORT, "quotas"),
        Asked(
            "5,000 rules as YAML",
            f"{IMPORT}?validate_only=true",
            b"quotas:\n"
            + b"".join(
                b"- {entity: {user: u%d}, limits: {producer_byte_rate: 5}}\n" % n for n in range(5_000)
            ),
            YAML,
        ),
        Asked("5,000 rules are tried", f"{IMPORT}?validate_only=true", dumped({"quotas": rules(5_000)})),
        Asked("5,000 rules", IMPORT, dumped({"quotas": rules(5_000)})),
        Asked("5,000 rules that are there", IMPORT, dumped({"quotas": rules(5_000)})),
        Asked("none, and all others go", f"{IMPORT}?validate_only=true&prune=true", dumped({"quotas": []})),
        Asked("5,000 rules that are refused", IMPORT, dumped({"quotas": rules(5_000, "\t{}")})),
        Asked("5,000 times the same rule", IMPORT, dumped({"quotas": rules(5_000, "same")})),
    ),
    "listIpQuotas": pages("/api/v1/ip-quotas", "rate", "connections"),
    "getIpQuota": (Asked("one address", ADDRESS), Asked("none", f"/api/v1/ip-quotas/{'9' * 256}")),
    "setIpQuota": (
        *short_bodies(ADDRESS),
        Asked(
            "a limit is validated", f"{ADDRESS}?validate_only=true", dumped({"connection_creation_rate": 5})
        ),
        Asked("a limit", ADDRESS, dumped({"connection_creation_rate": 5})),
    ),
    "removeIpQuota": (Asked("a limit", ADDRESS),),
    "listClientMetrics": pages(METRICS),
    "getClientMetrics": (Asked("one", f"{METRICS}/subscription-1"),),
    "setClientMetrics": (
        *bad_bodies(f"{METRICS}/a", "metrics"),
        Asked(
            "100 long patterns",
            f"{METRICS}/a",
            dumped({"metrics": ["x" * 1_024] * 100, "match": ["client_id=" + "(a*)*" * 200 + "b"] * 100}),
        ),
        Asked(
            "a pattern", f"{METRICS}/a", dumped({"metrics": [""], "match": ["client_id=" + "(a|b)*" * 150]})
        ),
        Asked(
            "a large repetition",
            f"{METRICS}/a",
            dumped({"metrics": [""], "match": ["client_id=((a{1,99}){1,99})"]}),
        ),
    ),
    "removeClientMetrics": (Asked("one", f"{METRICS}/subscription-2"),),
    "exportClientMetrics": (Asked("all as YAML", f"{METRICS}:export?format=yaml"),),
    "importClientMetrics": (
        *bad_bodies(f"{METRICS}:import", "subscriptions"),
        *bad_yaml(f"{METRICS}:import", "subscriptions"),
        Asked("1,000 subscriptions", f"{METRICS}:import?validate_only=true", dumped(SUBSCRIPTIONS)),
        Asked("none, and all others go", f"{METRICS}:import?prune=true", dumped({"subscriptions": []})),
    ),
    "listClientInstances": pages("/api/v1/client-instances"),
    "getClientInstance": (Asked("none", f"/api/v1/client-instances/{'A' * 22}"),),
    "listChanges": (
        Asked("the newest 1,000", "/api/v1/audit?limit=1000"),
        Asked("a search that finds nothing", f"/api/v1/audit?limit=1000&search={LONG}"),
        Asked("the oldest", "/api/v1/audit?limit=1000&order=asc"),
    ),
    "getChange": (Asked("one", "/api/v1/audit/5"), Asked("none", "/api/v1/audit/999999999")),
    "exportChanges": (
        Asked("all as CSV", "/api/v1/audit:export?format=csv"),
        Asked("all as JSON", "/api/v1/audit:export"),
    ),
    "undoChange": (
        Asked("is validated", "/api/v1/audit/5:undo?validate_only=true"),
        Asked("one that there is not", "/api/v1/audit/999999999:undo"),
    ),
    "listBrokerConfigs": (
        Asked("all", CONFIGS),
        Asked("a search", f"{CONFIGS}?search={LONG}"),
    ),
    "alterBrokerConfigs": (
        *bad_bodies(CONFIGS, "ops"),
        Asked(
            "100 settings that there are not",
            CONFIGS,
            dumped({"ops": [{"key": f"{'k' * 200}{at}", "value": "x" * 10_000} for at in range(100)]}),
        ),
        Asked(
            "user overrides of 32,000 tabs",
            f"{CONFIGS}?validate_only=true",
            dumped({"ops": [{"key": OVERRIDES, "value": f"a{TABS}:x"}]}),
        ),
        Asked(
            "60 listeners",
            f"{CONFIGS}?validate_only=true",
            dumped({"ops": [{"key": "listeners", "value": listeners(60)}]}),
        ),
        Asked(
            "1,500 listeners",
            f"{CONFIGS}?validate_only=true",
            dumped({"ops": [{"key": "listeners", "value": listeners(1_500)}]}),
        ),
        Asked(
            "a list of 30,000 items",
            f"{CONFIGS}?validate_only=true",
            dumped({"ops": [{"key": "request.log.client.ids", "value": "a," * 16_000}]}),
        ),
        Asked(
            "100 items are appended",
            f"{CONFIGS}?validate_only=true",
            dumped({"ops": [{"key": "request.log.client.ids", "append": "a," * 5_000}] * 100}),
        ),
        Asked(
            "a keystore that is none",
            CONFIGS,
            dumped({"ops": [{"key": "listener.name.plaintext.ssl.keystore.location", "value": "/dev/zero"}]}),
        ),
        Asked(
            "mapping rules",
            f"{CONFIGS}?validate_only=true",
            dumped(
                {
                    "ops": [
                        {
                            "key": "ssl.principal.mapping.rules",
                            "value": "RULE:^(.*)$/$1/," * 2_000 + "DEFAULT",
                        }
                    ]
                }
            ),
        ),
    ),
    "getBrokerQuotas": (Asked("all", "/api/v1/broker-quotas"),),
    "getOverview": (Asked("a day of history", "/api/v1/overview?history_s=86400"),),
    "listThrottledChannels": (Asked("1,000", "/api/v1/throttled-channels?limit=1000"),),
    "listRecentThrottles": pages("/api/v1/throttled-channels:recent"),
    "listUsage": pages("/api/v1/usage", "requests", "active"),
    "listTasks": (Asked("all", "/api/v1/tasks"),),
    "getMetrics": (Asked("all", "/metrics"),),
    "isAlive": (Asked("a body", "/healthz", ones(b"[", b"]")), Asked("none", "/healthz")),
    "isReady": (Asked("a body", "/readyz", ones(b"[", b"]")), Asked("none", "/readyz")),
    "listConnections": (
        *pages("/api/v1/connections", "requests"),
        *after("listConnections", [[0, "a"]]),
    ),
    "getConnection": (Asked("none", f"/api/v1/connections/{LONG}"),),
    "closeConnection": (Asked("none", f"/api/v1/connections/{LONG}"),),
    "createTopic": (
        *bad_bodies(TOPICS, "configs"),
        Asked(
            "1,000 settings", TOPICS, dumped({"name": "a", "configs": {f"k{at}": "" for at in range(1_000)}})
        ),
        Asked(
            "10,000 partitions", f"{TOPICS}?validate_only=true", dumped({"name": "a", "partitions": 10_000})
        ),
    ),
    "deleteTopic": (Asked("none", f"{TOPICS}/{LONG}"), Asked("one", f"{TOPICS}/topic-1")),
    "setPartitions": (
        *short_bodies(f"{TOPICS}/topic-2/partitions"),
        Asked("to 2,000", f"{TOPICS}/topic-2/partitions", dumped({"count": 2_000})),
    ),
    "listTopicConfigs": (Asked("all", f"{TOPICS}/{WIDE}/configs"),),
    "alterTopicConfigs": (
        *bad_bodies(f"{TOPICS}/{WIDE}/configs", "ops"),
        Asked(
            "100 long values",
            f"{TOPICS}/{WIDE}/configs",
            dumped({"ops": [{"key": "cleanup.policy", "value": "x," * 4_000}] * 100}),
        ),
    ),
    "browseRecords": (
        *bad_bodies(f"{TOPICS}/{WIDE}/records:browse", "partitions"),
        Asked("1,000 partitions", BROWSE, dumped({"partitions": list(range(1_000)), "limit": 500})),
        Asked("2,000 partitions", BROWSE, b"{}"),
        Asked(
            "a condition that holds for nothing",
            BROWSE,
            dumped({"partitions": SOME, "where": " or ".join(['$.a[*].b == "absent"'] * 40)} | FIRST),
        ),
        Asked(
            "a search that finds nothing", BROWSE, dumped({"partitions": SOME, "contains": "absent"} | FIRST)
        ),
        Asked(
            "a search by key that finds nothing",
            BROWSE,
            dumped({"partitions": SOME, "key": {"text": "b"}} | FIRST),
        ),
        Asked("500 long records", BROWSE, dumped({"partitions": SOME, "limit": 500} | FIRST)),
        Asked(
            "a schema", BROWSE, dumped({"partitions": SOME, "limit": 500, "value_schema": {"avro": '"long"'}})
        ),
        Asked("a long cursor", BROWSE, dumped({"cursor": "W1swLDBd" * 4_000})),
        Asked("a text that a large value lacks", BROWSE_VALUES, dumped({"contains": "absent"} | FIRST)),
        Asked("a text that it almost has", BROWSE_VALUES, dumped({"contains": "y" * 1_000 + "z"} | FIRST)),
        Asked("500 strings of 16 kB", BROWSE_STRINGS, dumped({"limit": 500} | FIRST)),
        Asked(
            "500 strings of 16 kB by an Avro schema",
            BROWSE_STRINGS,
            dumped({"limit": 500, "value_schema": {"avro": '"string"'}} | FIRST),
        ),
    ),
    "produceRecord": (
        *bad_bodies(f"{TOPICS}/{WIDE}/records", "headers"),
        Asked("a long value", f"{TOPICS}/{WIDE}/records", dumped({"value": {"hex": "00" * 16_000}})),
    ),
    "getRecord": (
        Asked("one", f"{TOPICS}/{WIDE}/partitions/0/records/9"),
        Asked("its value", f"{TOPICS}/{WIDE}/partitions/0/records/9?part=value"),
        Asked("63 MB", f"{TOPICS}/{VALUES}/partitions/0/records/0?part=value"),
    ),
    "getGroupLag": (
        Asked("all", "/api/v1/groups:lag?seconds=86400"),
        Asked("one", f"/api/v1/groups:lag?group={GROUP}"),
    ),
    "resetGroupOffsets": (
        *bad_bodies(f"/api/v1/groups/{GROUP}/offsets:reset", "topics"),
        Asked(
            "500 partitions",
            f"/api/v1/groups/{GROUP}/offsets:reset",
            dumped({"to": {"timestamp_ms": 1}, "topics": [{"topic": WIDE, "partitions": list(range(500))}]}),
        ),
        Asked("2,000 partitions", f"/api/v1/groups/{GROUP}/offsets:reset", dumped({"to": {"latest": True}})),
    ),
    "deleteGroupOffsets": (
        Asked("none", f"/api/v1/groups/{GROUP}/offsets?topic={LONG}"),
        Asked("2,000 offsets", f"/api/v1/groups/{GROUP}/offsets?topic={WIDE}"),
    ),
    "deleteGroup": (Asked("none", f"/api/v1/groups/{LONG}"), Asked("one", f"/api/v1/groups/{GROUP}")),
    "listTopics": pages("/api/v1/topics", "size"),
    "getTopic": (
        Asked("2,000 partitions", f"/api/v1/topics/{WIDE}"),
        Asked("none", f"/api/v1/topics/{LONG}"),
    ),
    "listRuleClients": (
        Asked("of a client", "/api/v1/client-quotas/client-id=client-3/clients"),
        Asked("none", f"/api/v1/client-quotas/user={LONG}/clients"),
    ),
    "listTopicGroups": (
        *pages(f"{TOPICS}/{WIDE}/groups", "lag"),
        Asked("none", f"{TOPICS}/{LONG}/groups"),
    ),
    "listTopicClients": (
        *pages(f"{TOPICS}/{WIDE}/clients", "connections"),
        Asked("none", f"{TOPICS}/{LONG}/clients"),
    ),
    "listTransactions": pages("/api/v1/transactions", "open", "holding"),
    "getTransaction": (Asked("none", f"/api/v1/transactions/{LONG}"),),
    "abortTransaction": (
        *short_bodies(f"/api/v1/transactions/{LONG}:abort"),
        Asked("none", f"/api/v1/transactions/{LONG}:abort", dumped({})),
    ),
    "listGroups": pages("/api/v1/groups", "lag"),
    "getGroup": (
        Asked("an assignment of 8,000 topics", f"/api/v1/groups/{ASSIGNED}"),
        Asked("2,000 offsets", f"/api/v1/groups/{GROUP}"),
        Asked("none", f"/api/v1/groups/{LONG}"),
    ),
    "getUpstream": (Asked("none", "/api/v1/upstream"),),
    "listUpstreamNodeConfigs": (Asked("none", "/api/v1/upstream/nodes/1/configs"),),
    "listGateways": (Asked("none", "/api/v1/gateways"),),
    "listGatewayShares": pages("/api/v1/gateway-shares", "share"),
    "getDrain": (Asked("none", "/api/v1/gateway/drain"),),
    "drainGateway": (Asked("none", "/api/v1/gateway/drain"),),
    "getDiagnosis": (Asked("all", "/api/v1/doctor"),),
    "getInsights": (Asked("all", "/api/v1/insights"),),
    "listUsageOverDays": insight("usage", f"user={TEN_THOUSAND}", "by=client"),
    "getUsageOverTime": insight("usage:series", "step=day"),
    "listClustersOfTables": insight("clusters", f"search={LONG}"),
    "listCost": insight("cost", "by=client", "sort=cost"),
    "getCostOverTime": insight("cost:series", "step=day"),
    "listThrottlingOverDays": insight("throttling"),
    "getThrottlingOverTime": insight("throttling:series", "step=day"),
    "listLatencyOverDays": insight("latency"),
    "getLatencyOverTime": insight("latency:series", "step=day"),
    "listLatencyBySoftware": insight("latency-by-software", f"search={LONG}", f"cluster={LONG}"),
    "getLatencyBySoftwareOverTime": insight("latency-by-software:series"),
    "listUtilisation": insight("utilisation"),
    "listStorms": insight("storms"),
    "listSharedClientIds": insight("shared-client-ids"),
    "listOffenders": insight("offenders"),
    "listThrottleCompliance": insight("throttle-compliance"),
    "listThrottleComplianceOverDays": insight("throttle-compliance:summary"),
    "getThrottleComplianceOverTime": insight("throttle-compliance:series"),
    "listClientMetricsOverDays": insight("client-metrics"),
    "getClientMetricOverTime": insight("client-metrics:series", "metric=a", "step=day"),
    "listLostRecords": insight("lost"),
    "listAdvice": insight("advice"),
    "listNeededQuotas": insight("advice:history", "limit=100"),
    "simulateWhatIf": (
        *bad_bodies(WHAT_IF, "quotas"),
        Asked("10,000 rules", WHAT_IF, dumped({"from": "2026-01-01", "quotas": rules(9_000)})),
        *bad_bodies(WHAT_IF, "lines"),
        Asked("100,000 lines", WHAT_IF, dumped({"from": "2026-01-01", "lines": ["a"] * 100_000})),
        Asked("a day that is none", WHAT_IF, dumped({"from": "x" * 900, "quotas": []})),
    ),
    "getRequestLog": (Asked("all", LOG),),
    "setRequestLog": (
        *bad_bodies(LOG, "apis"),
        Asked(
            "200 names that there are not",
            LOG,
            dumped({"apis": ["x" * 256] * 100, "client_ids": ["x" * 256] * 100, "max_per_second": 1}),
        ),
        Asked(
            "100 client ids", LOG, dumped({"apis": [], "client_ids": ["x" * 256] * 100, "max_per_second": 1})
        ),
    ),
    "listTokens": (Asked("all", "/api/v1/tokens"),),
    "issueToken": (
        *short_bodies("/api/v1/tokens"),
        Asked("one", "/api/v1/tokens", dumped({"name": "new", "role": "viewer"})),
    ),
    "getToken": (Asked("one", "/api/v1/tokens/token-1"),),
    "renewToken": (
        *short_bodies("/api/v1/tokens/token-1:renew"),
        Asked("one", "/api/v1/tokens/token-1:renew", dumped({"expires_in_ms": 60_000})),
    ),
    "revokeToken": (Asked("one", "/api/v1/tokens/token-2"),),
    "setPassword": (
        *short_bodies("/api/v1/tokens/token-3:password"),
        Asked("a long one", "/api/v1/tokens/token-3:password", dumped({"password": "p" * 1_024})),
    ),
    "listScramUsers": pages("/api/v1/scram-users", "changed"),
    "getScramUser": (Asked("none", f"{SCRAM}/{LONG}"),),
    "setScramUser": (
        *short_bodies(f"{SCRAM}/a"),
        Asked("a long password", f"{SCRAM}/a", dumped({"password": "p" * 1_024, "iterations": 16_384})),
    ),
    "removeScramUser": (Asked("none", f"{SCRAM}/{LONG}"),),
    "listDelegationTokens": pages("/api/v1/delegation-tokens", "expires"),
    "getDelegationToken": (Asked("none", f"/api/v1/delegation-tokens/{LONG}"),),
    "expireDelegationToken": (Asked("none", f"/api/v1/delegation-tokens/{LONG}"),),
    "listAcls": pages(ACLS, "principal", "operation"),
    "createAcl": (
        *short_bodies(ACLS),
        Asked("texts of the greatest length", ACLS, dumped(LONG_ACL)),
    ),
    "getAcl": (Asked("none", f"{ACLS}/{'0' * 32}"), Asked("none, of a long id", f"{ACLS}/{LONG}")),
    "deleteAcl": (Asked("none", f"{ACLS}/{'0' * 32}"),),
    "resolveAcl": (
        Asked(
            "a long name",
            f"{ACLS}:resolve?principal=User:{LONG}&host={LONG}&operation=READ&resource_type=TOPIC&name={LONG}",
        ),
    ),
    "getConnectionSoftware": (Asked("all", "/api/v1/connections:software"),),
    "getAttention": (Asked("all", "/api/v1/attention"),),
    "listAlerts": (Asked("all", "/api/v1/alerts"),),
    "listAlertEvents": (Asked("all", "/api/v1/alerts:history"),),
    "listAlertRules": (Asked("all", "/api/v1/alert-rules"),),
    "getAlertRule": (Asked("none", f"{ALERT_RULE}/none"),),
    "setAlertRule": (
        *bad_bodies(f"{ALERT_RULE}/a", "destinations"),
        Asked(
            "a long pattern",
            f"{ALERT_RULE}/a",
            dumped({"condition": "lag", "threshold": 1, "match": "*a" * 128}),
        ),
    ),
    "removeAlertRule": (Asked("none", f"{ALERT_RULE}/none"),),
    "listAlertSilences": (Asked("all", "/api/v1/alert-silences"),),
    "getAlertSilence": (Asked("none", "/api/v1/alert-silences/none"),),
    "setAlertSilence": (
        *short_bodies("/api/v1/alert-silences/a"),
        Asked(
            "a long pattern",
            "/api/v1/alert-silences/a",
            dumped({"lasts_ms": 60_000, "match": "*a" * 128}),
        ),
    ),
    "removeAlertSilence": (Asked("none", "/api/v1/alert-silences/none"),),
    "listAlertDestinations": (Asked("all", "/api/v1/alert-destinations"),),
    "getAlertDestination": (Asked("none", f"{DESTINATION}/none"),),
    "setAlertDestination": (
        *short_bodies(f"{DESTINATION}/a"),
        Asked(
            "a long URL",
            f"{DESTINATION}/a",
            dumped({"kind": "webhook", "url": "https://a.example/" + "x" * 3_000}),
        ),
    ),
    "removeAlertDestination": (Asked("none", f"{DESTINATION}/none"),),
    "testAlertDestination": (Asked("none", f"{DESTINATION}/none:test"),),
    "endSessions": (Asked("all users", "/api/v1/sessions?of=all"),),
    "streamEvents": (
        Asked("everything", "/api/v1/events?topics=overview,throttled,quotas"),
        Asked("a wide page", "/api/v1/events?topics=quotas&limit=1000&sort=used"),
        Asked("unknown topics", f"/api/v1/events?topics={','.join('x' * 500)}"),
    ),
    "listProblemTypes": (Asked("all", "/api/v1/problem-types"),),
    "getOpenApi": (Asked("all", "/api/v1/openapi.json"),),
    "login": (
        *short_bodies("/login"),
        Asked("a wrong token", "/login", dumped({"token": "x" * 1_024})),
        Asked("a wrong password", "/login", dumped({"name": "n" * 64, "password": "x" * 1_024})),
    ),
    "logout": (Asked("a body", "/logout", ones(b"[", b"]")),),
    "session": (Asked("a long cookie", "/session"),),
    "static_file": (
        Asked("the largest", "/static/x/css/base.css"),
        Asked("none", f"/static/x/{quote('../' * 500)}"),
    ),
    "topic": (Asked("none", f"/topics/{LONG}"),),
    "group": (Asked("none", f"/groups/{LONG}"),),
    "a page": (Asked("not logged in", "/quotas"), Asked("a wrong token", f"/?token={'x' * 1_000}")),
}

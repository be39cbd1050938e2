"""The upstream cluster, the gateways and their shares over REST: exact answers, roles, bad input."""

from typing import Any

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.controller.rows.upstream import (
    GatewayRow,
    GatewaySums,
    GatewayTraffic,
    RackTraffic,
    ReadState,
    RefusedRead,
    ShareRow,
    UpstreamCondition,
)
from broker.views.readings import Part, Readings
from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from tests.webui.rows import (
    NOW_MS,
    connection,
    throttled,
    topic,
    unreachable_upstream,
    upstream,
    upstream_node,
)
from webui.rest.overview import OVERVIEW
from webui.rest.upstream import DRAIN, GATEWAY_PAGE, READ_STATE, SHARE_PAGE, UPSTREAM
from webui.rest.usage import THROTTLED_PAGE
from webui.tables.json_output import utc

PATHS = ("/api/v1/upstream", "/api/v1/gateways", "/api/v1/gateway-shares")
READ_PATHS = [
    ("topics", Part.TOPICS, ""),
    ("topics/orders", Part.TOPICS, ""),
    ("groups", Part.GROUPS, ""),
    ("transactions", Part.TRANSACTIONS, ""),
    ("acls", Part.ACLS, ""),
    ("scram-users", Part.SCRAM_USERS, ""),
    ("upstream/nodes/1/configs", Part.NODE_CONFIGS, "1"),
]
AN_HOUR_AGO = "2027-01-15T07:00:00.000Z"


@pytest.fixture
def gateway(broker: FakeBroker) -> FakeBroker:
    broker.upstream_row = upstream()
    broker.gateway_rows = [
        GatewayRow("g1", "a.example:9092", None),
        GatewayRow("g2", "b.example:9092", NOW_MS, GatewayTraffic(12, 3, 4_000, 9_000, 77, 1.5, 2.5, 3.5)),
    ]
    alice = (("user", "alice"),)
    broker.share_rows = [
        ShareRow("g1", alice, "producer_byte_rate", 1e6, 3e5, 2.5e5),
        ShareRow("g2", alice, "producer_byte_rate", 1e6, 9e5, 7.5e5),
        ShareRow("g2", (("user", None), ("client-id", "app")), "consumer_byte_rate", 2e6, 0.0, 2e6),
    ]
    return broker


async def test_the_upstream_cluster(http: Browserless, gateway: FakeBroker) -> None:
    answer = await http.get("/api/v1/upstream", token="viewer-token")
    assert answer.status_code == 200
    found = UPSTREAM.check(await answer.json)
    nodes, latencies = found.pop("nodes"), found.pop("latencies")
    assert found == {
        "cluster_id": "4L6g3nShT-eMCtK--X86sw",
        "expected_id": "4L6g3nShT-eMCtK--X86sw",
        "condition": "connected",
        "since": AN_HOUR_AGO,
        "error": "",
        "bootstrap_servers": ["kafka-1.example:9092", "kafka-2.example:9092"],
        "controller_id": 1,
        "turn_ms": 0.05,
        "loopback": [{"listener": "PLAINTEXT", "address": "localhost", "remote_connections": 0}],
        "racks": [],
        "unwritten": [],
    }
    assert [node["node_id"] for node in nodes] == [1, 2, 3]
    assert nodes[0] == {
        "node_id": 1,
        "address": "kafka-1.example:9092",
        "rack": "rack-a",
        "condition": "connected",
        "since": AN_HOUR_AGO,
        "error": "",
        "latency_ms": 1.25,
        "connections": 12,
        "bytes_in": 4_000_000,
        "bytes_out": 9_000_000,
        "bytes_in_per_s": 250_000.0,
        "bytes_out_per_s": 1_500_000.0,
        "addresses": [{"listener": "PLAINTEXT", "address": "gateway.example:31001", "open": True}],
    }
    assert latencies == [
        {"api": "FetchConsumer", "requests": 4_000, "p50_ms": 480.0, "p99_ms": 510.0, "waits": True},
        {"api": "Metadata", "requests": 12, "p50_ms": None, "p99_ms": None, "waits": False},
        {"api": "Produce", "requests": 9_000, "p50_ms": 1.5, "p99_ms": 6.25, "waits": False},
    ]


async def test_the_traffic_by_racks(http: Browserless, gateway: FakeBroker) -> None:
    gateway.upstream_row = upstream(racks=(RackTraffic("a", "", 3, 4_000, 9_000, 1.5, 2.5),))
    answer = await http.get("/api/v1/upstream", token="viewer-token")
    assert UPSTREAM.check(await answer.json)["racks"] == [
        {
            "client_rack": "a",
            "node_rack": "",
            "connections": 3,
            "bytes_in": 4_000,
            "bytes_out": 9_000,
            "bytes_in_per_s": 1.5,
            "bytes_out_per_s": 2.5,
        }
    ]


async def test_a_cluster_that_was_never_found(http: Browserless, gateway: FakeBroker) -> None:
    gateway.upstream_row = unreachable_upstream()
    found = UPSTREAM.check(await (await http.get("/api/v1/upstream")).json)
    assert (found["condition"], found["nodes"], found["turn_ms"]) == ("unreachable", [], None)
    assert found["error"] == "kafka-1.example:9092: Connection refused"


@pytest.mark.parametrize("condition", UpstreamCondition)
async def test_every_condition_is_one_that_the_api_describes(
    http: Browserless, gateway: FakeBroker, condition: UpstreamCondition
) -> None:
    gateway.upstream_row = upstream(upstream_node(1, condition=condition), condition=condition)
    found = UPSTREAM.check(await (await http.get("/api/v1/upstream")).json)
    assert found["condition"] == found["nodes"][0]["condition"] == str(condition)


async def test_the_gateways(http: Browserless, gateway: FakeBroker) -> None:
    found = await (await http.get("/api/v1/gateways", token="viewer-token")).json
    assert GATEWAY_PAGE.check(found)["items"] == [
        {"gateway_id": "g1", "address": "a.example:9092", "heard_at": None, "traffic": None},
        {
            "gateway_id": "g2",
            "address": "b.example:9092",
            "heard_at": "2027-01-15T08:00:00.000Z",
            "traffic": {
                "connections": 12,
                "throttled": 3,
                "bytes_in": 4_000,
                "bytes_out": 9_000,
                "requests": 77,
                "bytes_in_per_s": 1.5,
                "bytes_out_per_s": 2.5,
                "requests_per_s": 3.5,
            },
        },
    ]


async def test_the_overview_has_the_sums_of_all_gateways(http: Browserless, gateway: FakeBroker) -> None:
    found = OVERVIEW.check(await (await http.get("/api/v1/overview")).json)
    assert found["gateways"] is None
    gateway.other_gateways = GatewaySums(2, 30, 4, 1_000.0, 2_000.0, 3.0)
    gateway.connection_rows = [connection("app")]
    gateway.throttled_rows = [throttled("app"), throttled("theirs", gateway="g2")]
    found = OVERVIEW.check(await (await http.get("/api/v1/overview")).json)
    own = found["metrics"]
    assert (own["connections"], own["throttled"]) == (1, 1)
    assert found["gateways"] == {
        "gateways": 3,
        "connections": 31,
        "throttled": 5,
        "bytes_in_per_s": 1_000.0 + own["bytes_in_per_s"],
        "bytes_out_per_s": 2_000.0 + own["bytes_out_per_s"],
        "requests_per_s": 3.0 + own["requests_per_s"],
    }


async def test_throttled_connections_of_other_gateways_have_its_id(
    http: Browserless, gateway: FakeBroker
) -> None:
    gateway.throttled_rows = [throttled("app"), throttled("theirs", gateway="g2", remaining_ms=1)]
    gateway.unlisted = 7
    page = THROTTLED_PAGE.check(await (await http.get("/api/v1/throttled-channels")).get_json())
    assert [(row["client_id"], row["gateway"]) for row in page["items"]] == [("app", ""), ("theirs", "g2")]
    assert (page["total"], page["unlisted"]) == (2, 7)


async def test_the_shares_are_sorted_searched_and_paged(http: Browserless, gateway: FakeBroker) -> None:
    async def shares(query: str = "") -> dict[str, Any]:
        answer = await http.get(f"/api/v1/gateway-shares{query}", token="viewer-token")
        return SHARE_PAGE.check(await answer.json)

    found = await shares()
    assert found["items"][0] == {
        "gateway_id": "g1",
        "entity": {"user": "alice"},
        "key": "producer_byte_rate",
        "limit": 1e6,
        "demand": 3e5,
        "share": 2.5e5,
    }
    assert found["items"][2]["entity"] == {"user": None, "client-id": "app"}
    assert (found["total"], found["of"]) == (3, 3)
    by_share = await shares("?sort=share&order=desc&limit=2")
    assert [row["share"] for row in by_share["items"]] == [2e6, 7.5e5]
    assert (await shares("?search=alice"))["total"] == 2
    assert (await shares("?search=%3Cdefault%3E"))["total"] == 1
    assert (await shares("?search=g1"))["total"] == 1


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/upstream?a=1",
        "/api/v1/gateways?sort=address",
        "/api/v1/gateway-shares?sort=rack",
        "/api/v1/gateway-shares?limit=0",
        "/api/v1/gateway-shares?limit=1001",
        "/api/v1/gateway-shares?order=up",
    ],
)
async def test_bad_input_is_refused(http: Browserless, gateway: FakeBroker, path: str) -> None:
    assert (await http.get(path)).status_code == 400


@pytest.mark.parametrize("path", PATHS)
async def test_it_is_read_with_any_token_and_not_without(
    http: Browserless, gateway: FakeBroker, path: str
) -> None:
    for token in ("viewer-token", "editor-token", "admin-token"):
        assert (await http.get(path, token=token)).status_code == 200
    assert (await http.get(path, token=None)).status_code == 401
    assert (await http.ask("POST", path)).status_code == 405


@pytest.mark.parametrize("path", PATHS)
async def test_a_broker_has_none_of_it(http: Browserless, path: str) -> None:
    answer = await http.get(path)
    assert answer.status_code == 404
    assert (await answer.json)["detail"] == "This is a broker: it has no upstream cluster."


async def test_a_gateway_shows_no_delegation_tokens(http: Browserless, gateway: FakeBroker) -> None:
    answer = await http.get("/api/v1/delegation-tokens")
    assert answer.status_code == 404
    assert (await answer.json)["detail"] == "This is a gateway: delegation tokens are the upstream cluster's."


class ReadOnce(Readings):
    """Was read at the start; `error` is why nothing was read."""

    def __init__(self, error: ApiError | None = None) -> None:
        self.error = error
        self.asked: list[tuple[Part, str]] = []

    async def fresh(self, part: Part, name: str = "") -> None:
        self.asked.append((part, name))
        if self.error is not None:
            raise self.error

    def state(self, part: Part, name: str = "") -> ReadState:
        code = "CLUSTER_AUTHORIZATION_FAILED"
        refused = RefusedRead("DescribeLogDirs", code, "DESCRIBE", "CLUSTER", "kafka-cluster", 3)
        return ReadState("node 2: no response", (refused,), NOW_MS)


STATE = {
    "error": "node 2: no response",
    "refused": [
        {
            "api": "DescribeLogDirs",
            "code": "CLUSTER_AUTHORIZATION_FAILED",
            "operation": "DESCRIBE",
            "resource_type": "CLUSTER",
            "resource_name": "kafka-cluster",
            "count": 3,
        }
    ],
    "read_at": utc(NOW_MS),
}


@pytest.mark.parametrize(("path", "part", "name"), READ_PATHS)
async def test_an_answer_says_when_the_cluster_was_read_and_what_was_not(
    http: Browserless, gateway: FakeBroker, path: str, part: Part, name: str
) -> None:
    gateway.topic_rows = [topic("orders")]
    readings = gateway.readings = ReadOnce()
    answer = await http.get(f"/api/v1/{path}")
    assert answer.status_code == 200
    found = await answer.json
    assert found["upstream"] == STATE
    READ_STATE.check(found["upstream"])
    assert readings.asked[-1] == (part, name)


@pytest.mark.parametrize(("path", "part", "name"), READ_PATHS)
@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ErrorCode.BROKER_NOT_AVAILABLE, 503),
        (ErrorCode.REQUEST_TIMED_OUT, 503),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 403),
    ],
)
async def test_what_cannot_be_read_is_a_problem_that_says_why(
    http: Browserless, gateway: FakeBroker, path: str, part: Part, name: str, code: ErrorCode, status: int
) -> None:
    gateway.readings = ReadOnce(ApiError(code, "it wants an ACL"))
    answer = await http.get(f"/api/v1/{path}")
    assert answer.status_code == status
    problem = await answer.json
    assert (problem["detail"], problem["code"]) == ("it wants an ACL", code.name)


async def test_a_connection_says_where_it_is_forwarded_to(http: Browserless, gateway: FakeBroker) -> None:
    gateway.connection_rows = [
        connection("app", index=1, upstream="kafka-2.example:9092", upstream_node=2),
        connection("new", index=2),
        connection("old", index=3, upstream="kafka-1.example:9092", upstream_node=1),
    ]
    rows = (await (await http.get("/api/v1/connections?sort=upstream")).json)["items"]
    assert [(row["upstream_node"], row["upstream"]) for row in rows] == [
        (1, "kafka-1.example:9092"),
        (2, "kafka-2.example:9092"),
        (None, ""),
    ]


async def test_the_overview_describes_the_upstream_cluster(http: Browserless, broker: FakeBroker) -> None:
    found = OVERVIEW.check(await (await http.get("/api/v1/overview")).json)
    assert found["upstream"] is None
    gone = upstream_node(2, condition=UpstreamCondition.UNREACHABLE)
    broker.upstream_row = upstream(upstream_node(1), gone)
    found = OVERVIEW.check(await (await http.get("/api/v1/overview")).json)
    assert found["upstream"] == {
        "cluster_id": "4L6g3nShT-eMCtK--X86sw",
        "condition": "connected",
        "nodes": 2,
        "connected": 1,
    }


DRAIN_PATH = "/api/v1/gateway/drain"


async def test_an_administrator_drains_the_gateway(http: Browserless, gateway: FakeBroker) -> None:
    before = DRAIN.check(await (await http.get(DRAIN_PATH, token="viewer-token")).json)
    assert before == {
        "state": "serving",
        "connections": 0,
        "at_first": 0,
        "to": [],
        "since": None,
        "ends": None,
    }
    answer = await http.ask("POST", DRAIN_PATH, token="admin-token")
    assert answer.status_code == 200
    begun = DRAIN.check(await answer.json)
    assert begun == {
        "state": "draining",
        "connections": 7,
        "at_first": 9,
        "to": ["gateway-2.example:31000-31099"],
        "since": "2023-11-14T22:13:20.000Z",
        "ends": "2023-11-14T22:14:20.000Z",
    }
    assert await (await http.get(DRAIN_PATH, token="viewer-token")).json == begun


@pytest.mark.parametrize("role", ["viewer", "editor"])
async def test_no_one_else_drains_it(http: Browserless, gateway: FakeBroker, role: str) -> None:
    answer = await http.ask("POST", DRAIN_PATH, token=f"{role}-token")
    assert answer.status_code == 403
    assert gateway.drain_row.state == "serving"


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_broker_is_not_drained(http: Browserless, broker: FakeBroker, method: str) -> None:
    answer = await http.ask(method, DRAIN_PATH, token="admin-token")
    assert answer.status_code == 404
    assert (await answer.get_json())["detail"] == "This is a broker: it has no upstream cluster."

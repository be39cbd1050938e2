"""The use of clients over REST."""

import pytest

from broker.controller.rows.quotas import NodeUse
from tests.webui.conftest import Browserless
from tests.webui.fake_resolving import usage
from tests.webui.fakes import FakeBroker
from webui.rest.usage import USAGE_PAGE


async def test_clients_are_listed_by_what_they_do(http: Browserless, broker: FakeBroker) -> None:
    broker.usage_rows = [
        usage("ANONYMOUS", "quiet", 1.0),
        usage("alice", "loud", 50.0, 60.0, limited_by=("producer_byte_rate",)),
        usage("bob", "middle", 20.0, request_percentage=12.5),
    ]
    answer = USAGE_PAGE.check(await (await http.get("/api/v1/usage", token="viewer-token")).get_json())
    assert [row["client_id"] for row in answer["items"]] == ["loud", "middle", "quiet"]
    loud, middle, _ = answer["items"]
    assert (loud["bytes_in_per_s"], loud["bytes_out_per_s"], loud["limited_by"]) == (
        50.0,
        60.0,
        ["producer_byte_rate"],
    )
    assert (middle["request_percentage"], loud["request_percentage"]) == (12.5, None)
    assert loud["history"] == {
        "step_ms": 5_000,
        "bytes_in": [250] * 60,
        "bytes_out": [300] * 60,
        "requests": [50] * 60,
    }


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("filter=unlimited", ["middle", "quiet"]),
        ("filter=limited", ["loud"]),
        ("filter=idle", ["quiet"]),
        ("sort=bytes_in&order=asc", ["quiet", "middle", "loud"]),
        ("sort=request_percentage&order=desc", ["middle", "loud", "quiet"]),
        ("search=BOB", ["middle"]),
        ("limit=1", ["loud"]),
    ],
)
async def test_clients_are_searched_sorted_and_paged(
    http: Browserless, broker: FakeBroker, query: str, found: list[str]
) -> None:
    broker.usage_rows = [
        usage("ANONYMOUS", "quiet", 1.0, connections=0),
        usage("alice", "loud", 50.0, 60.0, limited_by=("producer_byte_rate",)),
        usage("bob", "middle", 20.0, request_percentage=12.5),
    ]
    answer = await (await http.get(f"/api/v1/usage?{query}")).get_json()
    assert ([row["client_id"] for row in answer["items"]], answer["of"]) == (found, 3)


async def test_the_use_at_each_upstream_node_is_listed_by_limit(
    http: Browserless, broker: FakeBroker
) -> None:
    nodes = {"producer_byte_rate": (NodeUse(1, 50.0, 0), NodeUse(2, 110.0, 1_000))}
    broker.usage_rows = [usage("alice", "app", 160.0, nodes=nodes), usage("bob", "app", 1.0)]
    answer = USAGE_PAGE.check(await (await http.get("/api/v1/usage", token="viewer-token")).get_json())
    alice, bob = answer["items"]
    assert alice["nodes"] == {
        "producer_byte_rate": [
            {"upstream_node": 1, "observed": 50, "wait_ms": 0},
            {"upstream_node": 2, "observed": 110, "wait_ms": 1_000},
        ]
    }
    assert "nodes" not in bob


async def test_the_clients_of_all_gateways_are_listed(http: Browserless, broker: FakeBroker) -> None:
    broker.usage_rows = [usage("bob", "app", 20.0), usage("alice", "app", 50.0)]
    broker.remote_shares.client_rows = [
        usage("bob", "app", 40.0, gateways=("g2",)),
        usage("carol", "app", 1.0, gateways=("g2",), history=tuple),
    ]
    broker.unlisted_client_count, broker.without_report = 7, ["g3"]
    answer = USAGE_PAGE.check(await (await http.get("/api/v1/usage?filter=unlimited")).get_json())
    assert (answer["total"], answer["unlisted"], answer["unheard"]) == (3, 7, ["g3"])
    rows = [(row["user"], row["bytes_in_per_s"], row["gateways"]) for row in answer["items"]]
    assert rows == [("bob", 60, ["g2"]), ("alice", 50, []), ("carol", 1, ["g2"])]
    assert answer["items"][0]["history"]["bytes_in"] == [300] * 60
    assert answer["items"][2]["history"]["bytes_in"] == []

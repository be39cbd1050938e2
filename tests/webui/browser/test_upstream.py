"""The console of a gateway: its upstream cluster, and what it does not show because it is the cluster's."""

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from broker.controller.describe import ConfigSource
from broker.controller.rows.broker import ConfigRow
from broker.controller.rows.upstream import (
    DrainState,
    GatewayRow,
    GatewaySums,
    GatewayTraffic,
    LoopbackAdvertised,
    NodeAddress,
    RackTraffic,
    ReadState,
    ShareRow,
    UpstreamCondition,
)
from broker.views.connection_search import RemoteConnections
from tests.webui.browser.conftest import PHONE, ServedConsole, Watched, watched
from tests.webui.browser.test_axe import each_look, violations
from tests.webui.browser.test_every_page import SMALL_PHONE, too_wide
from tests.webui.browser.test_read_state import REFUSED, Once
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

TRAFFIC = GatewayTraffic(311, 8, 4_000_000, 9_000_000, 7_700, 2e6, 3e6, 20.0)
GATEWAY_PATHS = (
    "/",
    "/throttled",
    "/upstream",
    "/topics",
    "/topics/orders",
    "/topics/orders?tab=partitions",
    "/topics/orders?tab=config",
    "/groups",
    "/transactions",
    "/acls",
    "/scram-users",
    "/delegation-tokens",
    "/connections",
    "/quotas",
    "/doctor",
)


def elsewhere(count: int, **counts: int) -> RemoteConnections:
    rows = tuple(connection(f"their {number}", index=number, gateway="g2-77aa") for number in range(count))
    return RemoteConnections(rows, count, count, **counts)


def fill(broker: FakeBroker) -> None:
    away = upstream_node(
        2,
        condition=UpstreamCondition.UNREACHABLE,
        error="kafka-2.example:9092: Connection refused",
        latency_ms=None,
    )
    far = upstream_node(103, addresses=(NodeAddress("PLAINTEXT", "", is_open=False),))
    broker.upstream_row = upstream(
        upstream_node(1),
        away,
        far,
        loopback=(LoopbackAdvertised("PLAINTEXT", "localhost", 7),),
        unwritten=(("__weir_throttles", "Produce of __weir_throttles: NOT_LEADER_OR_FOLLOWER"),),
        racks=(
            RackTraffic("", "rack-a", 1, 10, 5_000, 0.0, 0.0),
            RackTraffic("rack-a", "rack-a", 3, 4_000, 9_500, 1e6, 2e6),
            RackTraffic("rack-a", "rack-b", 2, 4_000, 500, 0.0, 3e3),
        ),
    )
    broker.gateway_rows = [
        GatewayRow("g1-5f0c", "gateway-1.example:9092", None),
        GatewayRow("g2-77aa", "gateway-2.example:9092", NOW_MS, TRAFFIC),
        GatewayRow("g3-0b1c", "", NOW_MS),
    ]
    broker.gateway_rows[0] = replace(broker.gateway_rows[0], traffic=replace(TRAFFIC, connections=1))
    broker.other_gateways = GatewaySums(2, 311, 8, 2e6, 3e6, 20.0)
    broker.readings = Once(ReadState("node 2: no response", (REFUSED,), NOW_MS))
    broker.topic_rows = [topic("orders"), replace(topic("bills"), size_bytes=None, records=None)]
    broker.unlisted = 5
    broker.remote_connections = replace(elsewhere(3), total=903, of=903, unlisted=900, unanswered=1)
    broker.unlisted_uses = 12
    broker.throttled_rows = [
        throttled("ours", remaining_ms=60_000, throttle_ms=60_000),
        *(
            throttled("theirs", gateway="g2-77aa", connection_id=str(index), remaining_ms=60_000)
            for index in range(3)
        ),
    ]
    broker.share_rows = [
        ShareRow("g1-5f0c", (("user", "alice"),), "producer_byte_rate", 1e6, 3e5, 2.5e5),
        ShareRow("g2-77aa", (("user", None),), "consumer_byte_rate", 2e6, 9e5, 1.5e6),
        ShareRow("g2-77aa", (("user", "bob"),), "max.connections.per.user", 12.0, 8.0, 6.0),
        ShareRow("g1-5f0c", (), "max.connection.creation.rate", 40.0, 3.0, 10.0),
    ]
    broker.connection_rows = [connection("app", upstream="kafka-1.example:9092", upstream_node=1)]


@pytest.fixture
def gateway(page: Watched, broker: FakeBroker) -> Iterator[Watched]:
    fill(broker)
    page.sign_in()
    return page


def test_a_node_says_how_it_is_and_where_clients_reach_it(gateway: Watched, expect: Any) -> None:
    opened = gateway.go("/upstream")
    rows = opened.locator("#nodes tbody tr")
    expect(rows).to_have_count(3)
    words = (
        "kafka-1.example:9092",
        "rack-a",
        "connected",
        "gateway.example:31001",
        "12",
        "250 kB/s",
        "1.25 ms",
    )
    for word in words:
        expect(rows.nth(0)).to_contain_text(word)
    for word in ("unreachable", "kafka-2.example:9092: Connection refused", "–"):
        expect(rows.nth(1)).to_contain_text(word)
    expect(rows.nth(2)).to_contain_text("no port: gateway.port.range is too short")
    facts = opened.locator("#facts")
    expect(facts).to_contain_text("4L6g3nShT-eMCtK--X86sw")
    expect(facts).to_contain_text("2 of 3 nodes connected")
    expect(facts).to_contain_text("NOT_LEADER_OR_FOLLOWER")
    expect(facts).to_contain_text("advertises localhost, which 7 connections from other machines cannot use")
    expect(opened.locator("#error")).to_be_hidden()


def test_the_traffic_by_rack(gateway: Watched, expect: Any, broker: FakeBroker) -> None:
    opened = gateway.go("/upstream")
    rows = opened.locator("#racks tbody tr")
    expect(rows).to_have_count(3)
    for word in ("none", "rack-a", "unknown"):
        expect(rows.nth(0)).to_contain_text(word)
    for word in ("own rack", "3", "1 MB/s", "2 MB/s"):
        expect(rows.nth(1)).to_contain_text(word)
    for word in ("rack-b", "across racks", "3 kB/s"):
        expect(rows.nth(2)).to_contain_text(word)
    expect(opened.locator("#own-rack")).to_have_text(
        "Since the start, 95 % of the bytes to clients came from their own rack"
    )
    assert broker.upstream_row is not None
    broker.upstream_row = replace(broker.upstream_row, racks=())
    expect(opened.locator("#rack-card")).to_be_hidden()


def test_latency_upstream_and_here(gateway: Watched, expect: Any) -> None:
    opened = gateway.go("/upstream")
    expect(opened.locator("#turn")).to_contain_text("0.05 ms")
    produce = opened.locator("#latencies tbody tr", has_text="Produce")
    for word in ("9\u202f000", "1.5 ms", "6.25 ms"):
        expect(produce).to_contain_text(word)
    expect(opened.locator("#latencies tr", has_text="FetchConsumer")).to_contain_text("includes long polling")


def test_the_gateways_and_their_shares(gateway: Watched, expect: Any, broker: FakeBroker) -> None:
    opened = gateway.go("/upstream")
    expect(opened.locator("#gateways tbody tr", has_text="g1-5f0c")).to_contain_text("this gateway")
    second = opened.locator("#gateways tbody tr", has_text="g2-77aa")
    for word in ("gateway-2.example:9092", "311", "8", "2 MB/s", "3 MB/s", "20/s"):
        expect(second).to_contain_text(word)
    expect(opened.locator("#gateways tbody tr", has_text="g3-0b1c")).to_contain_text("–")
    expect(opened.locator("#sums")).to_have_text(
        "2 gateways together: 312 connections, 16 throttled, 4 MB/s in, 6 MB/s out, 40 requests/s"
    )
    rows = opened.locator("#table tbody tr")
    expect(rows).to_have_count(4)
    bob = rows.filter(has_text="bob")
    for cell in ("8", "6 50 %", "12"):
        expect(bob.get_by_role("cell", name=cell, exact=True)).to_be_visible()
    for word in ("all clients", "max.connection.creation.rate", "3/s", "10/s", "40/s"):
        expect(rows.filter(has_text="all clients")).to_contain_text(word)
    alice = rows.filter(has_text="alice")
    for word in ("g1-5f0c", "300 kB/s", "250 kB/s", "25 %", "1 MB/s"):
        expect(alice).to_contain_text(word)
    opened.get_by_label("Search").fill("g2")
    expect(rows).to_have_count(2)
    broker.gateway_rows = []
    expect(opened.locator("#gateways")).to_contain_text("No limits are shared")
    expect(opened.locator("#shares")).to_be_hidden()
    expect(opened.locator("#sums")).to_have_text("Gateways that share limits")


def test_an_administrator_drains_the_gateway(gateway: Watched, expect: Any, broker: FakeBroker) -> None:
    opened = gateway.go("/upstream")
    expect(opened.locator("#drain-state")).to_have_text("serving")
    opened.get_by_role("button", name="Drain this gateway").click()
    opened.get_by_role("button", name="Keep serving").click()
    assert broker.drain_row.state == "serving"
    opened.get_by_role("button", name="Drain this gateway").click()
    opened.get_by_role("button", name="Drain now").click()
    expect(opened.locator("#drain-state")).to_have_text("draining")
    text = opened.locator("#drain-text")
    expect(text).to_contain_text("7 connections of 9 left")
    expect(text).to_contain_text("Clients go to gateway-2.example:31000-31099.")
    expect(opened.locator("#drain-buttons button")).to_have_count(0)
    broker.drain_row = replace(broker.drain_row, state=DrainState.DRAINED, connections=0)
    expect(opened.locator("#drain-state")).to_have_text("drained")
    expect(text).to_contain_text("It serves again after a restart.")


def test_throttled_connections_of_all_gateways(gateway: Watched, expect: Any, broker: FakeBroker) -> None:
    opened = gateway.go("/throttled")
    rows = opened.locator("#table tbody tr")
    expect(rows).to_have_count(4)
    expect(rows.filter(has_text="gateway g2-77aa")).to_have_count(3)
    expect(rows.filter(has_text="ours")).not_to_contain_text("gateway")
    expect(opened.locator("#count")).to_have_text("9 throttled now, the longest 4 shown")
    expect(opened.locator("#nav-throttled")).to_have_text("9")
    expect(opened.locator("#hour-of")).to_have_text("throttled connections, sum of 3 gateways")
    opened.get_by_label("Filter").fill("g2-77")
    expect(rows).to_have_count(3)
    opened.get_by_label("Filter").fill("")
    broker.other_gateways, broker.unlisted = GatewaySums(), 0
    broker.throttled_rows = broker.throttled_rows[:1]
    expect(opened.locator("#count")).to_have_text("1 throttled now")
    expect(opened.locator("#hour-of")).to_have_text("throttled connections")
    expect(rows).to_have_count(1)


def test_numbers_of_all_gateways_say_that_they_are_sums(
    gateway: Watched, expect: Any, broker: FakeBroker
) -> None:
    opened = gateway.go("/")
    expect(opened.locator("#now div", has_text="Connections")).to_contain_text("312")
    expect(opened.locator("#status")).to_contain_text("9 connections throttled")
    expect(opened.locator("[data-sums]").first).to_have_text("sum of 3 gateways")
    expect(opened.locator("#attention")).to_contain_text("gateway g2-77aa")
    broker.other_gateways = GatewaySums()
    expect(opened.locator("[data-sums]").first).to_have_text("")
    broker.other_gateways = GatewaySums(3)
    opened = gateway.go("/requests")
    expect(opened.locator("[data-own]").first).to_have_text("this gateway")


def test_connections_of_all_gateways_are_listed(gateway: Watched, expect: Any, broker: FakeBroker) -> None:
    broker.connection_rows = [connection("mine")]
    broker.remote_connections = elsewhere(2)
    opened = gateway.go("/connections")
    rows, note = opened.locator("tbody tr"), opened.locator("#elsewhere")
    expect(rows).to_have_count(3)
    expect(opened.locator("#count")).to_have_text("3 connections")
    expect(rows.filter(has_text="their 1")).to_contain_text("gateway g2-77aa")
    # Its own gateway closes it.
    expect(rows.filter(has_text="their 1").locator("button")).to_have_count(0)
    expect(rows.filter(has_text="mine").locator("button")).to_have_count(1)
    expect(note).to_be_hidden()
    broker.remote_connections = replace(elsewhere(2), total=702, of=702, unlisted=700)
    expect(note).to_contain_text("700 connections of other gateways are not listed")
    expect(opened.locator("#count")).to_have_text("703 connections")
    broker.remote_connections = replace(elsewhere(2), unlisted=1, unanswered=2)
    expect(note).to_contain_text("1 connection of other gateways is not listed")
    expect(note).to_contain_text("2 gateways did not answer; their connections are missing.")
    broker.remote_connections = elsewhere(0, unanswered=1)
    expect(note).to_have_text("1 gateway did not answer; its connections are missing.")
    opened.get_by_label("Search").fill("nobody")
    expect(opened.locator("#table")).to_contain_text("No match")
    assert broker.queries[-1].search == "nobody"


def test_the_use_of_rules_is_that_of_all_gateways(gateway: Watched, expect: Any, broker: FakeBroker) -> None:
    broker.unlisted_uses = 0
    opened = gateway.go("/quotas")
    expect(opened.locator("main")).to_contain_text("Use is the sum of all gateways")
    note = opened.locator("#elsewhere")
    expect(note).to_be_hidden()
    broker.unlisted_uses = 12
    expect(note).to_contain_text("The use of 12 limits at other gateways is not included")
    broker.unlisted_uses = 1
    expect(note).to_contain_text("The use of 1 limit at other gateways")


def test_the_page_follows_the_cluster(gateway: Watched, expect: Any, broker: FakeBroker) -> None:
    opened = gateway.go("/upstream")
    badge = opened.locator("#nav-health")
    expect(badge).to_have_text("1")
    broker.upstream_row = unreachable_upstream()
    expect(opened.locator("#condition")).to_have_text("unreachable")
    expect(opened.locator("#error")).to_contain_text("kafka-1.example:9092: Connection refused. Check that")
    expect(opened.locator("#nodes")).to_contain_text("No node is known")
    expect(badge).to_have_text("!")
    broker.upstream_row = replace(
        upstream(), condition=UpstreamCondition.OTHER_CLUSTER, cluster_id="other", error="wrong cluster"
    )
    expect(opened.locator("#facts")).to_contain_text("Expected id")
    expect(opened.locator("#error")).to_contain_text("The gateway forwards nothing to it")
    broker.upstream_row = upstream()
    expect(opened.locator("#condition")).to_have_text("connected")
    expect(opened.locator("#error")).to_be_hidden()
    expect(badge).to_be_hidden()


def test_delegation_tokens_are_the_upstream_clusters(gateway: Watched, expect: Any) -> None:
    opened = gateway.go("/delegation-tokens")
    expect(opened.locator("main")).to_contain_text("are the upstream cluster’s")
    expect(opened.locator("a[href='/delegation-tokens']")).to_have_count(0)
    listed = opened.evaluate(
        "[...document.getElementById('all-pages').content.children].map(each => each.getAttribute('href'))"
    )
    assert {"/topics", "/groups", "/transactions", "/acls"} <= set(listed)
    assert "/delegation-tokens" not in listed
    opened.get_by_role("link", name="Upstream cluster").click()
    expect(opened).to_have_title("Upstream · Weir")


def test_a_node_opens_to_its_settings(gateway: Watched, expect: Any, broker: FakeBroker) -> None:
    broker.node_configs = [
        ConfigRow("log.dirs", "/data", ConfigSource.STATIC_BROKER, 2, True, False, ""),
        ConfigRow("num.partitions", "1", ConfigSource.DEFAULT, 3, True, False, ""),
    ]
    opened = gateway.go("/upstream")
    opened.get_by_role("button", name="Node 1 ").first.click()
    details = opened.locator("#nodes .details")
    expect(details).to_contain_text("log.dirs")
    expect(details).to_contain_text("1 other setting at their defaults")
    opened.get_by_role("button", name="Node 1 ").first.click()
    expect(details).to_have_count(0)


def test_a_broker_has_no_upstream_in_its_menu(page: Watched, expect: Any) -> None:
    page.sign_in()
    opened = page.go("/upstream")
    expect(opened.locator("main")).to_contain_text("No upstream cluster")
    expect(opened.locator("nav a[href='/upstream']")).to_have_count(0)
    expect(opened.locator("nav a[href='/topics']")).to_have_count(1)


def test_an_alert_rule_of_a_gateway_may_watch_the_gateways_topics(gateway: Watched, expect: Any) -> None:
    opened = gateway.go("/alerts")
    opened.locator("body").press("n")
    condition = opened.get_by_label("Condition", exact=True)
    expect(condition.locator("option", has_text="that no gateway wrote")).to_have_count(1)


def test_the_overview_and_the_connections_of_a_gateway(gateway: Watched, expect: Any) -> None:
    opened = gateway.go("/")
    expect(opened.locator("#facts")).to_contain_text("2 of 3 upstream nodes connected")
    expect(opened.locator("#facts a")).to_have_attribute("href", "/upstream")
    expect(opened.locator("#facts")).not_to_contain_text("topic")
    opened = gateway.go("/connections?sort=upstream")
    row = opened.locator("#table tbody tr", has_text="app")
    expect(row).to_contain_text("node 1")
    expect(row).to_contain_text("kafka-1.example:9092")


@pytest.mark.parametrize("full", [False, True], ids=["down", "full"])
def test_no_page_of_a_gateway_scrolls_sideways_on_a_small_phone(
    browser: Any, served: ServedConsole, broker: FakeBroker, full: bool
) -> None:
    broker.upstream_row = unreachable_upstream()
    if full:
        fill(broker)
    wide = {}
    for viewport in (SMALL_PHONE, PHONE):
        with watched(browser, served, viewport=viewport) as phone:
            phone.sign_in()
            for path in GATEWAY_PATHS:
                opened = phone.go(path)
                opened.wait_for_timeout(150)
                wide[viewport["width"], path] = too_wide(opened)
    assert {where: by for where, by in wide.items() if by > 0} == {}


@each_look
@pytest.mark.parametrize("full", [False, True], ids=["down", "full"])
def test_axe_finds_nothing_at_a_gateway(
    browser: Any, served: ServedConsole, broker: FakeBroker, full: bool, looks: Any
) -> None:
    broker.upstream_row = unreachable_upstream()
    if full:
        fill(broker)
    found: dict[str, list[str]] = {}
    with watched(browser, served) as opened:
        opened.sign_in()
        for path in GATEWAY_PATHS:
            opened.go(path)
            opened.page.wait_for_timeout(200)
            found |= violations(opened.page, path, looks)
        opened.troubles.clear()
    assert found == {}

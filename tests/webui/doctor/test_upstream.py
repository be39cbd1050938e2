"""The doctor at a gateway: each symptom at and beside its threshold."""

import pytest
from msgspec.structs import replace

from broker.controller.rows.upstream import (
    LoopbackAdvertised,
    NodeAddress,
    UpstreamCondition,
    UpstreamLatency,
    UpstreamRow,
)
from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from tests.webui.rows import NOW_MS, unreachable_upstream, upstream, upstream_node
from webui.doctor.checks import SPAN_MS, Check, Level, RecentTotals
from webui.doctor.symptoms import examine, totals_of
from webui.doctor.upstream import REMOTE_CONNECTIONS
from webui.rest.doctor import DOCTOR

REACHED = "Upstream nodes that cannot be reached"
SLOWEST = "Slowest upstream response"
PORTS = "Upstream nodes without an open port"
LOOPBACK = "Clients that cannot use the advertised address"
FAILURES = {
    UpstreamCondition.CREDENTIALS: (
        "Upstream nodes that refuse the gateway's credentials",
        "upstream.sasl.jaas.config",
    ),
    UpstreamCondition.TLS: ("Upstream nodes with which TLS fails", "upstream.ssl.truststore.location"),
    UpstreamCondition.OTHER_CLUSTER: ("Upstream addresses of another cluster", "upstream.cluster.id"),
}


async def check(row: UpstreamRow, title: str, recent: RecentTotals | None = None) -> Check:
    symptoms = await examine(FakeBroker(upstream_row=row).views, recent or RecentTotals(), NOW_MS)
    (found,) = [each for symptom in symptoms for each in symptom.checks if each.title == title]
    return found


async def test_a_gateway_in_front_of_a_healthy_cluster_is_well() -> None:
    symptoms = await examine(FakeBroker(upstream_row=upstream()).views, RecentTotals(), NOW_MS)
    assert [symptom.key for symptom in symptoms] == ["connect", "io", "queue", "handlers", "upstream"]
    assert {symptom.level for symptom in symptoms} == {Level.GOOD}
    titles = {each.title for symptom in symptoms for each in symptom.checks}
    assert titles.isdisjoint({"Partitions offline", "Records missing", "Delayed produce requests (p99)"})


async def test_a_broker_has_no_upstream_checks() -> None:
    symptoms = await examine(FakeBroker().views, RecentTotals(), NOW_MS)
    assert [symptom.key for symptom in symptoms] == ["connect", "io", "queue", "handlers", "storage"]
    titles = {each.title for symptom in symptoms for each in symptom.checks}
    assert titles.isdisjoint({REACHED, PORTS, LOOPBACK, SLOWEST})
    assert REMOTE_CONNECTIONS not in await totals_of(FakeBroker().views)


@pytest.mark.parametrize(("away", "level"), [(0, "good"), (1, "watch"), (2, "watch"), (3, "urgent")])
async def test_nodes_that_cannot_be_reached(away: int, level: str) -> None:
    gone = {"condition": UpstreamCondition.UNREACHABLE, "error": "kafka-1.example:9092: Connection refused"}
    nodes = [upstream_node(each, **(gone if each <= away else {})) for each in (1, 2, 3)]
    found = await check(upstream(*nodes), REACHED)
    assert (found.value, found.of, found.level, found.setting) == (
        away,
        3,
        level,
        "upstream.bootstrap.servers",
    )
    assert ("kafka-1.example:9092: Connection refused." in found.says) == (away > 0)


async def test_a_cluster_that_was_never_found_is_urgent() -> None:
    found = await check(unreachable_upstream(), REACHED)
    assert (found.value, found.of, found.level) == (None, None, Level.URGENT)
    assert found.says == "No node answers. kafka-1.example:9092: Connection refused."
    looking = replace(unreachable_upstream(), condition=UpstreamCondition.CONNECTING, error="")
    assert (await check(looking, REACHED)).level is Level.WATCH


@pytest.mark.parametrize("condition", FAILURES)
async def test_lasting_failures_are_urgent_from_the_first_node_on(
    condition: UpstreamCondition,
) -> None:
    title, setting = FAILURES[condition]
    for count in (0, 1, 3):
        nodes = [
            upstream_node(each, **({"condition": condition, "error": "why"} if each <= count else {}))
            for each in (1, 2, 3)
        ]
        found = await check(upstream(*nodes), title)
        assert (found.value, found.of, found.setting) == (count, 3, setting)
        assert found.level is (Level.URGENT if count else Level.GOOD)
        assert found.says.startswith("why. " if count else "None.")


@pytest.mark.parametrize("condition", FAILURES)
async def test_a_cluster_that_fails_before_its_nodes_are_known(condition: UpstreamCondition) -> None:
    row = replace(unreachable_upstream(), condition=condition, error="the bootstrap server says no")
    found = await check(row, FAILURES[condition][0])
    assert (found.value, found.level) == (None, Level.URGENT)
    assert found.says.startswith("the bootstrap server says no. ")
    for other in FAILURES.keys() - {condition}:
        assert (await check(row, FAILURES[other][0])).level is Level.GOOD


@pytest.mark.parametrize(
    ("p99_ms", "level"),
    [(99.9, "good"), (100.0, "watch"), (999.9, "watch"), (1_000.0, "urgent"), (5_000.0, "urgent")],
)
async def test_a_slow_upstream_cluster(p99_ms: float, level: str) -> None:
    rows = (
        UpstreamLatency("Produce", 9, 1.0, p99_ms, waits=False),
        UpstreamLatency("Metadata", 9, 1.0, 2.0, waits=False),
        UpstreamLatency("FetchConsumer", 9, 1.0, 60_000.0, waits=True),
        UpstreamLatency("InitProducerId", 0, float("nan"), float("nan"), waits=False),
    )
    found = await check(upstream(latencies=rows), SLOWEST)
    assert (found.value, found.level) == (p99_ms, level)
    assert found.says.startswith("Produce, 99th percentile over five minutes. The gateway's own turn takes")
    assert found.says.endswith("The upstream cluster is slow.") == (level != "good")


@pytest.mark.parametrize(("turn_ms", "is_own"), [(None, False), (99.9, False), (100.0, True), (300.0, True)])
async def test_a_busy_gateway_is_not_a_slow_cluster(turn_ms: float | None, is_own: bool) -> None:
    rows = (UpstreamLatency("Produce", 9, 1.0, 200.0, waits=False),)
    found = await check(upstream(latencies=rows, turn_ms=turn_ms), SLOWEST)
    assert found.says.endswith("The gateway itself is busy." if is_own else "The upstream cluster is slow.")


async def test_a_cluster_without_requests_is_not_slow() -> None:
    found = await check(upstream(latencies=()), SLOWEST)
    assert (found.value, found.level, found.says) == (
        None,
        Level.GOOD,
        "No requests in the last five minutes.",
    )


async def test_a_node_without_a_port() -> None:
    found = await check(upstream(), PORTS)
    assert (found.value, found.of, found.level) == (0, 3, Level.GOOD)
    without = NodeAddress("PLAINTEXT", "", is_open=False)
    found = await check(upstream(upstream_node(1), upstream_node(9, addresses=(without,))), PORTS)
    assert (found.value, found.of, found.level, found.setting) == (1, 2, Level.URGENT, "gateway.port.range")
    assert found.says == "The range is too short for node 9: clients cannot reach it."
    taken = NodeAddress("PLAINTEXT", "gateway.example:31009", is_open=False)
    found = await check(upstream(upstream_node(1), upstream_node(9, addresses=(taken,))), PORTS)
    assert found.level is Level.URGENT
    assert "node 9 at gateway.example:31009 could not be opened" in found.says


async def test_at_most_five_nodes_are_named() -> None:
    without = NodeAddress("PLAINTEXT", "", is_open=False)
    for count, names in ((5, "1, 2, 3, 4, 5:"), (6, "1, 2, 3, 4, 5 and 1 more:")):
        nodes = [upstream_node(each, addresses=(without,)) for each in range(1, count + 1)]
        assert f"for node {names} clients" in (await check(upstream(*nodes), PORTS)).says


async def test_clients_of_other_machines_that_are_told_a_loopback_address() -> None:
    recent = RecentTotals()
    before = upstream(loopback=(LoopbackAdvertised("PLAINTEXT", "localhost", 4),))
    recent.add(await totals_of(FakeBroker(upstream_row=before).views), NOW_MS - SPAN_MS)
    assert (await check(before, LOOPBACK, recent)).level is Level.GOOD
    row = upstream(loopback=(LoopbackAdvertised("PLAINTEXT", "localhost", 5),))
    found = await check(row, LOOPBACK, recent)
    assert (found.value, found.level, found.setting) == (1, Level.URGENT, "advertised.listeners")
    assert "localhost on PLAINTEXT" in found.says


async def test_event_topics_that_cannot_be_written() -> None:
    title = "Event topics that cannot be written"
    assert (await check(upstream(), title)).level is Level.GOOD
    found = await check(
        upstream(unwritten=(("__weir_throttles", "Produce of __weir_throttles: CLOSED"),)), title
    )
    assert (found.value, found.level) == (1, Level.WATCH)
    assert found.says == "Their events are dropped. Produce of __weir_throttles: CLOSED."


async def test_the_diagnosis_of_a_gateway_has_the_form_that_the_api_describes(
    http: Browserless, broker: FakeBroker
) -> None:
    for row in (upstream(), unreachable_upstream()):
        broker.upstream_row = row
        answer = await http.get("/api/v1/doctor", token="viewer-token")
        assert answer.status_code == 200
        DOCTOR.check(await answer.json)

"""Two gateways with one set of rules before a real cluster: what is changed at one holds at both."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import quote

import pytest

from tests.support import kafka_tools
from tests.support.broker_process import within
from tests.support.gateway_process import GatewayProcess, set_rate
from tests.support.greedy_load import GreedyLoad
from tests.support.kafka_cluster import KafkaCluster

pytestmark = kafka_tools.pytestmark

ENFORCED_WITHIN_S: Final = 2.0
ROUNDS: Final = 8
RACING: Final = 60
CLIENT_ID: Final = "held at both"


@pytest.fixture
def gateways(cluster: KafkaCluster, tmp_path: Path) -> Iterator[tuple[GatewayProcess, GatewayProcess]]:
    with ExitStack() as stack:
        found = []
        for number in (1, 2):
            directory = tmp_path / f"gateway-{number}"
            directory.mkdir()
            settings = ("quota.scope=cluster", f"node.id={number}")
            process = GatewayProcess(directory, cluster.bootstrap(), *settings, nodes=cluster.count)
            found.append(stack.enter_context(process))
        yield found[0], found[1]


def rule(gateway: GatewayProcess, client_id: str) -> dict[str, Any] | None:
    """The rule of a client id as a console shows it: its limit and version."""
    found = gateway.ask("GET", f"/api/v1/client-quotas?search={quote(client_id)}")["items"]
    rows = [row for row in found if row["entity"] == {"client-id": client_id}]
    return rows[0] if rows else None


def limit(gateway: GatewayProcess, client_id: str) -> float | None:
    found = rule(gateway, client_id)
    return None if found is None else found["limits"]["producer_byte_rate"]["value"]


def has_limit(gateway: GatewayProcess, client_id: str, wanted: float | None) -> None:
    """Wait until the console shows this limit."""
    within(ENFORCED_WITHIN_S, lambda: limit(gateway, client_id) == wanted, f"{client_id} has {wanted}")


def trail(gateway: GatewayProcess) -> list[tuple[Any, ...]]:
    rows = gateway.ask("GET", "/api/v1/audit?kind=client-quota&limit=1000")["items"]
    return [(row["id"], row["at"], row["actor"], row["entity"], row["key"], row["new"]) for row in rows]


def throttled_here(gateway: GatewayProcess) -> list[Any]:
    rows = gateway.ask("GET", "/api/v1/throttled-channels")["items"]
    return [row for row in rows if row["client_id"] == CLIENT_ID and not row["gateway"]]


def test_a_rule_of_one_console_is_enforced_at_the_other_within_two_seconds(
    gateways: tuple[GatewayProcess, GatewayProcess],
) -> None:
    one, other = gateways
    with GreedyLoad("several-gateways", 500_000, 1, CLIENT_ID) as load:
        load.start(0, other.bootstrap)
        within(20, lambda: load.delivered[0] > 4_000_000, "records")
        assert throttled_here(other) == []
        begin = time.monotonic()
        set_rate(one, CLIENT_ID, 500_000)
        answered = time.monotonic()
        within(ENFORCED_WITHIN_S + begin - answered, lambda: throttled_here(other), "the rule is enforced")
        enforced = time.monotonic()
        print(f"answered after {answered - begin:.2f} s, enforced after {enforced - begin:.2f} s")
        assert limit(other, CLIENT_ID) == 500_000

        def seen_at_one() -> list[str]:
            rows = one.ask("GET", "/api/v1/throttled-channels")["items"]
            return [row["gateway"] for row in rows if row["client_id"] == CLIENT_ID]

        (gateway, *_) = within(5, seen_at_one, "the other's throttled connection")
        assert gateway.startswith("2-")
    set_rate(one, CLIENT_ID, None)


def test_of_two_consoles_that_change_a_rule_at_once_one_wins_and_the_other_is_refused(
    gateways: tuple[GatewayProcess, GatewayProcess],
) -> None:
    one, other = gateways
    set_rate(one, "both", 1_000)
    has_limit(other, "both", 1_000)

    def change(gateway: GatewayProcess, value: int, version: int) -> int:
        entry = {
            "entity": {"client-id": "both"},
            "ops": [{"key": "producer_byte_rate", "value": value}],
            "version": version,
        }
        try:
            gateway.ask("PATCH", "/api/v1/client-quotas", {"entries": [entry]})
        except HTTPError as refused:
            return refused.code
        return 200

    with ThreadPoolExecutor() as pool:
        for number in range(1, ROUNDS + 1):
            found = rule(one, "both")
            assert found is not None and found == rule(other, "both")
            values = (number * 10_000, number * 100_000)
            version = found["version"]
            answers = list(pool.map(change, gateways, values, (version, version)))
            assert sorted(answers) == [200, 412]
            winner = values[answers.index(200)]
            for gateway in gateways:
                has_limit(gateway, "both", winner)
    assert trail(one) == trail(other)
    assert len([row for row in trail(one) if '"both"' in row[3]]) == ROUNDS + 1


def test_of_racing_writes_all_gateways_and_one_that_comes_later_accept_the_same(
    cluster: KafkaCluster, gateways: tuple[GatewayProcess, GatewayProcess], tmp_path: Path
) -> None:
    """Each writer is told whether its change is in force; what has lost stays in the log for ever."""
    one, other = gateways

    def change(number: int) -> tuple[int, int]:
        entity, op = {"client-id": f"racing-{number % 2}"}, {"key": "producer_byte_rate", "value": number}
        try:
            gateways[number // 2 % 2].ask(
                "PATCH", "/api/v1/client-quotas", {"entries": [{"entity": entity, "ops": [op]}]}
            )
        except HTTPError as refused:
            return number, refused.code
        return number, 200

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(change, range(1_000, 1_000 + RACING)))
    assert {code for _, code in answers} <= {200, 412}
    won = {f"{number}" for number, code in answers if code == 200}
    print(f"{len(won)} of {RACING} writes won")

    def raced(gateway: GatewayProcess) -> list[tuple[Any, ...]]:
        return [row for row in trail(gateway) if '"racing-' in row[3]]

    within(ENFORCED_WITHIN_S, lambda: raced(one) == raced(other), "the same trail")
    assert {row[-1] for row in raced(one)} == won and len(raced(one)) == len(won)
    assert other.stop() == 0
    other.start()
    third = GatewayProcess(tmp_path, cluster.bootstrap(), "quota.scope=cluster", "node.id=3", nodes=3)
    with third:
        for late in (other, third):
            within(20, lambda late=late: trail(late) == trail(one), "the same trail after a start")
        set_rate(third, "racing-0", 7)
        for gateway in gateways:
            has_limit(gateway, "racing-0", 7)


def test_a_gateway_that_was_down_catches_up_at_its_start(
    gateways: tuple[GatewayProcess, GatewayProcess],
) -> None:
    one, other = gateways
    set_rate(one, "early", 1_000)
    has_limit(other, "early", 1_000)
    assert other.stop() == 0
    set_rate(one, "early", 2_000)
    set_rate(one, "late", 3_000)
    other.start()
    # Until it has read the log, its last rules hold.
    has_limit(other, "early", 2_000)
    has_limit(other, "late", 3_000)
    assert trail(other) == trail(one)
    set_rate(other, "late", 4_000)
    has_limit(one, "late", 4_000)


def test_of_the_clusters_own_quotas_each_change_is_one_row_at_all_gateways(
    cluster: KafkaCluster, tmp_path: Path
) -> None:
    """With gateway.quotas=upstream both gateways follow the cluster, and have one log."""
    with ExitStack() as stack:
        found = []
        for number in (3, 4):
            directory = tmp_path / f"gateway-{number}"
            directory.mkdir()
            settings = ("quota.scope=cluster", "gateway.quotas=upstream", f"node.id={number}")
            process = GatewayProcess(directory, cluster.bootstrap(), *settings, nodes=cluster.count)
            found.append(stack.enter_context(process))
        one, other = found
        alter = (
            *(kafka_tools.CONFIGS, "--bootstrap-server", cluster.bootstrap()),
            *("--entity-type", "clients", "--entity-name", "followed", "--alter"),
        )
        kafka_tools.run(*alter, "--add-config", "producer_byte_rate=7000")
        for gateway in found:
            has_limit(gateway, "followed", 7_000)
        kafka_tools.run(*alter, "--delete-config", "producer_byte_rate")
        for gateway in found:
            has_limit(gateway, "followed", None)
        assert trail(one) == trail(other)
        rows = [row for row in trail(one) if '"followed"' in row[3]]
        assert [row[-1] for row in rows] == [None, "7000"]
        assert not [line for line in one.log_lines + other.log_lines if "cannot apply a quota" in line]

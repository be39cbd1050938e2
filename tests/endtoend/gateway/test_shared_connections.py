"""Three gateways that share limits on connections, in front of a real cluster: numbers and rates by address
and user, and a kill -9.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from broker.quotas.connections import PER_IP, PER_USER
from tests.support import kafka_tools
from tests.support.broker_process import LOGIN_MODULE
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_cluster import KafkaCluster
from tests.support.raw_clients import Connecting, RawClient, open_many

pytestmark = kafka_tools.pytestmark

COUNTED, PACED, FREE = "127.0.0.7", "127.0.0.8", "127.0.0.9"
"""Addresses with a limit on the number of connections, on their rate, and without one."""

MAXIMUM = 40
RATE = 20
TOLERANCE = 0.05

SETTLED_S = 4.0
MOVED_S = 4.0
"""After this, gateways have divided what none has open by what clients want."""

LOST_S = 5.0
LOOK_S = 0.5

CAROL, DAVE = ("carol", "carol-secret"), ("dave", "dave-secret")
USERS = f'{LOGIN_MODULE} user_carol="carol-secret" user_dave="dave-secret";'


@pytest.fixture(scope="module")
def gateways(
    cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[GatewayProcess]]:
    with ExitStack() as stack:
        found = []
        for number in range(3):
            settings = (
                "quota.scope=cluster",
                f"node.id={number}",
                "gateway.authentication=gateway",
                "wire.role=editor",
                "sasl.enabled.mechanisms=PLAIN",
                f"listener.name.sasl_plaintext.plain.sasl.jaas.config={USERS}",
                f"max.connections.per.ip.overrides={COUNTED}:{MAXIMUM}",
                f"max.connections.per.user.overrides=carol:{MAXIMUM}",
                f"max.connection.creation.rate.per.user.overrides=dave:{RATE}",
            )
            directory = tmp_path_factory.mktemp("gateway")
            process = GatewayProcess(
                directory, cluster.bootstrap(), *settings, listener="SASL_PLAINTEXT", nodes=cluster.count
            )
            found.append(stack.enter_context(process))
        found[0].ask("PUT", f"/api/v1/ip-quotas/{PACED}", {"connection_creation_rate": RATE})
        time.sleep(SETTLED_S)
        yield found


class Held:
    """Open connections by gateway, and attempts to have more."""

    def __init__(self, source: str, *login: str) -> None:
        self._source = source
        self._login = login
        self.opened: dict[str, list[RawClient]] = {}

    def __enter__(self) -> "Held":
        return self

    def __exit__(self, *error: object) -> None:
        for clients in self.opened.values():
            for each in clients:
                each.close()

    def try_for(self, gateways: list[GatewayProcess], seconds: float, *, until: int | None = None) -> float:
        """Try to open more at all of them, until there are `until`. Return the seconds that it took."""
        begun = time.monotonic()
        while (passed := time.monotonic() - begun) < seconds and self.total() != until:
            for each in gateways:
                more = open_many(each.bootstrap, 4, self._source, *self._login)
                self.opened.setdefault(each.bootstrap, []).extend(more)
            time.sleep(0.05)
        return passed

    def total(self) -> int:
        return sum(self.by_gateway())

    def by_gateway(self) -> list[int]:
        return [sum(each.is_open() for each in clients) for clients in self.opened.values()]

    def check(self, gateways: list[GatewayProcess], key: str, name: str) -> None:
        """Check that as many are open as the limit says."""
        found = self.by_gateway()
        assert sum(found) == MAXIMUM, f"{found}; {[shares(each, key, name) for each in gateways]}"


def shares(gateway: GatewayProcess, key: str, name: str) -> dict[str, float]:
    """The share of each gateway in a limit, by the node id that its own id begins with."""
    rows = gateway.ask("GET", f"/api/v1/gateway-shares?search={name}")["items"]
    return {row["gateway_id"].partition("-")[0]: row["share"] for row in rows if row["key"] == key}


LIMITED = [
    pytest.param((COUNTED,), PER_IP, COUNTED, id="address"),
    pytest.param((FREE, *CAROL), PER_USER, "carol", id="user"),
]


@pytest.mark.parametrize(("client", "key", "name"), LIMITED)
def test_the_number_of_connections_holds_at_one_gateway_and_at_all(
    gateways: list[GatewayProcess], client: tuple[str, ...], key: str, name: str
) -> None:
    for where in (gateways[1:2], gateways):
        with Held(*client) as held:
            took = held.try_for(where, 10, until=MAXIMUM)
            print(f"{key}: {held.total()} of {MAXIMUM} after {took:.2f} s at {len(where)} gateways")
            held.check(gateways, key, name)
            held.try_for(gateways, 3)
            held.check(gateways, key, name)
            assert sum(shares(gateways[2], key, name).values()) == pytest.approx(MAXIMUM, rel=TOLERANCE)
        time.sleep(MOVED_S)


RATES = [pytest.param((PACED,), id="address"), pytest.param((FREE, *DAVE), id="user")]


@pytest.mark.parametrize("client", RATES)
@pytest.mark.parametrize("threads", [(4, 4, 4), (8, 1, 1)], ids=["even", "skewed"])
def test_the_rate_of_new_connections_holds(
    gateways: list[GatewayProcess], client: tuple[str, ...], threads: tuple[int, ...]
) -> None:
    with Connecting([each.bootstrap for each in gateways], threads, *client) as load:
        time.sleep(6)
        rate = load.rate(20)
    print(f"{rate:.2f} connections a second of {RATE} from {client} with {threads} at the gateways")
    assert rate == pytest.approx(RATE, rel=TOLERANCE)


def test_a_killed_gateways_connections_and_rate_are_the_others_again(gateways: list[GatewayProcess]) -> None:
    addresses = [each.bootstrap for each in gateways]
    with Held(COUNTED) as held, Connecting(addresses, (2, 2, 2), FREE, *DAVE) as load:
        held.try_for(gateways, 10, until=MAXIMUM)
        held.check(gateways[1:], PER_IP, COUNTED)
        gateways[0].kill()
        left = held.total()
        assert left < MAXIMUM
        took = held.try_for(gateways[1:], LOST_S + 5, until=MAXIMUM)
        print(f"{left} connections were left, and {held.total()} were open {took:.2f} s after the kill -9")
        held.check(gateways[1:], PER_IP, COUNTED)
        assert took < LOST_S + LOOK_S
        held.try_for(gateways[1:], 2)
        held.check(gateways[1:], PER_IP, COUNTED)
        rate = load.rate(15)
        print(f"{rate:.2f} connections a second of {RATE} at the others")
        assert rate == pytest.approx(RATE, rel=TOLERANCE)
    gateways[0].start()
    time.sleep(SETTLED_S)
    with Held(COUNTED) as held:
        held.try_for(gateways, 10, until=MAXIMUM)
        held.check(gateways, PER_IP, COUNTED)
        held.try_for(gateways, 2)
        held.check(gateways, PER_IP, COUNTED)

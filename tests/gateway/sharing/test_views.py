"""What the console shows of the gateways and their shares."""

from functools import partial
from typing import Any

from msgspec.structs import replace

from broker.common.slices import Steps, run_through
from broker.controller.rows.upstream import GatewaySums, Incomplete
from broker.gateway.sharing.connections import SharedConnections
from broker.gateway.sharing.member import SharingMember
from broker.gateway.sharing.report import WHOLE, LimitKey, Line, Report
from broker.gateway.sharing.summary import Summary
from broker.gateway.sharing.views import KEPT_MS, MAX_REPORT_TIMES, SharedLimits, Summaries
from broker.metrics.rate import INT_MAX
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.connections import (
    CREATION_RATE,
    IP_RATE,
    PER_IP,
    PER_USER,
    USER_RATE,
    ConnectionQuotas,
    Limits,
    UserLimit,
)
from broker.quotas.entity import Entity
from broker.quotas.kinds import QuotaKind
from broker.quotas.shared_connections import ConnectionKey
from tests.gateway.sharing.test_client_summary import SUMMARY as CLIENTS
from tests.gateway.sharing.test_summary import CHANNEL, SUMMARY, TRAFFIC
from tests.support.clock import ManualClock


class World:
    """The gateway "one"."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.quotas = ClientQuotas()
        self.connections = ConnectionQuotas(shared=True)
        self.member = SharingMember("one", self.quotas, SharedConnections(self.connections))
        self.summaries = Summaries(self._measured, keeps_clients=True)
        self.views = SharedLimits(self.member, self.summaries, self.quotas, self.clock)

    def receive(self, summary: Summary) -> None:
        run_through(self.member.receive(Report(summary.gateway, 1)))
        self.views.note_report(summary.gateway)
        self.summaries.receive(summary, self.clock.ms())

    def _measured(self) -> Steps[Summary]:
        yield
        return replace(SUMMARY, gateway="one")


def test_gateways_and_shares_in_the_units_of_the_limits() -> None:
    world = World()
    world.quotas.apply(Entity(client_id="app"), "producer_byte_rate", 1_000)
    views = world.views
    assert [(row.gateway_id, row.heard_at_ms) for row in views.gateways()] == [("one", None)]
    assert list(views.shares()) == []
    key = LimitKey(QuotaKind.PRODUCE, None, "app")
    world.clock.advance(500)
    for gateway, wanted in (("two", WHOLE // 4), ("three", WHOLE // 2)):
        run_through(world.member.receive(Report(gateway, 1, {key: Line(WHOLE // 5, WHOLE // 10, 0, wanted)})))
        views.note_report(gateway)
    read_at_ms = world.clock.wall_ms()
    found = [(row.gateway_id, row.heard_at_ms) for row in views.gateways()]
    assert found == [("one", None), ("two", read_at_ms), ("three", read_at_ms)]
    rows = {row.gateway_id: (row.entity, row.key, row.limit, row.demand, row.share) for row in views.shares()}
    entity = (("client-id", "app"),)
    assert rows == {
        "two": (entity, "producer_byte_rate", 1_000.0, 300.0, 250.0),
        "three": (entity, "producer_byte_rate", 1_000.0, 300.0, 500.0),
    }


def test_shares_of_limits_on_connections() -> None:
    """A limit that this gateway does not have is not shown."""
    world = World()
    quotas = world.connections
    quotas.per_ip.maximum = 20
    quotas.users.set_limits(UserLimit(INT_MAX, {"alice": 8}), UserLimit(2.5))
    quotas.set_ip_rate("10.0.0.7", 12)
    quotas.set_broker_limits(Limits(creation_rate=30))
    keys = [
        ConnectionKey(PER_IP, "10.0.0.7"),
        ConnectionKey(IP_RATE, "10.0.0.7"),
        ConnectionKey(PER_USER, "alice"),
        ConnectionKey(USER_RATE, "bob"),
        ConnectionKey(CREATION_RATE, ""),
        ConnectionKey(PER_USER, "bob"),
        ConnectionKey(IP_RATE, "10.0.0.8"),
    ]
    line = Line(WHOLE // 4, WHOLE // 4, WHOLE // 2, WHOLE // 2)
    run_through(world.member.receive(Report("two", 1, dict.fromkeys(keys, line), has_connections=True)))
    assert [(row.gateway_id, row.entity, row.key, row.limit, row.share) for row in world.views.shares()] == [
        ("two", (("ip", "10.0.0.7"),), "max.connections.per.ip", 20.0, 10.0),
        ("two", (("ip", "10.0.0.7"),), "connection_creation_rate", 12.0, 6.0),
        ("two", (("user", "alice"),), "max.connections.per.user", 8.0, 4.0),
        ("two", (("user", "bob"),), "max.connection.creation.rate.per.user", 2.5, 1.25),
        ("two", (), "max.connection.creation.rate", 30.0, 15.0),
    ]
    assert {row.demand / row.limit for row in world.views.shares()} == {0.5}


def test_a_gateway_has_the_traffic_and_address_of_its_last_summary() -> None:
    world = World()
    world.receive(replace(SUMMARY, gateway="two"))
    run_through(world.member.receive(Report("silent", 1)))
    found = {row.gateway_id: (row.address, row.traffic) for row in world.views.gateways()}
    assert found == {"one": ("", None), "two": (SUMMARY.address, TRAFFIC), "silent": ("", None)}
    run_through(world.summaries.measure())
    found = {row.gateway_id: (row.address, row.traffic) for row in world.views.gateways()}
    assert found["one"] == (SUMMARY.address, TRAFFIC)


def test_the_others_are_summed_up_without_this_one() -> None:
    world = World()
    run_through(world.summaries.measure())
    assert world.views.others() == GatewaySums()
    for name in ("two", "three"):
        world.receive(replace(SUMMARY, gateway=name))
    assert world.views.others() == GatewaySums(2, 2_400, 6, 500_000.0, 2_001.0, 621.0)
    world.clock.advance(5_001)
    assert world.views.others() == GatewaySums()


def test_throttled_connections_of_the_others_and_how_many_are_not_listed() -> None:
    world = World()
    assert (list(world.views.throttled()), world.views.unlisted_throttled()) == ([], 0)
    world.receive(SUMMARY)
    assert list(world.views.throttled()) == [CHANNEL]
    assert world.views.unlisted_throttled() == TRAFFIC.throttled - 1
    world.receive(replace(SUMMARY, traffic=replace(TRAFFIC, throttled=0)))
    assert world.views.unlisted_throttled() == 0


def test_the_times_of_old_gateways_are_forgotten() -> None:
    views = World().views
    for number in range(MAX_REPORT_TIMES + 1):
        views.note_report(f"gateway {number}")
    assert len(views._report_times) == MAX_REPORT_TIMES
    assert "gateway 0" not in views._report_times


def receive_clients(world: World, gateway: str, **changes: Any) -> None:
    world.receive(replace(SUMMARY, gateway=gateway, unlisted_uses=0))
    rows = tuple(replace(row, gateways=(gateway,)) for row in CLIENTS.clients)
    world.summaries.receive_clients(
        replace(CLIENTS, gateway=gateway, clients=rows, **changes), world.clock.ms()
    )


def test_the_clients_and_addresses_of_the_others() -> None:
    world = World()
    views = world.views
    assert (list(views.clients()), list(views.addresses()), views.without_report()) == ([], [], [])
    receive_clients(world, "two")
    receive_clients(world, "three", addresses=())
    assert [(row.user, row.gateways) for row in views.clients()] == [
        ("alice", ("three",)),
        ("alice", ("two",)),
    ]
    assert list(views.addresses()) == list(CLIENTS.addresses)
    assert (views.unlisted_clients(), views.unlisted_addresses()) == (8, 10)
    world.clock.advance(KEPT_MS + 1)
    assert list(views.clients()) == []
    assert views.without_report() == ["two", "three"]


def test_the_gateways_that_do_not_report_all() -> None:
    world = World()
    assert world.views.incomplete() == Incomplete()
    receive_clients(world, "all", unlisted_clients=0, unlisted_addresses=0)
    receive_clients(world, "clients", unlisted_addresses=0)
    receive_clients(world, "addresses", unlisted_clients=0)
    world.receive(replace(SUMMARY, gateway="uses", unlisted_uses=1))
    run_through(world.member.receive(Report("silent", 1)))
    assert world.views.without_report() == ["uses", "silent"]
    assert world.views.incomplete() == Incomplete(
        uses=frozenset({"uses", "silent"}),
        clients=frozenset({"uses", "silent", "clients"}),
        addresses=frozenset({"uses", "silent", "addresses"}),
    )


def test_the_share_of_each_gateway_in_a_limit() -> None:
    world = World()
    key = LimitKey(QuotaKind.PRODUCE, None, "app")
    share = partial(world.views.share, "producer_byte_rate", (None, "app"))
    # A gateway that starts does not know yet whether others are there.
    assert share("") == world.member.other_share / WHOLE
    run_through(world.member.receive(Report("two", 1, {key: Line(WHOLE // 5, 0, 0, WHOLE // 4)})))
    assert (share("two"), share("three")) == (0.25, None)
    world.member.shares[key] = WHOLE // 2
    assert share("") == 0.5
    assert world.views.share("request_percentage", (None, "app"), "two") is None
    assert world.views.share("request_percentage", (None, "app"), "") == world.member.other_share / WHOLE

"""Several gateways that share a limit, on a mock clock: what the console of one explains of a client that
another one has.
"""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from broker.common.slices import Steps, run_through
from broker.config.load import load
from broker.controller.control import Control
from broker.controller.rows.broker import ServerInfo
from broker.controller.rows.quotas import ResolvedLimit
from broker.gateway.sharing.client_summary import ClientSummary
from broker.gateway.sharing.member import SharingMember
from broker.gateway.sharing.own_summaries import OwnSummaries
from broker.gateway.sharing.report import WHOLE
from broker.gateway.sharing.signing import Records
from broker.gateway.sharing.task import SharingTask
from broker.gateway.sharing.views import SharedLimits, Summaries
from broker.metadata.store import MetadataStore
from broker.network.clock import TrioClock
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entity import Entity
from broker.quotas.kinds import CLIENT_KEYS
from tests.controller.live import Live, client, store, views_of
from tests.controller.world import StoreCommitter
from tests.quotas.scene import Connection
from tests.support.fake_shares import FakeUpstream
from tests.support.memory_log import MemoryLog, MemoryTopic
from tests.support.view_rows import usage_rows

PRODUCE = "producer_byte_rate"
LIMIT = 1_000_000
REQUEST = 25_000
FREE = "a client without a limit " * 4
ALICE = (("user", "alice"),)


class QuotaLive(Live):
    """The live values of the quotas of one gateway."""

    def __init__(self, quotas: ClientQuotas, clock: TrioClock) -> None:
        super().__init__()
        self.quotas = quotas
        self.clock = clock

    def observed(self, key: str, user: str, client_id: str, ip: str) -> float | None:
        found = self.quotas.managers[CLIENT_KEYS[key].kind].sensors_of(user, client_id)
        return found[0].observed(self.clock.ms()) if found else None

    def throttled_clients(self, key: str) -> Any:
        throttled = self.quotas.managers[CLIENT_KEYS[key].kind].throttled.all()
        return [(each.sensor.user, each.sensor.client_id) for each in throttled]


class Gateway:
    """A gateway with connections of alice that send as much as they may, and a client without a limit."""

    def __init__(self, name: str, topic: MemoryTopic, control: Control, committer: StoreCommitter) -> None:
        self.name = name
        self.clock = TrioClock()
        self.quotas = ClientQuotas(shared=True)
        self.quotas.apply(Entity("alice"), PRODUCE, LIMIT, self.clock.ms())
        self.member = SharingMember(name, self.quotas)
        self.log = MemoryLog(topic, append_s=0.01, read_s=0.005)
        server: Any = SimpleNamespace(
            processors=list,
            ended_processors=SimpleNamespace(bytes_in=0, bytes_out=0),
            metrics=SimpleNamespace(once=list),
            client_endpoints=tuple,
        )
        own = OwnSummaries(name, server, self.quotas, (), self.clock, tuple, bool)
        self.summaries = Summaries(own.summary, keeps_clients=True, measure_clients=self._clients)
        self.shares = SharedLimits(self.member, self.summaries, self.quotas, self.clock)
        self.task = SharingTask(self.member, self.log, self.clock, Records(), summaries=self.summaries)
        info = ServerInfo(1, "weir 1", (), "")
        self.live = QuotaLive(self.quotas, self.clock)
        self.live.clients = [client("bob", FREE, 1_000.0)]
        self.views = views_of(control, self.live, committer, info, FakeUpstream(self.shares))
        self.scope = trio.CancelScope()

    def _clients(self) -> Steps[ClientSummary]:
        yield
        return ClientSummary(self.name, tuple(self.live.clients))

    async def run(self, connections: int) -> None:
        with self.scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.task.run)
                for _ in range(connections):
                    nursery.start_soon(self._produce)

    async def _produce(self) -> None:
        connection = Connection(principal="alice", client_id="app")
        throttled = self.quotas.produce.throttled
        while True:
            found = self.quotas.record_produce("alice", "app", REQUEST, self.clock.ms())
            if found is not None:
                self.quotas.throttle(connection, connection, found, self.clock.ms())
                while connection in [each.channel for each in throttled.all()]:
                    await trio.sleep(0.05)
                    throttled.expired(self.clock.ms())
            await trio.sleep(0.001)

    def explain(self, key: str = PRODUCE, who: tuple[str, str] = ("alice", "app")) -> ResolvedLimit:
        return next(now for now, _ in run_through(self.views.quotas.resolve(*who)) if now.key == key)

    def own_use(self) -> float:
        (sensor,) = self.quotas.produce.sensors()
        return sensor.observed(self.clock.ms())


@pytest.fixture
def committer(tmp_path: Path) -> Iterator[StoreCommitter]:
    found = MetadataStore.open(tmp_path / "metadata.sqlite", 1)
    yield StoreCommitter(found)
    found.close()


@pytest.fixture
async def cluster(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery, committer: StoreCommitter
) -> dict[str, Gateway]:
    """The console is at a; alice has no connection there, ten at b and five at c."""
    control = Control(committer.store.image, load(None, [], {}), committer, lambda: 0)
    await store(control, (ALICE, PRODUCE, float(LIMIT)))
    topic = MemoryTopic()
    made = {name: Gateway(name, topic, control, committer) for name in "abc"}
    for gateway, connections in zip(made.values(), (0, 10, 5), strict=True):
        nursery.start_soon(gateway.run, connections)
    return made


async def test_a_client_of_other_gateways_is_explained_with_its_use_share_and_throttles(
    autojump_clock: trio.testing.MockClock,
    cluster: dict[str, Gateway],
) -> None:
    await trio.sleep(20)
    found = cluster["a"].explain()
    at_b, at_c = found.gateways
    assert (at_b.gateway, at_c.gateway, found.unlisted) == ("b", "c", ())
    assert found.observed == at_b.observed + at_c.observed == pytest.approx(LIMIT, rel=0.05)
    assert at_b.observed > at_c.observed > 0
    for use in (at_b, at_c):
        gateway = cluster[use.gateway]
        assert use.share == gateway.member.shares[next(iter(gateway.member.shares))] / WHOLE * LIMIT
        assert use.throttled > 0
    # Each of them shows the same of all, with its own use as of now.
    for name in "bc":
        there = {each.gateway: each for each in cluster[name].explain().gateways}
        assert set(there) == {"", *"bc"} - {name}
        assert there[""].observed == pytest.approx(cluster[name].own_use(), rel=0.01)
        assert there[""].throttled == len(cluster[name].quotas.produce.throttled)


async def test_a_gateway_that_reports_nothing_is_named_and_one_that_stops_is_gone(
    autojump_clock: trio.testing.MockClock,
    cluster: dict[str, Gateway],
) -> None:
    await trio.sleep(10)
    # Its reports are smaller.
    cluster["c"].log.max_bytes = 200
    await trio.sleep(6)
    found = cluster["a"].explain()
    assert [each.gateway for each in found.gateways] == ["b"]
    assert found.unlisted == ("c",)
    assert sorted(cluster["a"].views.shares.without_report()) == ["c"]
    cluster["c"].log.max_bytes = 1_000_000
    await trio.sleep(2)
    assert [each.gateway for each in cluster["a"].explain().gateways] == ["b", "c"]
    cluster["c"].scope.cancel()
    await trio.sleep(1)
    found = cluster["a"].explain()
    assert ([each.gateway for each in found.gateways], found.unlisted) == (["b"], ())
    assert sorted(cluster["a"].views.shares.without_report()) == []


async def test_a_client_without_a_limit_is_the_sum_of_all_gateways(
    autojump_clock: trio.testing.MockClock, cluster: dict[str, Gateway]
) -> None:
    await trio.sleep(5)
    (row,) = usage_rows(cluster["a"].views)
    assert (row.user, row.bytes_in_per_s, row.gateways) == ("bob", 3_000.0, ("b", "c"))
    found = cluster["a"].explain(who=("bob", FREE))
    assert (found.bound, found.observed) == (None, 3_000.0)
    assert {each.gateway: each.observed for each in found.gateways} == dict.fromkeys(("", "b", "c"), 1_000.0)

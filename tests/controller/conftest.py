"""A `Control` with a real store in the test's directory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.config.load import load
from broker.controller.control import Control
from broker.controller.rows.broker import ServerInfo
from broker.controller.rows.client_endpoint import ClientEndpoint
from broker.controller.rows.upstream import GatewaySums
from broker.metadata.store import MetadataStore
from broker.views.console import Views
from tests.controller.live import Live, views_of
from tests.controller.world import AUTHORIZER, StoreCommitter, World
from tests.support.clock import ManualClock
from tests.support.fake_shares import FakeShares, FakeUpstream


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def committer(tmp_path: Path) -> Iterator[StoreCommitter]:
    store = MetadataStore.open(tmp_path / "metadata.sqlite", 1)
    yield StoreCommitter(store)
    store.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def control(committer: StoreCommitter, clock: ManualClock) -> Control:
    return Control(committer.store.image, load(None, [AUTHORIZER], {}), committer, clock.wall_ms)


@pytest.fixture
def live() -> Live:
    return Live()


@pytest.fixture
def views(control: Control, committer: StoreCommitter, live: Live) -> Views:
    info = ServerInfo(1, "weir 1", (ClientEndpoint("127.0.0.1:9092"),), "http://127.0.0.1:8080/")
    return views_of(control, live, committer, info)


@pytest.fixture
def shares() -> FakeShares:
    """Two other gateways that share limits with the one of `gateway_views`."""
    return FakeShares(GatewaySums(2))


@pytest.fixture
def gateway_views(control: Control, committer: StoreCommitter, live: Live, shares: FakeShares) -> Views:
    info = ServerInfo(1, "weir 1", (ClientEndpoint("127.0.0.1:9092"),), "http://127.0.0.1:8080/")
    return views_of(control, live, committer, info, FakeUpstream(shares))

"""A server without logs and groups is built from the other parts. The task that removes expired delegation
tokens, on a mock clock.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.api import registry
from broker.api.requests.callbacks import Callbacks
from broker.api.requests.change_limits import ControllerMutations
from broker.api.requests.delayed_operations import DelayedFetches, DelayedProduce
from broker.api.requests.retry_storm import RetryStormGate
from broker.api.requests.services import Endpoints, control_services
from broker.api.security.client_security import ClientSecurity
from broker.common.errors import ApiError, ErrorCode
from broker.config.load import load
from broker.config.table import BrokerConfig
from broker.controller.commands import AlterClientQuotas, QuotaAlteration, QuotaOp
from broker.controller.control import Control
from broker.controller.delegation_tokens import CreateDelegationToken
from broker.log.background_jobs import Flush
from broker.metadata.actor import BROKER_ITSELF, Actor, ChangeOrigin, Role
from broker.metadata.store import MetadataStore
from broker.network.acceptor.user_gate import UserGates
from broker.network.clock import LoopIdle, TrioClock
from broker.network.failures import Failures
from broker.network.handling.handler_pool import Completion
from broker.network.server_factory import ServedApis, SocketServerParts
from broker.network.socket_server import SocketServer
from broker.partitions.event_log import EventOrigin
from broker.purgatory.purgatory import Purgatory
from broker.quotas.entity import Entity
from broker.quotas.kinds import QuotaKind
from broker.records.build import NewRecord
from broker.security.delegation_tokens import DelegationTokens
from broker.security.unknown_users import UnknownUsers
from broker.server.listeners import ClientMetricsListener, QuotaListener
from broker.server.parts.control import (
    ServerMetadata,
    ServerQuotas,
    ServerTelemetry,
    remove_expired_tokens,
)
from broker.server.server import ServerViews
from broker.views.parts import ServerParts
from tests.controller.world import StoreCommitter
from tests.support.clock import ManualClock
from tests.support.view_rows import quota_rows

ENTITY = (("client-id", "greedy"),)


class NoAppends:
    overdue: Sequence[object] = ()

    def commit(self) -> None: ...

    def overdue_flushes(self) -> Sequence[Flush]:
        return ()


class Records:
    def __init__(self) -> None:
        self.offered: list[str] = []

    def offer(self, topic: str, record: NewRecord) -> bool:
        self.offered.append(topic)
        return True


class ServerWithoutLogs:
    def __init__(self, directory: Path) -> None:
        settings = [f"log.dirs={directory}", "listeners=PLAINTEXT://127.0.0.1:0"]
        clock = TrioClock()
        configuration = load(None, settings, {})
        self.metadata = ServerMetadata(configuration, clock)
        control, config = self.metadata.control, self.metadata.config
        self.quotas = ServerQuotas(config, None, clock)
        clients = self.quotas.clients
        callbacks = Callbacks(config.network.queued_max_requests)
        retry_storm = RetryStormGate(callbacks, clock)
        telemetry = ServerTelemetry(
            configuration, config.telemetry, Records(), callbacks, self.deliver, clock, EventOrigin(1, str)
        )
        security = ClientSecurity(config.security)
        logins = UserGates()
        endpoints: Endpoints = {}
        services = control_services(
            self.metadata.node_id,
            endpoints,
            control,
            ControllerMutations(clients.mutation, clock),
            security,
            UnknownUsers(self.metadata.store.scram_secret, control.image.scram),
            DelegationTokens(),
            logins,
            callbacks,
            telemetry.state,
        )
        every = registry.load()
        apis = every.only([api.key for api in every if api.services in services])
        produces: Purgatory[DelayedProduce] = Purgatory("Produce")
        self.socket_server = SocketServer(
            SocketServerParts(
                config.network,
                config.tls,
                config.security.sasl_server_max_receive_size,
                config.broker,
                ServedApis(apis, services, endpoints),
                Completion(1, NoAppends(), callbacks, DelayedFetches(callbacks), produces),
                security,
                clients,
                self.quotas.connections,
                logins,
                Failures(),
                clock,
                telemetry.state.manager.disconnected,
            )
        )
        parts = ServerParts(
            clock, LoopIdle(clock), self.socket_server, clients, retry_storm, callbacks, telemetry.state
        )
        self.views = ServerViews(self.metadata, parts)
        image = control.image
        quotas = QuotaListener(image, clock, 1, self.socket_server, clients, self.quotas.connections.values())
        control.subscribe(quotas.on_metadata_update)
        control.subscribe(ClientMetricsListener(image, telemetry.state.manager).on_metadata_update)

    def deliver(self) -> None:
        self.socket_server.handlers.deliver()

    def close(self) -> None:
        for listener in self.socket_server.listeners:
            listener.end()
        self.metadata.close()
        self.quotas.close()


async def test_a_server_without_logs_has_quotas_views_and_metrics(tmp_path: Path) -> None:
    server = ServerWithoutLogs(tmp_path)
    try:
        command = AlterClientQuotas((QuotaAlteration(ENTITY, (QuotaOp("producer_byte_rate", 1_000.0),)),))
        await server.metadata.control.apply(command, BROKER_ITSELF)
        assert server.quotas.clients.managers[QuotaKind.PRODUCE].bound("ANONYMOUS", "greedy") == 1_000
        assert [row.entity for row in quota_rows(server.views.views)] == [ENTITY]
        server.views.update_bootstrap()
        overview = server.views.views.overview()
        assert len(overview.bootstrap) == 1
        assert (overview.metrics.groups, overview.metrics.offline_partitions) == (0, 0)
        page = server.views.prometheus.page()
        assert "kafka_server" in page and "kafka_log" not in page
    finally:
        server.close()


@pytest.mark.parametrize(("shared", "throttle_ms"), [(False, 0), (True, 100)])
def test_clients_of_shared_limits_are_paced_from_their_first_request(shared: bool, throttle_ms: int) -> None:
    config = BrokerConfig()
    clock = ManualClock()
    quotas = ServerQuotas(config, None, clock, shared=shared).clients
    quotas.apply(Entity("alice"), "producer_byte_rate", 1_000, clock.ms())
    assert quotas.record_produce("alice", "app", 100, clock.ms()) is None
    throttle = quotas.record_produce("alice", "app", 100, clock.ms())
    assert (0 if throttle is None else throttle.throttle_ms) == throttle_ms


ANN = Actor("User:ann", Role.VIEWER, "10.0.0.1", ChangeOrigin.WIRE)
INTERVAL_MS = 10_000


class Removing:
    """A control with tokens and its clock."""

    def __init__(self, directory: Path) -> None:
        self.store = MetadataStore.open(directory / "metadata.sqlite", 0)
        self.committer = StoreCommitter(self.store)
        self.clock = TrioClock()
        configuration = load(None, ["delegation.token.secret.key=k"], {})
        self.control = Control(self.store.image, configuration, self.committer, self.clock.wall_ms)

    async def token(self, lifetime_ms: int) -> str:
        command = CreateDelegationToken("User:ann", (), lifetime_ms, self.clock.wall_ms())
        return (await self.control.apply(command, ANN)).token_id

    @property
    def tokens(self) -> list[str]:
        return list(self.control.image.delegation_tokens)


async def at(clock: MockClock, seconds: float) -> None:
    clock.jump(seconds - trio.current_time())
    await wait_all_tasks_blocked()


async def test_expired_tokens_are_removed_at_each_interval(
    tmp_path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    removing = Removing(tmp_path)
    began = trio.current_time()
    monkeypatch.setattr(removing.clock, "wall_ms", lambda: round((trio.current_time() - began) * 1_000))
    first, second, last = [await removing.token(each) for each in (9_999, 10_000, 20_001)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(remove_expired_tokens, removing.control, INTERVAL_MS, removing.clock)
        await wait_all_tasks_blocked()
        await at(mock_clock, began + 9.999)
        assert removing.tokens == [first, second, last]
        await at(mock_clock, began + 10)
        assert removing.tokens == [second, last]
        await at(mock_clock, began + 20)
        assert removing.tokens == [last]
        await at(mock_clock, began + 30)
        assert removing.tokens == []
        nursery.cancel_scope.cancel()
    assert [each.__dict__["tokens"] for each in caplog.records if "removed expired" in each.message] == [
        1,
        1,
        1,
    ]
    removing.store.close()


async def test_a_failed_removal_is_tried_again_at_the_next_interval(
    tmp_path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    removing = Removing(tmp_path)
    began = trio.current_time()
    monkeypatch.setattr(removing.clock, "wall_ms", lambda: round((trio.current_time() - began) * 1_000))
    token = await removing.token(1)
    removing.committer.fault = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "disk full")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(remove_expired_tokens, removing.control, INTERVAL_MS, removing.clock)
        await wait_all_tasks_blocked()
        await at(mock_clock, began + 10)
        assert removing.tokens == [token]
        assert "cannot remove expired delegation tokens" in caplog.text
        removing.committer.fault = None
        await at(mock_clock, began + 20)
        assert removing.tokens == []
        nursery.cancel_scope.cancel()
    removing.store.close()
